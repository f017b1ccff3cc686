"""Two linear operators with nothing between them become one, where that multiplies no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    reach,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    attribute,
    require_float,
    require_own,
    require_shape,
    rounded,
    wide,
)
from infuse.passes.rules.linear.linear import per_column
from infuse.rewrite import Rule, require

MULTIPLIED = "weights are multiplied first"


def require_filled(*weights: Value) -> None:
    """Refuse where weights are shared or have no elements."""
    for w in weights:
        require_own(w)
        require(w.tensor.size != 0, "the weights are empty")


def require_cheaper(before: int, after: int) -> None:
    """Refuse where the number of multiplications would grow."""
    require(after <= before, "one operator would multiply more often than two")


def saving(before: int, after: int, place: str) -> str:
    """The note of a rewrite that is made for its cost."""
    return f"{before} multiplications a {place} became {after}"


# -- matrices --------------------------------------------------------------------------------------


def _sides(w: Value, node: Node | None) -> tuple[int, int]:
    """Rows and columns of what a Gemm or MatMul multiplies by."""
    rows, columns = (int(n) for n in wide_shape(w))
    return (columns, rows) if _flag(node, "transB") else (rows, columns)


def wide_shape(w: Value) -> tuple[int, ...]:
    """The shape of a constant."""
    assert w.const is not None
    return w.const.shape


def _flag(node: Node | None, name: str) -> bool:
    return node is not None and bool(node.op.attributes().get(name))


def _matrix(w: Value, node: Node | None) -> Array:
    """What a Gemm or MatMul multiplies by, its factor included."""
    attributes = {} if node is None else node.op.attributes()
    weights: Array = wide(w).T if attributes.get("transB") else wide(w)
    return weights * float(attributes.get("alpha", 1.0))


def _addend(c: Value | None, node: Node | None) -> Array | None:
    """What a Gemm adds to each row."""
    if c is None or node is None:
        return None
    return per_column(c, node.output.shape[1]) * float(attribute(node, "beta"))


def _costs(a: Value, b: Value, inner: Node | None, outer: Node | None) -> tuple[int, int]:
    """Multiplications a row before and after merging."""
    (rows, middle), (_, columns) = _sides(a, inner), _sides(b, outer)
    return middle * (rows + columns), rows * columns


class MergeMatMuls(Rule):
    """MatMul(MatMul(x, a) + p, b) → MatMul(x, a · b) + p · b, where that multiplies no more"""

    rows = ("G21",)
    rounding = MULTIPLIED
    examples = ({"x": (2, 3, 4), "a": (4, 6), "p": (6,), "b": (6, 5)},)

    def match(self, x: Variable, a: Variable, p: Variable, b: Variable) -> Any:
        inner = ops.matmul(x, ops.const(a), name="inner")
        return [ops.matmul(part, ops.const(b)) for part in (inner, inner + ops.const(p))]

    def when(self, x: Value, a: Value, b: Value, inner: Node, p: Value | None = None) -> None:
        require_float(x)
        require_shape(x)
        require(x.rank >= 2 and a.rank == b.rank == 2, "the operands are not matrices")
        require_filled(a, b)
        require_cheaper(*_costs(a, b, None, None))
        if p is not None:
            require(p.rank <= inner.output.rank, "the addend stretches the shape")
            per_column(p, a.shape[1])

    def build(self, x: Value, a: Value, b: Value, p: Value | None = None) -> Any:
        require_factors(a.dtype, a, b)
        if p is not None:
            require_addend(per_column(p, a.shape[1]), a.dtype, reach(a, wide_shape(a)[1]))
        result = ops.matmul(x, rounded(wide(a) @ wide(b), a))
        return result if p is None else result + rounded(per_column(p, a.shape[1]) @ wide(b), a)

    def note(self, a: Value, b: Value) -> str:
        return saving(*_costs(a, b, None, None), "row")


class MergeGemms(Rule):
    """Gemm(Gemm(x, a, p), b, q) → Gemm(x, a · b, p · b + q), where that multiplies no more; one may
    be a MatMul
    """

    rows = ("G21", "G14")
    rounding = MULTIPLIED
    examples = tuple(
        {
            "x": (4, 4),
            "a": (4, 4),
            "p": (4,),
            "b": (4, 4),
            "q": (1, 4),
            "first": first,
            "second": {"transB": 1},
        }
        for first in ({}, {"transA": 1, "transB": 1, "alpha": 0.5}, {"beta": 2.0})
    )

    def match(self, x: Variable, a: Variable, p: Variable, b: Variable, q: Variable) -> Any:
        gemm = ops.gemm(x, ops.const(a), ops.const(ops.maybe(p)), name="first")
        inner = ops.matmul(x, ops.const(a), name="inner")
        both = [
            ops.gemm(part, ops.const(b), ops.const(ops.maybe(q)), name="second")
            for part in (gemm, inner)
        ]
        return [*both, ops.matmul(gemm, ops.const(b), name="outer")]

    def when(
        self,
        x: Value,
        a: Value,
        b: Value,
        root: Node,
        p: Value | None = None,
        q: Value | None = None,
        first: Node | None = None,
    ) -> None:
        require_float(x)
        require_shape(x)
        require(x.rank == a.rank == b.rank == 2, "the operands are not matrices")
        require(not _flag(root, "transA"), "rows become columns in between")
        require_filled(a, b)
        require_cheaper(*_costs(a, b, first, root))
        _addend(p, first)
        _addend(q, root)

    def build(
        self,
        x: Value,
        a: Value,
        b: Value,
        root: Node,
        p: Value | None = None,
        q: Value | None = None,
        first: Node | None = None,
    ) -> Any:
        outer, own, later = _matrix(b, root), _addend(p, first), _addend(q, root)
        require_factors(a.dtype, a, b)
        if own is not None:
            require_addend(own, a.dtype, reach(a, len(own)))
        shifts = [own @ outer] if own is not None else []
        shifts += [later] if later is not None else []
        if len(shifts) == 2:
            require_sum(shifts[0], shifts[1], a.dtype, magnitude(a) * magnitude(b))
        args = [
            x,
            rounded(_matrix(a, first) @ outer, a),
            *([rounded(np.sum(shifts, axis=0), a)] if shifts else []),
        ]
        return Call("Gemm", tuple(args), {"transA": int(_flag(first, "transA"))})

    def note(self, a: Value, b: Value, root: Node, first: Node | None = None) -> str:
        return saving(*_costs(a, b, first, root), "row")


RULES = (MergeMatMuls, MergeGemms)
