"""How far the outputs of two runs are apart, and what each layer has to do with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.lowering.expand.composer import Composer
from infuse.lowering.fp16_weights import why_not
from infuse.ops.core.evaluate import evaluate_again, evaluate_values


def difference(outputs: Mapping[str, Any], exact: Mapping[str, Any]) -> float:
    """The largest |output − exact| over the largest |exact| of the same output, in all outputs.

    Infinite where an element is not finite, a shape differs, or anything that is no float.
    """
    return max((_difference(outputs[name], array) for name, array in exact.items()), default=0.0)


def _difference(output: Any, exact: Any) -> float:
    if not isinstance(exact, np.ndarray) or not dtypes.by_numpy(exact.dtype).is_float:
        return 0.0 if _same(output, exact) else math.inf
    if output.shape != exact.shape:
        return math.inf
    if not exact.size:
        return 0.0
    wide, reference = output.astype(np.float64), exact.astype(np.float64)
    if not (np.isfinite(wide).all() and np.isfinite(reference).all()):
        return math.inf
    error, largest = float(np.abs(wide - reference).max()), float(np.abs(reference).max())
    if largest == 0.0:
        return 0.0 if error == 0.0 else math.inf
    return error / largest


def _same(output: Any, exact: Any) -> bool:
    if isinstance(exact, (list, tuple)):
        return len(output) == len(exact) and all(map(_same, output, exact))
    if isinstance(exact, np.ndarray):
        return bool(np.array_equal(output, exact))
    return bool(output == exact)


def differences_alone(
    graph: Graph, feeds: Mapping[str, Any], layers: Iterable[int], precision: str
) -> dict[int, float]:
    """By serial number of a layer's node, how far the outputs are from exact ones when this layer
    alone rounds its operands: in the interpreter, so that nothing is compiled.
    """
    copy = clone(graph)
    nodes: dict[int, list[Node]] = {}
    for inner in copy.all_graphs():
        for node in inner.nodes:
            nodes.setdefault(node.serial, []).append(node)
    with np.errstate(all="ignore"):
        values = evaluate_values(copy, feeds)
        return {layer: _alone(copy, values, nodes[layer], precision) for layer in layers}


def _alone(
    graph: Graph, values: Mapping[Value, Any], nodes: Iterable[Node], precision: str
) -> float:
    exact = {name: _element(v, values) for name, v in zip(graph.output_names, graph.outputs)}
    before = [(node, list(node.inputs), Composer(_graph(node), node)) for node in nodes]
    for node, inputs, make in before:
        node.set_inputs([v if v is None else _rounded(make, v, precision) for v in inputs])
    try:
        outer = {_outermost(node) for node, _, _ in before}
        return difference(evaluate_again(graph, values, outer), exact)
    finally:
        for node, inputs, make in before:
            node.set_inputs(inputs)
            for added in reversed(make.made):
                make.graph.remove(added)


def _element(value: Value, values: Mapping[Value, Any]) -> Any:
    return value.const if value.const is not None else values[value]


def _graph(node: Node) -> Graph:
    assert node.graph is not None
    return node.graph


def _outermost(node: Node) -> Node:
    """The node of the outermost graph that holds `node`, or is it."""
    parent = _graph(node).parent
    return node if parent is None else _outermost(parent)


def _rounded(make: Composer, value: Value, precision: str) -> Value:
    """An operand as a layer of this precision reads it; vectors, such as a bias, stay as they
    are.
    """
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    if shape is None or len(shape) < 2 or value.dtype != dtypes.float32:
        return value
    if precision == "fp16":
        if value.const is None or why_not(value.const):
            return value
        return constant(value.const.astype(np.float16).astype(np.float32))
    high = _brain(make, value)
    if precision == "bf16":
        return high
    low = _brain(make, make("Sub", value, high))
    return make("Add", high, low)


def _brain(make: Composer, value: Value) -> Value:
    """A value rounded to bfloat16, as float32."""
    return make.cast(make.cast(value, dtypes.bfloat16), dtypes.float32)
