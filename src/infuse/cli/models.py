"""Models as commands name them: a file to be compiled, or the folder of a compiled model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import infuse
from infuse.cli import terminal
from infuse.cli.options import Level
from infuse.ir.graph import Graph
from infuse.ir.types import TensorType
from infuse.runtime import CompiledModel, TensorSpec


@dataclass(frozen=True)
class Opened:
    """A model that can run, and the graph that it was compiled from where that is known."""

    model: CompiledModel
    graph: Graph | None


def open_model(path: Path, *, threads: int | None, level: Level = Level.all, target: str = "native") -> Opened:
    """Load a compiled model's folder; compile a model file."""
    if path.is_dir():
        return Opened(CompiledModel.load(path, threads=threads), None)
    graph = infuse.load(path)
    with terminal.progress(path.name) as report:
        better = infuse.optimize(graph, level.value, progress=report)
        return Opened(infuse.compile(better, target=target, threads=threads, progress=report), graph)


def specs_of(graph: Graph) -> list[TensorSpec]:
    """The inputs of a graph as the runtime describes them; GraphError for a sequence or an unknown rank."""
    specs = []
    for value in graph.inputs:
        assert value.shape is not None
        sizes = tuple(d if isinstance(d, int) else str(d) for d in value.shape)
        specs.append(TensorSpec(value.name, value.dtype.numpy, sizes))
    return specs


def is_runnable(graph: Graph) -> bool:
    """Whether all inputs are tensors of known rank."""
    return all(isinstance(v.type, TensorType) and v.type.shape is not None for v in graph.inputs)
