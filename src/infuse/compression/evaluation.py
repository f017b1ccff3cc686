"""Scores and times of graphs on data, each measured once: what was measured is kept beside the
cache of compiled models, so that a search that was interrupted goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from infuse.build.autotune.precision.request import least_seconds
from infuse.build.autotune.records import CacheRecord
from infuse.build.compile import compile_graph
from infuse.compression.freed import give_back_after_compiling, give_back_freed_memory
from infuse.data.dataset import Data, Feeds, in_turn, require_answers
from infuse.data.metrics import Metric, Outputs
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.mapped import give_back
from infuse.options import CompileOptions
from infuse.options.compiling import Timer
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.profiling.progress import Progress
from infuse.runtime.interface import Model
from infuse.targets import Target


class Memory(CacheRecord):
    """Scores and times of one search by what they are of."""

    def __init__(self, facts: Sequence[str]) -> None:
        super().__init__(
            "compress", "measurements of a compression", Target.resolve("native"), facts
        )
        self._measured: dict[str, Any] = self.load(lambda content: dict(content["measured"])) or {}

    def get(self, key: str) -> Any | None:
        """What was measured, None where nothing was."""
        return self._measured.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep a measurement (plain data)."""
        self._measured[key] = value
        self.write({"measured": self._measured})


def digest_of(parts: Sequence[Any]) -> str:
    """A name for arrays, mappings of arrays and texts."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Mapping):
            for name, array in sorted(part.items()):
                digest.update(name.encode() + digest_of([array]).encode())
        elif isinstance(part, np.ndarray):
            digest.update(repr((part.dtype.str, part.shape)).encode())
            content = repr(part.tolist()).encode() if part.dtype.hasobject else part.tobytes()
            digest.update(content)
            give_back(part)
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


class Evaluation:
    """Runs graphs on the examples of `runs`, and gives the score that `metric` sees in the outputs:
    beside `labels`, or beside the outputs of `original`.

    Only the models of the latest question are open: each has its weights in memory, packed.
    """

    def __init__(
        self,
        original: Graph,
        runs: Sequence[Feeds],
        metric: Metric,
        labels: Any,
        *,
        threads: int | None = None,
        timer: Timer | None = None,
        progress: Progress | None = None,
        data: Data | None = None,
    ) -> None:
        """`data` are what the runs were cut from, for errors to name a place in them."""
        self.runs, self.metric, self.threads = runs, metric, threads
        self.validations = 0
        """How often a graph went through all examples."""
        self.model_runs = 0
        """Runs on examples in all, other than those that are timed."""
        self._timer, self._progress = timer or least_seconds, progress
        self._models: dict[Graph, Model] = {}
        self._compiled: set[Graph] = set()
        self._latest: tuple[Graph, list[Outputs]] | None = None
        self.original = original
        self.exact = self.outputs(original)
        require_answers(self.exact, data)
        self._truth = labels if metric.needs_labels else self.exact
        self.reference = metric(self.exact, self._truth)
        """The score of the original."""

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def compile(self, graph: Graph) -> None:
        """Compile a graph, where that was not done; raises what compiling raises."""
        if graph not in self._compiled:
            self._open([graph])

    def is_compiled(self, graph: Graph) -> bool:
        """Whether a graph was compiled: then to open its model takes little time."""
        return graph in self._compiled

    def release(self) -> None:
        """Close all models, whose weights then leave the memory, until somebody asks again."""
        self._open([])
        give_back_freed_memory()

    def _open(self, graphs: Collection[Graph]) -> list[Model]:
        """The models of these graphs; all others are closed."""
        for graph in [graph for graph in self._models if graph not in graphs]:
            self._models.pop(graph).close()
        for graph in graphs:
            if graph not in self._models:
                if self._progress is not None:
                    self._progress("compile", 0, 1)
                for model in self._models.values():
                    model.give_back_weights()
                optimized = settled(graph)
                self._models[graph] = compile_graph(optimized, CompileOptions(threads=self.threads))
                self._compiled.add(graph)
                give_back_after_compiling(optimized)
        return [self._models[graph] for graph in graphs]

    def outputs(self, graph: Graph) -> list[Outputs]:
        """The outputs for all examples; those of the latest graph are not computed again."""
        if self._latest is not None and self._latest[0] is graph:
            return self._latest[1]
        (model,) = self._open([graph])
        outputs: list[Outputs] = []
        for number, feeds in enumerate(in_turn(self.runs)):
            outputs.append(model.run(feeds))
            if self._progress is not None:
                self._progress("validate", number + 1, len(self.runs))
        self.validations += 1
        self.model_runs += len(self.runs)
        self._latest = (graph, outputs)
        return outputs

    def score(self, graph: Graph) -> float:
        """The score of a graph."""
        return self.metric(self.outputs(graph), self._truth)

    def score_once(self, graph: Graph) -> float:
        """The score of a graph that nobody asks for again: its model is closed at once."""
        with compile_graph(settled(graph), CompileOptions(threads=self.threads)) as model:
            outputs = [model.run(feeds) for feeds in in_turn(self.runs)]
        self.validations += 1
        self.model_runs += len(self.runs)
        return self.metric(outputs, self._truth)

    def seconds_beside_original(self, graph: Graph) -> tuple[float, float]:
        """The least times of a run on the first example: of the original, and of a graph that
        nobody asks for again.
        """
        (original,) = self._open([self.original])
        with compile_graph(settled(graph), CompileOptions(threads=self.threads)) as model:
            models = {"original": original, "graph": model}
            times = self._timer(
                {name: partial(each.run, self.runs[0]) for name, each in models.items()}
            )
        return min(times["original"]), min(times["graph"])

    def seconds(
        self, graphs: Mapping[str, Graph], limits: tuple[float, float] | None = None
    ) -> dict[str, float]:
        """The least time of a run on the first example by name, measured in turns; `limits` are the
        least and the most seconds of measuring for each.
        """
        models = self._open(list(graphs.values()))
        calls = {name: partial(model.run, self.runs[0]) for name, model in zip(graphs, models)}
        timer = self._timer
        if limits is not None and timer is least_seconds:
            timer = partial(least_seconds, least=limits[0], most=limits[1])
        return {name: min(times) for name, times in timer(calls).items()}


def settled(graph: Graph, level: str = "all") -> Graph:
    """A graph to compile, or to give away: optimized, where it was not."""
    if graph.report is not None:
        return graph
    copy = clone(graph)
    copy.report = optimize_in_place(copy, Selection(level), None)
    return copy
