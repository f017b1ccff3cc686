"""Where several kernels compute the same: what a choice depends on, its candidates, and which of
them is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from infuse.errors import ShapeError
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.costs import costs_of
from infuse.ops.core.feeds import default_size
from infuse.targets import Machine

CLEAR: Final = 0.97
"""Measured times decide against the model only where they are below this part of the time of what
it would take.
"""

SHARED_WINDOWS: Final = ((3, 3), (5, 5))
"""Windows of convolutions whose tiles are in every library of prebuilt kernels; others have kernels
of their own.
"""

BUDGET: Final = "budget"
"""What decides where the fastest candidate would store more than the budget for weights allows."""

Times = Mapping[str, float]
"""Seconds of candidates by name."""


class Key(Immutable):
    """What a choice depends on beside processor, threads and precision: a kernel family, sizes,
    candidates.
    """

    family: str
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    """The candidates."""

    def __str__(self) -> str:
        return f"{self.family} {','.join(map(str, self.sizes))} {'|'.join(self.names)}"


@dataclass(frozen=True)
class PackedWeights:
    """The constant weights of a call: a hash of them, and the bytes that each candidate stores."""

    source: bytes
    bytes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Choice:
    """One choice: the seconds that each candidate costs as the model has it, and as was measured
    where it was.

    `by` tells what decided: "model", "measured", "forced", or "budget".
    """

    key: Key
    costs: Times
    chosen: str
    by: str
    times: Times = field(default_factory=dict)
    packed: PackedWeights | None = None
    """What the candidates store, where some transform constant weights."""
    fastest: str | None = None
    """The candidate that the budget for weights rules out."""

    def seconds(self, name: str) -> float:
        """What a candidate takes: as measured, else by its cost, scaled to the measured time of
        the chosen one.
        """
        if name in self.times or self.chosen not in self.times:
            return self.times.get(name, self.costs[name])
        return self.costs[name] * self.times[self.chosen] / self.costs[self.chosen]

    def within(self, most: int) -> Choice:
        """The choice among the candidates that store at most `most` bytes, or, without any, those
        that store least.
        """
        assert self.packed is not None
        stored = {name: self.packed.bytes[name] for name in self.costs}
        limit = max(most, min(stored.values()))
        if stored[self.chosen] <= limit:
            return self
        fitting = [name for name, size in stored.items() if size <= limit]
        chosen = min(fitting, key=self.seconds)
        return replace(self, chosen=chosen, by=BUDGET, fastest=self.chosen)

    def close(self, ratio: float) -> list[str]:
        """The candidates that cost at most `ratio` times the cheapest, as the model has it."""
        least = min(self.costs.values())
        return [name for name, cost in self.costs.items() if cost <= ratio * least]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        result = {}
        for name, cost in self.costs.items():
            time = self.times.get(name)
            result[name] = {
                "predicted_ms": cost * 1e3,
                "measured_ms": None if time is None else time * 1e3,
                "weights_bytes": None if self.packed is None else self.packed.bytes[name],
            }
        return {
            "key": str(self.key),
            "chosen": self.chosen,
            "by": self.by,
            "fastest": self.fastest or self.chosen,
            "candidates": result,
        }


class Chooser:
    """Decides every choice of one program: by what was measured where that is known, else by the
    cost model.

    `measured` holds times by the text of a key. `forced` may name the candidate to take instead, or
    None; it is what measuring and tests use. Sizes that only the run knows count as those that are
    usual for their symbols. With `compact`, no candidate is taken whose weights are larger than the
    model's, where there is another; with `closed`, none of tiles for unusual windows, of which
    libraries of prebuilt kernels have none. A chooser that is `limited` keeps to a budget.
    """

    def __init__(
        self,
        machine: Machine,
        threads: int = 1,
        measured: Mapping[str, Times] | None = None,
        forced: Callable[[Key], str | None] | None = None,
        *,
        compact: bool = False,
        closed: bool = False,
    ) -> None:
        self.machine, self.threads = machine, threads
        self.compact, self.closed = compact, closed
        self.measured = measured or {}
        self._forced = forced
        self._by_precision: Mapping[str, Chooser] = {}
        self._limits: Mapping[bytes, int] = {}
        self._left_out: set[str] = set()

    @property
    def left_out(self) -> frozenset[str]:
        """Candidates that were not looked at so far, as libraries of prebuilt kernels lack them."""
        return frozenset(self._left_out)

    def apart(self, choosers: Mapping[str, Chooser]) -> Chooser:
        """A chooser with others for layers of these precisions."""
        result = copy.copy(self)
        result._by_precision = choosers
        return result

    def limited(self, limits: Mapping[bytes, int]) -> Chooser:
        """A chooser that stores at most so many bytes of these weights, by their hash, where there
        is such a candidate.
        """
        result = self.apart({name: own.limited(limits) for name, own in self._by_precision.items()})
        result._limits = limits
        return result

    def of(self, precision: str) -> Chooser:
        """The chooser for layers of a precision."""
        return self._by_precision.get(precision, self)

    def choose(
        self,
        family: str,
        sizes: Sequence[Dim],
        names: Sequence[str],
        packed: PackedWeights | None = None,
    ) -> Choice:
        """The choice among candidates `names` of a family, of a call with these sizes, which stores
        weights as `packed` says.
        """
        others = [name for name in names if not is_transformed(name)]
        if self.compact:
            names = others or names
        elif self.closed and 0 < len(others) < len(names) and not _has_shared_window(sizes):
            self._left_out.update({*names} - {*others})
            names = others
        key = Key(family, tuple(map(usual, sizes)), tuple(names))
        predict = costs_of(self.machine).predict
        costs = {
            name: predict(family, name, key.sizes, self.machine, self.threads) for name in names
        }
        forced = None if self._forced is None else self._forced(key)
        if forced is not None:
            assert forced in costs, f"{key} has no candidate {forced!r}"
            return Choice(key, costs, forced, "forced", packed=packed)
        seconds = self.measured.get(str(key), {})
        times = {name: seconds[name] for name in names if name in seconds}
        choice = Choice(key, costs, *_fastest(costs, times), times, packed)
        if packed is None or packed.source not in self._limits:
            return choice
        return choice.within(self._limits[packed.source])


def _fastest(costs: Times, times: Times) -> tuple[str, str]:
    """The candidate to take, and what decides: "model" or "measured"."""
    best = min(costs, key=costs.__getitem__)
    if len(times) < 2:
        return best, "model"
    fastest = min(times, key=times.__getitem__)
    if best in times and times[fastest] > CLEAR * times[best]:
        fastest = best
    return fastest, "measured"


def is_transformed(name: str) -> bool:
    """Whether a candidate stores transformed weights, larger than the model's."""
    return name.startswith("winograd")


def _has_shared_window(sizes: Sequence[Dim]) -> bool:
    """Whether sizes of a convolution (`ConvSizes`) are those of a window that many have."""
    down, across = sizes[9:11]
    return tuple(sizes[7:9]) in SHARED_WINDOWS and down == across


def usual(size: Dim) -> int:
    """A size as a number; symbols have their usual values."""
    if isinstance(size, int):
        return size
    try:
        return dims.evaluate(size, {name: default_size(name) for name in dims.symbols(size)})
    except ShapeError:
        return 1
