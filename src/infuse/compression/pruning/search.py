"""Pruning in rounds: a part of the channels and blocks goes, what is left is tuned, until the goal
is reached or too much is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from infuse.compression.contract import Bound, Deadline
from infuse.compression.evaluation import Evaluation
from infuse.compression.lessons import Lessons
from infuse.compression.pruning.candidates import Candidates
from infuse.compression.pruning.lineage import Lineage
from infuse.compression.pruning.links import Ints
from infuse.compression.pruning.narrowing import Candidate
from infuse.compression.pruning.widths import macs_of
from infuse.compression.report import BlockReport, LayerReport, PruningReport
from infuse.compression.tuning import TuneOptions, TuningReport, tune
from infuse.ir.graph import Graph
from infuse.options.methods import BLOCKS, CHANNELS, HIDDEN, Prune
from infuse.profiling.progress import Progress

TRIAL = 0.125
"""The part of a round's tuning that each of several candidates gets before one is chosen."""


class Pruner:
    """Prunes a graph whose nodes have names, in rounds."""

    def __init__(
        self,
        graph: Graph,
        prune: Prune,
        evaluation: Evaluation,
        bound: Bound | None,
        deadline: Deadline,
        *,
        lessons: Lessons | None = None,
        tuning: TuneOptions | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._source, self._prune, self._evaluation = graph, prune, evaluation
        self._allowed = tuple(prune.kinds or ())
        self._bound, self._deadline, self._progress = bound, deadline, progress
        self._lessons, self._tuning, self._seed = lessons, tuning, seed
        macs = macs_of(graph)
        self._candidates = Candidates(prune, evaluation, macs, lessons, tuning)
        goal = "multiplications" if prune.of == "macs" else "time of a run"
        self.report = PruningReport(f"{prune.share:.0%} of the {goal}", macs, macs)
        self.notes: list[str] = []
        self._tried: dict[str, float] = {}
        self.remaining: Mapping[tuple[str, int], Ints] = {}
        """Which indices of the original's are left along axes of values (`Lessons.remaining`)."""

    def run(self) -> tuple[Graph, float]:
        """The narrower graph, and its score: that of the last round whose score is within the
        bound.
        """
        graph, score = self._source, self._evaluation.reference
        first = self._candidates.dependencies(graph)
        blocks = self._candidates.blocks(graph)
        lineage = Lineage(first)
        self.report.closed = [
            LayerReport(each.node.name, each.node.kind, "float32", each.reason)
            for each in first.closed
        ]
        if not first.groups and not blocks:
            self.notes.append(self._nothing())
            self.report.is_reached = False
            return graph, score
        rounding = self._candidates.rounding(graph)
        dropped: list[str] = []
        for number in range(1, self._prune.rounds + 1):
            limit = (1 - self._prune.share) ** (number / self._prune.rounds)
            candidates = self._candidates.finalists(graph, lineage, limit, rounding)
            if not candidates:
                self.notes.append(
                    f"{self._kinds()} that may go are not enough to reach {limit:.0%}"
                )
                self.report.is_reached = False
                break
            candidate, tuned, outcome = self._chosen(candidates)
            self._tell(number, tuned, outcome, candidate)
            if not self._holds(outcome.after):
                self.report.is_reached = False
                self.notes.append(
                    f"round {number} loses more than {self._bound}: what it removed came back"
                )
                break
            graph, score = tuned, outcome.after
            lineage = candidate.lineage.followed(candidate.graph, tuned)
            dropped += candidate.blocks
            if candidate.importance:
                self.report.importance = candidate.importance
                self.report.strategy = candidate.strategy
            if self._deadline.is_over and number < self._prune.rounds:
                self.report.is_reached = False
                self.notes.append(f"the time ended after round {number}")
                break
        self.report.macs = macs_of(graph)
        self.report.multiple = rounding.multiple
        self.report.groups = lineage.groups()
        self.report.blocks = [
            BlockReport(block.name, macs, block.name in dropped) for block, macs in blocks
        ]
        self.remaining = lineage.remaining
        return graph, score

    def _holds(self, score: float) -> bool:
        metric, reference = self._evaluation.metric, self._evaluation.reference
        return self._bound is None or self._bound.holds(reference, score, metric.higher_is_better)

    def _kinds(self) -> str:
        *others, last = self._allowed
        return f"{', '.join(others)} and {last}" if others else last

    def _nothing(self) -> str:
        """What to say where nothing can go."""
        reasons = {
            CHANNELS: "every layer's channels have to stay",
            HIDDEN: "no hidden size is open",
            BLOCKS: "no residual block can be dropped, or too little would be left without it",
        }
        kinds = self._allowed
        if CHANNELS in kinds:
            return f"no channels can go: {reasons[CHANNELS]}"
        return f"no {' and no '.join(kinds)} can go: {'; '.join(reasons[each] for each in kinds)}"

    def _tell(self, number: int, graph: Graph, outcome: TuningReport, candidate: Candidate) -> None:
        self.report.rounds.append(
            {
                "macs": macs_of(graph),
                "blocks": list(candidate.blocks),
                "tried": self._tried,
                "before": outcome.before,
                "after": outcome.after,
                "epochs": outcome.epochs,
                "best_epoch": outcome.best_epoch,
                "seconds": outcome.seconds,
                "features": outcome.features,
            }
        )
        if self._progress is not None:
            self._progress("prune", number, self._prune.rounds)

    # -- tuning ------------------------------------------------------------------------------------

    def _chosen(self, candidates: Sequence[Candidate]) -> tuple[Candidate, Graph, TuningReport]:
        """A candidate, its tuned graph, and what the tuning did: the one with the best score after
        a part of the tuning, which then goes on; where nothing is tuned or there is one alone, the
        first.
        """
        self._tried = {}
        if self._tuning is None or len(candidates) == 1:
            return candidates[0], *self._tuned(candidates[0], self._share(1.0))
        trial = self._share(TRIAL)
        trials = [(each, *self._tuned(each, trial)) for each in candidates]
        scores = [outcome.after for _, _, outcome in trials]
        is_higher = self._evaluation.metric.higher_is_better
        candidate, graph, first = trials[scores.index(max(scores) if is_higher else min(scores))]
        lineage = candidate.lineage.followed(candidate.graph, graph)
        candidate = replace(candidate, graph=graph, lineage=lineage)
        self._tried = {each.kind: outcome.after for each, _, outcome in trials}
        rest = self._share(1 - TRIAL * len(trials), first.epochs)
        if rest is None:
            outcome = first
        else:
            graph, outcome = self._tuned(candidate, rest)
            outcome.epochs += first.epochs
            outcome.best_epoch += first.best_epoch
        spent = sum(each.seconds for _, _, each in trials if each is not outcome)
        outcome.before, outcome.seconds = first.before, outcome.seconds + spent
        return candidate, graph, outcome

    def _share(self, part: float, done: int = 0) -> TuneOptions | None:
        """The tuning of a part of a round; of the rest, where so many epochs are done. None where
        nothing is tuned, or all is done.
        """
        if self._tuning is None:
            return None
        whole = self._tuning.part(1 / self._prune.rounds)
        share = whole.part(part)
        if not done or whole.epochs is None:
            return share
        return replace(share, epochs=whole.epochs - done) if whole.epochs > done else None

    def _tuned(
        self, candidate: Candidate, tuning: TuneOptions | None
    ) -> tuple[Graph, TuningReport]:
        metric = self._evaluation.metric
        if self._lessons is None or tuning is None:
            score = self._evaluation.score_once(candidate.graph)
            return candidate.graph, TuningReport(score, score)
        return tune(
            candidate.graph,
            replace(self._lessons, remaining=candidate.lineage.remaining),
            tuning,
            self._evaluation.score_once,
            higher_is_better=metric.higher_is_better,
            seed=self._seed,
            threads=self._evaluation.threads,
            progress=self._progress,
        )
