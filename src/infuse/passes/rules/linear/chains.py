"""Two linear operators with nothing between them become one, where that multiplies no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    reach,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    attribute,
    permutation,
    require_float,
    require_own,
    require_shape,
    reshape_target,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import convolution, old_bias
from infuse.passes.rules.convolution.window import Window, by_group, conv_weights, require_explicit
from infuse.passes.rules.linear.linear import per_column
from infuse.rewrite import Rule, require

_MERGED = "weights are multiplied first"


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
    rounding = _MERGED
    examples = ({"x": (2, 3, 4), "a": (4, 6), "p": (6,), "b": (6, 5)},)

    def match(self, x: Variable, a: Variable, p: Variable, b: Variable) -> Any:
        inner = ops.matmul(x, ops.const(a), name="inner")
        return [ops.matmul(part, ops.const(b)) for part in (inner, inner + ops.const(p))]

    def when(self, x: Value, a: Value, b: Value, inner: Node, p: Value | None = None) -> None:
        require_float(x)
        require_shape(x)
        require(x.rank >= 2 and a.rank == b.rank == 2, "the operands are no matrices")
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
    rounding = _MERGED
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
        require(x.rank == a.rank == b.rank == 2, "the operands are no matrices")
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


# -- convolutions ----------------------------------------------------------------------------------


class MergeConvs(Rule):
    """Conv(Conv(x, a, p), b, q) → Conv(x, a ∗ b, p · b + q), where that multiplies no more.

    What the outer one pads must be zero after the inner one too: then that has one pixel, no bias
    and no steps.
    """

    rows = ("G21",)
    rounding = _MERGED
    examples = (
        {
            "x": (1, 3, 7, 6),
            "a": (8, 3, 3, 3),
            "p": (8,),
            "b": (2, 8, 1, 1),
            "q": (2,),
            "first": {"strides": (2, 1)},
        },
        {
            "x": (1, 2, 7, 6),
            "a": (9, 2, 3, 1),
            "p": (9,),
            "b": (1, 9, 1, 3),
            "q": (1,),
            "first": {"pads": (1, 0, 2, 0)},
        },
        {
            "x": (1, 2, 9, 9),
            "a": (9, 2, 1, 1),
            "p": (9,),
            "b": (2, 9, 3, 3),
            "q": (2,),
            "second": {"strides": (2, 2)},
        },
        {
            "x": (1, 2, 9),
            "a": (9, 2, 2),
            "p": (9,),
            "b": (1, 9, 2),
            "q": (1,),
            "first": {"strides": (2,)},
        },
        {
            "x": (1, 4, 7),
            "a": (8, 2, 1),
            "b": (4, 4, 3),
            "first": {"group": 2},
            "second": {"group": 2, "pads": (1, 1)},
        },
    )

    def match(self, x: Variable, a: Variable, p: Variable, b: Variable, q: Variable) -> Any:
        return convolution("Conv", convolution("Conv", x, a, p, "first"), b, q, "second")

    def when(
        self, x: Value, a: Value, b: Value, p: Value | None, first: Node, second: Node
    ) -> None:
        require_float(x)
        require_shape(x)
        require_filled(a, b)
        require_explicit(first, second)
        require(attribute(first, "group") == attribute(second, "group"), "the groups differ")
        inner, outer = Window.of(first), Window.of(second)
        if any(outer.pads):
            require(p is None, "it pads with zeros, and the inner bias is none")
            require(inner.is_point, "it pads with zeros what the inner one would compute otherwise")
        require_cheaper(*self._costs(first, second))

    def build(
        self,
        x: Value,
        a: Value,
        b: Value,
        p: Value | None,
        q: Value | None,
        first: Node,
        second: Node,
    ) -> Any:
        groups = attribute(first, "group")
        require_factors(a.dtype, a, b)
        if p is not None:
            require_addend(wide(p), a.dtype, reach(a, wide_shape(a)[0]))
        inner, outer = by_group(wide(a), groups), by_group(wide(b), groups)
        args: list[Any] = [x, rounded(_composed(inner, outer, first, second), a)]
        if p is not None or q is not None:
            sums = outer.sum(axis=tuple(range(3, outer.ndim)))
            own = old_bias(p, wide_shape(a)[0]).reshape(groups, -1)
            moved = np.einsum("goc,gc->go", sums, own).reshape(-1)
            if p is not None and q is not None:
                require_sum(moved, wide(q), a.dtype, magnitude(a) * magnitude(b))
            args.append(rounded(moved + old_bias(q, len(moved)), a))
        merged = Window.of(first).then(Window.of(second))
        return Call("Conv", tuple(args), {"group": groups, **merged.attributes()})

    def note(self, first: Node, second: Node) -> str:
        return saving(*self._costs(first, second), "pixel")

    def _costs(self, first: Node, second: Node) -> tuple[int, int]:
        """Multiplications before and after for each pixel of the result."""
        inner, outer = (conv_weights(node) for node in (first, second))
        merged = Window.of(first).then(Window.of(second))
        pixels = math.prod(Window.of(second).strides)
        before = math.prod(inner) * pixels + math.prod(outer)
        return before, outer[0] * inner[1] * math.prod(merged.kernel)


def _composed(inner: Array, outer: Array, first: Node, second: Node) -> Array:
    """The filters of two convolutions in a row; all are (group, filters, channels, …)."""
    one, two = Window.of(first), Window.of(second)
    merged = one.then(two)
    result = np.zeros((*outer.shape[:2], inner.shape[2], *merged.kernel))
    for i in np.ndindex(one.kernel):
        for j in np.ndindex(two.kernel):
            place = one.offset(i), two.offset(j)
            spot = ((a + b * s) // d for a, b, s, d in zip(*place, one.strides, merged.dilations))
            target = (slice(None),) * 3 + tuple(spot)
            result[target] += outer[target[:3] + j] @ inner[target[:3] + i]
    return result.reshape(-1, *result.shape[2:])


class FuseConvMatMul(Rule):
    """MatMul(Conv(x, w, b) as rows of pixels, m) → the rows of Conv(x, w · m, b · m), where that
    multiplies no more
    """

    rows = ("G14", "G21")
    rounding = _MERGED
    examples = (
        {
            **{
                "x": (2, 3, 4, 4),
                "w": (6, 3, 2, 2),
                "b": (6,),
                "m": (6, 5),
                "conv": {"strides": (2, 2)},
            },
            **{"s": int64s(2, 6, -1), "rows": {"perm": (0, 2, 1)}, "last": {"perm": (0, 2, 3, 1)}},
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable, s: Variable, m: Variable) -> Any:
        conv = convolution("Conv", x, w, b)
        rows, last = (
            ops.transpose(ops.reshape(conv, s), name="rows"),
            ops.transpose(conv, name="last"),
        )
        return [ops.matmul(rows, ops.const(m)), ops.matmul(last, ops.const(m))]

    def when(
        self,
        x: Value,
        w: Value,
        m: Value,
        conv: Node,
        rows: Node | None = None,
        last: Node | None = None,
    ) -> None:
        require_float(x)
        require_filled(w, m)
        require(
            m.rank == 2 and attribute(conv, "group") == 1, "it is no matrix, or there are groups"
        )
        moved = rows or last
        assert moved is not None
        source = moved.inputs[0]
        assert source is not None
        require_shape(source, conv.output)
        order = (0, *range(2, source.rank), 1)
        require(permutation(moved) == order, "it does not move the channels last")
        same = source.shape[:2] == conv.output.shape[:2]
        require(same, "the channels are arranged anew")
        require_cheaper(*self._costs(w, m))
        self._flat(conv, source, m)

    def build(
        self,
        x: Value,
        w: Value,
        b: Value | None,
        m: Value,
        conv: Node,
        rows: Node | None = None,
        last: Node | None = None,
    ) -> Any:
        moved = rows or last
        assert moved is not None
        require_factors(w.dtype, w, m)
        if b is not None:
            require_addend(wide(b), w.dtype, reach(w, wide_shape(w)[0]))
        weights = np.tensordot(wide(m), wide(w), (0, 0))
        bias = [] if b is None else [rounded(wide(b) @ wide(m), w)]
        result: Any = Call("Conv", (x, rounded(weights, w), *bias), conv.op.attributes())
        if rows is not None:
            assert rows.inputs[0] is not None
            result = ops.reshape(result, self._flat(conv, rows.inputs[0], m))
        return ops.transpose(result, perm=permutation(moved))

    def note(self, w: Value, m: Value) -> str:
        return saving(*self._costs(w, m), "pixel")

    def _costs(self, w: Value, m: Value) -> tuple[int, int]:
        filters, channels, *kernel = wide_shape(w)
        columns = wide_shape(m)[1]
        taps = channels * math.prod(kernel)
        return filters * (taps + columns), columns * taps

    def _flat(self, conv: Node, flat: Value, m: Value) -> Array:
        """The target of the Reshape when the convolution has as many channels as the product has
        columns.
        """

        def wider(shape: Shape) -> Shape:
            return (shape[0], wide_shape(m)[1], *shape[2:])

        return reshape_target(wider(conv.output.shape), wider(flat.shape))


RULES = (MergeMatMuls, MergeGemms, MergeConvs, FuseConvMatMul)
