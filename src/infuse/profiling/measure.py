"""Running a model that records its steps, and making calls of the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse.codegen.compile import compile_program, stages_of
from infuse.codegen.program import Program
from infuse.codegen.toolchain import Target
from infuse.errors import OptionError
from infuse.ir.graph import Graph, Node
from infuse.ops.evaluate import evaluate
from infuse.profiling.inputs import describe
from infuse.profiling.machine import measure_machine
from infuse.profiling.profile import INTERPRETER, Call, Profile, Run
from infuse.profiling.steps import Place, places_of
from infuse.runtime import available_cpus
from infuse.runtime.session import Session

Progress = Callable[[str, int, int], None]
WARM_UP = 2
Event = tuple[int, int, int, int, bool]
"""Place, its program, begin, end, and whether it runs bodies."""


def profile_graph(
    graph: Graph,
    feeds: Mapping[str, Any],
    *,
    runs: int = 20,
    threads: int | None = None,
    target: str = "native",
    precision: str = "fp32",
    calibrate: bool = False,
    progress: Progress | None = None,
) -> Profile:
    """Compile an optimized graph with clocks in it, and measure `runs` runs on these inputs (see `infuse.profile`)."""
    if runs < 1:
        raise OptionError(f"{runs} is no number of runs", hint="use 1 or more")
    report = progress or _silent
    resolved, count = Target.resolve(target), threads or available_cpus()
    places: list[Place] = []
    parts: list[_Native | _Hosted] = []
    for part in stages_of(graph, resolved, count, precision).parts:
        if isinstance(part, Graph):
            parts.append(_Hosted(part, places))
            continue
        model = compile_program(part, resolved, count, precision=precision, progress=progress, profile=True)
        parts.append(_Native(part[0], model.session(), model.metadata["profile"], places))
    report("measure", 0, runs)
    given = {name: describe(value) for name, value in feeds.items()}
    found = Profile(graph.name, given, measure_machine(resolved, count, again=calibrate), places, [])
    for number in range(-WARM_UP, runs):
        values, begin = dict(feeds), time.perf_counter_ns()
        for stage in parts:
            stage.run(values)
        end = time.perf_counter_ns()
        run = Run(begin, end, [call for stage in parts for call in stage.calls()])
        if number >= 0:
            found.runs.append(run)
            report("measure", number + 1, runs)
    lost = sum(stage.lost for stage in parts)
    if lost:
        found.notes.append(f"{lost} calls of each run were not recorded; their time counts for the loops around them")
    if precision != "fp32":
        found.notes.append(f"the peak is that of float32, and {precision} may exceed it")
    return found


def _silent(stage: str, done: int, total: int) -> None:
    """The progress of a caller who asked for none."""


class _Native:
    """A stage of native code; its places are appended to those of the model."""

    def __init__(self, program: Program, session: Session, sizes: Sequence[str], places: list[Place]) -> None:
        self._session, self._sizes = session, list(sizes)
        self._inputs = [spec[0] for spec in program.inputs]
        self._places = places
        self._first: list[int] = []
        self.lost = 0
        for inner in (program, *program.bodies):
            self._first.append(len(places))
            places += places_of(inner)

    def run(self, values: dict[str, Any]) -> None:
        """Compute the stage's outputs from `values`, which they join."""
        values.update(self._session.run({name: values[name] for name in self._inputs}))

    def calls(self) -> list[Call]:
        """The calls of the last run."""
        rows, self.lost = self._session.records()
        numbers = rows[:, :4].tolist()
        values = self._values(rows)
        events = []
        for program, step, begin, end in numbers:
            place = self._first[program] + step
            events.append((place, program, begin, end, self._places[place].runs_bodies))
        own = without_bodies(events)
        return [
            Call(place, begin, end, alone, self._places[place].work(sizes))
            for (place, _, begin, end, _), alone, sizes in zip(events, own, values)
        ]

    def _values(self, rows: NDArray[np.int64]) -> list[dict[str, int]]:
        """The sizes that held for every call."""
        if not self._sizes:
            return [{}] * len(rows)
        known: dict[tuple[int, ...], dict[str, int]] = {}
        return [known.setdefault(key, dict(zip(self._sizes, key))) for key in map(tuple, rows[:, 4:].tolist())]


class _Hosted:
    """A stage that the interpreter runs, node by node."""

    def __init__(self, graph: Graph, places: list[Place]) -> None:
        self._graph = graph
        self._events: list[Event] = []
        self._numbers: dict[Node, int] = {}
        self._programs = {inner: number for number, inner in enumerate(graph.all_graphs())}
        self._places = places
        self.lost = 0
        for node in (node for inner in graph.all_graphs() for node in inner.nodes):
            self._numbers[node] = len(places)
            places.append(Place(node.kind, INTERPRETER, (node,), (node,), runs_bodies=bool(node.subgraphs)))

    def run(self, values: dict[str, Any]) -> None:
        """Compute the stage's outputs from `values`, which they join."""
        self._events = []
        values.update(evaluate(self._graph, {v.name: values[v.name] for v in self._graph.inputs}, watch=self._note))

    def _note(self, node: Node, begin: int, end: int) -> None:
        assert node.graph is not None
        event = self._numbers[node], self._programs[node.graph], begin, end, bool(node.subgraphs)
        self._events.append(event)

    def calls(self) -> list[Call]:
        """The calls of the last run."""
        own = without_bodies(self._events)
        return [
            Call(place, begin, end, alone, self._places[place].work({}))
            for (place, _, begin, end, _), alone in zip(self._events, own)
        ]


def without_bodies(events: Sequence[Event]) -> list[int]:
    """The time of each event without those of the bodies that it ran. They come in the order in which they ended."""
    found: list[int] = []
    waiting: list[tuple[int, int, int]] = []
    for _, program, begin, end, runs_bodies in events:
        inner = 0
        while runs_bodies and waiting and waiting[-1][0] != program and waiting[-1][1] >= begin:
            inner += waiting.pop()[2]
        waiting.append((program, begin, end - begin))
        found.append(end - begin - inner)
    return found
