"""Operators that an older opset lacks, written by those that it has.

`@instead(kind)` marks the function that gives the outputs of a node as expressions over its inputs.
An output that it does not give is None; the node can then only be decomposed where nobody reads
that output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from infuse import dtypes, ops
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.exporters.onnx.spelling import NotExpressible
from infuse.ir.expression import Call, Expression
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.core.expressions import call

Decomposition = Callable[["Inputs"], Any]
_AND, _NOT, _ISNAN = call("And"), call("Not"), call("IsNaN")
DECOMPOSITIONS: Final[dict[str, Decomposition]] = {}
OWN: Final = "infuse"
"""The domain of operators that ONNX does not have."""


def instead(kind: str) -> Callable[[Decomposition], Decomposition]:
    """Register the decomposition of an operator."""

    def register(function: Decomposition) -> Decomposition:
        DECOMPOSITIONS[kind] = function
        return function

    return register


class Given(Expression):
    """An existing value in an expression."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class Inputs:
    """The inputs of a node as expressions, and its attributes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.attributes = node.op.attributes()

    def __getitem__(self, index: int) -> Any:
        value = self.node.input(index)
        return None if value is None else Given(value)

    def dtype(self, index: int) -> DType:
        value = self.node.inputs[index]
        assert value is not None
        return value.dtype

    def shape(self, index: int) -> tuple[Any, ...]:
        value = self.node.inputs[index]
        if value is None or value.tensor.shape is None:
            raise NotExpressible(f"the rank of its input {index} is not known")
        return value.shape

    def size(self, index: int, axis: int) -> int:
        """A size that must be known."""
        size = self.shape(index)[axis]
        if not isinstance(size, int):
            raise NotExpressible(f"size {axis} of its input {index} is not known")
        return size


def decompose(node: Node, graph: Graph) -> tuple[list[Value | None], list[Node]]:
    """New nodes in `graph` in place of `node`: its outputs that are read, and all nodes.
    NotExpressible if none can.
    """
    function = DECOMPOSITIONS.get(node.kind) if node.op.domain in ("", OWN) else None
    if function is None:
        raise NotExpressible("it has no decomposition")
    try:
        results = function(Inputs(node))
        building = _Building(node, graph)
        outputs = zip_longest(node.outputs, results if isinstance(results, tuple) else (results,))
        return [
            None if v is None or not v.uses else building.output(v, r) for v, r in outputs
        ], building.created
    except InfuseError as error:
        raise NotExpressible(f"its decomposition fails: {error.what}") from error


def build(expression: Any, node: Node, graph: Graph) -> tuple[Value, list[Node]]:
    """The value of an expression on behalf of `node`, and the new nodes in `graph` that make it."""
    building = _Building(node, graph)
    return building.value(expression), building.created


class _Building:
    """Turns expressions into nodes."""

    def __init__(self, node: Node, graph: Graph) -> None:
        self.node, self.graph = node, graph
        self.created: list[Node] = []
        self.nodes: dict[int, Node] = {}
        self.roots: list[Call] = []

    def output(self, value: Value, expression: Any) -> Value:
        """What takes the place of an output that is read."""
        if expression is None:
            raise NotExpressible(f"its output {value.index} has no decomposition")
        # A value that is there already keeps the name that it has.
        return self.value(ops.identity(expression) if isinstance(expression, Given) else expression)

    def value(self, expression: Any, like: DType = dtypes.float32) -> Value:
        if isinstance(expression, Value):
            return expression
        if isinstance(expression, Given):
            return expression.value
        if isinstance(expression, Call):
            return self.call(expression).outputs[expression.output]
        if isinstance(expression, (bool, int, float)):
            return constant(np.array(expression).astype(like.numpy), self.node.name, like)
        data = expression if isinstance(expression, np.ndarray) else np.array(expression, np.int64)
        return constant(data, self.node.name)

    def call(self, call: Call) -> Node:
        if id(call.root) in self.nodes:
            return self.nodes[id(call.root)]
        numbers = (bool, int, float)
        built = {
            i: self.value(a)
            for i, a in enumerate(call.args)
            if a is not None and not isinstance(a, numbers)
        }
        like = next((v.dtype for v in built.values() if not v.dtype.is_bool), dtypes.float32)
        inputs = [
            None if a is None else built.get(i) or self.value(a, like)
            for i, a in enumerate(call.args)
        ]
        op = make_operator(call.domain, call.kind, call.attributes)
        name = f"{self.node.name}/{call.kind}"
        count = max(1, int(call.attributes.get("num_outputs", 1)))
        outputs = [Value(UNKNOWN, name) for _ in range(count)]
        node = Node(op, inputs, outputs, name=name, origin=self.node.origin)
        self.graph.add_node(node)
        op.infer_node(node)
        self.created.append(node)
        self.nodes[id(call.root)] = node
        self.roots.append(call.root)
        return node


# -- activations -----------------------------------------------------------------------------------


@instead("Gelu")
def gelu(inputs: Inputs) -> Any:
    """X · Φ(x), by the error function or its tanh approximation."""
    x = inputs[0]
    if inputs.attributes["approximate"] == "tanh":
        return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


@instead("Swish")
def swish(inputs: Inputs) -> Any:
    """X · sigmoid(alpha · x)."""
    x, alpha = inputs[0], inputs.attributes["alpha"]
    return x * ops.sigmoid(x if alpha == 1 else alpha * x)


@instead("Mish")
def mish(inputs: Inputs) -> Any:
    """X · tanh(softplus(x))."""
    return inputs[0] * ops.tanh(ops.softplus(inputs[0]))


@instead("HardSwish")
def hard_swish(inputs: Inputs) -> Any:
    """X · hard sigmoid of x."""
    if (
        inputs.dtype(0) == dtypes.float64
    ):  # of which an attribute does not hold all digits of a sixth
        return inputs[0] * ops.clip(inputs[0] * (1 / 6) + 0.5, 0.0, 1.0)
    return inputs[0] * ops.hard_sigmoid(inputs[0], alpha=1 / 6, beta=0.5)


@instead("Mod")
def mod(inputs: Inputs) -> Any:
    """The remainder with the sign of a, moved by b where b's sign is another."""
    a, b = inputs[0], inputs[1]
    rest = ops.mod(a, b, fmod=1)
    moved = _AND(_NOT(ops.equal(rest, 0.0)), ops.xor(ops.less(rest, 0.0), ops.less(b, 0.0)))
    return ops.where(moved, rest + b, rest)


@instead("CastLike")
def cast_like(inputs: Inputs) -> Any:
    """A cast to the type that is known."""
    options = {k: inputs.attributes[k] for k in ("saturate", "round_mode")}
    return ops.cast(inputs[0], to=inputs.dtype(1), **options)


@instead("Shape")
def shape(inputs: Inputs) -> Any:
    """A slice of all sizes."""
    start, end = inputs.attributes["start"], inputs.attributes["end"]
    return ops.slice(ops.shape(inputs[0]), [start], [2**31 - 1 if end is None else end])


# -- normalization ---------------------------------------------------------------------------------


def _wide(inputs: Inputs) -> tuple[Any, Callable[[Any], Any]]:
    """The first input in the type that sums are made in, and what brings a result back."""
    own = inputs.dtype(0)
    if _sum_type(inputs) == own:
        return inputs[0], lambda result: result
    return ops.cast(inputs[0], to=dtypes.float32), lambda result: ops.cast(result, to=own)


def _sum_type(inputs: Inputs) -> DType:
    own = inputs.dtype(0)
    return own if inputs.attributes.get("stash_type", 1) != 1 or own.bits >= 32 else dtypes.float32


def _trailing(inputs: Inputs) -> list[int]:
    """The axes from `axis` on."""
    rank = len(inputs.shape(0))
    return list(range(inputs.attributes["axis"] % rank, rank))


@instead("LayerNormalization")
def layer_normalization(inputs: Inputs) -> Any:
    """Deviations from the mean over the trailing axes, scaled by their own size and the weights."""
    x, back = _wide(inputs)
    axes = _trailing(inputs)
    mean = ops.reduce_mean(x, axes)
    deviation = x - mean
    inverse = ops.reciprocal(
        ops.sqrt(ops.reduce_mean(deviation * deviation, axes) + inputs.attributes["epsilon"])
    )
    result = back(deviation * inverse) * inputs[1]
    statistics = dtypes.by_onnx(inputs.attributes["stash_type"])
    if statistics != _sum_type(inputs):
        mean, inverse = (ops.cast(value, to=statistics) for value in (mean, inverse))
    return (result if inputs[2] is None else result + inputs[2]), mean, inverse


@instead("RMSNormalization")
def rms_normalization(inputs: Inputs) -> Any:
    """Elements over the root of their mean square along the trailing axes, scaled by the
    weights.
    """
    x, back = _wide(inputs)
    square = ops.reduce_mean(x * x, _trailing(inputs)) + inputs.attributes["epsilon"]
    return back(ops.div(x, ops.sqrt(square))) * inputs[1]


@instead("GroupNormalization")
def group_normalization(inputs: Inputs) -> Any:
    """Deviations from the mean of each group of channels, scaled by their own size, then by the
    channel's weights.
    """
    x, back = _wide(inputs)
    rank, groups = len(inputs.shape(0)), inputs.attributes["num_groups"]
    rows = ops.reshape(x, [0, groups, -1])
    deviation = rows - ops.reduce_mean(rows, [2])
    variance = ops.reduce_mean(deviation * deviation, [2])
    quotient = ops.div(deviation, ops.sqrt(variance + inputs.attributes["epsilon"]))
    normal = ops.reshape(quotient, ops.shape(inputs[0]), allowzero=1)
    column = [-1] + [1] * (rank - 2)
    return back(normal) * ops.reshape(inputs[1], column) + ops.reshape(inputs[2], column)


@instead("Assert")
def assert_(inputs: Inputs) -> Any:
    """The input in its own shape, read from a list that has only that: where the condition does not
    hold, the index lies outside of it, which every runtime checks.
    """
    shapes = ops.unsqueeze(ops.shape(inputs[0]), [0])
    holds = ops.reshape(inputs[1], np.zeros(0, np.int64))
    place = ops.cast(_NOT(holds), to=dtypes.int64)
    return ops.reshape(inputs[0], ops.gather(shapes, place), allowzero=1)


@instead("MissingText")
def missing_text(inputs: Inputs) -> Any:
    """Strings that are the word as which ONNX Runtime reads what is missing in a Python array."""
    word = {"none": "None", "nan": "nan"}[inputs.node.op.attributes()["value"]]
    return call("Equal")(inputs[0], np.array(word, object))
