"""`compress` with pruning and tuning: what makes networks narrower comes before what rounds
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from infuse.analysis.cost import totals
from infuse.analysis.dataset import Data, Feeds, feeds_of
from infuse.analysis.metrics import Metric
from infuse.compression.candidates import candidates_of_both, candidates_of_pruned
from infuse.compression.contract import Bound, Deadline
from infuse.compression.evaluation import Evaluation, settled
from infuse.compression.layers import find_layers
from infuse.compression.methods import CALIBRATION_RUNS
from infuse.compression.pipeline import Request, compress_graph, examples_of, metric_for, named
from infuse.compression.pruning.search import Pruner, PruneRequest
from infuse.compression.report import CompressionReport
from infuse.compression.rounding_aware import tune_for_integers
from infuse.compression.tuning import Lessons, TuneOptions
from infuse.errors import ContractError, OptionError
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress

INTEGERS_PART, INTEGERS_RATE = 0.25, 0.3
"""The part of the time of a tuning in which weights learn with the rounding that comes, and that of
the rate.
"""
HELD_OUT = 5
"""One in so many examples is not learned from where there is no validation, and tells the score."""
CLASS_METRICS = ("top1", "top5", "agreement")


@dataclass(frozen=True)
class Narrowing:
    """How a graph becomes narrower, what tunes it, and by which methods it is rounded afterwards
    (None: it stays in float32).
    """

    prune: PruneRequest
    tune: TuneOptions | None = None
    method: str | Sequence[str] | None = None


@dataclass(frozen=True)
class _Examples:
    """Data to learn from and data that tell the score, each with labels where there are some."""

    learned: Data | None
    learned_labels: Any
    measured: Data | None
    labels: Any


def narrow_graph(
    graph: Graph,
    request: Request,
    narrowing: Narrowing,
    data: Data | None = None,
    labels: Any = None,
    validation: Data | None = None,
    progress: Progress | None = None,
) -> Graph:
    """A narrower copy of a graph that was optimized to standard operators (see
    `infuse.compress`).
    """
    bound = None if request.max_drop is None else Bound.parse(request.max_drop)
    deadline = Deadline(request.minutes)
    metric = metric_for(request.metric, labels, bound, has_data=data is not None)
    if narrowing.tune is not None and data is None:
        raise OptionError("tuning needs data to learn from", hint="give some (--data, data=)")
    source = named(graph)
    source.report = None  # What is measured and given away is optimized further.
    examples = _divided(data, labels, validation, is_tuned=narrowing.tune is not None)
    learned = (
        None if examples.learned is None else feeds_of(source, examples.learned, request.batch)
    )
    runs = examples_of(source, learned, examples.measured, request)
    with Evaluation(
        source,
        runs,
        metric,
        examples.labels,
        threads=request.threads,
        timer=request.timer,
        progress=progress,
    ) as evaluation:
        lessons = _lessons(source, examples, narrowing, metric, request.threads)
        for_floats, for_integers = _tunings(narrowing)
        pruner = Pruner(
            source,
            narrowing.prune,
            evaluation,
            bound,
            deadline,
            lessons=lessons,
            tuning=for_floats,
            seed=request.seed,
            progress=progress,
        )
        narrow, score = pruner.run()
        result = _finished(narrow, source, pruner, evaluation, request, score, bound)
        if examples.measured is not validation:
            result.compression.notes.append(
                f"one in {HELD_OUT} examples was not learned from, and tells the score"
            )
        if data is None:
            result.compression.notes.append("measured on random inputs, which say little")
        _require_narrower(result, pruner, bound)
        if not narrowing.method:
            return result
        if for_integers is not None and lessons is not None and learned is not None:
            result = _tuned_for_integers(
                *(narrow, result, evaluation, lessons, for_integers, learned, request, progress)
            )
        return _rounded(*(result, request, narrowing.method, examples, evaluation, bound, progress))


def _tunings(narrowing: Narrowing) -> tuple[TuneOptions | None, TuneOptions | None]:
    """How the narrower graph is tuned in float32, and how for integers afterwards."""
    tune, methods = narrowing.tune, narrowing.method or ()
    if tune is None or "int8" not in ((methods,) if isinstance(methods, str) else methods):
        return tune, None
    rate = tune.rate * INTEGERS_RATE
    return tune.part(1 - INTEGERS_PART), replace(tune.part(INTEGERS_PART), rate=rate)


def _tuned_for_integers(
    narrow: Graph,
    result: Graph,
    evaluation: Evaluation,
    lessons: Lessons,
    options: TuneOptions,
    learned: Sequence[Feeds],
    request: Request,
    progress: Progress | None,
) -> Graph:
    """The narrow graph, tuned with activations and weights rounded; `result` is what it was before,
    and has its report.
    """
    report = result.compression
    if not find_layers(narrow):
        return result
    tuned, outcome = tune_for_integers(
        narrow,
        learned[:CALIBRATION_RUNS],
        lessons,
        options,
        evaluation.score_once,
        static=request.options.static,
        higher_is_better=evaluation.metric.higher_is_better,
        seed=request.seed,
        threads=request.threads,
        progress=progress,
    )
    report.notes.append(
        f"tuned for integers: {outcome.before:.6g} → {outcome.after:.6g} after {outcome.epochs} "
        "epochs with all layers rounded"
    )
    if not outcome.best_epoch:
        return result
    graph = settled(tuned, request.level)
    graph.compression = report
    return graph


# -- data ------------------------------------------------------------------------------------------


def _divided(data: Data | None, labels: Any, validation: Data | None, is_tuned: bool) -> _Examples:
    """What is learned from, and what tells the score: where a graph is tuned, never the same."""
    if not is_tuned or data is None:
        return _Examples(data, None, validation, labels)
    arrays = _joined(data)
    if validation is not None:
        return _Examples(arrays, None, validation, labels)
    count = max((len(array) for array in arrays.values() if array.ndim), default=0)
    if count < HELD_OUT:
        raise OptionError(
            f"{count} examples are too few to tune a model and to measure it",
            hint="give more, or a validation (--validation, validation=)",
        )
    held = np.arange(count) % HELD_OUT == HELD_OUT - 1

    def part(which: np.ndarray) -> dict[str, Any]:
        return {
            name: array[which] if array.ndim and len(array) == count else array
            for name, array in arrays.items()
        }

    if labels is None or len(np.asarray(labels)) != count:
        return _Examples(part(~held), None, part(held), labels)
    own = np.asarray(labels)
    return _Examples(part(~held), own[~held], part(held), own[held])


def _joined(data: Data) -> dict[str, Any]:
    """The examples of all parts as one array for each input."""
    parts = [data] if isinstance(data, Mapping) else list(data)
    arrays = [{name: np.asarray(array) for name, array in part.items()} for part in parts]
    shapes = [{name: array.shape[1:] for name, array in part.items()} for part in arrays]
    if not arrays or any(part != shapes[0] for part in shapes):
        raise OptionError(
            "tuning needs examples of the same size in all parts of the data",
            hint="bring them to one size",
        )
    return {name: np.concatenate([part[name] for part in arrays]) for name in arrays[0]}


def _lessons(
    source: Graph, examples: _Examples, narrowing: Narrowing, metric: Metric, threads: int | None
) -> Lessons | None:
    if narrowing.tune is None:
        return None
    assert isinstance(examples.learned, Mapping)
    tells_classes = metric.name.split(":")[0] in CLASS_METRICS
    labels = examples.learned_labels if tells_classes else None
    return Lessons.of(source, examples.learned, labels, tells_classes, threads)


# -- reports ---------------------------------------------------------------------------------------


def _finished(
    narrow: Graph,
    source: Graph,
    pruner: Pruner,
    evaluation: Evaluation,
    request: Request,
    score: float,
    bound: Bound | None,
) -> Graph:
    """The narrow graph, optimized, with its report."""
    metric = evaluation.metric
    result = settled(narrow, request.level)
    before, after = totals(settled(source, request.level)), totals(result)
    seconds = evaluation.seconds_beside_original(narrow)
    report = CompressionReport(
        metric.name,
        len(evaluation.runs),
        evaluation.reference,
        score,
        metric.higher_is_better,
        "" if bound is None else str(bound),
        validations=evaluation.validations,
        float_seconds=seconds[0],
        seconds=seconds[1],
        weight_bytes_before=before.weight_bytes,
        weight_bytes=after.weight_bytes,
        notes=pruner.notes,
        pruning=pruner.report,
    )
    report.is_met = _is_met(bound, evaluation, score)
    if report.seconds >= report.float_seconds:
        report.notes.append("the narrower model is no faster on this machine")
    is_narrower = pruner.report.macs < pruner.report.macs_before
    report.tried = candidates_of_pruned(report, is_narrower)
    result.compression = report
    return result


def _is_met(bound: Bound | None, evaluation: Evaluation, score: float) -> bool:
    metric = evaluation.metric
    return bound is None or bound.holds(evaluation.reference, score, metric.higher_is_better)


def _require_narrower(result: Graph, pruner: Pruner, bound: Bound | None) -> None:
    """ContractError where there is a bound, and no round was within it."""
    pruning = pruner.report
    if bound is None or pruning.macs < pruning.macs_before:
        return
    report = result.compression
    tried = ", ".join(f"{each['macs'] / 1e6:.2f}: {each['after']:.6g}" for each in pruning.rounds)
    why = (
        f"{report.metric} of {report.reference:.6g} falls by more than {bound} in every round "
        f"(million MACs, and the score: {tried})"
        if pruning.rounds
        else "nothing can be removed: " + "; ".join(pruner.notes)
    )
    raise _contract_error(why, result)


def _contract_error(why: str, result: Graph) -> ContractError:
    error = ContractError(
        why,
        where="compress",
        hint="prune less (--prune), tune longer (--tune), or allow more (--max-drop)",
    )
    error.best, error.report = result, result.compression
    return error


def _rounded(
    narrow: Graph,
    request: Request,
    method: str | Sequence[str],
    examples: _Examples,
    evaluation: Evaluation,
    bound: Bound | None,
    progress: Progress | None,
) -> Graph:
    """The narrow graph compressed by a method, within what the bound leaves; its report tells it
    beside the original.
    """
    pruned = narrow.compression
    needs_labels = evaluation.metric.needs_labels
    left = None if bound is None or not needs_labels else bound.left(pruned.reference, pruned.drop)
    result = compress_graph(
        narrow,
        replace(request, method=method, max_drop=left),
        examples.learned,
        examples.labels,
        examples.measured,
        progress,
    )
    report = result.compression
    report.reference, report.score = pruned.reference, evaluation.score_once(result)
    report.is_met = _is_met(bound, evaluation, report.score)
    report.max_drop, report.pruning = pruned.max_drop, pruned.pruning
    report.float_seconds, report.seconds = evaluation.seconds_beside_original(result)
    report.weight_bytes_before = pruned.weight_bytes_before
    report.tried = candidates_of_both(pruned.tried, report, are_comparable=needs_labels)
    report.notes = [*pruned.notes, *report.notes]
    if not report.is_met:
        raise _contract_error(
            f"{report.metric} of {report.reference:.6g} falls to {report.score:.6g}, by more than "
            f"{report.max_drop}, once the pruned model is rounded",
            result,
        )
    return result
