"""Rows that are only arranged anew around a product of each row: the arrangements cancel."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    RESHAPES,
    attribute,
    is_one,
    permutation,
    require_shape,
    reshape_target,
    reshapes,
    target_shape,
)
from infuse.passes.rules.motion import UNARY
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
    """Reshape(Reshape(x) · w + b), the columns left alone → Reshape(x) · w + b, without Reshape
    where shapes agree
    """

    rows = ("G9", "G24")
    rounding = "sums of products may run in another order"
    examples = tuple(
        {"x": (2, 1, 4), "inner": inner, "w": (4, 5), "b": (5,), "outer": outer}
        for inner in ([int64s(2, 4)], [], [int64s(1)], [int64s(0)])
        for outer in ([int64s(2, 1, 5)], [], [int64s(0)])
    )

    def match(self, x: Variable, inner: Variable, w: Variable, b: Variable, outer: Variable) -> Any:
        arranged = ops.one_of(*reshapes(x, inner))
        return [
            Call(kind, (each, ops.rest(outer)))
            for kind in RESHAPES
            for each in _products(arranged, w, b)
        ]

    def when(self, x: Value, w: Value, root: Node, product: Node, b: Value | None = None) -> None:
        _require_columns(product, w, b)
        require_shape(x, root.output)
        require(root.output.rank >= 2, "the result has no rows")
        require(
            dims.compare("==", root.output.shape[-1], w.shape[1]) is True,
            "the columns are arranged anew",
        )
        require(dims.product(self._rows(w, root)) == dims.product(x.shape), "there are no columns")
        require(
            target_shape(x.shape, self._rows(w, root)) is not None, "two sizes change symbolically"
        )

    def build(self, x: Value, w: Value, root: Node, b: Value | None = None) -> Any:
        shape = self._rows(w, root)
        return _rebuilt(
            x if x.shape == shape else ops.reshape(x, reshape_target(x.shape, shape)), w, b
        )

    def _rows(self, w: Value, root: Node) -> Shape:
        return (*root.output.shape[:-1], w.shape[0])


class RemoveTransposesAroundProduct(Rule):
    """Transpose(Transpose(x) · w + b), the columns staying last → Transpose(x · w + b), or x · w +
    b
    """

    rows = ("G9", "G24")
    rounding = "sums of products may run in another order"
    examples = tuple(
        {
            "x": (2, 3, 6, 4),
            "w": (4, 5),
            "b": (5,),
            "inner": {"perm": (1, 0, 2, 3)},
            "outer": {"perm": outer},
        }
        for outer in ((1, 0, 2, 3), (2, 1, 0, 3))
    )

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        moved = ops.transpose(x, name="inner")
        return [ops.transpose(each, name="outer") for each in _products(moved, w, b)]

    def when(
        self, x: Value, w: Value, inner: Node, outer: Node, product: Node, b: Value | None = None
    ) -> None:
        _require_columns(product, w, b)
        last = x.rank - 1
        require(
            permutation(inner)[-1] == last and permutation(outer)[-1] == last, "the columns move"
        )

    def build(self, x: Value, w: Value, inner: Node, outer: Node, b: Value | None = None) -> Any:
        first = permutation(inner)
        perm = tuple(first[p] for p in permutation(outer))
        result = _rebuilt(x, w, b)
        return result if perm == tuple(range(len(perm))) else ops.transpose(result, perm=perm)


_FLAT = Call("Reshape", ((2, 3, 4), int64s(6, 4)))
_WEIGHTS = tuple(
    np.linspace(-1, 1, a * b, dtype=np.float32).reshape(a, b) for a, b in ((4, 6), (6, 5), (1, 5))
)


class UnflattenRows(Rule):
    """Reshape(Gemm(f(Gemm(Reshape(x), w), …), v)) that only arranges rows → f(x · w) · v, where
    that is fewer nodes
    """

    level = "extended"
    rows = ("G7", "G24")
    shares = True
    rounding = "the bias may be added later"
    examples = tuple(
        {
            "y": Call(
                "Gemm", (Call("Gelu", (Call("Gemm", (_FLAT, _WEIGHTS[0])),)), *_WEIGHTS[1:end])
            ),
            "t": int64s(*shape),
        }
        for end, shape in ((2, (2, 3, 5)), (3, (2, 3, 5)), (2, (3, 1, 2, 5)))
    )

    def match(self, y: Variable, t: Variable) -> Any:
        return ops.reshape(y, t)

    def when(self, y: Value, root: Node) -> None:
        require_shape(y, root.output)
        require(root.output.rank >= 3, "the result is a matrix")
        require(
            y.rank == 2 and y.shape[1] == root.output.shape[-1], "the columns are arranged anew"
        )
        chain = self._chain(y)
        products = [node for node in chain if node.kind == "Gemm"]
        require(products, "no Gemm is between")
        first = chain[-1].inputs[0]
        assert first is not None
        shape = self._before(first, root)
        source = self._source(first)
        require(dims.product(shape) == dims.product(source.shape), "there are no columns")
        require(target_shape(source.shape, shape) is not None, "two sizes change symbolically")
        removed = 1 + (source is not first and len(first.uses) == 1 and source.shape == shape)
        added = sum(node.input(2) is not None for node in products) + (source is first)
        require(removed > added, "it is not fewer nodes")

    def build(self, y: Value, root: Node) -> Any:
        chain = self._chain(y)
        first = chain[-1].inputs[0]
        assert first is not None
        source, shape = self._source(first), self._before(first, root)
        rows: Any = (
            source
            if source.shape == shape
            else ops.reshape(source, reshape_target(source.shape, shape))
        )
        for node in reversed(chain):
            rows = self._again(node, rows)
        return rows

    def _chain(self, y: Value) -> list[Node]:
        """The operators on rows that make `y`, the last one first, each read by the next alone."""
        chain: list[Node] = []
        node = y.producer
        while (
            node is not None
            and len(node.outputs[0].uses) == 1
            and (_is_plain(node) or node.kind in UNARY)
        ):
            if node.op.domain or node.inputs[0] is None or node.inputs[0].tensor.shape is None:
                break
            chain.append(node)
            node = node.inputs[0].producer
        while chain and chain[-1].kind != "Gemm":
            chain.pop()
        require(chain, "no Gemm is between")
        return chain

    def _source(self, first: Value) -> Value:
        """What the first operand is a Reshape of, or itself."""
        node = first.producer
        if node is not None and node.kind in RESHAPES and not node.op.domain:
            source = node.inputs[0]
            if source is not None and source.tensor.shape is not None:
                return source
        return first

    def _before(self, first: Value, root: Node) -> Shape:
        return (*root.output.shape[:-1], first.shape[1])

    def _again(self, node: Node, rows: Any) -> Any:
        if node.kind != "Gemm":
            return Call(node.kind, (rows,), node.op.attributes())
        w, b = node.inputs[1], node.input(2)
        assert w is not None
        assert w.const is not None
        product = ops.matmul(rows, w.const.T if attribute(node, "transB") else w)
        return product if b is None or b.const is None else product + b.const.reshape(-1)


def _is_plain(node: Node) -> bool:
    """Whether a Gemm is a product of rows with constant weights, and with numbers per column
    added.
    """
    if node.kind != "Gemm" or node.inputs[1] is None or not node.inputs[1].is_const:
        return False
    attributes, b = node.op.attributes(), node.input(2)
    if attributes["transA"] or attributes["alpha"] != 1 or attributes["beta"] != 1:
        return False
    return b is None or (
        b.is_const
        and b.tensor.size == node.output.shape[1]
        and b.shape[-1:] == node.output.shape[1:]
    )


RULES = (RemoveReshapesAroundProduct, RemoveTransposesAroundProduct, UnflattenRows)
