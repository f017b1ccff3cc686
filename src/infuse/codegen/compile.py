"""From an optimized graph to a compiled model."""

from __future__ import annotations

import os
from collections.abc import Callable

import infuse.codegen.lower  # noqa: F401  registers the lowerings
from infuse.codegen.build import build
from infuse.codegen.expand import expand
from infuse.codegen.lowering import lower
from infuse.codegen.memory import Plan, plan
from infuse.codegen.program import Program
from infuse.codegen.source import metadata, print_sources
from infuse.codegen.toolchain import Target
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.runtime.cpus import available_cpus
from infuse.runtime.model import CompiledModel

Progress = Callable[[str, int, int], None]


def generate(graph: Graph, target: Target, threads: int = 1) -> tuple[Program, Plan]:
    """The program of a graph for a target and a number of threads, and its memory plan."""
    program = lower(expand(graph), graph.name or "model", lanes_of(target), threads)
    return program, plan(program)


def lanes_of(target: Target) -> int:
    """Floats in a vector of the target."""
    if "avx512f" in target.features:
        return 16
    return 8 if "avx" in target.features else 4


def compile_graph(
    graph: Graph,
    *,
    target: str = "native",
    threads: int | None = None,
    precision: str = "fp32",
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile `graph` (see `infuse.compile`)."""
    if precision != "fp32":
        raise OptionError(f"precision {precision!r} is not available", hint="fp32 is")
    resolved = Target.resolve(target)
    program, memory = generate(graph, resolved, threads or available_cpus())
    fingerprint = program.weights.fingerprint()
    info = metadata(program, fingerprint)
    info["arena"] = {"bytes": memory.total, "lower_bound": memory.lower_bound} if memory.offsets is not None else None
    folder = build(
        print_sources(program, memory, info, jobs=available_cpus()),
        program.weights,
        program.weights.bytes,
        info,
        key=fingerprint,
        target=resolved,
        output=output,
        progress=progress,
    )
    return CompiledModel.load(folder, threads=threads)
