"""Running a model that records its steps, and making calls of the records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse.build.compile import Compilation
from infuse.errors import OptionError
from infuse.ir.graph import Graph, Node
from infuse.lowering.emitter import Emitter, emitter_of
from infuse.lowering.program import Program
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.profiling.inputs import describe, shown_sizes
from infuse.profiling.profile import INTERPRETER, Profile, Run
from infuse.profiling.progress import Progress, silent
from infuse.profiling.roof import measure_roof, runnable_target
from infuse.profiling.steps import Place, Work, places_of
from infuse.runtime import CompiledModel
from infuse.runtime.session import Session

WARM_UP = 2
Event = tuple[int, int, int, int, bool]
"""Place, its program, begin, end, and whether it runs bodies."""


def profile_graph(
    graph: Graph,
    feeds: Mapping[str, Any],
    options: CompileOptions = CompileOptions(),
    *,
    runs: int = 20,
    calibrate: bool = False,
    progress: Progress | None = None,
) -> Profile:
    """Compile an optimized graph with clocks in it, and measure `runs` runs on these inputs (see
    `infuse.profile`).
    """
    if runs < 1:
        raise OptionError(f"{runs} is not a valid number of runs", hint="use 1 or more")
    report = progress or silent
    compilation = Compilation(graph, options, progress)
    resolved, count = runnable_target(options.target), compilation.threads
    # it takes memory of its own, so that comes before the model's
    roof = measure_roof(resolved, count, again=calibrate)
    model = ProfiledModel.compile(compilation)
    report("measure", 0, runs)
    described = {name: describe(value) for name, value in feeds.items()}
    result = Profile(model.name, described, roof, model.places, [])
    for number in range(-WARM_UP, runs):
        _, run = model.run(feeds)
        if number >= 0:
            result.runs.append(run)
            report("measure", number + 1, runs)
    if model.lost:
        result.notes.append(
            f"{model.lost} calls of each run were not recorded; their time counts for the loops "
            "around them"
        )
    return result


class ProfiledModel:
    """A model that was compiled with clocks around its steps; one run at a time.

    `places` are its steps, `lost` counts the calls of the last run that were not recorded.
    """

    def __init__(self, name: str, outputs: Mapping[str, str]) -> None:
        self.name, self._outputs = name, dict(outputs)
        self.places: list[Place] = []
        self._stages: list[_Native | _Hosted] = []
        self._works = _Works()

    @classmethod
    def compile(cls, compilation: Compilation) -> ProfiledModel:
        """Compile an optimized graph with clocks in it."""
        decided, _ = compilation.decided()
        graph, stages = decided.graph, decided.stages()
        emitter = emitter_of(decided.target.machine)
        model = cls(graph.name, dict(zip(graph.output_names, stages.returned)))
        for part in stages.parts:
            if isinstance(part, Graph):
                model._stages.append(_Hosted(part, model.places))
                continue
            folder = decided.build(part, profile=True)
            with CompiledModel.load(folder, threads=decided.threads) as native:
                sizes = native.metadata["profile"]
                model._stages.append(
                    _Native(part[0], native.session(), sizes, model.places, emitter)
                )
        return model

    def run(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Run]:
        """The outputs by name for inputs by name, and what the run called and when."""
        values, begin = dict(feeds), time.perf_counter_ns()
        for stage in self._stages:
            stage.run(values)
        end = time.perf_counter_ns()
        tables = [stage.table(self._works) for stage in self._stages]
        table = np.concatenate(tables or [np.zeros((0, 5), np.int64)])
        results = {name: values[own] for name, own in self._outputs.items()}
        return results, Run(begin, end, table, self._works.all)

    @property
    def lost(self) -> int:
        return sum(stage.lost for stage in self._stages)


class _Works:
    """Every different amount of work, once."""

    def __init__(self) -> None:
        self.all: list[Work] = []
        self._numbers: dict[Work, int] = {}

    def number(self, work: Work) -> int:
        place = self._numbers.setdefault(work, len(self.all))
        if place == len(self.all):
            self.all.append(work)
        return place


class _Native:
    """A stage of native code; its places are appended to those of the model."""

    def __init__(
        self,
        program: Program,
        session: Session,
        sizes: Sequence[str],
        places: list[Place],
        emitter: Emitter,
    ) -> None:
        self._session, self._sizes = session, list(sizes)
        self._inputs = [spec[0] for spec in program.inputs]
        self._places = places
        self._first: list[int] = []
        self.lost = 0
        for inner in (program, *program.bodies):
            self._first.append(len(places))
            places += places_of(inner, emitter)

    def run(self, values: dict[str, Any]) -> None:
        """Compute the stage's outputs from `values`, which they join."""
        read = {name: values[name] for name in self._inputs if name in values}
        values.update(self._session.run(read))

    def table(self, works: _Works) -> NDArray[np.int64]:
        """The calls of the last run (`Run.table`)."""
        rows, self.lost = self._session.records()
        events, numbers = [], []
        for program, step, begin, end, *sizes in rows.tolist():
            place = self._first[program] + step
            events.append((place, program, begin, end, self._places[place].runs_bodies))
            numbers.append(works.number(self._places[place].work(dict(zip(self._sizes, sizes)))))
        return _table(events, numbers)


class _Hosted:
    """A stage that the interpreter runs, node by node."""

    def __init__(self, graph: Graph, places: list[Place]) -> None:
        self._graph = graph
        self._events: list[Event] = []
        self._sizes: dict[str, int] = {}
        self._numbers: dict[Node, int] = {}
        self._programs = {inner: number for number, inner in enumerate(graph.all_graphs())}
        self._places = places
        self.lost = 0
        for node in (node for inner in graph.all_graphs() for node in inner.nodes):
            self._numbers[node] = len(places)
            places.append(
                Place(node.kind, INTERPRETER, (node,), (node,), runs_bodies=bool(node.subgraphs))
            )

    def run(self, values: dict[str, Any]) -> None:
        """Compute the stage's outputs from `values`, which they join."""
        feeds = {v.name: values[v.name] for v in self._graph.inputs if v.name in values}
        self._events, self._sizes = [], shown_sizes(self._graph, feeds)
        values.update(evaluate(self._graph, feeds, watch=self._note))

    def _note(self, node: Node, begin: int, end: int) -> None:
        assert node.graph is not None
        event = self._numbers[node], self._programs[node.graph], begin, end, bool(node.subgraphs)
        self._events.append(event)

    def table(self, works: _Works) -> NDArray[np.int64]:
        """The calls of the last run (`Run.table`)."""
        done = [self._places[event[0]].work(self._sizes) for event in self._events]
        return _table(self._events, list(map(works.number, done)))


def _table(events: Sequence[Event], works: Sequence[int]) -> NDArray[np.int64]:
    own = without_bodies(events)
    rows = [
        (place, begin, end, alone, work)
        for (place, _, begin, end, _), alone, work in zip(events, own, works)
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


def without_bodies(events: Sequence[Event]) -> list[int]:
    """The time of each event without those of the bodies that it ran. They come in the order in
    which they ended.
    """
    numbers: list[int] = []
    waiting: list[tuple[int, int, int]] = []
    for _, program, begin, end, runs_bodies in events:
        inner = 0
        while runs_bodies and waiting and waiting[-1][0] != program and waiting[-1][1] >= begin:
            inner += waiting.pop()[2]
        waiting.append((program, begin, end - begin))
        numbers.append(end - begin - inner)
    return numbers
