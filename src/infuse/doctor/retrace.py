"""What a recorded call means, as a graph: the call is traced again by Infuse's own reader of
PyTorch's operators, beside the nodes that the exporter wrote for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import infuse.tracing.aten  # noqa: F401  registers the operators
from infuse.doctor.recorded import NODE, RecordedCall, Reference, recorded_call
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.nesting import captured_outside
from infuse.ir.types import TensorType
from infuse.tracing.aten.calls import Meta, TorchImporter

_ORIGINAL: Final = "pkg.torch.onnx.original_node_name"
_PREFIXES: Final = ("p_", "b_", "c_")


@dataclass(frozen=True)
class WrittenCall:
    """The nodes of one graph that an exporter wrote for `call`, and the value that they give."""

    call: RecordedCall
    nodes: Sequence[Node]
    result: Value

    @property
    def reads(self) -> list[Value]:
        """What the nodes read from outside, constants aside."""
        made = {value for node in self.nodes for value in node.outputs}
        return [v for v in _operands(self.nodes) if v not in made and not v.is_const]

    @property
    def graph(self) -> Graph:
        """The graph that the nodes stand in."""
        graph = self.nodes[0].graph
        assert graph is not None
        return graph


def written_calls(graph: Graph) -> Iterator[WrittenCall]:
    """The calls of a graph with one result each, and those of its bodies."""
    for inner in graph.all_graphs():
        groups: dict[str, list[Node]] = {}
        for node in inner.nodes:
            if NODE in node.metadata:
                groups.setdefault(node.metadata[NODE], []).append(node)
        for nodes in groups.values():
            call = recorded_call(nodes[-1].metadata)
            if call is not None and (results := _results(inner, nodes)) and len(results) == 1:
                yield WrittenCall(call, nodes, results[0])


def _results(graph: Graph, nodes: Sequence[Node]) -> list[Value]:
    inside = set(nodes)
    return [
        value
        for node in nodes
        for value in node.outputs
        if any(use.user not in inside for use in value.uses)
    ]


def _operands(nodes: Sequence[Node]) -> list[Value]:
    read = (v for node in nodes for v in (*node.inputs, *captured_outside(node)) if v is not None)
    return list(dict.fromkeys(read))


def retraced(written: WrittenCall) -> tuple[Graph, list[Value]]:
    """A graph of what the call means, and for each of its inputs the value that it stands for.

    UnsupportedOperatorError where the operator has no translation, or the file does not say what
    an argument is.
    """
    call, result = written.call, written.result
    values = _arguments(written)
    g = TorchImporter(call.target)
    inputs: dict[Value, Value] = {}

    def argument(entry: Any) -> Any:
        if isinstance(entry, Reference):
            value = values[entry]
            if value.const is not None:
                return g.constant(value.const, value.name)
            if value not in inputs:
                inputs[value] = g.typed_input(f"x{len(inputs)}", value.type)
            return inputs[value]
        return [argument(each) for each in entry] if isinstance(entry, list) else entry

    positional = [argument(entry) for entry in call.positional]
    named = {name: argument(entry) for name, entry in call.named.items()}
    type = result.tensor
    sizes = tuple(d if isinstance(d, int) else None for d in type.shape or ())
    g.called, g.results = call.target, [Meta(type.dtype, sizes)]
    handler = g.handler(call.target, [*positional, *named.values()])
    made = handler(g, *positional, **named)
    value = made[0] if isinstance(made, (list, tuple)) else made
    if not isinstance(value, Value):
        value = g.constant(np.asarray(value, type.dtype.numpy))
    if not _fits(value, type):
        raise UnsupportedOperatorError(
            f"the call gives {value.type}, the file {type}", where=call.target
        )
    g.output("result", value)
    return g.graph, list(inputs)


def _fits(value: Value, type: TensorType) -> bool:
    own = value.type
    if not isinstance(own, TensorType) or own.dtype != type.dtype:
        return False
    if own.shape is None or type.shape is None:
        return True
    pairs = zip(own.shape, type.shape)
    return len(own.shape) == len(type.shape) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs
    )


def _arguments(written: WrittenCall) -> Mapping[str, Value]:
    """The values of the arguments, by the names that they have in the exported program."""
    graph, references = written.graph, written.call.references
    operands = _operands(written.nodes)
    names = {value.name: value for value in operands} | _stored(operands) | _inputs(graph)
    if any(name not in names for name in references):
        every = (*graph.constants(), *(v for node in graph.nodes for v in node.outputs))
        names = {value.name: value for value in every} | names
    missing = [name for name in references if name not in names]
    if missing:
        raise UnsupportedOperatorError(
            f"the file does not say which value {missing[0]!r} is", where=written.call.target
        )
    values = {name: names[name] for name in references}
    others = set(written.reads) - {*values.values()}
    if others:
        raise UnsupportedOperatorError(
            f"the nodes read {min(v.name for v in others)!r}, which is no argument of the call",
            where=written.call.target,
        )
    return values


def _stored(values: Iterable[Value]) -> dict[str, Value]:
    """Constants by the names that parameters and buffers have in exported programs."""
    names = {v.name.replace(".", "_"): v for v in values if v.is_const and v.name}
    return {prefix + name: value for name, value in names.items() for prefix in _PREFIXES}


def _inputs(graph: Graph) -> dict[str, Value]:
    """The inputs by their names in the exported program, which the file may have renamed."""
    stated = json.loads(graph.metadata.get("onnx.values", "{}"))
    inputs = {}
    for value in graph.inputs:
        _, properties = stated.get(value.name, ("", {}))
        inputs[properties.get(_ORIGINAL, value.name)] = value
    return inputs
