"""Scaled dot-product attention recognised from its parts, in both exporters' spellings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.broadcasting import resolved
from infuse.ir.expression import Call, OneOf, Variable
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ops.core.samples import Bools
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.attention.rotary import size_of
from infuse.passes.rules.cleanup.merging import require_factors
from infuse.passes.rules.common import data, is_one, number, require_float, require_shape, wide
from infuse.rewrite import Patch, Rule, require

LARGEST_MASK = 1 << 24
"""Bytes of the largest sum of constant masks that is stored."""
FAR_BELOW = {64: -1e18}
"""A score, by bits of the type, that no other score changes when it is added; -1e9 in types that
hold fewer digits.
"""


def _scaled(x: Any, name: str) -> OneOf:
    """`x` · c, x / c, or x itself; the constant bound to one of two names."""
    factor, divisor = Variable(f"{name}_factor"), Variable(f"{name}_divisor")
    return ops.one_of(x * ops.const(factor), x / ops.const(divisor), x)


class FuseAttention(Rule):
    """softmax(scale · Q · Kᵀ + mask) · V → Attention(Q, K, V, mask), for heads side by side in one
    or two axes.

    The scale may stand at Q, at Kᵀ, at the product, or be shared out between them. A mask may also
    choose: where a condition holds the score, elsewhere a number far below. Rows that a mask of -∞
    hides as a whole give zeros, where the parts give NaN.
    """

    level = "extended"
    rows = ("G33",)
    rounding = "scores are scaled in another place, and summed block by block"
    examples = tuple(
        {
            "q": (*heads, 5, 4),
            "kt": (*heads, 4, 6),
            "v": (*heads, 6, 7),
            "mask": (1, 5, 6),
            "more": (5, 6),
            "condition": Bools((5, 6)),
            "low": np.float32(-1e20),
            "q_factor": np.float32(0.5),
            "k_factor": np.float32(0.5),
            "s_factor": np.float32(2),
            "q_divisor": np.float32(2),
            "k_divisor": np.float32(3),
            "s_divisor": np.float32(0.5),
        }
        for heads in ((2, 3), (3,))
    )

    def match(
        self,
        q: Variable,
        kt: Variable,
        v: Variable,
        mask: Variable,
        more: Variable,
        condition: Variable,
        low: Variable,
    ) -> Any:
        product = ops.matmul(_scaled(q, "q"), _scaled(kt, "k"), name="product")
        scores = _scaled(product, "s")
        chosen = ops.one_of(
            scores,
            ops.where(condition, scores, ops.const(low), name="keeps"),
            ops.where(condition, ops.const(low), scores, name="hides"),
        )
        masked = ops.one_of((chosen + mask) + more, chosen + mask, chosen)
        weights = ops.softmax(masked, name="softmax")
        safe = ops.where(Call("IsNaN", (weights,)), 0.0, weights)
        return ops.matmul(ops.one_of(weights, safe), v, name="mix")

    def when(
        self,
        q: Value,
        kt: Value,
        v: Value,
        softmax: Node,
        product: Node,
        mask: Value | None = None,
        more: Value | None = None,
        condition: Value | None = None,
        low: Value | None = None,
        q_factor: Value | None = None,
        q_divisor: Value | None = None,
        k_factor: Value | None = None,
        k_divisor: Value | None = None,
        s_factor: Value | None = None,
        s_divisor: Value | None = None,
    ) -> None:
        require_float(q)
        require_shape(q, kt, v)
        rank = q.rank
        require(
            rank in (3, 4) and kt.rank == rank == v.rank,
            "Q, K and V do not have three or four axes",
        )
        require(
            softmax.op.attributes()["axis"] in (-1, rank - 1), "softmax does not run over the keys"
        )
        require(0 not in q.shape[: rank - 2], "there are no heads")
        for axis in range(rank - 2):
            require(
                q.shape[axis] == kt.shape[axis] == v.shape[axis], "batch or heads are broadcast"
            )
        require(kt.shape[-1] == v.shape[-2], "keys and values differ in number")
        for constant in (q_factor, q_divisor, k_factor, k_divisor, s_factor, s_divisor):
            if constant is not None:
                require(number(constant) != 0, "the scale is zero")
                require_factors(q.dtype, wide(constant))
                require(np.isfinite(number(constant)), "the scale is not a number")
                require(constant.rank <= rank, "the scale stretches the scores")
        for operand in (mask, more, condition):
            if operand is not None:
                _require_fit(operand, product.output)
        require(
            low is None or number(low) <= FAR_BELOW.get(q.dtype.bits, -1e9),
            "what is hidden still counts",
        )

    def build(
        self,
        patch: Patch,
        q: Value,
        kt: Value,
        v: Value,
        mask: Value | None = None,
        more: Value | None = None,
        condition: Value | None = None,
        low: Value | None = None,
        keeps: Node | None = None,
        q_factor: Value | None = None,
        q_divisor: Value | None = None,
        k_factor: Value | None = None,
        k_divisor: Value | None = None,
        s_factor: Value | None = None,
        s_divisor: Value | None = None,
    ) -> Any:
        scale = math.prod(number(c) for c in (q_factor, k_factor, s_factor) if c is not None)
        scale /= math.prod(number(c) for c in (q_divisor, k_divisor, s_divisor) if c is not None)
        masks: list[Any] = [m for m in (mask, more) if m is not None]
        if condition is not None and low is not None:
            limit, zero = (np.asarray(n, dtype=q.dtype.numpy) for n in (number(low), 0))
            masks.append(
                ops.where(condition, *((zero, limit) if keeps is not None else (limit, zero)))
            )
        return _attention(patch, q, kt, v, masks, scale)


def _attention(patch: Patch, q: Value, kt: Value, v: Value, masks: list[Any], scale: float) -> Call:
    """The operator over four axes; where there are three, batch and heads are one of them."""
    flat = q.rank == 3
    k = ops.transpose(kt, perm=(0, 2, 1) if flat else (0, 1, 3, 2))
    front = np.zeros(1, dtype=np.int64)
    operands = [ops.unsqueeze(x, front) if flat else x for x in (q, k, v)]
    total = _sum(masks)
    wide = (
        []
        if total is None
        else [_for_all_queries(patch.value(total, like=q.dtype), q, patch.graph)]
    )
    call = Call("Attention", (*operands, *wide), {"scale": scale})
    return ops.squeeze(call, front) if flat else call


def _for_all_queries(mask: Value, q: Value, graph: Graph) -> Any:
    """The mask with a row for every query: ONNX Runtime's Attention asks for that, although ONNX
    does not.
    """
    queries = q.shape[-2]
    if mask.shape[-2] == queries or not is_one(mask.shape[-2]):
        return mask
    if isinstance(queries, int):
        return ops.expand(mask, int64s(queries, 1))
    count = size_of(queries, graph, q, q.rank - 2)
    return ops.expand(mask, ops.concat(count, int64s(1), axis=0))


def _sum(masks: list[Any]) -> Any:
    """One mask for all; constant ones are added now where the sum is not too large."""
    total: Any = None
    for mask in masks:
        total = mask if total is None else _constant_sum(total, mask)
    return total


def _constant_sum(a: Any, b: Any) -> Any:
    arrays: list[Array] = [
        data(m) if isinstance(m, Value) else m for m in (a, b) if _is_constant(m)
    ]
    if len(arrays) == 2:
        size = math.prod(np.broadcast_shapes(arrays[0].shape, arrays[1].shape)) * arrays[0].itemsize
        if size <= LARGEST_MASK:
            return arrays[0] + arrays[1]
    return ops.add(a, b)


def _is_constant(mask: Any) -> bool:
    return isinstance(mask, np.ndarray) or (isinstance(mask, Value) and mask.is_const)


def _require_fit(mask: Value, scores: Value) -> None:
    """Refuse unless a mask is broadcast to the scores without stretching them, with a column for
    every key.
    """
    require_shape(mask)
    require(2 <= mask.rank <= scores.rank, "the mask does not have the axes of the scores")
    shape = resolved(mask.shape, mask.shape, scores.shape)
    pairs = list(zip(shape[::-1], scores.shape[::-1]))
    require(
        all(is_one(a) or a == b for a, b in pairs), "the mask does not broadcast against the scores"
    )
    require(dims.compare("==", *pairs[0]) is True, "the mask has one column for all keys")


RULES = (FuseAttention,)
