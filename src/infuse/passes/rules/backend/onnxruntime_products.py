"""Products that ONNX Runtime scales and transposes itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.domains.microsoft import DOMAIN
from infuse.passes.rules.backend.onnxruntime import RuntimeRule, own, require_float32
from infuse.passes.rules.cleanup.merging import require_factors
from infuse.passes.rules.common import (
    attribute,
    number,
    permutation,
    require_same_type,
    require_shape,
    wide,
)
from infuse.rewrite import require


def _products(x: Any, y: Any) -> list[Call]:
    """The patterns of both products of matrices; `product` is the node."""
    return [
        ops.matmul(x, y, name="product"),
        Call("FusedMatMul", (x, y), domain=DOMAIN, label="product"),
    ]


def require_no_softmax(product: Node) -> None:
    """Refuse where a softmax follows: the whole attention is to be found first, and the runtime
    fuses what is left.
    """
    node, passed = product, ("Mul", "Div", "Add", "Where", "Reshape")
    while len(users := list(node.output.users())) == 1 and users[0].kind in passed:
        node = users[0]
    require(
        not any(user.kind == "Softmax" for user in users), "it makes the scores of an attention"
    )


class ScaleInsideMatMul(RuntimeRule):
    """(a · b) · c, (a · c) · b, a · (b · c) → FusedMatMul(a, b, alpha=c) for a number c; also a
    quotient
    """

    rows = ("G16",)
    rounding = "the number multiplies sums and not results"
    examples = tuple(
        {"a": a, "b": b, "c": np.float32(0.5)}
        for a, b in (((2, 3, 4), (4, 5)), ((4, 5), (2, 3, 4)))
    )

    def match(self, a: Variable, b: Variable, c: Variable) -> Any:
        number = ops.const(c)
        scaled = [Call(kind, (a, number), label="scaled") for kind in ("Mul", "Div")]
        return [
            *(s for p in _products(a, b) for s in (p * number, p / number)),
            *(p for operand in scaled for p in (*_products(operand, b), *_products(b, operand))),
        ]

    def when(
        self, a: Value, b: Value, c: Value, product: Node, root: Node, scaled: Node | None = None
    ) -> None:
        require_float32(a)
        require_shape(product.output)
        if scaled is not None:
            require_same_type(a, scaled, "the number stretches the shape")
            require(not b.is_const, "the other operand is constant, and takes the number")
        require(number(c) != 0 and np.isfinite(number(c)), "the number is zero or none")
        require_factors(a.dtype, wide(c))
        require(c.rank <= product.output.rank, "the number stretches the shape")
        require_no_softmax(product)

    def build(
        self, a: Value, b: Value, c: Value, product: Node, root: Node, scaled: Node | None = None
    ) -> Any:
        attributes = dict(product.op.attributes())
        factor = 1 / number(c) if "Div" in (root.kind, scaled and scaled.kind) else number(c)
        turned = scaled is not None and product.inputs[1] is scaled.output
        return own(
            "FusedMatMul",
            *((b, a) if turned else (a, b)),
            **{**attributes, "alpha": float(attributes.get("alpha", 1.0) * factor)},
        )


class TransposeInsideMatMul(RuntimeRule):
    """a · bᵀ → FusedMatMul(a, b, transB=1), and aᵀ · b alike, where a Transpose swaps the last two
    axes
    """

    rows = ("G29",)

    def match(self, a: Variable, b: Variable) -> Any:
        return [
            pattern
            for moved in (ops.transpose(b, name="right"),)
            for pattern in _products(a, moved)
        ] + _products(ops.transpose(a, name="left"), b)

    def when(
        self, a: Value, product: Node, left: Node | None = None, right: Node | None = None
    ) -> None:
        require_float32(a)
        moved = left or right
        assert moved is not None
        perm = attribute(moved, "perm")
        require_shape(*product.operands())
        require(
            all(v.rank >= 2 for v in product.operands()),
            "the runtime does not turn a matrix beside a vector",
        )
        rank = moved.output.rank
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        require(
            rank >= 2 and (swapped == (1, 0) if perm is None else tuple(perm) == swapped),
            "other axes move",
        )
        attributes = product.op.attributes()
        require(
            not attributes.get("transBatchA") and not attributes.get("transBatchB"),
            "batches are transposed too",
        )
        require_no_softmax(product)

    def build(self, a: Value, b: Value, product: Node, left: Node | None = None) -> Any:
        attributes = dict(product.op.attributes())
        side = "transA" if left is not None else "transB"
        return own("FusedMatMul", a, b, **{**attributes, side: 1 - attributes.get(side, 0)})


class TransposeOfFusedMatMul(RuntimeRule):
    """Transpose(FusedMatMul(a, b)) of the last two axes → FusedMatMul(b, a) that turns what the
    other did not
    """

    rows = ("G29",)
    rounding = "sums run in another order"
    examples = (
        {
            "a": (2, 3, 4),
            "b": (2, 5, 4),
            "product": {"transB": 1, "alpha": 0.5},
            "moved": {"perm": (0, 2, 1)},
        },
    )

    def match(self, a: Variable, b: Variable) -> Any:
        product = Call("FusedMatMul", (a, b), domain=DOMAIN, label="product")
        return ops.transpose(product, name="moved")

    def when(self, a: Value, b: Value, product: Node, moved: Node) -> None:
        require_shape(a, b, moved.output)
        rank = moved.output.rank
        require(a.rank >= 2 and b.rank >= 2, "an operand is a vector")
        require(permutation(moved) == (*range(rank - 2), rank - 1, rank - 2), "other axes move")
        attributes = product.op.attributes()
        require(
            not attributes.get("transBatchA") and not attributes.get("transBatchB"),
            "batches are transposed too",
        )

    def build(self, a: Value, b: Value, product: Node) -> Any:
        attributes = dict(product.op.attributes())
        turned = {
            "transA": 1 - attributes.get("transB", 0),
            "transB": 1 - attributes.get("transA", 0),
        }
        return own("FusedMatMul", b, a, **{**attributes, **turned})


RULES = (ScaleInsideMatMul, TransposeInsideMatMul, TransposeOfFusedMatMul)
