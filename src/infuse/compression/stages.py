"""A compression in stages: a graph in float32 that is narrower or tuned, its report, and what
rounds it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from infuse.analysis.cost import totals
from infuse.compression.candidates import candidates_of_both
from infuse.compression.contract import Bound
from infuse.compression.evaluation import Evaluation, settled
from infuse.compression.layers import find_layers
from infuse.compression.learning import HELD_OUT, Divided, require_examples
from infuse.compression.lessons import Lessons
from infuse.compression.pipeline import Request, compress_graph, examples_of, metric_for, named
from infuse.compression.report import CompressionReport
from infuse.compression.rounding_aware import tune_for_integers
from infuse.compression.setting import CALIBRATION_RUNS
from infuse.compression.static import StaticOptions
from infuse.compression.tuning import TuneOptions
from infuse.data.dataset import Feeds, feeds_of
from infuse.data.sequences import sequence_notes
from infuse.errors import ContractError, OptionError
from infuse.ir.graph import Array, Graph
from infuse.options.methods import Int8, Method
from infuse.profiling.progress import Progress, enter

INTEGERS_PART, INTEGERS_RATE = 0.25, 0.3
"""The part of the time of a tuning in which weights learn with the rounding that comes, and that of
the rate.
"""


@dataclass(frozen=True)
class Stages:
    """What the stages of a compression share. `source` is the original, of standard operators."""

    source: Graph
    request: Request
    bound: Bound | None
    evaluation: Evaluation
    examples: Divided
    learned: Sequence[Feeds] | None
    lessons: Lessons | None
    """What a tuning learns from; None where nothing is tuned."""
    notes: Sequence[str]
    """What is to be said of the data."""
    progress: Progress | None

    def holds(self, score: float) -> bool:
        """Whether a score is within the bound, if there is one."""
        metric = self.evaluation.metric
        return self.bound is None or self.bound.holds(
            self.evaluation.reference, score, metric.higher_is_better
        )

    def measured(self, graph: Graph, score: float) -> Graph:
        """A graph of this score, optimized, with a report of its time and size."""
        metric = self.evaluation.metric
        result = settled(graph, self.request.options.level)
        seconds = self.evaluation.seconds_beside_original(graph)
        result.compression = CompressionReport(
            metric.name,
            len(self.evaluation.runs),
            self.evaluation.reference,
            score,
            metric.higher_is_better,
            "" if self.bound is None else str(self.bound),
            is_met=self.holds(score),
            validations=self.evaluation.validations,
            float_seconds=seconds[0],
            seconds=seconds[1],
            weight_bytes_before=totals(
                settled(self.source, self.request.options.level)
            ).weight_bytes,
            weight_bytes=totals(result).weight_bytes,
        )
        return result

    @property
    def tuning(self) -> dict[str, Any]:
        """What all tunings of this call are given by name."""
        return {
            "higher_is_better": self.evaluation.metric.higher_is_better,
            "seed": self.request.seed,
            "threads": self.request.threads,
            "progress": self.progress,
        }

    def with_remaining(self, remaining: Mapping[tuple[str, int], Array]) -> Stages:
        """The same for a graph without channels (see `Lessons.remaining`)."""
        if self.lessons is None:
            return self
        return replace(self, lessons=replace(self.lessons, remaining=remaining))

    def tuned_for_integers(self, graph: Graph, options: TuneOptions) -> tuple[Graph, str]:
        """A graph whose weights learned with all layers rounded to 8 bits, or itself where that is
        no better; and what to say of it.
        """
        if not find_layers(graph):
            return graph, "no layer can be rounded: nothing was tuned for integers"
        assert self.lessons is not None
        assert self.learned is not None
        enter(self.progress, "tune")
        tuned, outcome = tune_for_integers(
            graph,
            self.learned[:CALIBRATION_RUNS],
            self.lessons,
            options,
            self.evaluation.score_once,
            static=self.static,
            **self.tuning,
        )
        note = (
            f"tuned for integers: {outcome.before:.6g} → {outcome.after:.6g} after "
            f"{outcome.epochs} epochs with all layers rounded{drawn(outcome.features)}"
        )
        return (tuned if outcome.best_epoch else graph), note

    @property
    def static(self) -> StaticOptions:
        """How layers are rounded to 8 bits."""
        methods = [each for each in self.request.methods if isinstance(each, Int8)]
        return self.request.settings_of(methods[0]).static if methods else StaticOptions()

    def rounded(self, graph: Graph, methods: tuple[Method, ...], stage: str, hint: str) -> Graph:
        """A graph that `measured` made, compressed by methods within what the bound leaves; its
        report tells it beside the original. `stage` is what the graph is called in candidates and
        errors. ContractError, with the hint, where the bound is broken.
        """
        request, evaluation, first = self.request, self.evaluation, graph.compression
        needs_labels = evaluation.metric.needs_labels
        left = None
        if self.bound is not None and needs_labels:
            left = self.bound.left(first.reference, first.drop)
        result = compress_graph(
            graph,
            replace(
                request,
                methods=methods,
                contract=replace(request.contract, max_drop=left),
                examples=replace(
                    request.examples,
                    inputs=self.examples.learned,
                    labels=self.examples.labels,
                    validation=self.examples.measured,
                ),
            ),
            self.progress,
        )
        report = result.compression
        report.reference, report.score = first.reference, evaluation.score_once(result)
        report.is_met = self.holds(report.score)
        report.max_drop, report.pruning = first.max_drop, first.pruning
        report.float_seconds, report.seconds = evaluation.seconds_beside_original(result)
        report.weight_bytes_before = first.weight_bytes_before
        report.tried = candidates_of_both(first.tried, report, stage, are_comparable=needs_labels)
        report.notes = [*first.notes, *report.notes]
        if not report.is_met:
            raise contract_error(
                f"{report.metric} of {report.reference:.6g} falls to {report.score:.6g}, by more "
                f"than {report.max_drop}, once the {stage} model is rounded",
                result,
                hint,
            )
        return result


@contextmanager
def stages(
    graph: Graph,
    request: Request,
    is_tuned: bool,
    progress: Progress | None,
) -> Iterator[Stages]:
    """The stages of a call; the models that they compiled are closed at the end."""
    asked, drop = request.examples, request.contract.max_drop
    data, labels, validation = asked.inputs, asked.labels, asked.validation
    bound = None if drop is None else Bound.parse(drop)
    metric = metric_for(asked.metric, labels, bound, has_data=data is not None)
    if is_tuned and data is None:
        raise OptionError("tuning needs data to learn from", hint="give some (--data, data=)")
    source = named(graph)
    source.report = None  # What is measured and given away is optimized further.
    if is_tuned and data is not None:
        require_examples(source, data)
    examples = Divided.of(data, labels, validation, is_tuned)
    learned = (
        None if examples.learned is None else feeds_of(source, examples.learned, request.batch)
    )
    runs = examples_of(source, learned, examples.measured, request)
    notes = [] if data is None else sequence_notes(source)
    if examples.measured is not validation:
        notes.append(f"one in {HELD_OUT} examples was not learned from, and tells the score")
    if data is None:
        notes.append("measured on random inputs, which say little")
    with Evaluation(
        source,
        runs,
        metric,
        examples.labels,
        threads=request.threads,
        timer=request.timer,
        progress=progress,
        data=data if validation is None else validation,
    ) as evaluation:
        lessons = examples.lessons(source, metric, request.threads) if is_tuned else None
        yield Stages(
            source, request, bound, evaluation, examples, learned, lessons, notes, progress
        )


def halves(tune: TuneOptions | None, has_integers: bool) -> tuple[TuneOptions | None, ...]:
    """How a graph is tuned in float32, and how for integers afterwards."""
    if tune is None or not has_integers:
        return tune, None
    rate = tune.rate * INTEGERS_RATE
    return tune.part(1 - INTEGERS_PART), replace(tune.part(INTEGERS_PART), rate=rate)


def drawn(features: Sequence[str]) -> str:
    """What to say of the nodes whose values were drawn to the original's."""
    return f", drawn to the original's values of {', '.join(features)}" if features else ""


def contract_error(why: str, result: Graph, hint: str) -> ContractError:
    """The error of a bound that is broken, with the best graph and its report."""
    error = ContractError(why, where="compress", hint=hint)
    error.best, error.report = result, result.compression
    return error
