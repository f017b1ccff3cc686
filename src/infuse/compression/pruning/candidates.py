"""What a round of pruning may make of a graph: of each kind what changes the outputs least."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from infuse.build.compile import compile_graph
from infuse.compression.evaluation import Evaluation, settled
from infuse.compression.features import pairs_of
from infuse.compression.lessons import Lessons
from infuse.compression.pruning.blocks import Block, find_blocks, without_blocks
from infuse.compression.pruning.compensation import add_means
from infuse.compression.pruning.depth import macs_of_blocks, order_of_dropping
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
    evenly,
    fitted,
    macs_of,
    removed_by,
)
from infuse.compression.sensitivity import change, powers_of
from infuse.compression.tuning import TuneOptions, losses_of
from infuse.ir.graph import Graph, Value
from infuse.options import CompileOptions
from infuse.options.compressing import BLOCKS, CHANNELS, HIDDEN, Prune
from infuse.targets import Target

SEEN_RUNS = 64
"""Runs that tell what activations and slopes are, and how much candidates change."""
SLOPE_ROWS = 64
"""Examples of a batch whose slopes are taken together."""
TIMED_STEPS = 5
"""Halvings of the range of multiplications within which the time of a run is looked for."""
LEAST_LEFT = 0.5
"""Without blocks at least so much is left of the multiplications that are to be left: a network may
be one branch beside its input, which nobody wants for the whole.
"""
ALONE = "blocks alone"
"""The kind of what lost blocks and no channels."""
PATIENCE = 2
"""So many numbers of blocks may change more than the best before no more blocks are dropped."""
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


class Candidates:
    """Makes and compares the candidates of the rounds of a pruning."""

    def __init__(
        self,
        prune: Prune,
        evaluation: Evaluation,
        macs: int,
        lessons: Lessons | None,
        tuning: TuneOptions | None,
    ) -> None:
        self._prune, self._evaluation, self._macs = prune, evaluation, macs
        self._kinds = tuple(prune.kinds or ())
        self._lessons, self._tuning = lessons, tuning
        self._exact = evaluation.exact[:SEEN_RUNS]
        self._powers = powers_of(self._exact)

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

    def finalists(
        self, graph: Graph, lineage: Lineage, limit: float, rounding: Rounding
    ) -> list[Candidate]:
        """Of the candidates within this part of the original's costs, those of each kind that
        change the outputs least: channels alone, with hidden sizes, without blocks, and that with
        all its channels which lacks the fewest blocks; the one with the least change first.
        Channels of a graph without blocks are chosen in the way that is the best for the graph with
        them.
        """
        best: dict[str, Candidate] = {}
        for kind in (CHANNELS, HIDDEN) if self._has_hidden(graph) else (CHANNELS,):
            own = self._within(Start(graph, lineage, kind), limit, rounding)
            if own is not None:
                best[kind] = own
        first = min(best.values(), key=_change_of, default=None)
        kinds = (CHANNELS, HIDDEN) if first is None else (first.kind,)
        ways = WAYS if first is None or not first.importance else [first.way]
        worse = 0
        starts = list(self._without_blocks(graph, lineage, limit))
        for start, changed in starts:
            before = best.get(BLOCKS)
            if worse == PATIENCE or (before is not None and changed >= before.changed):
                break
            for kind in kinds:
                own = self._within(replace(start, kind=kind), limit, rounding, ways)
                if own is not None and (BLOCKS not in best or own.changed < best[BLOCKS].changed):
                    best[BLOCKS] = replace(own, kind=BLOCKS)
            is_worse = before is not None and best[BLOCKS] is before
            worse = worse + 1 if is_worse else 0
        fewest = bisect_left(starts, True, key=lambda each: self._is_within(each[0].graph, limit))
        if fewest < len(starts):
            start, _ = starts[fewest]
            if BLOCKS not in best or best[BLOCKS].graph is not start.graph:
                changed = self._change(start.graph)
                best[ALONE] = Candidate(
                    start.graph, start.lineage, changed, ALONE, blocks=start.blocks
                )
        return sorted(best.values(), key=_change_of)

    def _is_within(self, graph: Graph, limit: float) -> bool:
        """Whether a graph costs this part of what the original does at most."""
        if self._prune.of == "macs":
            return macs_of(graph) <= limit * self._macs
        original, own = self._evaluation.seconds_beside_original(graph)
        return own <= limit * original

    def rounding(self, graph: Graph) -> Rounding:
        """Multiples of channels whose graph is the fastest, of those that may suit vectors."""
        lanes = Target.resolve("native").machine.lanes
        dependencies = self.dependencies(graph)
        importance, limit = by_magnitude(dependencies), 1 - self._prune.share
        price = self._macs_of(dependencies, importance)
        times: dict[Rounding, float] = {}
        for part in (1, 2, 4):
            rounding = Rounding(max(1, lanes // part))
            widths = fitted(evenly(dependencies, importance, rounding), price, limit, rounding)
            if widths is not None and rounding not in times:
                narrow, _ = removed_from(dependencies, removed_by(widths, importance))
                original, own = self._evaluation.seconds_beside_original(narrow)
                times[rounding] = own / original
        return min(times, key=times.__getitem__, default=Rounding(lanes))

    # -- where a round starts ----------------------------------------------------------------------

    def _has_hidden(self, graph: Graph) -> bool:
        return any(group.is_hidden for group in self.dependencies(graph).groups)

    def blocks(self, graph: Graph) -> list[tuple[Block, int]]:
        """The residual blocks that may go, with their multiplications: not those without which less
        is left than `LEAST_LEFT` of what is to be.
        """
        blocks = find_blocks(graph) if BLOCKS in self._kinds else []
        most = macs_of(graph) - LEAST_LEFT * (1 - self._prune.share) * self._macs
        return [
            (block, macs)
            for block, macs in zip(blocks, macs_of_blocks(graph, blocks))
            if macs <= most
        ]

    def _without_blocks(
        self, graph: Graph, lineage: Lineage, limit: float
    ) -> Iterator[tuple[Start, float]]:
        """The graph without one block, without two, …, and how much the outputs change."""
        blocks = [block for block, _ in self.blocks(graph)]
        if not blocks:
            return
        least = limit if self._prune.of == "macs" else limit / 4
        order = order_of_dropping(
            graph,
            blocks,
            self._runs(),
            self._exact,
            self._powers,
            macs_of(graph) - least * self._macs,
            macs_of(graph) - LEAST_LEFT * limit * self._macs,
            threads=self._evaluation.threads,
        )
        for count, last in enumerate(order, 1):
            gone = [dropped.block for dropped in order[:count]]
            copy, values = without_blocks(graph, gone)
            names = tuple(block.name for block in gone)
            start = Start(copy, lineage.copied(values, copy), blocks=names)
            if self._can_be_tuned(start):
                yield start, last.change

    def _can_be_tuned(self, start: Start) -> bool:
        """Whether a graph has values inside to be drawn to the original's, where that is asked."""
        if self._lessons is None or self._tuning is None or not self._tuning.features:
            return True
        lessons = replace(self._lessons, remaining=start.lineage.remaining)
        return bool(pairs_of(lessons, start.graph))

    # -- channels ----------------------------------------------------------------------------------

    def _within(
        self, start: Start, limit: float, rounding: Rounding, ways: Sequence[Way] = WAYS
    ) -> Candidate | None:
        """The narrower graph within this part of the original's multiplications, or, where the goal
        is time, with as many as its measured time allows.
        """
        if self._prune.of == "macs":
            return self._narrowed(start, limit, rounding, ways)
        low, high = limit / 4, min(1.0, 2 * limit)
        best: Candidate | None = None
        for _ in range(TIMED_STEPS):
            middle = (low + high) / 2
            candidate = self._narrowed(start, middle, rounding, ways)
            if candidate is None:
                low = middle
                continue
            if self._is_within(candidate.graph, limit):
                best, low = candidate, middle
            else:
                high = middle
        return best

    def _narrowed(
        self, start: Start, limit: float, rounding: Rounding, ways: Sequence[Way]
    ) -> Candidate | None:
        """Of what these measures and strategies make of a graph, within this part of the original's
        costs, that which changes the outputs least.
        """
        graph, lineage = start.graph, start.lineage
        if macs_of(graph) <= limit * self._macs:
            return Candidate(graph, lineage, self._change(graph), start.kind, blocks=start.blocks)
        dependencies = self.dependencies(graph, start.kind == HIDDEN)
        if not dependencies.groups:
            return None
        activity = activity_of(dependencies, self._runs(), self._evaluation.threads)
        best: Candidate | None = None
        measures = self._measures(dependencies, activity, {name for name, _ in ways})
        for name, strategy in ways:
            if name not in measures:
                continue
            importance = measures[name]
            widths_of = STRATEGIES[strategy](dependencies, importance, rounding)
            price = self._macs_of(dependencies, importance)
            widths = fitted(widths_of, price, limit, rounding)
            if widths is None:
                continue
            removed = removed_by(widths, importance)
            narrow, values = removed_from(dependencies, removed)
            alive = dependencies.alive(removed)
            add_means(dependencies, alive, activity, values)
            changed = self._change(narrow)
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
        fitted_graph = with_fitted_norms(dependencies, alive, values, graph, self._runs())
        if fitted_graph is None or (changed := self._change(fitted_graph[0])) >= candidate.changed:
            return candidate
        copy, copies = fitted_graph
        return replace(
            candidate, graph=copy, lineage=candidate.lineage.copied(copies, copy), changed=changed
        )

    def _runs(self) -> Sequence[dict[str, np.ndarray]]:
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

    def _macs_of(
        self, dependencies: Dependencies, importance: Importance
    ) -> Callable[[Widths], float]:
        """The part of the original's multiplications that a graph of these widths has."""

        def price(widths: Widths) -> float:
            narrow, _ = removed_from(dependencies, removed_by(widths, importance))
            return macs_of(narrow) / max(self._macs, 1)

        return price

    def _change(self, graph: Graph) -> float:
        """How much the outputs differ from the original's, on few runs."""
        with compile_graph(
            settled(graph), CompileOptions(threads=self._evaluation.threads)
        ) as model:
            pairs = [(model.run(feeds), right) for feeds, right in zip(self._runs(), self._exact)]
        return float(np.mean([change(one, right, self._powers) for one, right in pairs]))


def _change_of(candidate: Candidate) -> float:
    return candidate.changed


def _batch_of(graph: Graph, rows: int) -> tuple[int, dict[str, int]]:
    """How many examples a run takes, and sizes for the symbols of the inputs."""
    size = graph.inputs[0].shape[0]
    if isinstance(size, int):
        return size, {}
    return rows, {str(size): rows}
