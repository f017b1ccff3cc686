"""Operators that an older opset lacks, written by those that it has.

`@instead(kind)` marks the function that gives the outputs of a node as expressions over its inputs. An output that it
does not give is None; the node can then only be decomposed where nobody reads that output.
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
from infuse.ir.expression import Call, Expression, make_operator
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN
from infuse.ops.base import call

Decomposition = Callable[["Inputs"], Any]
_AND, _NOT, _ISNAN = call("And"), call("Not"), call("IsNaN")
DECOMPOSITIONS: Final[dict[str, Decomposition]] = {}


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
    """New nodes in `graph` in place of `node`: its outputs that are read, and all nodes. NotExpressible if none can."""
    function = DECOMPOSITIONS.get(node.kind) if not node.op.domain else None
    if function is None:
        raise NotExpressible("it has no decomposition")
    try:
        results = function(Inputs(node))
        building = _Building(node, graph)
        outputs = zip_longest(node.outputs, results if isinstance(results, tuple) else (results,))
        return [None if v is None or not v.uses else building.output(v, r) for v, r in outputs], building.created
    except InfuseError as error:
        raise NotExpressible(f"its decomposition fails: {error.what}") from error


class _Building:
    """Turns expressions into nodes."""

    def __init__(self, node: Node, graph: Graph) -> None:
        self.node, self.graph = node, graph
        self.created: list[Node] = []
        self.known: dict[int, Node] = {}
        self.kept: list[Call] = []

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
        if id(call.root) in self.known:
            return self.known[id(call.root)]
        numbers = (bool, int, float)
        built = {i: self.value(a) for i, a in enumerate(call.args) if a is not None and not isinstance(a, numbers)}
        like = next((v.dtype for v in built.values() if not v.dtype.is_bool), dtypes.float32)
        inputs = [None if a is None else built.get(i) or self.value(a, like) for i, a in enumerate(call.args)]
        op = make_operator(call.domain, call.kind, call.attributes)
        name = f"{self.node.name}/{call.kind}"
        count = max(1, int(call.attributes.get("num_outputs", 1)))
        outputs = [Value(UNKNOWN, name) for _ in range(count)]
        node = Node(op, inputs, outputs, name=name, origin=self.node.origin)
        self.graph.add_node(node)
        op.infer_node(node)
        self.created.append(node)
        self.known[id(call.root)] = node
        self.kept.append(call.root)
        return node


# -- activations -------------------------------------------------------------------------------------------------


@instead("Gelu")
def gelu(given: Inputs) -> Any:
    """X · Φ(x), by the error function or its tanh approximation."""
    x = given[0]
    if given.attributes["approximate"] == "tanh":
        return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


@instead("Swish")
def swish(given: Inputs) -> Any:
    """X · sigmoid(alpha · x)."""
    x, alpha = given[0], given.attributes["alpha"]
    return x * ops.sigmoid(x if alpha == 1 else alpha * x)


@instead("Mish")
def mish(given: Inputs) -> Any:
    """X · tanh(softplus(x))."""
    return given[0] * ops.tanh(ops.softplus(given[0]))


@instead("HardSwish")
def hard_swish(given: Inputs) -> Any:
    """X · hard sigmoid of x."""
    return given[0] * ops.hard_sigmoid(given[0], alpha=1 / 6, beta=0.5)


@instead("Mod")
def mod(given: Inputs) -> Any:
    """The remainder with the sign of a, moved by b where b's sign is another."""
    a, b = given[0], given[1]
    rest = ops.mod(a, b, fmod=1)
    moved = _AND(_NOT(ops.equal(rest, 0.0)), ops.xor(ops.less(rest, 0.0), ops.less(b, 0.0)))
    return ops.where(moved, rest + b, rest)


@instead("CastLike")
def cast_like(given: Inputs) -> Any:
    """A cast to the type that is known."""
    options = {k: given.attributes[k] for k in ("saturate", "round_mode")}
    return ops.cast(given[0], to=given.dtype(1), **options)


@instead("Shape")
def shape(given: Inputs) -> Any:
    """A slice of all sizes."""
    start, end = given.attributes["start"], given.attributes["end"]
    return ops.slice(ops.shape(given[0]), [start], [2**31 - 1 if end is None else end])


# -- normalization -----------------------------------------------------------------------------------------------


def _wide(given: Inputs) -> tuple[Any, Callable[[Any], Any]]:
    """The first input in the type that sums are made in, and what brings a result back."""
    own = given.dtype(0)
    if given.attributes.get("stash_type", 1) != 1 or own.bits >= 32:
        return given[0], lambda result: result
    return ops.cast(given[0], to=dtypes.float32), lambda result: ops.cast(result, to=own)


def _trailing(given: Inputs) -> list[int]:
    """The axes from `axis` on."""
    rank = len(given.shape(0))
    return list(range(given.attributes["axis"] % rank, rank))


@instead("LayerNormalization")
def layer_normalization(given: Inputs) -> Any:
    """Deviations from the mean over the trailing axes, scaled by their own size and the weights."""
    x, back = _wide(given)
    axes = _trailing(given)
    mean = ops.reduce_mean(x, axes)
    deviation = x - mean
    inverse = ops.reciprocal(ops.sqrt(ops.reduce_mean(deviation * deviation, axes) + given.attributes["epsilon"]))
    result = back(deviation * inverse) * given[1]
    return (result if given[2] is None else result + given[2]), mean, inverse


@instead("RMSNormalization")
def rms_normalization(given: Inputs) -> Any:
    """Elements over the root of their mean square along the trailing axes, scaled by the weights."""
    x, back = _wide(given)
    square = ops.reduce_mean(x * x, _trailing(given)) + given.attributes["epsilon"]
    return back(ops.div(x, ops.sqrt(square))) * given[1]


@instead("GroupNormalization")
def group_normalization(given: Inputs) -> Any:
    """Deviations from the mean of each group of channels, scaled by their own size, then by the channel's weights."""
    x, back = _wide(given)
    rank, groups = len(given.shape(0)), given.attributes["num_groups"]
    rows = ops.reshape(x, [0, groups, -1])
    deviation = rows - ops.reduce_mean(rows, [2])
    variance = ops.reduce_mean(deviation * deviation, [2])
    quotient = ops.div(deviation, ops.sqrt(variance + given.attributes["epsilon"]))
    normal = ops.reshape(quotient, ops.shape(given[0]), allowzero=1)
    column = [-1] + [1] * (rank - 2)
    return back(normal) * ops.reshape(given[1], column) + ops.reshape(given[2], column)


# -- attention ---------------------------------------------------------------------------------------------------


@instead("Attention")
def attention(given: Inputs) -> Any:
    """softmax(q · kᵀ · scale + mask) · v for each head; keys and values of the past come first."""
    options = given.attributes
    if given[6] is not None or options["left_window_size"] >= 0 or options["right_window_size"] >= 0:
        raise NotExpressible("its windows and valid lengths have no decomposition")
    if options["qk_matmul_output_mode"] or options["softmax_precision"] not in (None, 1):
        raise NotExpressible("its scores or their precision are special")
    q, heads, width = _heads(given, 0, options["q_num_heads"])
    k, groups, _ = _heads(given, 1, options["kv_num_heads"])
    v, _, depth = _heads(given, 2, options["kv_num_heads"])
    keys = k if given[4] is None else ops.concat(given[4], k, axis=2)
    values = v if given[5] is None else ops.concat(given[5], v, axis=2)
    wide_keys, wide_values = _repeat(keys, heads, groups, width), _repeat(values, heads, groups, depth)
    scale = options["scale"] if options["scale"] is not None else 1 / math.sqrt(width)
    scores = ops.matmul(q * scale, ops.transpose(wide_keys, perm=(0, 1, 3, 2)))
    if options["softcap"]:
        scores = options["softcap"] * ops.tanh(scores * (1 / options["softcap"]))
    weights = _softmax(given, scores, q, keys)
    result = ops.matmul(weights, wide_values)
    if len(given.shape(0)) == 3:
        result = ops.reshape(ops.transpose(result, perm=(0, 2, 1, 3)), [0, 0, heads * depth])
    return result, keys, values, scores


def _heads(given: Inputs, index: int, heads: int) -> tuple[Any, int, int]:
    """An input as (batch, heads, length, size), its number of heads and their size."""
    if len(given.shape(index)) == 4:
        return given[index], given.size(index, 1), given.size(index, 3)
    size = given.size(index, 2) // heads
    rows = ops.reshape(given[index], [0, 0, heads, size])
    return ops.transpose(rows, perm=(0, 2, 1, 3)), heads, size


def _repeat(x: Any, heads: int, groups: int, size: int) -> Any:
    """Each head of keys or values, as often as there are queries for it."""
    if heads == groups:
        return x
    wide = ops.expand(ops.unsqueeze(x, [2]), [1, 1, heads // groups, 1, 1])
    return ops.reshape(wide, [0, heads, -1, size])


def _softmax(given: Inputs, scores: Any, q: Any, keys: Any) -> Any:
    """Weights of the keys; a query that may see none has zeros."""
    lowest = float(np.finfo(given.dtype(0).numpy).min) if given.dtype(0) != dtypes.bfloat16 else -3e38
    mask, seen = given[3], None
    if given.attributes["is_causal"]:
        rows, columns = ops.shape(q), ops.shape(keys)
        past = 0 if given[4] is None else ops.gather(ops.shape(given[4]), np.array(2))
        query = ops.add(_counted(rows), past) if given[4] is not None else _counted(rows)
        seen = ops.less_or_equal(ops.unsqueeze(_counted(columns), [0]), ops.unsqueeze(query, [1]))
    if mask is not None and given.dtype(3).is_bool:
        seen = mask if seen is None else _AND(seen, mask)
    elif mask is not None:
        scores = scores + mask
    if seen is None:
        weights = ops.softmax(scores)
        return weights if mask is None or is_finite(given.node.input(3)) else ops.where(_ISNAN(weights), 0.0, weights)
    return ops.where(seen, ops.softmax(ops.where(seen, scores, lowest)), 0.0)


def is_finite(value: Value | None, left: int = 8) -> bool:
    """Whether no element of `value` can be infinite."""
    if value is None:
        return True
    if value.const is not None:
        return bool(np.isfinite(value.const.astype(np.float64)).all())
    node = value.producer
    if node is None or node.op.domain or not left:
        return False
    if node.kind == "Where":
        return all(is_finite(choice, left - 1) for choice in node.inputs[1:])
    return node.kind in _MOVING and is_finite(node.inputs[0], left - 1)


_MOVING = ("Expand", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Identity")


def _counted(shape: Any) -> Any:
    """0, 1, … up to the length of a (batch, heads, length, size) tensor."""
    return ops.range(np.array(0), ops.gather(shape, np.array(2)), np.array(1))


@instead("RotaryEmbedding")
def rotary_embedding(given: Inputs) -> Any:
    """Pairs of elements turned by the angles of their positions."""
    x, rank = given[0], len(given.shape(0))
    heads = given.size(0, 1) if rank == 4 else given.attributes["num_heads"]
    if rank == 3 and not heads:
        raise NotExpressible("its number of heads is not given")
    size = given.size(0, 3) if rank == 4 else given.size(0, 2) // heads
    turned = given.attributes["rotary_embedding_dim"] or size
    rows = ops.transpose(x, perm=(0, 2, 1, 3)) if rank == 4 else ops.reshape(x, [0, 0, heads, size])
    cos, sin = (_angles(given, index, turned // 2) for index in (1, 2))
    head = rows if turned == size else ops.slice(rows, [0], [turned], [3])
    if given.attributes["interleaved"]:
        first, second = (ops.slice(head, [start], [2**31 - 1], [3], [2]) for start in (0, 1))
    else:
        first, second = ops.slice(head, [0], [turned // 2], [3]), ops.slice(head, [turned // 2], [turned], [3])
    real, imaginary = cos * first - sin * second, sin * first + cos * second
    if given.attributes["interleaved"]:
        pairs = ops.concat(ops.unsqueeze(real, [4]), ops.unsqueeze(imaginary, [4]), axis=4)
        result = ops.reshape(pairs, [0, 0, 0, turned])
    else:
        result = ops.concat(real, imaginary, axis=3)
    if turned != size:
        result = ops.concat(result, ops.slice(rows, [turned], [size], [3]), axis=3)
    return ops.transpose(result, perm=(0, 2, 1, 3)) if rank == 4 else ops.reshape(result, [0, 0, heads * size])


def _angles(given: Inputs, index: int, count: int) -> Any:
    """Cosines or sines as (batch, length, 1, count)."""
    angles = given[index] if given[3] is None else ops.gather(given[index], given[3])
    return ops.unsqueeze(ops.slice(angles, [0], [count], [2]), [2])
