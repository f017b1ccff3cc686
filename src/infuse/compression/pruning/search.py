"""Pruning in rounds: a part of the channels goes, what is left is tuned, until the goal is reached
or too much is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from infuse.codegen.compile import compile_graph
from infuse.compression.contract import Bound, Deadline, part_or_number
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
from infuse.compression.pruning.links import Ints
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
from infuse.compression.report import LayerReport, PruningReport
from infuse.compression.sensitivity import change, powers_of
from infuse.compression.tuning import TuneOptions, TuningReport, losses_of, tune
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress
from infuse.targets import Target

SEEN_RUNS = 64
"""Runs that tell what activations and slopes are, and how much candidates change."""
SLOPE_ROWS = 64
"""Examples of a batch whose slopes are taken together."""
TIMED_STEPS = 5
"""Halvings of the range of multiplications within which the time of a run is looked for."""
GOALS = ("macs", "latency")


@dataclass(frozen=True)
class PruneRequest:
    """The part of the multiplications (`macs`) or of the time of a run (`latency`) that is to go,
    and in how many rounds.
    """

    part: float
    goal: str = "macs"
    rounds: int = 1

    @classmethod
    def parse(cls, text: str | float, goal: str = "macs", rounds: int = 1) -> PruneRequest:
        """`"50%"` or `0.5` of what there is. OptionError for anything else."""
        number, is_percentage = part_or_number(text)
        if (isinstance(text, str) and not is_percentage) or not 0 < number < 1:
            raise OptionError(
                f"prune is {text!r}, which is not a part of the model",
                hint="50% of the multiplications, or 0.5",
            )
        if goal not in GOALS:
            raise OptionError(f"there is no goal {goal!r}", hint=f"one of {', '.join(GOALS)}")
        if rounds < 1:
            raise OptionError(f"{rounds} rounds prune nothing", hint="1 or more")
        return cls(number, goal, rounds)


@dataclass
class Candidate:
    """A graph without channels, how it was chosen, and its constants beside those before."""

    graph: Graph
    lineage: Lineage
    importance: str
    strategy: str


class Pruner:
    """Prunes a graph whose nodes have names, in rounds."""

    def __init__(
        self,
        graph: Graph,
        request: PruneRequest,
        evaluation: Evaluation,
        bound: Bound | None,
        deadline: Deadline,
        *,
        lessons: Lessons | None = None,
        tuning: TuneOptions | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._source, self._request, self._evaluation = graph, request, evaluation
        self._bound, self._deadline, self._progress = bound, deadline, progress
        self._lessons, self._tuning, self._seed = lessons, tuning, seed
        self._macs = macs_of(graph)
        goal = "multiplications" if request.goal == "macs" else "time of a run"
        self.report = PruningReport(f"{request.part:.0%} of the {goal}", self._macs, self._macs)
        self.notes: list[str] = []
        self.remaining: Mapping[tuple[str, int], Ints] = {}
        """Which indices of the original's are left along axes of values (`Lessons.remaining`)."""

    def run(self) -> tuple[Graph, float]:
        """The narrower graph, and its score: that of the last round whose score is within the
        bound.
        """
        graph, score = self._source, self._evaluation.reference
        first = Dependencies(graph)
        lineage = Lineage(first)
        self.report.closed = [
            LayerReport(each.node.name, each.node.kind, "float32", each.reason)
            for each in first.closed
        ]
        if not first.groups:
            self.notes.append("no channels can go: every layer's channels have to stay")
            self.report.is_reached = False
            return graph, score
        rounding = self._rounding(graph, 1 - self._request.part)
        for number in range(1, self._request.rounds + 1):
            limit = (1 - self._request.part) ** (number / self._request.rounds)
            candidate = self._candidate(graph, lineage, limit, rounding)
            if candidate is None:
                self.notes.append(f"channels that may go are not enough to reach {limit:.0%}")
                self.report.is_reached = False
                break
            tuned, outcome = self._tuned(candidate)
            self._tell(number, tuned, outcome)
            if not self._holds(outcome.after):
                self.report.is_reached = False
                self.notes.append(
                    f"round {number} loses more than {self._bound}: its channels came back"
                )
                break
            graph, score = tuned, outcome.after
            lineage = candidate.lineage.followed(candidate.graph, tuned)
            self.report.importance, self.report.strategy = candidate.importance, candidate.strategy
            if self._deadline.is_over and number < self._request.rounds:
                self.report.is_reached = False
                self.notes.append(f"the time ended after round {number}")
                break
        self.report.macs = macs_of(graph)
        self.report.multiple = rounding.multiple
        self.report.groups = lineage.groups()
        self.remaining = lineage.remaining
        return graph, score

    def _holds(self, score: float) -> bool:
        metric, reference = self._evaluation.metric, self._evaluation.reference
        return self._bound is None or self._bound.holds(reference, score, metric.higher_is_better)

    def _tell(self, number: int, graph: Graph, outcome: TuningReport) -> None:
        self.report.rounds.append(
            {
                "macs": macs_of(graph),
                "before": outcome.before,
                "after": outcome.after,
                "epochs": outcome.epochs,
                "best_epoch": outcome.best_epoch,
                "seconds": outcome.seconds,
                "features": outcome.features,
            }
        )
        if self._progress is not None:
            self._progress("prune", number, self._request.rounds)

    # -- one round ---------------------------------------------------------------------------------

    def _candidate(
        self, graph: Graph, lineage: Lineage, limit: float, rounding: Rounding
    ) -> Candidate | None:
        """The narrower graph of a round: within this part of the original's multiplications, or,
        where the goal is time, with as many as its measured time allows.
        """
        if self._request.goal == "macs":
            return self._narrowed(graph, lineage, limit, rounding)
        low, high = limit / 4, min(1.0, 2 * limit)
        best: Candidate | None = None
        for _ in range(TIMED_STEPS):
            middle = (low + high) / 2
            candidate = self._narrowed(graph, lineage, middle, rounding)
            if candidate is None:
                low = middle
                continue
            original, own = self._evaluation.seconds_beside_original(candidate.graph)
            if own <= limit * original:
                best, low = candidate, middle
            else:
                high = middle
        return best

    def _narrowed(
        self, graph: Graph, lineage: Lineage, limit: float, rounding: Rounding
    ) -> Candidate | None:
        """Of what all measures and strategies make of a graph, within this part of the original's
        costs, that which changes the outputs least.
        """
        dependencies = Dependencies(graph)
        if not dependencies.groups:
            return None
        activity = activity_of(dependencies, self._runs(), self._evaluation.threads)
        best: tuple[float, Candidate] | None = None
        measures = self._measures(dependencies, activity)
        for name, strategy in itertools.product(measures, STRATEGIES):
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
            if best is None or changed < best[0]:
                left = lineage.narrowed(dependencies, alive, values)
                best = changed, Candidate(narrow, left, name, strategy)
        return None if best is None else best[1]

    def _rounding(self, graph: Graph, limit: float) -> Rounding:
        """Multiples of channels whose graph is the fastest, of those that may suit vectors."""
        lanes = Target.resolve("native").machine.lanes
        dependencies = Dependencies(graph)
        importance = by_magnitude(dependencies)
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

    def _runs(self) -> Sequence[dict[str, np.ndarray]]:
        return list(self._evaluation.runs[:SEEN_RUNS])

    def _measures(self, dependencies: Dependencies, activity: Activity) -> dict[str, Importance]:
        measures = {
            "magnitude": by_magnitude(dependencies),
            "activations": by_activation(dependencies, activity),
        }
        lessons, tuning = self._lessons, self._tuning
        if lessons is not None and tuning is not None:
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
        runs = self._runs()
        with compile_graph(settled(graph), threads=self._evaluation.threads) as model:
            outputs = [model.run(feeds) for feeds in runs]
        exact = self._evaluation.exact[: len(outputs)]
        powers = powers_of(exact)
        return float(np.mean([change(one, right, powers) for one, right in zip(outputs, exact)]))

    def _tuned(self, candidate: Candidate) -> tuple[Graph, TuningReport]:
        metric = self._evaluation.metric
        if self._lessons is None or self._tuning is None:
            score = self._evaluation.score_once(candidate.graph)
            return candidate.graph, TuningReport(score, score)
        return tune(
            candidate.graph,
            replace(self._lessons, remaining=candidate.lineage.remaining),
            self._tuning.part(1 / self._request.rounds),
            self._evaluation.score_once,
            higher_is_better=metric.higher_is_better,
            seed=self._seed,
            threads=self._evaluation.threads,
            progress=self._progress,
        )


def _batch_of(graph: Graph, rows: int) -> tuple[int, dict[str, int]]:
    """How many examples a run takes, and sizes for the symbols of the inputs."""
    size = graph.inputs[0].shape[0]
    if isinstance(size, int):
        return size, {}
    return rows, {str(size): rows}
