"""What a recorded call means, as a graph: the call is traced again by Infuse's own reader of
PyTorch's operators, beside the nodes that the exporter wrote for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import infuse.tracing.aten  # noqa: F401  registers the operators
from infuse.doctor.recorded import NODE, RecordedCall, Reference, recorded_call
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.clone import clone_nodes
from infuse.ir.graph import Array, Graph, Node, Value, captured
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.feeds import random_array
from infuse.ops.core.inference import symbols_of
from infuse.tracing.aten.calls import Meta, TorchImporter

_ORIGINAL: Final = "pkg.torch.onnx.original_node_name"
_SIZE: Final = 3
"""Symbolic sizes in trials."""
_TRIALS: Final = 12
_TENTHS: Final = tuple(number / 10 for number in range(-30, 31))
_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 20.0, -20.0, 120.0, -120.0, np.inf, -np.inf, np.nan)


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
    read = (v for node in nodes for v in (*node.inputs, *captured(node)) if v is not None)
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
    names = {value.name: value for value in _operands(written.nodes)} | _inputs(graph)
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


def _inputs(graph: Graph) -> dict[str, Value]:
    """The inputs by their names in the exported program, which the file may have renamed."""
    stated = json.loads(graph.metadata.get("onnx.values", "{}"))
    inputs = {}
    for value in graph.inputs:
        _, properties = stated.get(value.name, ("", {}))
        inputs[properties.get(_ORIGINAL, value.name)] = value
    return inputs


# -- trials ----------------------------------------------------------------------------------------


def difference(written: WrittenCall, meaning: Graph, reads: Sequence[Value]) -> float | None:
    """How far the file's nodes are from the call on random and special numbers: the largest
    difference over the largest right result, infinite where one of two is no number; None where
    they cannot be run by themselves.
    """
    alone = _alone(written, reads)
    worst: float | None = None
    for number in range(_TRIALS):
        feeds = _feeds(meaning, number)
        if feeds is None:
            continue
        try:
            with np.errstate(all="ignore"):
                file, right = (evaluate(graph, feeds)["result"] for graph in (alone, meaning))
        except InfuseError:
            continue
        worst = max(worst or 0.0, _distance(file, right))
    return worst


def _alone(written: WrittenCall, reads: Sequence[Value]) -> Graph:
    """The nodes of the file as a graph with the inputs of the other."""
    graph = Graph("file")
    values: dict[Value, Value] = {}
    for number, value in enumerate(dict.fromkeys((*reads, *written.reads))):
        values[value] = graph.add_input(f"x{number}", value.type)
    for node in clone_nodes(written.nodes, values):
        graph.add_node(node)
    graph.add_output(values[written.result], "result")
    return graph


def _feeds(graph: Graph, number: int) -> dict[str, Array] | None:
    rng = np.random.default_rng(number)
    feeds = {}
    for value in graph.inputs:
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return None
        symbols = dict.fromkeys(symbols_of(value.type), _SIZE)
        shape = [dims.substitute(d, symbols) for d in value.type.shape]
        if not all(isinstance(d, int) for d in shape):
            return None
        try:
            array = random_array(value.name, value.dtype.numpy, shape, rng)  # type: ignore[arg-type]
        except InfuseError:
            return None
        if value.dtype.is_float and number % 3:
            pool = _SPECIAL if number % 3 == 1 else _TENTHS
            array = np.resize(rng.permutation(pool), array.shape).astype(array.dtype)
        elif value.dtype.is_bool:
            array = rng.random(array.shape) < 0.5
        feeds[value.name] = array
    return feeds


def _distance(file: Array, right: Array) -> float:
    if file.shape != right.shape or file.dtype.kind not in "fiub":
        return np.inf
    a, b = (np.asarray(each, np.float64) for each in (file, right))
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not apart.any():
        return 0.0
    if not np.isfinite([a[apart], b[apart]]).all():
        return np.inf
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return float(np.abs(a[apart] - b[apart]).max() / scale) if scale else np.inf
