"""The public verb that makes models smaller: compress.

What it needs is imported when it is called, as in `api`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from infuse.api import PathLike, Progress, bounded, graph_of, optimize
from infuse.errors import OptionError
from infuse.options import CompressOptions, Contract, Examples, Int8, Prune, Rules, Tune
from infuse.options.compiling import Data
from infuse.options.compressing import Methods, methods_of, with_fields
from infuse.options.former import Moved, former, same
from infuse.options.methods import HIDDEN

if TYPE_CHECKING:
    from infuse.ir.graph import Graph

NORMALIZATIONS = (
    "FuseLayerNormalization",
    "FuseFastVariance",
    "FuseRMSNormalization",
    "FuseNormalizationScale",
    "FuseNormalizationShift",
)


def _methods(**fields: Any) -> Methods:
    """Methods of former keywords, each with those that are fields of it."""
    asked, part = fields.pop("methods", None), fields.pop("part", None)
    pruning = {name: fields.pop(name) for name in ("of", "rounds", "kinds") if name in fields}
    if fields.get("block") == "auto":
        fields.pop("block")
    if part is None and pruning:
        named = " and ".join(f"prune_{'goal' if name == 'of' else name}" for name in pruning)
        raise OptionError(
            f"{named}: options of pruning, and nothing is pruned",
            hint="prune, too (--prune 50%, Prune('50%'))",
        )
    prune = None if part is None else Prune(part, **pruning)
    return with_fields(asked, prune, fields)


@former(
    Moved(
        "methods",
        _methods,
        {
            "method": "methods",
            "prune": "part",
            "prune_goal": "of",
            "prune_rounds": "rounds",
            "prune_kinds": "kinds",
            **same("calibrator", "bias_correction", "runtime", "rounded_activations"),
            **same("sparsity", "block"),
        },
        plain="methods",
    ),
    Moved(
        "data", Examples, same("labels", "validation", "metric", "batch", "seed"), plain="inputs"
    ),
    Moved("contract", Contract, same("max_drop", "minutes")),
    Moved(
        "tune",
        Tune.flat,
        {"tune_epochs": "epochs", "tune_minutes": "minutes", "tune_features": "features"},
    ),
    Moved(
        "options", CompressOptions, same("level", "threads", "equalize", "rotate", "allow_slower")
    ),
)
@bounded
def compress(
    graph: Graph | PathLike,
    methods: Methods | None = None,
    *,
    data: Data | Examples | None = None,
    contract: Contract = Contract(),
    tune: Tune | None = None,
    options: CompressOptions = CompressOptions(),
    progress: Progress | None = None,
) -> Graph:
    """A copy of a graph with smaller and faster layers; `.compression` of the result is its report.

    `methods` are objects of `infuse.options`, or names of those with their defaults, one or
    several: Int8 (`int8`: activations and weights as 8-bit integers; ranges of activations from
    data; the default), Int16Activations (the same with activations of 16 bits, for layers that 8
    bits hurt), Int8Dynamic (ranges from each run), Int8Weights, Int4, Int3 or Int2 (weights alone,
    in blocks of 64 or 32 rows; the arithmetic stays in float32), LowRank (layers as chains of
    smaller ones), Clusters (weights of few values, chosen by the bytes of a file that is saved with
    `coded=True`), Sparse or SparseInt8 (the part `sparsity` of the weights of each layer is zero,
    in blocks of output channels × depth: `block` is 16x1, 16x4, 4x1, 1x1 or 2:4, by default 16x1,
    and 16x4 for integers, which kernels leave out), and Prune. Of several methods each layer gets
    one, or none: the plan that is cheapest on this machine for what it changes in the outputs.

    `data` are arrays of examples by input name, a sequence of such, or `Examples` with labels;
    examples lie along the first axis, and run in batches of `batch` where that is a symbol. Ranges
    come from 300 of the runs at most. Scores are measured on `validation`, default: the data,
    beside `labels`, one an example, by `metric`: top1 (default with labels), top5, mse, mae;
    without labels agreement, cosine (default) or sqnr, beside the outputs of the original; or a
    function of the outputs of all runs (a list of arrays by name) and the labels, which is better
    the higher it is.

    `Contract(max_drop=…)` is `"0.5%"` of the original's score, or a number in the unit of the
    score. Where all layers lose more, those that gain little for what they change in the outputs
    stay in float32, as few as bisection finds; ContractError (with the best graph and its report)
    where nothing can be compressed within the bound, or not in its `minutes`. What was measured is
    kept in the cache folder: a second call goes on where the first one ended. Layers that float32
    computes as fast on this machine stay as they are, unless `options` allow slower ones.

    `Prune("50%", of="macs")` removes that part of the multiplications, or of the time of a run
    (latency): channels, heads and neurons that matter least, in so many rounds, before another
    method rounds what is left; without one it stays in float32. With data, channels of hidden sizes
    that normalizations join, and whole residual blocks may go, too, where the outputs then change
    less at the same cost; its `kinds` are those of channels, hidden and blocks that may, with
    commas between them or as a sequence. After each round the smaller graph is tuned on the data
    for as long as `tune` says, all rounds together, by the original's answers, and by the labels
    where they belong to the data; without a validation, one example in five is set apart for the
    score. With a contract, the last round that is within it counts.

    Without pruning, `tune` tunes what one of the methods Int8, LowRank, Sparse and SparseInt8
    makes: weights of low rank and weights that are not zero learn on, and weights that become
    integers learn with activations and weights rounded. Its `features` are the weight of values
    inside (residual sums, or the last activations before sizes change) in what is tuned: how much
    those that the smaller graph has still differ from the original's.

    A graph that was not optimized is optimized at the level of `options` first, and the result at
    that level again: `basic` keeps to standard operators. With `equalize`, scales of channels are
    moved between layers first, where those that read the channels then err less on the data; before
    that, with `rotate`, channels are rotated by orthogonal matrices inside the model. InputError
    where data or labels do not fit, OptionError for options that mean nothing.
    """
    from infuse.compression import (
        Narrowing,
        Request,
        TuneOptions,
        compress_graph,
        narrow_graph,
        tune_graph,
    )
    from infuse.compression.phases import phases_of
    from infuse.passes.run import opened
    from infuse.profiling.progress import Phases, enter

    chosen, pruning = methods_of(methods)
    examples = Examples.of(data)
    if examples.dims and examples.inputs is not None:
        raise OptionError("dims are sizes of random inputs, and data are given")
    if examples.batch is not None and examples.inputs is None:
        raise OptionError(
            "a batch cuts data, and none are given", hint="sizes of random inputs are `dims`"
        )
    request = Request(chosen or (Int8(),), contract, examples, options)
    if progress is not None:
        progress = Phases(progress, phases_of(request, chosen, pruning, tune))
    enter(progress, "optimize")
    source = graph_of(graph)
    if source.report is None:
        is_staged = pruning is not None or tune is not None
        source = optimize(source, "basic" if is_staged else options.level, progress=progress)
        if pruning is not None and HIDDEN in pruning.kinds_for(examples.inputs is not None):
            # Normalizations that are written out become operators, whose scales can be fitted.
            source = optimize(source, Rules("extended", only=NORMALIZATIONS))
    source = opened(source)
    tuning = None if tune is None else TuneOptions(tune.epochs, tune.minutes, tune.features)
    if pruning is not None:
        result = narrow_graph(source, request, Narrowing(pruning, tuning, chosen), progress)
    elif tuning is not None:
        result = tune_graph(source, request, tuning, progress)
    else:
        result = compress_graph(source, request, progress)
    if doubt := result.compression.doubt:
        warnings.warn(doubt, RuntimeWarning, stacklevel=4)
    return result
