"""A profile: how long every step of a model took, beside what it had to do and the roof of the
machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuse.errors import OptionError
from infuse.ir.graph import Node
from infuse.ir.html import paragraphs, table
from infuse.options.commands import STEP_GROUPINGS
from infuse.profiling.roof import Roof
from infuse.profiling.steps import Place, Work

INTERPRETER = "interpreter"
"""The kernel of nodes that have no native code."""


class Call(NamedTuple):
    """One execution of a step: times in nanoseconds, `own` without the steps of the bodies that it
    ran.
    """

    place: int
    begin: int
    end: int
    own: int
    work: Work


@dataclass
class Run:
    """One run of the model: its begin and end in nanoseconds, and what it called.

    `table` has a row per call, in the order in which they ended: place, begin, end, own time,
    number of the work.
    """

    begin: int
    end: int
    table: NDArray[np.int64]
    works: list[Work]

    def calls(self) -> list[Call]:
        """The calls in the order in which they ended."""
        rows = self.table.tolist()
        return [
            Call(place, begin, end, own, self.works[work]) for place, begin, end, own, work in rows
        ]

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9

    @property
    def outside(self) -> float:
        """Seconds that belong to no step."""
        return self.seconds - int(self.table[:, 3].sum()) / 1e9


@dataclass
class Row:
    """Some calls of each run taken together.

    `times` are seconds, one per run, without the bodies that a step ran; `time` is the sum of the
    least times of the steps, which other work on the machine disturbs least. `calls`, `flops` and
    `bytes` are those of one run. `bound` is the time that the machine needs at least, `is_known`
    tells whether all arithmetic is counted.
    """

    label: str
    kernel: str
    nodes: tuple[str, ...]
    kinds: tuple[str, ...]
    times: tuple[float, ...]
    time: float
    calls: int
    flops: int
    bytes: int
    bound: float
    is_known: bool
    share: float = 0.0
    """Of the least times of all rows and of the time outside of steps."""

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
            "least_ms": self.time * 1e3,
            "run_ms": min(self.times) * 1e3,
            "median_ms": self.median * 1e3,
            "flops": self.flops if self.is_known else None,
            "bytes": self.bytes,
            "bound_ms": self.bound * 1e3,
            "efficiency": self.efficiency if self.is_known else None,
            "share": self.share,
        }


@dataclass
class Profile:
    """What `infuse.profile` has measured: `runs` of the steps at `places`, under `roof`."""

    model: str
    inputs: dict[str, str]
    roof: Roof
    places: list[Place]
    runs: list[Run]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def rows(self) -> list[Row]:
        """The steps that ran, in the order of the compiled form."""
        return self._grouped("step")

    def table(self, by: str = "step") -> list[Row]:
        """Rows from the longest time to the shortest: a row per step, per node (with every step
        that belongs to it; of fused nodes, the one with the most arithmetic stands for all), or per
        kind of operator and kernel.
        """
        if by not in STEP_GROUPINGS:
            raise OptionError(
                f"rows cannot be grouped by {by!r}", hint=f"one of: {', '.join(STEP_GROUPINGS)}"
            )
        rows = self.rows if by == "step" else self._grouped(by)
        return sorted(rows, key=lambda row: -row.time)

    def step_times(self) -> list[tuple[tuple[Node, ...], float]]:
        """The nodes that each step computes, and its least time in seconds."""
        times = self._times.min(axis=0).tolist()
        return [(place.nodes, seconds) for place, seconds in zip(self.places, times)]

    def _repr_html_(self) -> str:
        """The steps from the longest to the shortest, as notebooks show them."""
        rows = [
            (
                row.label,
                row.kernel,
                f"{row.time * 1e3:.3f}",
                f"{row.share:.1%}",
                f"{row.efficiency:.0%}" if row.is_known else "–",
            )
            for row in self.table()
        ]
        columns = ("computes", "kernel", "#ms", "#share", "#of roof")
        title = f"{self.model}: {self.total.time * 1e3:.3f} ms"
        return table(title, columns, rows) + paragraphs(self.notes)

    @property
    def total(self) -> Row:
        """Whole runs: `times` are those that a caller sees, `time` that of a run that nothing
        disturbs.
        """
        rows = [*self.rows, self.outside]
        times = tuple(run.seconds for run in self.runs)
        time, calls, flops, size, bound = (
            sum(getattr(row, name) for row in rows)
            for name in ("time", "calls", "flops", "bytes", "bound")
        )
        return Row(
            "total",
            "",
            (),
            (),
            times,
            time,
            calls,
            flops,
            size,
            bound,
            all(r.is_known for r in rows),
            1.0,
        )

    @property
    def outside(self) -> Row:
        """The time outside of steps: Python, checks, the calls themselves."""
        times = tuple(run.outside for run in self.runs)
        share = 1 - sum(row.share for row in self.rows)
        return Row("outside of steps", "", (), (), times, min(times), 0, 0, 0, 0.0, True, share)

    def to_dict(self, by: str = "step") -> dict[str, Any]:
        """Plain data for JSON."""
        roof = self.roof
        return {
            "model": self.model,
            "inputs": self.inputs,
            "target": roof.target,
            "threads": roof.threads,
            "peak_flops": dict(roof.peaks),
            "peak_bytes": roof.bandwidth,
            "runs": len(self.runs),
            "by": by,
            "rows": [row.to_dict() for row in self.table(by)],
            "outside": self.outside.to_dict(),
            "total": self.total.to_dict(),
            "notes": self.remarks,
        }

    @property
    def remarks(self) -> list[str]:
        """What one must know to read the rows."""
        lines = list(self.notes)
        above = [row for row in self.rows if row.efficiency > 1.02 and row.is_known]
        busy = [row for row in above if row.bound > row.bytes / self.roof.bandwidth]
        winograd = [row for row in busy if "winograd" in row.kernel]
        if winograd:
            lines.append(
                "FLOPs are those of direct convolution: Winograd multiplies less, and may exceed "
                "the roof"
            )
        if len(busy) > len(winograd):
            lines.append(
                "some steps exceed the peak: the machine was busy when it was measured "
                "(--calibrate does it again)"
            )
        if len(above) > len(busy):
            lines.append(
                "the bandwidth is that of memory: what still lies in a cache may exceed the roof"
            )
        unknown = dict.fromkeys(row.label for row in self.rows if not row.is_known)
        if unknown:
            lines.append(f"arithmetic that is not known is not counted: {', '.join(unknown)}")
        return lines

    @cached_property
    def _times(self) -> NDArray[np.float64]:
        """Seconds of every place in every run."""
        count = len(self.places)
        return np.stack(
            [np.bincount(run.table[:, 0], run.table[:, 3] / 1e9, count) for run in self.runs]
        )

    @cached_property
    def _done(self) -> dict[int, list[tuple[Work, int]]]:
        """What every place did in the last run, and how often."""
        last = self.runs[-1]
        works: dict[int, list[tuple[Work, int]]] = {}
        pairs, counts = np.unique(last.table[:, [0, 4]], axis=0, return_counts=True)
        for (place, work), count in zip(pairs.tolist(), counts.tolist()):
            works.setdefault(place, []).append((last.works[work], count))
        return works

    def _key(self, number: int, by: str) -> tuple[str, int | str]:
        """The label of the row to which a place belongs, and what tells rows of one label apart."""
        place = self.places[number]
        main = place.main
        if by == "step":
            return place.label, number
        if by == "kind" or main is None:
            return main.kind if main is not None else place.label, place.kernel
        return main.name or place.label, main.serial

    def _grouped(self, by: str) -> list[Row]:
        groups: dict[tuple[str, int | str], list[int]] = {}
        for number in np.unique(np.concatenate([run.table[:, 0] for run in self.runs])).tolist():
            groups.setdefault(self._key(number, by), []).append(number)
        rows = [self._row(label, numbers) for (label, _), numbers in groups.items()]
        whole = sum(row.time for row in rows) + min(run.outside for run in self.runs)
        for row in rows:
            row.share = row.time / whole if whole else 0.0
        return rows

    def _row(self, label: str, numbers: Sequence[int]) -> Row:
        """The row of these places. What they compute is taken from the last run."""
        places = [self.places[number] for number in numbers]
        nodes = dict.fromkeys(node for place in places for node in place.nodes)
        kernels = dict.fromkeys(place.kernel for place in places if place.kernel)
        times = self._times[:, numbers]
        done = [entry for number in numbers for entry in self._done.get(number, ())]
        return Row(
            label,
            ", ".join(kernels),
            tuple(node.name for node in nodes),
            tuple(node.kind for node in nodes),
            tuple(times.sum(axis=1).tolist()),
            float(times.min(axis=0).sum()),
            sum(count for _, count in done),
            sum(count * work.flops for work, count in done),
            sum(count * work.bytes for work, count in done),
            sum(count * self.roof.bound(work.flops, work.bytes, work.kind) for work, count in done),
            all(work.is_known for work, _ in done),
        )
