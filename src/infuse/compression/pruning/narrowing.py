"""Graphs with fewer channels: of what measures and strategies make, the least changed one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from infuse.build.compile import compile_graph
from infuse.compression.evaluation import Evaluation, settled
from infuse.compression.lessons import Lessons
from infuse.compression.pruning.compensation import add_means
from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.importance import (
    Activity,
    Importance,
    activity_of,
    by_activation,
    by_magnitude,
    by_slope,
)
from infuse.compression.pruning.lineage import Lineage
from infuse.compression.pruning.links import Bools
from infuse.compression.pruning.normalized import with_fitted_norms
from infuse.compression.pruning.removal import removed_from
from infuse.compression.pruning.widths import (
    STRATEGIES,
    Rounding,
    Widths,
    fitted,
    macs_of,
    removed_by,
)
from infuse.compression.sensitivity import change, powers_of
from infuse.compression.tuning import TuneOptions, losses_of
from infuse.ir.graph import Graph, Value
from infuse.options import CompileOptions
from infuse.options.methods import CHANNELS, HIDDEN

SEEN_RUNS = 64
"""Runs that tell what activations and slopes are, and how much candidates change."""
SLOPE_ROWS = 64
"""Examples of a batch whose slopes are taken together."""
ALONE = "blocks alone"
"""The kind of what lost blocks and no channels."""
Way = tuple[str, str]
"""A measure of channels and a strategy of widths, by their names."""
WAYS: Sequence[Way] = list(itertools.product(("magnitude", "activations", "slopes"), STRATEGIES))


@dataclass(frozen=True)
class Start:
    """A graph without some residual blocks, before channels go, those of hidden sizes among them
    (`hidden`) or not (`channels`).
    """

    graph: Graph
    lineage: Lineage
    kind: str = CHANNELS
    blocks: tuple[str, ...] = ()


@dataclass
class Candidate:
    """A graph without channels and blocks, how it was chosen, its constants beside those before,
    and how much its outputs differ from the original's.
    """

    graph: Graph
    lineage: Lineage
    changed: float
    kind: str
    """The last of `KINDS` that may have gone, or `ALONE`."""
    importance: str = ""
    strategy: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def way(self) -> Way:
        """How its channels were chosen."""
        return self.importance, self.strategy


class Narrowing:
    """Takes channels of some kinds from graphs, and tells how much that changes the outputs of the
    original of `evaluation`, which has so many multiplications (`macs`).
    """

    def __init__(
        self,
        kinds: Sequence[str],
        evaluation: Evaluation,
        macs: int,
        lessons: Lessons | None,
        tuning: TuneOptions | None,
    ) -> None:
        self._kinds, self._evaluation, self._macs = kinds, evaluation, macs
        self._lessons, self._tuning = lessons, tuning
        self.exact = evaluation.exact[:SEEN_RUNS]
        self.powers = powers_of(self.exact)

    def dependencies(self, graph: Graph, opens_norms: bool = True) -> Dependencies:
        """What may go of a graph: of hidden sizes, only where these are open."""
        kinds = self._kinds
        dependencies = Dependencies(graph, opens_norms and HIDDEN in kinds)
        dependencies.groups = [
            group
            for group in dependencies.groups
            if (HIDDEN if group.is_hidden else CHANNELS) in kinds
        ]
        return dependencies

    def narrowed(
        self, start: Start, limit: float, rounding: Rounding, ways: Sequence[Way]
    ) -> Candidate | None:
        """Of what these measures and strategies make of a graph, within this part of the original's
        costs, that which changes the outputs least.
        """
        graph, lineage = start.graph, start.lineage
        if macs_of(graph) <= limit * self._macs:
            return Candidate(graph, lineage, self.change(graph), start.kind, blocks=start.blocks)
        dependencies = self.dependencies(graph, start.kind == HIDDEN)
        if not dependencies.groups:
            return None
        activity = activity_of(dependencies, self.runs(), self._evaluation.threads)
        best: Candidate | None = None
        measures = self._measures(dependencies, activity, {name for name, _ in ways})
        for name, strategy in ways:
            if name not in measures:
                continue
            importance = measures[name]
            widths_of = STRATEGIES[strategy](dependencies, importance, rounding)
            price = self.macs_of(dependencies, importance)
            widths = fitted(widths_of, price, limit, rounding)
            if widths is None:
                continue
            removed = removed_by(widths, importance)
            narrow, values = removed_from(dependencies, removed)
            alive = dependencies.alive(removed)
            add_means(dependencies, alive, activity, values)
            changed = self.change(narrow)
            if best is None or changed < best.changed:
                left = lineage.narrowed(dependencies, alive, values)
                chosen = alive, values
                best = Candidate(narrow, left, changed, start.kind, name, strategy, start.blocks)
        if best is not None and start.kind == HIDDEN:
            return self._with_fitted_norms(dependencies, *chosen, best)
        return best

    def _with_fitted_norms(
        self,
        dependencies: Dependencies,
        alive: Bools,
        values: Mapping[Value, Value],
        candidate: Candidate,
    ) -> Candidate:
        """A candidate whose normalizations are fitted to the fewer channels, or itself where that
        is no better.
        """
        graph = candidate.graph
        fitted_graph = with_fitted_norms(dependencies, alive, values, graph, self.runs())
        if fitted_graph is None or (changed := self.change(fitted_graph[0])) >= candidate.changed:
            return candidate
        copy, copies = fitted_graph
        return replace(
            candidate, graph=copy, lineage=candidate.lineage.copied(copies, copy), changed=changed
        )

    def runs(self) -> Sequence[dict[str, np.ndarray]]:
        """The runs that tell what activations are, and how much candidates change."""
        return list(self._evaluation.runs[:SEEN_RUNS])

    def _measures(
        self, dependencies: Dependencies, activity: Activity, names: Collection[str]
    ) -> dict[str, Importance]:
        """The measures of these names; slopes, where the graph is to be tuned."""
        measures = {
            "magnitude": by_magnitude(dependencies),
            "activations": by_activation(dependencies, activity),
        }
        lessons, tuning = self._lessons, self._tuning
        if "slopes" in names and lessons is not None and tuning is not None:
            losses, targets = losses_of(dependencies.graph, lessons, tuning)
            arrays = {**lessons.examples, **targets}
            count = len(next(iter(arrays.values())))
            size, sizes = _batch_of(dependencies.graph, min(SLOPE_ROWS, count))
            batches = [
                {name: array[start : start + size] for name, array in arrays.items()}
                for start in range(0, min(count - size + 1, SEEN_RUNS * size), size)
            ]
            threads = self._evaluation.threads
            measures["slopes"] = by_slope(dependencies, losses, batches, sizes, threads)
        return measures

    def macs_of(
        self, dependencies: Dependencies, importance: Importance
    ) -> Callable[[Widths], float]:
        """The part of the original's multiplications that a graph of these widths has."""

        def price(widths: Widths) -> float:
            narrow, _ = removed_from(dependencies, removed_by(widths, importance))
            return macs_of(narrow) / max(self._macs, 1)

        return price

    def change(self, graph: Graph) -> float:
        """How much the outputs differ from the original's, on few runs."""
        with compile_graph(
            settled(graph), CompileOptions(threads=self._evaluation.threads)
        ) as model:
            pairs = [(model.run(feeds), right) for feeds, right in zip(self.runs(), self.exact)]
        return float(np.mean([change(one, right, self.powers) for one, right in pairs]))


def _batch_of(graph: Graph, rows: int) -> tuple[int, dict[str, int]]:
    """How many examples a run takes, and sizes for the symbols of the inputs."""
    size = graph.inputs[0].shape[0]
    if isinstance(size, int):
        return size, {}
    return rows, {str(size): rows}
