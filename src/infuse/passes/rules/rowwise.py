"""Rows that are only arranged anew around a product of each row: the arrangements cancel."""

from __future__ import annotations

from typing import Any

from infuse import ops
from infuse.ir import dims
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.types import Shape
from infuse.ops.sizes import int64s
from infuse.passes.rules.common import (
    RESHAPES,
    is_one,
    permutation,
    require_shape,
    reshape_target,
    reshapes,
    target_shape,
)
from infuse.rewrite import Rule, require


def _products(rows: Any, w: Any, b: Any) -> list[Call]:
    """The patterns of rows · w, with and without a constant added."""
    product = ops.matmul(rows, ops.const(w), name="product")
    return [product, product + ops.const(b)]


def _require_columns(product: Node, w: Value, b: Value | None) -> None:
    """Refuse unless the weights are a matrix, and what is added is one number for each column."""
    require_shape(product.output)
    require(w.rank == 2 and product.output.rank >= 2, "the weights are no matrix")
    if b is not None:
        require(b.rank <= product.output.rank, "the constant stretches the shape")
        require(all(is_one(n) for n in b.shape[:-1]), "the constant varies over rows")
        require(b.tensor.size in (1, w.shape[1]), "the constant stretches the columns")


def _rebuilt(rows: Any, w: Value, b: Value | None) -> Any:
    product = ops.matmul(rows, w)
    if b is None:
        return product
    bias = b.const
    assert bias is not None
    return product + bias.reshape(-1)


class RemoveReshapesAroundProduct(Rule):
    """Reshape(Reshape(x) · w + b), the columns left alone → Reshape(x) · w + b, without Reshape where shapes agree"""

    rows = ("G9", "G24")
    rounding = "sums of products may run in another order"
    examples = tuple(
        {"x": (2, 1, 4), "inner": inner, "w": (4, 5), "b": (5,), "outer": outer}
        for inner in ([int64s(2, 4)], [], [int64s(1)], [int64s(0)])
        for outer in ([int64s(2, 1, 5)], [], [int64s(0)])
    )

    def match(self, x: Any, inner: Any, w: Any, b: Any, outer: Any) -> Any:
        arranged = ops.one_of(*reshapes(x, inner))
        return [Call(kind, (each, ops.rest(outer))) for kind in RESHAPES for each in _products(arranged, w, b)]

    def when(self, x: Value, w: Value, root: Node, product: Node, b: Value | None = None) -> None:
        _require_columns(product, w, b)
        require_shape(x, root.output)
        require(root.output.rank >= 2, "the result has no rows")
        require(dims.compare("==", root.output.shape[-1], w.shape[1]) is True, "the columns are arranged anew")
        require(dims.product(self._rows(w, root)) == dims.product(x.shape), "there are no columns")
        require(target_shape(x.shape, self._rows(w, root)) is not None, "two sizes change symbolically")

    def build(self, x: Value, w: Value, root: Node, b: Value | None = None) -> Any:
        shape = self._rows(w, root)
        return _rebuilt(x if x.shape == shape else ops.reshape(x, reshape_target(x.shape, shape)), w, b)

    def _rows(self, w: Value, root: Node) -> Shape:
        return (*root.output.shape[:-1], w.shape[0])


class RemoveTransposesAroundProduct(Rule):
    """Transpose(Transpose(x) · w + b), the columns staying last → Transpose(x · w + b), or x · w + b"""

    rows = ("G9", "G24")
    rounding = "sums of products may run in another order"
    examples = tuple(
        {"x": (2, 3, 6, 4), "w": (4, 5), "b": (5,), "inner": {"perm": (1, 0, 2, 3)}, "outer": {"perm": outer}}
        for outer in ((1, 0, 2, 3), (2, 1, 0, 3))
    )

    def match(self, x: Any, w: Any, b: Any) -> Any:
        moved = ops.transpose(x, name="inner")
        return [ops.transpose(each, name="outer") for each in _products(moved, w, b)]

    def when(self, x: Value, w: Value, inner: Node, outer: Node, product: Node, b: Value | None = None) -> None:
        _require_columns(product, w, b)
        last = x.rank - 1
        require(permutation(inner)[-1] == last and permutation(outer)[-1] == last, "the columns move")

    def build(self, x: Value, w: Value, inner: Node, outer: Node, b: Value | None = None) -> Any:
        first = permutation(inner)
        perm = tuple(first[p] for p in permutation(outer))
        result = _rebuilt(x, w, b)
        return result if perm == tuple(range(len(perm))) else ops.transpose(result, perm=perm)


RULES = (RemoveReshapesAroundProduct, RemoveTransposesAroundProduct)
