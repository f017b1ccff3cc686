"""Scaled dot-product attention recognised from its parts, in both exporters' spellings."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.expression import Call, OneOf, Variable
from infuse.ir.graph import Node, Value
from infuse.rewrite import Rule, require


def _scaled(x: Any, factor: str, divisor: str) -> OneOf:
    """x · c, x / c or x itself, the constant bound to one of two names."""
    return ops.one_of(x * ops.const(Variable(factor)), x / ops.const(Variable(divisor)), x)


class FuseAttention(Rule):
    """softmax(scale · Q · Kᵀ + mask) · V → Attention(Q, K, V, mask), on (batch, heads, sequence, size) tensors.

    The scale may stand at Q, at Kᵀ, at the product, or be shared out between them.
    """

    level = "extended"
    rows = ("G33",)

    def match(self, q: Any, kt: Any, v: Any, mask: Any) -> Any:
        left, right = _scaled(q, "q_factor", "q_divisor"), _scaled(kt, "k_factor", "k_divisor")
        scores = _scaled(ops.matmul(left, right, name="product"), "s_factor", "s_divisor")
        masked = ops.one_of(scores + mask, scores)
        return ops.matmul(ops.softmax(masked, name="softmax"), v, name="mix")

    def when(self, q: Value, kt: Value, v: Value, softmax: Node, product: Node, root: Node) -> None:
        shapes = [value.tensor.shape for value in (q, kt, v)]
        require(all(s is not None and len(s) == 4 for s in shapes), "Q, K and V do not have four axes")
        require(softmax.op.attributes()["axis"] in (-1, 3), "softmax does not run over the keys")
        require(all(x.dtype.is_float for x in (q, kt, v)), "the elements are no floats")
        for axis in (0, 1):
            sizes = {x.shape[axis] for x in (q, kt, v)}
            require(len(sizes) == 1, "batch or heads are broadcast")
        require(product.output.shape == softmax.output.shape, "the mask stretches the scores")

    def build(self, root: Node, patch: Any, q: Value, kt: Value, v: Value, softmax: Node, product: Node) -> Any:
        mask, scale = _read_scores(softmax, product, q, kt)
        k = ops.transpose(kt, perm=(0, 1, 3, 2))
        if mask is None:
            return Call("Attention", (q, k, v), {"scale": scale})
        return Call("Attention", (q, k, v, mask), {"scale": scale})


def _read_scores(softmax: Node, product: Node, q: Value, kt: Value) -> tuple[Value | None, float]:
    """The mask and the total scale between the product's operands and the softmax."""
    scale = 1.0
    for operand, plain in zip(product.inputs, (q, kt)):
        assert operand is not None
        if operand is not plain and operand.producer is not None:
            scale *= _factor(operand.producer)
    mask: Value | None = None
    value = softmax.inputs[0]
    while value is not None and value is not product.output:
        node = value.producer
        assert node is not None
        if node.kind == "Add":
            first, second = node.inputs
            inside = first if first is not None and _leads_to(first, product) else second
            mask = second if inside is first else first
            value = inside
        else:
            scale *= _factor(node)
            value = next(x for x in node.operands() if x.const is None)
    require(mask is None or mask.rank <= 4, "the mask has more than four axes")
    if mask is not None:
        require(_fits(mask, softmax.output), "the mask does not broadcast against the scores")
    return mask, scale


def _leads_to(value: Value, product: Node) -> bool:
    for _ in range(3):
        if value is product.output:
            return True
        node = value.producer
        if node is None or node.kind not in ("Mul", "Div"):
            return False
        computed = [x for x in node.operands() if x.const is None]
        if len(computed) != 1:
            return False
        value = computed[0]
    return False


def _factor(node: Node) -> float:
    """The scalar by which a Mul or Div multiplies its computed operand."""
    constant = next(x.const for x in node.operands() if x.const is not None)
    require(constant.size == 1, "the scale varies")
    number = float(np.asarray(constant).reshape(-1)[0])
    return number if node.kind == "Mul" else 1 / number


def _fits(mask: Value, scores: Value) -> bool:
    shift = scores.rank - mask.rank
    pairs = [(mask.shape[i], scores.shape[i + shift]) for i in range(mask.rank)]
    return all(dims.compare("==", a, 1) is True or a == b for a, b in pairs)


RULES = (FuseAttention,)
