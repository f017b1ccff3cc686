"""`compress` with tuning and without pruning: what a method loses in accuracy is learned back."""

from __future__ import annotations

from dataclasses import replace

from infuse.compression.candidates import candidates_of_stage
from infuse.compression.evaluation import settled
from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.report import TUNED
from infuse.compression.stages import Stages, contract_error, drawn, halves, stages
from infuse.compression.tuning import TuneOptions, tune
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.options.methods import METHODS, Method
from infuse.profiling.progress import Progress, enter

HINT = "tune longer (--tune), compress less, or allow more (--max-drop)"


def tune_graph(
    graph: Graph,
    request: Request,
    options: TuneOptions,
    progress: Progress | None = None,
) -> Graph:
    """A compressed and tuned copy of a graph that was optimized to standard operators (see
    `infuse.compress`): weights of low rank and with zeros are tuned once they are such, and weights
    that become integers before.
    """
    method = _tunable(request)
    with stages(graph, request, True, progress) as stage:
        for_floats, for_integers = _shares(method, options)
        small, notes = stage.source, list(stage.notes)
        layers = []
        if for_floats is not None:
            first = _in_floats(method, stage)
            layers = first.compression.layers
            small, note = _tuned(first, stage, for_floats)
            notes.append(note)
        if for_integers is not None:
            small, note = stage.tuned_for_integers(small, for_integers)
            notes.append(note)
        result = stage.measured(small, stage.evaluation.score_once(small))
        report = result.compression
        report.layers, report.notes = layers, notes
        report.tried = candidates_of_stage(report, TUNED)
        if for_integers is not None:
            return stage.rounded(result, (method,), TUNED, HINT)
    if not report.is_met:
        raise contract_error(
            f"{report.metric} of {report.reference:.6g} falls to {report.score:.6g}, by more than "
            f"{report.max_drop}, after tuning",
            result,
            HINT,
        )
    return result


def _tunable(request: Request) -> Method:
    """The method of a request. OptionError where its layers cannot be tuned."""
    first, *others = request.methods
    if others or (first.in_floats is None and not first.learns_rounding):
        names = " and ".join(method.name for method in request.methods)
        tunable = sorted(
            name
            for name, kind in METHODS.items()
            if kind.learns_rounding or kind().in_floats is not None
        )
        raise OptionError(
            f"{names} cannot be tuned", hint=f"tune with one of {', '.join(tunable)}, or with prune"
        )
    return first


def _shares(method: Method, options: TuneOptions) -> tuple[TuneOptions | None, TuneOptions | None]:
    """How weights in float32 are tuned, and how those that become integers."""
    if method.in_floats is None:
        return None, options
    for_floats, for_integers = halves(options, method.learns_rounding)
    return for_floats, for_integers


def _in_floats(method: Method, stage: Stages) -> Graph:
    """The graph with layers in float32 that have zeros or low rank, whatever that costs. Zeros of
    layers that become integers lie as integers want them, and their time is measured later.
    """
    options, examples = stage.request.options, stage.request.examples
    assert method.in_floats is not None
    request = replace(
        stage.request,
        methods=(method.in_floats,),
        contract=replace(stage.request.contract, max_drop=None),
        examples=replace(
            examples,
            inputs=stage.examples.learned,
            labels=stage.examples.labels,
            validation=stage.examples.measured,
        ),
        options=replace(
            options, level="basic", allow_slower=options.allow_slower or method.learns_rounding
        ),
    )
    return compress_graph(settled(stage.source, "basic"), request, stage.progress)


def _tuned(graph: Graph, stage: Stages, options: TuneOptions) -> tuple[Graph, str]:
    """The graph with weights that learned, those that are zero excepted; and what to say of it."""
    assert stage.lessons is not None
    enter(stage.progress, "tune")
    tuned, outcome = tune(
        graph, stage.lessons, options, stage.evaluation.score_once, **stage.tuning
    )
    note = (
        f"tuned: {outcome.before:.6g} → {outcome.after:.6g} after {outcome.epochs} epochs "
        f"({outcome.seconds:.1f} s){drawn(outcome.features)}"
    )
    return tuned, note
