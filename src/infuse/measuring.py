"""The public verbs that count, measure and show: inspect, profile, compare, view.

What a verb needs is imported when it is called, as in `api`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuse.api import (
    PathLike,
    Progress,
    bounded,
    compile,
    graph_of,
    load,
    load_compiled,
    optimize,
)
from infuse.errors import OptionError
from infuse.options import CompileOptions, Examples, Rules, Turns
from infuse.options.compiling import Data
from infuse.options.fields import require
from infuse.options.former import Moved, former, same
from infuse.runtime.folder import STAGES, file_sizes, is_compiled, read_metadata
from infuse.runtime.interface import Model, tier_of
from infuse.runtime.shapes import TensorSpec

if TYPE_CHECKING:
    from infuse.doctor.diagnosis import Diagnosis
    from infuse.ir.graph import Graph
    from infuse.profiling import Inspection, ModelComparison, Profile, Side


@former(
    Moved(
        "data", Examples, {"feeds": "inputs", "set_dims": "dims", "seed": "seed"}, plain="inputs"
    ),
    Moved("options", CompileOptions, same("threads", "target", "precision", "tune")),
    Moved("rules", Rules, same("level", "search"), plain="level"),
)
@bounded
def profile(
    model: Graph | PathLike,
    data: Mapping[str, Any] | Examples | None = None,
    options: CompileOptions = CompileOptions(),
    *,
    rules: Rules | str = "all",
    runs: int = 20,
    calibrate: bool = False,
    progress: Progress | None = None,
) -> Profile:
    """Where the time of a model goes: every kernel call, timed in `runs` runs, beside its FLOPs,
    its bytes and the time that this machine needs for them at least.

    The model is compiled with clocks around every call, and kept in the cache as such. `data` are
    inputs by name; random ones are made for the others, of the sizes and the seed that
    `Examples(inputs, dims=…, seed=…)` has. A graph that was not optimized is optimized by `rules`.
    The peaks of the machine are measured once and kept; `calibrate` measures them again. `options`
    are those of `compile`; the precision auto is measured on these inputs where it has none of its
    own. OptionError, InputError, and what `compile` raises.
    """
    from infuse.profiling import complete_feeds, profile_graph

    require("runs", runs, int)
    source, examples = graph_of(model), Examples.of(data)
    examples.require_no("profile", "labels", "metric", "batch", "validation")
    if examples.inputs is not None and not isinstance(examples.inputs, Mapping):
        raise OptionError("a profile has the inputs of one run", hint="give arrays by input name")
    inputs = complete_feeds(source, examples.inputs or {}, examples.sizes, examples.seed)
    auto = options.auto
    if auto is not None and auto.data is None:
        options = replace(options, precision=replace(auto, data=inputs))
    if source.report is None:
        source = optimize(source, rules, progress=progress)
    return profile_graph(source, inputs, options, runs=runs, calibrate=calibrate, progress=progress)


def _compared_examples(**fields: Any) -> Examples:
    """Examples of former keywords, which could describe random inputs beside data."""
    if "inputs" in fields:
        fields = {name: value for name, value in fields.items() if name not in ("dims", "seed")}
    return Examples(**fields)


@former(
    Moved("data", Examples, {"set_dims": "dims"}),
    Moved("options", CompileOptions, same("threads", "target")),
    Moved("rules", Rules, same("level"), plain="level"),
)
@bounded
def inspect(
    model: Graph | PathLike,
    data: Examples = Examples(),
    options: CompileOptions = CompileOptions(),
    *,
    rules: Rules | str = "none",
    calibrate: bool = False,
    progress: Progress | None = None,
) -> Inspection:
    """Parameters, FLOPs, MACs, memory access and arithmetic intensity of a model, per layer, per
    kind of operator and in total, and the time that this machine needs for each at least (its
    roof).

    The graph is counted as it is, or as it is after an optimization by `rules`; every layer reads
    its operands and writes its results, quantized weights as they are stored. Dynamic axes have
    the sizes of `Examples(dims=…)`, the others usual ones. The roof is that of `threads` threads
    (default: what this process may use) and of `target`, which are all that counts of `options`; it
    is measured once and kept, and `calibrate` measures it again. Nothing of the model is compiled.
    OptionError for an unknown level, target or axis, and for options without use.
    """
    from infuse.profiling import inspect_graph, measure_roof, runnable_target
    from infuse.runtime.cpus import available_cpus, usable_threads

    data.require_only("inspect", "dims")
    options.require_only("inspect", "threads", "target")
    chosen, threads = Rules.of(rules), options.threads
    resolved = runnable_target(options.target)
    count = available_cpus() if threads is None else usable_threads(threads)
    graph = graph_of(model)
    if chosen != Rules("none"):
        graph = optimize(graph, chosen, progress=progress)
    roof = measure_roof(resolved, count, again=calibrate)
    return inspect_graph(graph, roof, data.sizes, chosen.level)


@bounded
def view(
    model: Graph | PathLike,
    path: PathLike,
    *,
    set_dims: Mapping[str, int] | None = None,
    title: str | None = None,
) -> None:
    """Write the graph of a model as one page that loads nothing (.html), or its data (.json): nodes
    with attributes, operands, costs and bodies, and constants with statistics.

    Costs are counted with the sizes of `set_dims`, usual ones for the other symbols. The title is
    the name of the file or graph where none is given. OptionError for another ending, a path that
    cannot be written, and an unknown symbol; what `load` raises.
    """
    from infuse.analysis.document import report_format
    from infuse.analysis.view import write_view
    from infuse.ir.graph import Graph

    require("title", title, str | None)
    require("path", path, str | os.PathLike, "a path")
    report_format(path)
    name = model.name if isinstance(model, Graph) else Path(model).name
    write_view(path, graph_of(model), set_dims, title or name)


@former(
    Moved(
        "data",
        _compared_examples,
        {**same("labels", "metric", "batch", "seed"), "set_dims": "dims"},
        plain="inputs",
    ),
    Moved("options", CompileOptions, same("threads")),
    Moved("rules", Rules, same("level"), plain="level"),
    Moved("turns", Turns, same("rounds", "seconds")),
)
@bounded
def compare(
    a: Graph | PathLike,
    b: Graph | PathLike,
    data: Data | Examples | None = None,
    options: CompileOptions = CompileOptions(),
    *,
    rules: Rules | str = "all",
    turns: Turns = Turns(),
    layers: bool = True,
    progress: Progress | None = None,
) -> ModelComparison:
    """Two models side by side: graphs, model files or folders of compiled models.

    `data` are arrays of examples by input name, along the first axis, or a sequence of such: they
    are cut into runs of as many rows as the models take, or of `Examples(…, batch=…)` (default 1)
    where that is dynamic. Without data, both get the same random inputs, of the sizes and the seed
    that `Examples(dims=…, seed=…)` has. Every output of B is compared with A's. With
    `Examples(…, labels=…)`, both get the score of its `metric` (`infuse.data.metrics`: a name
    such as `top1`, `top1:output` or `mse`, or a function of the outputs of all runs and the labels;
    default: top1 for numbers of classes, else mse); a metric that needs no labels scores B beside
    A.

    The models take `turns` on the first inputs. With `layers`, inner values of the same name, or of
    nodes of the same name, are compared as well, on the first 16 runs; both graphs are compiled
    with these as further outputs, for `options`. Graphs are optimized by `rules`. InputError where
    the models do not take the same inputs, have no output in common, or data or labels do not fit;
    OptionError for an unknown metric, and what `compile` raises.
    """
    from infuse.profiling import compare_sides

    examples = Examples.of(data)
    examples.require_no(
        "compare", "validation", *([] if examples.inputs is None else ["dims", "seed"])
    )

    def build(graph: Graph) -> Model:
        return compile(optimize(graph, rules, progress=progress), options, progress=progress)

    with ExitStack() as opened:
        first, second = (_side(each, build, options.threads) for each in (a, b))
        for side in (first, second):
            opened.callback(side.close)
        return compare_sides(
            first, second, build, examples, turns, layers=layers, progress=progress
        )


@bounded
def diagnose(model: PathLike, runtimes: Sequence[str] | str | None = None) -> Diagnosis:
    """What a model file shows of the known faults of its exporter, and of these runtimes and tools
    (`onnxruntime`, or a version of it as in `onnxruntime==1.32.0`; `infuse doctor --list` names
    all; None: the usual ones of the format): nodes, lines of source, what comes instead of the
    right numbers.

    `.faults` change results for ordinary numbers, `.notes` for special ones alone; `.repaired()` is
    the graph in which calls that the exporter got wrong mean what the framework computes.
    OptionError for a runtime that is not in the table, and what `load` raises.
    """
    from infuse.doctor.diagnosis import diagnose as examined

    return examined(model, [runtimes] if isinstance(runtimes, str) else runtimes)


def _side(model: Graph | PathLike, build: Callable[[Graph], Model], threads: int | None) -> Side:
    """A model of a comparison, which `build` compiles when it is to run."""
    from infuse.frontends.formats import model_files
    from infuse.ir.graph import Graph
    from infuse.profiling import Side

    if isinstance(model, Graph):
        return Side(model.name, partial(build, model), model, None)
    path = Path(model)
    size = sum(file.stat().st_size for file in model_files(path)) if path.exists() else None
    if is_compiled(path):
        return Side(path.name, partial(load_compiled, path, threads), None, size)
    graph = load(path)
    return Side(path.name, partial(build, graph), graph, size)


def describe_folder(folder: Path) -> dict[str, Any]:
    """What a compiled model says of itself, on any machine, and its files. CompiledModelError for
    another folder.
    """
    if (folder / STAGES).is_file():
        with load_compiled(folder) as model:
            inputs, outputs = list(model.inputs), list(model.outputs)
            metadata = {**model.metadata, "tier": model.tier}
    else:
        metadata = read_metadata(folder)
        metadata["tier"] = tier_of(metadata)
        inputs, outputs = (
            list(map(TensorSpec.from_metadata, metadata[kind])) for kind in ("inputs", "outputs")
        )
    metadata |= {"inputs": list(map(str, inputs)), "outputs": list(map(str, outputs))}
    facts = dict.fromkeys(
        ("name", "inputs", "outputs", "target", "machine", "precision", "precision_report")
    )
    facts |= {"arena": None, "kept_in_fp32": {}, "host_steps": [], "toolchain": None, "model": {}}
    facts |= {"rows": None, "weights": None, "tier": None, "limited_kernels": {}}
    facts |= {name: metadata[name] for name in facts if name in metadata}
    return {**facts, "files": file_sizes(folder)}


__all__ = ["compare", "diagnose", "inspect", "profile"]
