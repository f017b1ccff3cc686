"""Gradients of attention: pulled back through products, softmax and the rest that it is made of."""

from __future__ import annotations

import math
from typing import Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ops.attending import Attention, RotaryEmbedding
from infuse.ops.core.differentiation import gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.gradients.convolution import numbers

_FAR: Final = -1e30
"""What is added to the scores of keys that are not seen."""


@gradient_of(Attention)
def attention_gradient(
    op: Attention, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of softmax(q · kᵀ · scale + mask) · v."""
    q, k, v = (operand(node, i) for i in range(3))
    mask, past_key, past_value, valid = (node.input(i) for i in range(3, 7))
    queries = _split(make, q, op.q_num_heads)
    keys, values = (_split(make, x, op.kv_num_heads) for x in (k, v))
    if past_key is not None and past_value is not None:
        keys = make("Concat", past_key, keys, axis=2)
        values = make("Concat", past_value, values, axis=2)
    size = queries.shape[3]
    scale = op.scale
    if scale is None:
        (known,) = numbers([size], "a head")
        scale = 1 / math.sqrt(known)
    raw = make("Mul", make("MatMul", queries, _turned(make, _repeated(make, keys, queries))), scale)
    capped = raw
    if op.softcap:
        capped = make("Mul", make("Tanh", make("Div", raw, op.softcap)), op.softcap)
    biased, blind = _biased(op, make, capped, mask, past_key, valid)
    weights = make("Softmax", biased, axis=-1)
    if blind is not None:
        weights = make("Where", blind, make.number(0, q.dtype), weights)
    result = make("MatMul", weights, _repeated(make, values, queries))
    if q.rank == 3:
        turned = make("Transpose", result, perm=(0, 2, 1, 3))
        result = make("Reshape", turned, make.ints(0, 0, -1))
    shown = (raw, capped, biased, weights)[op.qk_matmul_output_mode]
    if len(grads) > 3 and grads[3] is not None and op.qk_matmul_output_mode == 2:
        raise UnsupportedOperatorError("scores with a mask as an output have no gradient")
    return through(make, node, grads, [result, keys, values, shown][: len(grads)])


def _split(make: GradientBuilder, x: Value, heads: int | None) -> Value:
    """(batch, length, heads · size) as (batch, heads, length, size)."""
    if x.rank == 4:
        return x
    apart = make("Reshape", x, make.ints(0, 0, heads or 1, -1))
    return make("Transpose", apart, perm=(0, 2, 1, 3))


def _turned(make: GradientBuilder, x: Value) -> Value:
    return make("Transpose", x, perm=(0, 1, 3, 2))


def _repeated(make: GradientBuilder, x: Value, queries: Value) -> Value:
    """Heads of keys or values, each as often as it serves a head of queries."""
    if queries.shape[1] == x.shape[1]:
        return x
    heads, own = numbers([queries.shape[1], x.shape[1]], "a number of heads")
    wide = make("Unsqueeze", x, make.ints(2))
    count = heads // own
    copies = make("Concat", *[wide] * count, axis=2)
    return make("Reshape", copies, make.ints(0, heads, -1, x.shape[3]))


def _biased(
    op: Attention,
    make: GradientBuilder,
    scores: Value,
    mask: Value | None,
    past: Value | None,
    valid: Value | None,
) -> tuple[Value, Value | None]:
    """The scores with the mask, far below zero where a query does not see a key, and which queries
    see none.
    """
    queries, keys = scores.shape[2:]
    windows = op.is_causal or max(op.left_window_size, op.right_window_size) >= 0
    seen: Value | None = None
    if mask is not None:
        mask = _whole(make, mask, keys - mask.shape[-1])
        if mask.dtype.is_bool:
            seen = mask
        else:
            scores = make("Add", scores, mask)
    if windows or valid is not None:
        row = make("Unsqueeze", _numbers(make, queries), make.ints(1))
        column = _numbers(make, keys)
        first: Value = make.ints(0 if past is None else past.shape[2])
        if valid is not None:
            valid = make("Reshape", make.cast(valid, row.dtype), make.ints(-1, 1, 1, 1))
            first = make("Sub", valid, make.ints(queries))
            seen = _both(make, seen, make("Less", column, valid))
        ahead = make("Sub", column, make("Add", row, first))
        if op.is_causal:
            seen = _both(make, seen, make("LessOrEqual", ahead, make.ints(0)))
        if op.left_window_size >= 0:
            least = make.ints(-op.left_window_size)
            seen = _both(make, seen, make("GreaterOrEqual", ahead, least))
        if op.right_window_size >= 0:
            most = make.ints(op.right_window_size)
            seen = _both(make, seen, make("LessOrEqual", ahead, most))
    if seen is None:
        return scores, None
    hidden = make("Where", seen, scores, make.number(_FAR, scores.dtype))
    known = make.cast(seen, scores.dtype)
    blind = make("Equal", make("ReduceMax", known, make.ints(-1)), 0.0)
    return hidden, blind


def _whole(make: GradientBuilder, mask: Value, missing: Dim) -> Value:
    """A mask that stops before the last key, which takes no part, and so on."""
    if missing == 0:
        return mask
    shape = [*mask.shape[:-1], missing]
    rest = make(
        "Expand", make.number(0 if mask.dtype.is_bool else _FAR, mask.dtype), make.ints(*shape)
    )
    return make("Concat", mask, rest, axis=-1)


def _both(make: GradientBuilder, a: Value | None, b: Value) -> Value:
    return b if a is None else make("And", a, b)


def _numbers(make: GradientBuilder, count: Dim) -> Value:
    """0, 1, … count − 1."""
    size = make.ints(count)
    zero, end = make.ints(0), make("Squeeze", size, make.ints(0))
    return make("Range", make("Squeeze", zero, make.ints(0)), end, make.number(1, end.dtype))


@gradient_of(RotaryEmbedding)
def rotary_gradient(
    op: RotaryEmbedding, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of pairs of channels that turn."""
    x, cos, sin = (operand(node, i) for i in range(3))
    places = node.input(3)
    heads = _split(make, x, op.num_heads)
    if places is not None:
        cos, sin = (make("Gather", table, places) for table in (cos, sin))
    real, imaginary = (make("Unsqueeze", table, make.ints(1)) for table in (cos, sin))
    size = heads.shape[3]
    if not isinstance(size, int):
        raise UnsupportedOperatorError("heads of unknown size have no gradient")
    turned = op.rotary_embedding_dim or size
    even, odd = _pairs(op, make, heads, turned)
    first = make(real * even - imaginary * odd)
    second = make(imaginary * even + real * odd)
    parts = [first, second]
    if op.interleaved:
        apart = [make("Unsqueeze", part, make.ints(-1)) for part in parts]
        pairs = make("Concat", *apart, axis=-1)
        parts = [make("Reshape", pairs, make.ints(0, 0, 0, turned))]
    if turned < size:
        parts.append(make.slice(heads, 3, turned, size))
    result = make("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
    if x.rank == 3:
        back = make("Transpose", result, perm=(0, 2, 1, 3))
        result = make("Reshape", back, make.ints(0, 0, -1))
    return through(make, node, grads, [result])


def _pairs(
    op: RotaryEmbedding, make: GradientBuilder, heads: Value, turned: int
) -> tuple[Value, Value]:
    """The first and the second channels of all pairs."""
    if op.interleaved:
        return make.slice(heads, 3, 0, turned, 2), make.slice(heads, 3, 1, turned, 2)
    half = turned // 2
    return make.slice(heads, 3, 0, half), make.slice(heads, 3, half, turned)
