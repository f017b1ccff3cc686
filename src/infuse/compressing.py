"""The public verb that makes models smaller: compress.

What it needs is imported when it is called, as in `api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from infuse.api import PathLike, Progress, bounded, graph_of, optimize
from infuse.errors import OptionError

if TYPE_CHECKING:
    from infuse.ir.graph import Graph

NORMALIZATIONS = (
    "FuseLayerNormalization",
    "FuseFastVariance",
    "FuseRMSNormalization",
    "FuseNormalizationScale",
    "FuseNormalizationShift",
)


@bounded
def compress(
    graph: Graph | PathLike,
    method: str | Sequence[str] | None = None,
    *,
    prune: str | float | None = None,
    prune_goal: str = "macs",
    prune_rounds: int = 1,
    prune_kinds: str | Sequence[str] | None = None,
    tune_epochs: int | None = None,
    tune_minutes: float | None = None,
    tune_features: float = 0.0,
    data: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    labels: Any = None,
    validation: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    metric: str | Callable[..., float] | None = None,
    max_drop: str | float | None = None,
    minutes: float | None = None,
    level: str = "all",
    batch: int = 1,
    threads: int | None = None,
    seed: int = 0,
    calibrator: str = "auto",
    bias_correction: bool = True,
    equalize: bool = True,
    rotate: bool = True,
    runtime: str | None = None,
    rounded_activations: bool = False,
    sparsity: str | float = "80%",
    block: str = "auto",
    allow_slower: bool = False,
    progress: Progress | None = None,
) -> Graph:
    """A copy of a graph with smaller and faster layers; `.compression` of the result is its report.

    `method` is int8 (activations and weights as 8-bit integers; ranges of activations from data),
    int16-activations (the same with activations of 16 bits, for layers that 8 bits hurt),
    int8-dynamic (ranges from each run), int8-weights, int4, int3 or int2 (weights alone, in blocks
    of 64 or 32 rows; the arithmetic stays in float32), low-rank (layers as chains of smaller ones),
    clusters (weights of few values, chosen by the bytes of a file that is saved with `coded=True`),
    sparse or sparse-int8 (the part `sparsity` of the weights of each layer is zero, in blocks of
    output channels × depth: `block` is 16x1, 16x4, 4x1, 1x1 or 2:4, by default 16x1, and 16x4 for
    integers, which kernels leave out); int8 where neither it nor `prune` is given. Of several
    methods each layer gets one, or none: the plan that is cheapest on this machine for what it
    changes in the outputs. `data` are arrays of examples by input name, or a sequence of such;
    examples lie along the first axis, and run in batches of `batch` where that is a symbol. Ranges
    come from 300 of the runs at most. Scores are measured on `validation`, default: the data,
    beside `labels`, one an example, by `metric`: top1 (default with labels), top5, mse, mae;
    without labels agreement, cosine (default) or sqnr, beside the outputs of the original; or a
    function of the outputs of all runs (a list of arrays by name) and the labels, which is better
    the higher it is.

    `max_drop` is a contract: `"0.5%"` of the original's score, or a number in the unit of the
    score. Where all layers lose more, those that gain little for what they change in the outputs
    stay in float32, as few as bisection finds; ContractError (with the best graph and its report)
    where nothing can be compressed within the bound, or not in `minutes`. What was measured is kept
    in the cache folder: a second call goes on where the first one ended. Layers that float32
    computes as fast on this machine stay as they are, unless `allow_slower`.

    `prune` is the part of the multiplications (`prune_goal`: macs), or of the time of a run
    (latency), that is to go: channels, heads and neurons that matter least are removed, in so many
    rounds, before the method rounds what is left; without a method it stays in float32. With data,
    channels of hidden sizes that normalizations join, and whole residual blocks may go, too, where
    the outputs then change less at the same cost; `prune_kinds` are those of channels, hidden and
    blocks that may, with commas between them or as a sequence. After each round the smaller graph
    is tuned on the data for `tune_epochs` or `tune_minutes`, all rounds together, by the original's
    answers, and by the labels where they belong to the data; without a validation, one example in
    five is set apart for the score. With a contract, the last round that is within it counts.

    Without `prune`, `tune_epochs` and `tune_minutes` tune what one of the methods int8, low-rank,
    sparse and sparse-int8 makes: weights of low rank and weights that are not zero learn on, and
    weights that become integers learn with activations and weights rounded. `tune_features` is the
    weight of values inside (residual sums, or the last activations before sizes change) in what is
    tuned: how much those that the smaller graph has still differ from the original's.

    A graph that was not optimized is optimized at `level` first, and the result at that level
    again: `basic` keeps to standard operators. `calibrator` is min-max,
    percentile, entropy, mse, or auto: for each activation the one with the least error of the
    layers that read it. With `equalize`, scales of channels are moved between layers first, where
    those that read the channels then err less on the data; before that, with `rotate`, channels
    are rotated by orthogonal matrices inside the model. With `runtime="onnxruntime"`, products
    with weights of 4 bits and fewer become MatMulNBits of com.microsoft; with
    `rounded_activations`, such products round their activations to integers of 8 bits, block by
    block, which is faster. InputError where data or labels do not fit, OptionError for options
    that mean nothing.
    """
    from infuse.compression import (
        BlockOptions,
        MethodOptions,
        Narrowing,
        PruneRequest,
        Request,
        SparseOptions,
        StaticOptions,
        TuneOptions,
        compress_graph,
        narrow_graph,
        tune_graph,
    )
    from infuse.compression.pruning.request import HIDDEN
    from infuse.passes.run import opened

    if runtime not in (None, "onnxruntime"):
        raise OptionError(f"there is no runtime {runtime!r}", hint="onnxruntime, or none")
    is_tuned = tune_epochs is not None or tune_minutes is not None
    request = Request(
        method=method or "int8",
        level=level,
        metric=metric,
        max_drop=max_drop,
        minutes=minutes,
        batch=batch,
        threads=threads,
        seed=seed,
        allow_slower=allow_slower,
        options=MethodOptions(
            StaticOptions(calibrator=calibrator, bias_correction=bias_correction),
            BlockOptions(runtime == "onnxruntime", rounded_activations),
            SparseOptions.parse(str(sparsity), block),
            equalize,
            rotate,
        ),
    )
    pruning = None
    if prune is not None:
        has_data = data is not None
        pruning = PruneRequest.parse(prune, prune_goal, prune_rounds, prune_kinds, has_data)
    elif prune_kinds is not None:
        raise OptionError(
            "kinds say what may be pruned, and nothing is", hint="prune, too (--prune 50%, prune=)"
        )
    source = graph_of(graph)
    if source.report is None:
        is_staged = prune is not None or is_tuned
        source = optimize(source, "basic" if is_staged else level, progress=progress)
        if pruning is not None and HIDDEN in pruning.kinds:
            # Normalizations that are written out become operators, whose scales can be fitted.
            source = optimize(source, "extended", only=NORMALIZATIONS)
    source = opened(source)
    if tune_features and not is_tuned:
        raise OptionError(
            "features say what a tuning learns from, and nothing is tuned",
            hint="tune, too (--tune MINUTES, tune_minutes=)",
        )
    tuning = None
    if is_tuned:
        tuning = TuneOptions(tune_epochs, tune_minutes, features=tune_features)
    if pruning is None and tuning is None:
        return compress_graph(source, request, data, labels, validation, progress)
    if pruning is None:
        assert tuning is not None
        return tune_graph(source, request, tuning, data, labels, validation, progress)
    narrowing = Narrowing(pruning, tuning, method)
    return narrow_graph(source, request, narrowing, data, labels, validation, progress)
