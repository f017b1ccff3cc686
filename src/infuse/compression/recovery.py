"""`compress` with tuning and without pruning: what a method loses in accuracy is learned back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from infuse.analysis.dataset import Data
from infuse.compression.candidates import candidates_of_stage
from infuse.compression.evaluation import settled
from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.report import TUNED
from infuse.compression.sparse import SparseOptions
from infuse.compression.stages import Stages, contract_error, drawn, halves, stages
from infuse.compression.tuning import TuneOptions, tune
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress

IN_FLOATS = {"low-rank": "low-rank", "sparse": "sparse", "sparse-int8": "sparse"}
"""Methods whose layers are weights in float32 that can learn, or become so at first; and which
method makes them.
"""
IN_INTEGERS = ("int8", "sparse-int8")
"""Methods that round activations and weights, which weights can learn to bear."""
HINT = "tune longer (--tune), compress less, or allow more (--max-drop)"


def tune_graph(
    graph: Graph,
    request: Request,
    options: TuneOptions,
    data: Data | None = None,
    labels: Any = None,
    validation: Data | None = None,
    progress: Progress | None = None,
) -> Graph:
    """A compressed and tuned copy of a graph that was optimized to standard operators (see
    `infuse.compress`): weights of low rank and with zeros are tuned once they are such, and weights
    that become integers before.
    """
    method = _tunable(request)
    with stages(graph, request, True, data, labels, validation, progress) as stage:
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
            return stage.rounded(result, method, TUNED, HINT)
    if not report.is_met:
        raise contract_error(
            f"{report.metric} of {report.reference:.6g} falls to {report.score:.6g}, by more than "
            f"{report.max_drop}, after tuning",
            result,
            HINT,
        )
    return result


def _tunable(request: Request) -> str:
    """The method of a request. OptionError where its layers cannot be tuned."""
    tunable = sorted({*IN_FLOATS, *IN_INTEGERS})
    if len(request.methods) > 1 or request.methods[0] not in tunable:
        raise OptionError(
            f"{' and '.join(request.methods)} cannot be tuned",
            hint=f"tune with one of {', '.join(tunable)}, or with prune",
        )
    return request.methods[0]


def _shares(method: str, options: TuneOptions) -> tuple[TuneOptions | None, TuneOptions | None]:
    """How weights in float32 are tuned, and how those that become integers."""
    if method not in IN_FLOATS:
        return None, options
    for_floats, for_integers = halves(options, method in IN_INTEGERS)
    return for_floats, for_integers


def _in_floats(method: str, stage: Stages) -> Graph:
    """The graph with layers in float32 that have zeros or low rank, whatever that costs. Zeros of
    layers that become integers lie as integers want them, and their time is measured later.
    """
    options, becomes_integers = stage.request.options, method in IN_INTEGERS
    if becomes_integers and options.sparse.block == "auto":
        pattern = options.sparse.pattern(has_integers=True)
        block = f"{pattern.columns}x{pattern.rows}"
        options = replace(options, sparse=SparseOptions(options.sparse.sparsity, block))
    request = replace(
        stage.request,
        method=IN_FLOATS[method],
        level="basic",
        max_drop=None,
        options=options,
        allow_slower=stage.request.allow_slower or becomes_integers,
    )
    data, labels = stage.examples.learned, stage.examples.labels
    return compress_graph(
        settled(stage.source, "basic"),
        request,
        data,
        labels,
        stage.examples.measured,
        stage.progress,
    )


def _tuned(graph: Graph, stage: Stages, options: TuneOptions) -> tuple[Graph, str]:
    """The graph with weights that learned, those that are zero excepted; and what to say of it."""
    assert stage.lessons is not None
    tuned, outcome = tune(
        graph, stage.lessons, options, stage.evaluation.score_once, **stage.tuning
    )
    note = (
        f"tuned: {outcome.before:.6g} → {outcome.after:.6g} after {outcome.epochs} epochs "
        f"({outcome.seconds:.1f} s){drawn(outcome.features)}"
    )
    return tuned, note
