"""A profile: how long every step of a model took, beside what it had to do and the roof of the machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from infuse.errors import OptionError
from infuse.profiling.machine import Machine
from infuse.profiling.steps import Place, Work

GROUPINGS = ("step", "node", "kind")
INTERPRETER = "interpreter"
"""The kernel of nodes that have no native code."""


class Call(NamedTuple):
    """One execution of a step: times in nanoseconds, `own` without the steps of the bodies that it ran."""

    place: int
    begin: int
    end: int
    own: int
    work: Work


@dataclass
class Run:
    """One run of the model: times in nanoseconds, and its calls in the order in which they ended."""

    begin: int
    end: int
    calls: list[Call]

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9

    @property
    def outside(self) -> float:
        """Seconds that belong to no step."""
        return self.seconds - sum(call.own for call in self.calls) / 1e9


@dataclass
class Row:
    """Some calls of each run taken together.

    `times` are seconds, one per run, without the bodies that a step ran; `calls`, `flops` and `bytes` are those of one
    run. `bound` is the time that the machine needs at least, `is_known` tells whether all arithmetic is counted.
    """

    label: str
    kernel: str
    nodes: tuple[str, ...]
    kinds: tuple[str, ...]
    times: tuple[float, ...]
    calls: int
    flops: int
    bytes: int
    bound: float
    is_known: bool
    share: float = 0.0
    """Of the least times of all rows and of the time outside of steps."""

    @property
    def time(self) -> float:
        """The least of the times: the one that other work on the machine disturbed least."""
        return min(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def efficiency(self) -> float:
        """`bound` over `time`: 1 at the roof."""
        return self.bound / self.time if self.time > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "label": self.label,
            "kernel": self.kernel,
            "nodes": list(self.nodes),
            "kinds": list(self.kinds),
            "calls": self.calls,
            "min_ms": self.time * 1e3,
            "median_ms": self.median * 1e3,
            "flops": self.flops if self.is_known else None,
            "bytes": self.bytes,
            "bound_ms": self.bound * 1e3,
            "efficiency": self.efficiency if self.is_known else None,
            "share": self.share,
        }


@dataclass
class Profile:
    """What `infuse.profile` has measured: `runs` of the steps at `places`, under the roof of `machine`."""

    model: str
    inputs: dict[str, str]
    machine: Machine
    places: list[Place]
    runs: list[Run]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def rows(self) -> list[Row]:
        """The steps that ran, in the order of the compiled form."""
        return self._grouped("step")

    def table(self, by: str = "step") -> list[Row]:
        """Rows from the longest time to the shortest: a row per step, per node (with every step that belongs to it;
        of fused nodes, the one with the most arithmetic stands for all) or per kind of operator.
        """
        if by not in GROUPINGS:
            raise OptionError(f"rows cannot be grouped by {by!r}", hint=f"one of: {', '.join(GROUPINGS)}")
        rows = self.rows if by == "step" else self._grouped(by)
        return sorted(rows, key=lambda row: -row.time)

    @property
    def total(self) -> Row:
        """Whole runs: the times are those that a caller sees."""
        rows = self.rows
        times = tuple(run.seconds for run in self.runs)
        calls, flops, size = (sum(getattr(row, name) for row in rows) for name in ("calls", "flops", "bytes"))
        bound, known = sum(row.bound for row in rows), all(row.is_known for row in rows)
        return Row("total", "", (), (), times, calls, flops, size, bound, known, 1.0)

    @property
    def least(self) -> float:
        """Seconds of a run that nothing disturbs: the sum of the least times of all steps and outside of them."""
        return sum(row.time for row in self.rows) + max(self.outside.time, 0.0)

    @property
    def efficiency(self) -> float:
        """The share of the roof that the model reaches: the bounds of all steps over `least`."""
        return sum(row.bound for row in self.rows) / self.least if self.least else 0.0

    @property
    def outside(self) -> Row:
        """The time outside of steps: Python, checks, the calls themselves."""
        times = tuple(run.outside for run in self.runs)
        share = 1 - sum(row.share for row in self.rows)
        return Row("outside of steps", "", (), (), times, 0, 0, 0, 0.0, True, share)

    def to_dict(self, by: str = "step") -> dict[str, Any]:
        """Plain data for JSON."""
        machine = self.machine
        return {
            "model": self.model,
            "inputs": self.inputs,
            "target": machine.target,
            "threads": machine.threads,
            "peak_flops": machine.flops,
            "peak_bytes": machine.bandwidth,
            "runs": len(self.runs),
            "by": by,
            "rows": [row.to_dict() for row in self.table(by)],
            "outside": self.outside.to_dict(),
            "total": self.total.to_dict() | {"least_ms": self.least * 1e3, "efficiency": self.efficiency},
            "notes": self.remarks,
        }

    @property
    def remarks(self) -> list[str]:
        """What one must know to read the rows."""
        found = list(self.notes)
        above = [row for row in self.rows if row.efficiency > 1 and row.is_known]
        if any("winograd" in row.kernel for row in above):
            found.append(
                "FLOPs are those of direct convolution: Winograd multiplies less, so its efficiency may exceed 1"
            )
        if any(row.bytes / self.machine.bandwidth == row.bound for row in above):
            found.append("the bandwidth is that of memory: what still lies in a cache is read faster than the bound")
        if not all(row.is_known for row in self.rows):
            found.append("the arithmetic of some steps is not known and not counted")
        return found

    def _key(self, number: int, by: str) -> tuple[str, int]:
        """The label of the row to which a place belongs, and a number that tells rows of one label apart."""
        place = self.places[number]
        main = place.main
        if by == "step":
            return place.label, number
        if main is None:
            return place.label, 0
        return (main.kind, 0) if by == "kind" else (main.name or place.label, main.serial)

    def _grouped(self, by: str) -> list[Row]:
        groups: dict[tuple[str, int], list[int]] = {}
        for number in sorted({call.place for run in self.runs for call in run.calls}):
            groups.setdefault(self._key(number, by), []).append(number)
        of = {number: group for group, numbers in enumerate(groups.values()) for number in numbers}
        times = [[0] * len(self.runs) for _ in groups]
        for position, run in enumerate(self.runs):
            for call in run.calls:
                times[of[call.place]][position] += call.own
        calls: list[list[Call]] = [[] for _ in groups]
        for call in self.runs[-1].calls if self.runs else ():
            calls[of[call.place]].append(call)
        rows = [self._row(*parts) for parts in zip(groups, groups.values(), times, calls)]
        whole = sum(row.time for row in rows) + max(min(run.outside for run in self.runs), 0.0)
        for row in rows:
            row.share = row.time / whole if whole else 0.0
        return rows

    def _row(self, key: tuple[str, int], numbers: Sequence[int], times: Sequence[int], calls: Sequence[Call]) -> Row:
        places = [self.places[number] for number in numbers]
        nodes = dict.fromkeys(node for place in places for node in place.nodes)
        kernels = dict.fromkeys(place.kernel for place in places if place.kernel)
        return Row(
            key[0],
            ", ".join(kernels),
            tuple(node.name for node in nodes),
            tuple(node.kind for node in nodes),
            tuple(time / 1e9 for time in times),
            len(calls),
            sum(call.work.flops for call in calls),
            sum(call.work.bytes for call in calls),
            sum(self.machine.bound(call.work.flops, call.work.bytes) for call in calls),
            all(call.work.is_known for call in calls),
        )
