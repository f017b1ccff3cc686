"""Choices decided by measuring: every candidate that might be the fastest is called as the model
would call it.
"""

from __future__ import annotations

import ctypes
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from infuse.build.autotune.records import CacheRecord
from infuse.build.build import build
from infuse.build.library import Progress
from infuse.errors import OptionError, RuntimeFailure
from infuse.lowering.choice import Chooser, Key, Times
from infuse.lowering.emitter import emitter_of
from infuse.lowering.program import Program
from infuse.lowering.trials import Trial, contents, trials_of
from infuse.runtime.folder import LIBRARY
from infuse.targets import Target

SECONDS: Final = 150.0
"""How long measuring may take, with the compilation of the trials."""
ROUNDS: Final = 20
"""How often every candidate is called."""
CLOSE: Final = 2.0
"""Candidates that should take longer than this many times the fastest are not measured."""
_OTHER_BYTES: Final = 64 << 20
"""The most memory that is passed through the caches between two calls, in place of the rest of the
model.
"""

Lowered = Callable[[Chooser], Sequence[Program]]
"""The programs of a model under a chooser."""


def tuned(
    lowered: Lowered,
    plain: Chooser,
    target: Target,
    precision: str,
    *,
    progress: Progress | None = None,
) -> Chooser:
    """A chooser that knows the times of all candidates that, by their costs, might be the fastest:
    from the cache, else measured now in about `SECONDS` at most, and kept there.

    OptionError where this machine cannot run code for the target, RuntimeFailure when there is no
    memory to measure with, and what compiling raises.
    """
    require_runnable(target, hint="leave out tuning (--tune, tune=): the cost model chooses then")
    measurements = Measurements(target, plain.threads, precision)
    times = measurements.read()
    programs = lowered(plain)
    choices = open_choices(programs, times, CLOSE)
    if choices:
        other = min(
            sum(program.weights.bytes for program in programs if not program.number), _OTHER_BYTES
        )
        measured = measure(
            trials(lowered, plain, choices), target, plain.threads, other, progress=progress
        )
        times = {**times, **measured}
        measurements.add(measured)
    compact, closed = plain.compact, plain.closed
    return Chooser(plain.machine, plain.threads, times, compact=compact, closed=closed)


def require_runnable(target: Target, hint: str) -> None:
    """OptionError unless this machine runs code for the target; `hint` says what to do then."""
    if not target.is_runnable:
        raise OptionError(
            f"code for {target.name} does not run on this machine, so it cannot be measured here",
            hint=hint,
        )


def open_choices(
    programs: Iterable[Program], times: Mapping[str, Times], close: float
) -> dict[str, list[str]]:
    """By key the candidates that cost at most `close` times the cheapest, unless all of them have
    known times.
    """
    choices = (
        step.choice for program in programs for step in program.steps if step.choice is not None
    )
    return {
        str(choice.key): names
        for choice in choices
        if len(names := choice.close(close)) > 1
        and not times.get(str(choice.key), {}).keys() >= set(names)
    }


def trials(lowered: Lowered, plain: Chooser, choices: Mapping[str, Sequence[str]]) -> list[Trial]:
    """The first call of every wanted candidate of every key; candidates of one key lie side by
    side.
    """
    by_key: dict[tuple[str, str], Trial] = {}
    for number in range(max(map(len, choices.values()))):

        def nth(key: Key, number: int = number) -> str | None:
            picked = choices.get(str(key), ())
            return picked[number] if number < len(picked) else None

        for program in lowered(
            Chooser(
                plain.machine,
                plain.threads,
                forced=nth,
                compact=plain.compact,
                closed=plain.closed,
            )
        ):
            for trial in trials_of(program):
                if trial.choice.by == "forced":
                    by_key.setdefault((str(trial.choice.key), trial.choice.chosen), trial)
    places = {key: place for place, key in enumerate(choices)}
    return sorted(by_key.values(), key=lambda trial: places[str(trial.choice.key)])


def measure(
    tried: Sequence[Trial],
    target: Target,
    threads: int,
    other_bytes: int,
    *,
    seconds: float | None = None,
    rounds: int | None = None,
    progress: Progress | None = None,
) -> dict[str, dict[str, float]]:
    """The least seconds that each trial took, by key and candidate: in turn, `rounds` times
    (default: `ROUNDS`) or until `seconds` (default: `SECONDS`) are over.

    Between two calls, `other_bytes` of other memory are read.
    """
    if not tried:
        return {}
    end = time.monotonic() + (SECONDS if seconds is None else seconds)
    sources = emitter_of(target.machine).print_trials(tried)
    folder = build(
        sources, [], 0, {"name": "trials"}, key="trials", target=target, progress=progress
    )
    library = ctypes.CDLL(str(folder / LIBRARY))
    library.trials_open.restype = ctypes.c_void_p
    library.trials_open.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.trials_run.restype = ctypes.c_double
    library.trials_run.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.trials_memory.restype = ctypes.c_void_p
    library.trials_memory.argtypes = [ctypes.c_void_p]
    library.trials_close.argtypes = [ctypes.c_void_p]
    bench = library.trials_open(threads, other_bytes)
    if not bench:
        raise RuntimeFailure(
            "there is not enough memory to measure the kernels", hint="compile without tuning"
        )
    memory, written = library.trials_memory(bench), contents(tried)

    def run(number: int) -> float:
        for place, array in written[number]:
            ctypes.memmove(memory + place, array.ctypes.data, array.nbytes)
        return float(library.trials_run(bench, number))

    try:
        least = _rounds(
            run,
            len(tried),
            rounds or ROUNDS,
            end,
            progress,
        )
    finally:
        library.trials_close(bench)
    times: dict[str, dict[str, float]] = {}
    for trial, taken in zip(tried, least):
        if math.isfinite(taken):
            times.setdefault(str(trial.choice.key), {})[trial.choice.chosen] = taken
    return times


def _rounds(
    run: Callable[[int], float], count: int, rounds: int, end: float, progress: Progress | None
) -> list[float]:
    """The least time of each trial; infinity for those that failed or that there was no time
    for.
    """
    least = [math.inf] * count
    for done in range(rounds):
        if progress is not None:
            progress("tune", done, rounds)
        for number in range(count):
            if time.monotonic() > end:
                return least
            taken = run(number)
            if taken > 0:
                least[number] = min(least[number], taken)
    if progress is not None:
        progress("tune", rounds, rounds)
    return least


class Measurements(CacheRecord):
    """What was measured on this machine for a target, a number of threads and a precision."""

    def __init__(self, target: Target, threads: int, precision: str) -> None:
        super().__init__("tuning", "measured times", target, (f"{threads} threads", precision))

    def read(self) -> dict[str, Times]:
        """Times by key and candidate; none where the file is broken."""

        def parsed(content: Mapping[str, Any]) -> dict[str, Times]:
            return {str(key): _times(times) for key, times in content["times"].items()}

        return self.load(parsed) or {}

    def add(self, new: Mapping[str, Times]) -> None:
        """Keep more times."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times = {**self.read(), **new}
        self.write({"times": times})


def _times(content: Mapping[str, Any]) -> dict[str, float]:
    """Checked times; ValueError for anything but positive numbers."""
    times = {str(name): float(seconds) for name, seconds in content.items()}
    if not all(math.isfinite(seconds) and seconds > 0 for seconds in times.values()):
        raise ValueError("a time is not a positive number")
    return times
