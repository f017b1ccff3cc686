"""What a round of pruning may make of a graph: of each kind what changes the outputs least."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from infuse.compression.evaluation import Evaluation
from infuse.compression.features import pairs_of
from infuse.compression.lessons import Lessons
from infuse.compression.pruning.blocks import Block, find_blocks, without_blocks
from infuse.compression.pruning.depth import macs_of_blocks, order_of_dropping
from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.importance import (
    by_magnitude,
)
from infuse.compression.pruning.lineage import Lineage
from infuse.compression.pruning.narrowing import ALONE, WAYS, Candidate, Narrowing, Start, Way
from infuse.compression.pruning.removal import removed_from
from infuse.compression.pruning.widths import (
    Rounding,
    evenly,
    fitted,
    macs_of,
    removed_by,
)
from infuse.compression.tuning import TuneOptions
from infuse.ir.graph import Graph
from infuse.options.methods import BLOCKS, CHANNELS, HIDDEN, Prune
from infuse.targets import Target

TIMED_STEPS = 5
"""Halvings of the range of multiplications within which the time of a run is looked for."""
LEAST_LEFT = 0.5
"""Without blocks at least so much is left of the multiplications that are to be left: a network may
be one branch beside its input, which nobody wants for the whole.
"""
PATIENCE = 2
"""So many numbers of blocks may change more than the best before no more blocks are dropped."""


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
        self._lessons, self._tuning = lessons, tuning
        self._kinds = tuple(prune.kinds or ())
        self._narrowing = Narrowing(self._kinds, evaluation, macs, lessons, tuning)

    def dependencies(self, graph: Graph) -> Dependencies:
        """What may go of a graph."""
        return self._narrowing.dependencies(graph)

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
                changed = self._narrowing.change(start.graph)
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
        price = self._narrowing.macs_of(dependencies, importance)
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
            self._narrowing.runs(),
            self._narrowing.exact,
            self._narrowing.powers,
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
            return self._narrowing.narrowed(start, limit, rounding, ways)
        low, high = limit / 4, min(1.0, 2 * limit)
        best: Candidate | None = None
        for _ in range(TIMED_STEPS):
            middle = (low + high) / 2
            candidate = self._narrowing.narrowed(start, middle, rounding, ways)
            if candidate is None:
                low = middle
                continue
            if self._is_within(candidate.graph, limit):
                best, low = candidate, middle
            else:
                high = middle
        return best


def _change_of(candidate: Candidate) -> float:
    return candidate.changed
