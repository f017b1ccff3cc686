"""A budget for the weights of a model: which calls store transformed weights, where not all may.

Each call begins with its fastest candidate. Of all steps to candidates that store less, the one
that loses least time for each byte is taken first, until the budget is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from infuse.dtypes import by_numpy
from infuse.ir.graph import Array, Graph
from infuse.lowering.choice import Choice, Chooser
from infuse.lowering.program import Program

PART: Final = 1.5
"""The most that weights take in the order in which kernels read them, in parts of the model's."""
FREE: Final = 1 << 20
"""Bytes beyond the model's that are worth no time."""
_FLOAT: Final = 4
"""Bytes of a float of 32 bits."""


@dataclass(frozen=True)
class _Step:
    """One step of a constant: what its calls store less then, and how much longer they take."""

    source: bytes
    limit: int
    """Bytes that a candidate may store after the step."""
    freed: int
    lost: float


def most_bytes(graph: Graph, *, halves: bool = False) -> int:
    """The budget of a graph in bytes, `PART` of its constants, or `FREE` beyond them. Floats of up
    to 32 bits count as those that kernels read, which are `halves` or have 32.
    """
    arrays = [v.const for inner in graph.all_graphs() for v in inner.constants()]
    arrays += [value.default for value in graph.inputs]
    sizes = {id(array): _read_bytes(array, halves) for array in arrays if array is not None}
    model = sum(sizes.values())
    return max(int(PART * model), model + FREE)


def _read_bytes(array: Array, halves: bool) -> int:
    if array.itemsize > _FLOAT or not by_numpy(array.dtype).is_float:
        return array.nbytes
    return array.size * (_FLOAT // 2 if halves else _FLOAT)


def budgeted(chooser: Chooser, programs: Sequence[Program], most: int) -> Chooser:
    """A chooser that keeps the weights of these programs and their bodies, which are what `chooser`
    leads to, within `most` bytes; `chooser` itself where they are, or cannot be smaller.
    """
    total = sum(program.weights.bytes for program in programs if not program.number)
    limits = limits_within(choices_in(programs), total, most)
    return chooser.limited(limits) if limits else chooser


def choices_in(programs: Iterable[Program]) -> list[Choice]:
    """What was chosen in these programs, each choice once."""
    steps = [step for program in programs for step in program.steps]
    return [*{id(step.choice): step.choice for step in steps if step.choice is not None}.values()]


def limits_within(choices: Iterable[Choice], total: int, most: int) -> dict[bytes, int]:
    """How much each constant may take, by its hash, for weights of `total` bytes to take at most
    `most` (see `Chooser.limited`); as little as there is where that is still more.
    """
    calls: dict[bytes, list[Choice]] = {}
    for choice in choices:
        if choice.packed is not None:
            calls.setdefault(choice.packed.source, []).append(choice)
    steps = [step for source, own in calls.items() for step in _steps(source, own)]
    taken: list[_Step] = []
    for step in sorted(steps, key=lambda step: step.lost / step.freed):
        if total <= most:
            break
        total -= step.freed
        taken.append(step)
    return {step.source: step.limit for step in _needed(taken, total, most)}


def _needed(taken: Sequence[_Step], total: int, most: int) -> list[_Step]:
    """The steps without those that others, taken later, have made needless."""
    result: list[_Step] = []
    fixed = set[bytes]()
    for step in reversed(taken):
        if step.source not in fixed and total + step.freed <= most:
            total += step.freed
            continue
        fixed.add(step.source)
        result.insert(0, step)
    return result


def _steps(source: bytes, calls: Sequence[Choice]) -> Iterator[_Step]:
    """The steps of one constant from the fastest to the smallest, the cheapest first."""
    stored = {size for c in calls if c.packed is not None for size in c.packed.bytes.values()}
    here = _state(calls, [choice.chosen for choice in calls])
    states = [
        (limit, *_state(calls, [choice.within(limit).chosen for choice in calls]))
        for limit in sorted(stored, reverse=True)
    ]
    while smaller := [state for state in states if state[1] < here[0]]:
        old = here

        def slope(state: tuple[int, int, float], old: tuple[int, float] = old) -> float:
            return (state[2] - old[1]) / (old[0] - state[1])

        limit, *_ = best = min(smaller, key=slope)
        here = best[1], best[2]
        yield _Step(source, limit, old[0] - here[0], here[1] - old[1])


def _state(calls: Sequence[Choice], names: Sequence[str]) -> tuple[int, float]:
    """Bytes and seconds of calls of one constant with these candidates; equal forms of it are
    stored once.
    """
    stored, seconds = set[int](), 0.0
    for choice, name in zip(calls, names, strict=True):
        assert choice.packed is not None
        stored.add(choice.packed.bytes[name])
        seconds += choice.seconds(name)
    return sum(stored), seconds
