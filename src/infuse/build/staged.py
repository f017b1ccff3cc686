"""A graph on its way to code, in stages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from infuse.errors import UnsupportedOperatorError
from infuse.ir.clone import clone
from infuse.ir.dim_text import NAMELESS
from infuse.ir.graph import Graph, Node
from infuse.ir.states import is_state
from infuse.lowering.choice import Chooser
from infuse.lowering.expand import expand
from infuse.lowering.lowering import lower
from infuse.lowering.memory import Plan, plan
from infuse.lowering.precisions import Precision
from infuse.lowering.program import Program
from infuse.lowering.ranks import list_outputs, unranked_results
from infuse.lowering.stages import Stage, make_outputs, must_be_hosted, split
from infuse.lowering.tensors import is_native_type
from infuse.targets import Target


@dataclass
class Stages:
    """A graph on its way to code: programs with their plans, and between them what the interpreter
    runs.

    `returned` are the names that the outputs of the whole have among those of the stages.
    """

    parts: list[tuple[Program, Plan] | Graph]
    returned: list[str]
    left_out: frozenset[str] = frozenset()
    """Kernels that were not looked at, as libraries of prebuilt ones lack them."""

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
    def weights_bytes(self) -> int:
        """Bytes of the weights of all programs."""
        return sum(part[0].weights.bytes for part in self.parts if isinstance(part, tuple))

    @property
    def host_nodes(self) -> list[Node]:
        """What the interpreter runs."""
        return [node for part in self.parts if isinstance(part, Graph) for node in part.nodes]


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


def stages_of(
    graph: Graph, target: Target, threads: int, precision: Precision, chooser: Chooser
) -> Stages:
    """The stages of a graph: the interpreter gets the nodes that have no native code."""
    if any(v.producer is None and not is_native_type(v.type) for v in graph.outputs):
        make_outputs(graph := clone(graph))
    unranked = unranked_results(graph)
    hosted = {node.serial for node in graph.nodes if must_be_hosted(node, unranked)}
    others = any(not is_native_type(v.type) for v in graph.inputs)
    while True:
        stages, returned = [Stage(graph, False)], list(graph.output_names)
        if hosted or others:
            _refuse_states(graph, hosted)
            copy = clone(graph)
            stages, returned = split(copy, {node for node in copy.nodes if node.serial in hosted})
        try:
            parts = [
                s.graph if s.is_host else generate(s.graph, target, threads, precision, chooser)
                for s in stages
            ]
            return Stages(parts, returned, chooser.left_out)
        except UnsupportedOperatorError as error:
            if error.serial is None or error.serial in hosted:
                raise
            hosted.add(error.serial)


def _refuse_states(graph: Graph, hosted: Collection[int]) -> None:
    """UnsupportedOperatorError where the interpreter would run a part of a graph with states."""
    states = [value.name for value in graph.inputs if is_state(value)]
    if not states:
        return
    kinds = sorted({node.kind for node in graph.nodes if node.serial in hosted})
    what = ", ".join(kinds) or "an input"
    raise UnsupportedOperatorError(
        f"a model with states runs natively as a whole, and {what} cannot",
        where=f"state {states[0]!r}",
    )
