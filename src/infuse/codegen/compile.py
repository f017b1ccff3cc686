"""From an optimized graph to a compiled model."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import infuse.codegen.lower  # noqa: F401  registers the lowerings
from infuse.codegen.autotune.measurement import tuned
from infuse.codegen.autotune.precision import (
    AnyPrecision,
    AutoPrecision,
    Built,
    PrecisionReport,
    search_precision,
)
from infuse.codegen.autotune.selector import Chooser, WeightChoice, weight_choice
from infuse.codegen.build import build
from infuse.codegen.expand import expand
from infuse.codegen.expand.sequences import flatten
from infuse.codegen.interface import PREFIX, check_prefix
from infuse.codegen.labels import separate_labels
from infuse.codegen.lowering import lower
from infuse.codegen.memory import Plan, plan
from infuse.codegen.precisions import LayerPrecisions, Precision
from infuse.codegen.program import Program
from infuse.codegen.ranks import list_outputs, unranked_results
from infuse.codegen.source import metadata, print_sources
from infuse.codegen.stages import Stage, make_outputs, must_be_hosted, split
from infuse.codegen.tensors import is_native_type
from infuse.codegen.toolchain import Toolchain
from infuse.codegen.units import all_sizes
from infuse.errors import OptionError, UnsupportedOperatorError
from infuse.ir.clone import clone
from infuse.ir.description import description_of
from infuse.ir.dim_text import NAMELESS
from infuse.ir.graph import Graph, Node
from infuse.ops.core.opaque import require_known
from infuse.ops.core.rows import independent_rows
from infuse.runtime.cpus import available_cpus
from infuse.runtime.foreign import ForeignModel
from infuse.runtime.hosted import HostedModel, ValueSpec
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel
from infuse.targets import Target

Progress = Callable[[str, int, int], None]


def generate(
    graph: Graph,
    target: Target,
    threads: int = 1,
    precision: Precision = "fp32",
    chooser: Chooser | None = None,
) -> tuple[Program, Plan]:
    """The program of a graph for a target, a number of threads and a precision, and its memory
    plan.

    `chooser` decides where several kernels compute the same (default: the cost model).
    """
    program = lower_graph(graph, target, threads, precision, chooser)
    return program, plan(program)


def lower_graph(
    graph: Graph,
    target: Target,
    threads: int = 1,
    precision: Precision = "fp32",
    chooser: Chooser | None = None,
) -> Program:
    """The program of a graph (see `generate`), without a memory plan."""
    name = graph.name or "model"
    listed, sizes = list_outputs(graph)
    expanded, relied = expand(listed, target.machine)
    program = lower(expanded, name, target.machine, threads, precision, chooser, relied)
    program.sizes_of = sizes
    program.names = _shared_names(graph, program.symbols)
    return program


def _shared_names(graph: Graph, symbols: Sequence[str]) -> dict[str, str]:
    """What the file calls symbols of which it calls others the same."""
    texts = json.loads(graph.metadata.get("onnx.sizes", "{}"))
    names = {symbol: texts.get(symbol, symbol) for symbol in symbols}
    counts = Counter(names.values())
    return {
        symbol: name
        for symbol, name in names.items()
        if counts[name] > 1 and name and name not in NAMELESS
    }


def compile_graph(
    graph: Graph,
    *,
    target: str = "native",
    threads: int | None = None,
    precision: AnyPrecision = "fp32",
    tune: bool = False,
    output: str | os.PathLike[str] | None = None,
    prefix: str = PREFIX,
    progress: Progress | None = None,
    weights: str = "fast",
) -> Model:
    """Compile `graph` (see `infuse.compile`)."""
    require_known(graph)
    check_prefix(prefix)
    resolved, preferred = Target.resolve(target), weight_choice(weights)
    count = threads or available_cpus()
    rows = independent_rows(graph).to_dict()
    graph, precisions, report = chosen_precision(
        graph, resolved, count, precision, tune=tune, progress=progress, weights=preferred
    )
    stages = stages_of(
        graph, resolved, count, precisions, tune=tune, progress=progress, weights=preferred
    )
    build = partial(
        build_program,
        target=resolved,
        precision=precisions,
        report=report,
        description=description_of(graph),
        rows=rows,
        progress=progress,
        weights=preferred,
    )
    if resolved.is_foreign:
        generated = _foreign(stages, resolved, output)
        return ForeignModel(build(generated, output=output, prefix=prefix), count)
    return _model(graph, stages, build, count, output, prefix, rows)


def chosen_precision(
    graph: Graph,
    target: Target,
    threads: int,
    precision: AnyPrecision,
    *,
    tune: bool = False,
    progress: Progress | None = None,
    weights: WeightChoice = "fast",
) -> tuple[Graph, Precision, PrecisionReport | None]:
    """The precision to compile a graph in, and the graph whose nodes it means; with the report of
    the search where one was asked for (`autotune/precision/search.py`).
    """
    if not isinstance(precision, AutoPrecision):
        return graph, precision, None
    graph = separate_labels(flatten(graph))

    def build(precisions: LayerPrecisions) -> Built:
        stages = stages_of(
            graph, target, threads, precisions, tune=tune, progress=progress, weights=weights
        )
        program = partial(
            build_program, target=target, precision=precisions, progress=progress, weights=weights
        )
        return Built(_model(graph, stages, program, threads), stages.layers)

    return graph, *search_precision(graph, precision, target, build, tune=tune, progress=progress)


def _model(
    graph: Graph,
    stages: Stages,
    build: Callable[..., Path],
    threads: int,
    output: str | os.PathLike[str] | None = None,
    prefix: str = PREFIX,
    rows: Mapping[str, Any] | None = None,
) -> Model:
    """The model of a graph for this machine; `build` makes the folder of a program."""
    if stages.whole is not None and all(is_native_type(v.type) for v in graph.inputs):
        folder = build(stages.whole, output=output, prefix=prefix)
        return CompiledModel.load(folder, threads=threads)
    if prefix != PREFIX:
        names = (
            ", ".join(f"{node.kind} {node.name!r}" for node in stages.host_nodes)
            or "inputs that are not tensors"
        )
        raise OptionError(
            f"the model has no C interface, whose functions could have the prefix {prefix!r}: "
            "Python runs a part of it "
            f"({names})",
            hint="leave the prefix out",
        )
    parts = [
        part if isinstance(part, Graph) else CompiledModel.load(build(part), threads=threads)
        for part in stages.parts
    ]
    inputs = tuple(ValueSpec.of(v.name, v.type, v.default is not None) for v in graph.inputs)
    outputs = tuple(ValueSpec.of(n, v.type) for n, v in zip(graph.output_names, graph.outputs))
    returned = tuple(stages.returned)
    model = HostedModel(
        graph.name, inputs, outputs, returned, parts, threads, description_of(graph), rows or {}
    )
    if output is not None:
        model.save(output)
    return model


def _foreign(
    stages: Stages, target: Target, output: str | os.PathLike[str] | None
) -> tuple[Program, Plan]:
    """The program of a model for another machine; OptionError where it cannot be had alone or has
    nowhere to go.
    """
    if output is None:
        raise OptionError(
            f"a model for {target.architecture} does not run on this machine",
            hint="name a folder for it (output=, -o), and load that there",
        )
    if stages.whole is None:
        names = ", ".join(f"{node.kind} {node.name!r}" for node in stages.host_nodes)
        raise OptionError(
            "the interpreter has to run a part of the model, which another machine cannot be "
            f"given: {names}",
            hint="compile it on the machine where it is to run",
        )
    return stages.whole


@dataclass
class Stages:
    """A graph on its way to code: programs with their plans, and between them what the interpreter
    runs.

    `returned` are the names that the outputs of the whole have among those of the stages.
    """

    parts: list[tuple[Program, Plan] | Graph]
    returned: list[str]

    @property
    def whole(self) -> tuple[Program, Plan] | None:
        """The program, where it is the only stage."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], tuple) else None

    @property
    def programs(self) -> list[Program]:
        """All programs, those of bodies too."""
        outer = [part[0] for part in self.parts if isinstance(part, tuple)]
        return [inner for program in outer for inner in (program, *program.bodies)]

    @property
    def layers(self) -> dict[int, str]:
        """Precisions of the layers that do not compute in fp32, by serial number of their node."""
        return {
            serial: name for program in self.programs for serial, name in program.layers.items()
        }

    @property
    def host_nodes(self) -> list[Node]:
        """What the interpreter runs."""
        return [node for part in self.parts if isinstance(part, Graph) for node in part.nodes]


def stages_of(
    graph: Graph,
    target: Target,
    threads: int = 1,
    precision: Precision = "fp32",
    *,
    tune: bool = False,
    progress: Progress | None = None,
    weights: WeightChoice = "fast",
) -> Stages:
    """The stages of a graph: the interpreter gets the nodes that have no native code.

    Where several kernels compute the same, the cost model chooses; with `tune`, measuring does
    (`tuning.tuned`); with small `weights`, only among those that keep no larger copies of weights.
    OptionError where the target does not compute in this precision, or this machine cannot measure
    for it.
    """
    precisions = LayerPrecisions.of(precision)
    precisions.check(target)
    graph = separate_labels(flatten(graph))
    chooser = Chooser(target.machine, threads, compact=weights == "small")
    if tune:

        def tuned_for(name: str) -> Chooser:
            def lowered(trial: Chooser) -> list[Program]:
                return _stages(graph, target, threads, name, trial).programs

            return tuned(lowered, chooser, target, name, progress=progress)

        chooser = chooser.apart({name: tuned_for(name) for name in precisions.names})
    return _stages(graph, target, threads, precisions, chooser)


def _stages(
    graph: Graph, target: Target, threads: int, precision: Precision, chooser: Chooser
) -> Stages:
    if any(v.producer is None and not is_native_type(v.type) for v in graph.outputs):
        make_outputs(graph := clone(graph))
    unranked = unranked_results(graph)
    hosted = {node.serial for node in graph.nodes if must_be_hosted(node, unranked)}
    others = any(not is_native_type(v.type) for v in graph.inputs)
    while True:
        stages, returned = [Stage(graph, False)], list(graph.output_names)
        if hosted or others:
            copy = clone(graph)
            stages, returned = split(copy, {node for node in copy.nodes if node.serial in hosted})
        try:
            parts = [
                s.graph if s.is_host else generate(s.graph, target, threads, precision, chooser)
                for s in stages
            ]
            return Stages(parts, returned)
        except UnsupportedOperatorError as error:
            if error.serial is None or error.serial in hosted:
                raise
            hosted.add(error.serial)


def compile_program(
    generated: tuple[Program, Plan],
    target: Target,
    threads: int | None,
    *,
    precision: Precision = "fp32",
    output: str | os.PathLike[str] | None = None,
    prefix: str = PREFIX,
    progress: Progress | None = None,
    profile: bool = False,
) -> CompiledModel:
    """Compile one program and load it; with `profile`, its sessions tell when every step ran
    (`Session.records`).
    """
    folder = build_program(
        generated,
        target,
        precision=precision,
        output=output,
        prefix=prefix,
        progress=progress,
        profile=profile,
    )
    return CompiledModel.load(folder, threads=threads)


def build_program(
    generated: tuple[Program, Plan],
    target: Target,
    *,
    precision: Precision = "fp32",
    output: str | os.PathLike[str] | None = None,
    prefix: str = PREFIX,
    progress: Progress | None = None,
    profile: bool = False,
    toolchain: Toolchain | None = None,
    report: PrecisionReport | None = None,
    description: Mapping[str, Any] | None = None,
    rows: Mapping[str, Any] | None = None,
    weights: WeightChoice = "fast",
) -> Path:
    """The folder of one program, compiled; its metadata has the `report` of how its precision was
    found, the `description` of the model (`description_of`), what is proven of the `rows` of its
    batches (`RowReport`), and what its kernels were chosen for.
    """
    program, memory = generated
    fingerprint = program.weights.fingerprint()
    info = metadata(program, fingerprint) | {"precision": str(precision), "weights": weights}
    if report is not None:
        info["precision_report"] = report.to_dict()
    if description:
        info["model"] = dict(description)
    if rows:
        info["rows"] = dict(rows)
    if prefix != PREFIX:
        info["prefix"] = prefix
    if "fp16" in LayerPrecisions.of(precision).names:
        info["kept_in_fp32"] = program.weights.float32_reasons
    if target.machine.tiled:
        info["tiles"] = True
    static = memory.offsets is not None
    info["arena"] = {"bytes": memory.total, "lower_bound": memory.lower_bound} if static else None
    if profile:
        info["profile"] = all_sizes([program, *program.bodies])
    folder = build(
        print_sources(program, memory, info, apart=True, profile=profile),
        program.weights,
        program.weights.bytes,
        info,
        key=fingerprint,
        target=target,
        toolchain=toolchain,
        output=output,
        progress=progress,
    )
    program.weights.give_back()
    return folder
