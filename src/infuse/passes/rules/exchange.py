"""Operators exchanged so that less data moves: constants after reductions, reductions and others
before transposes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.base import Bools, Floats, Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    attribute,
    axes_of,
    data,
    permutation,
    require_float,
    require_same_type,
    require_shape,
    rounded,
    wide,
)
from infuse.passes.rules.convolution import by_channel
from infuse.passes.rules.merging import require_addend
from infuse.passes.rules.motion import BINARY, UNARY
from infuse.passes.rules.movement import cuts, sliced
from infuse.passes.rules.window import Window, require_explicit
from infuse.rewrite import Rule, require

LINEAR = ("ReduceSum", "ReduceMean")
ORDERED = ("ReduceMax", "ReduceMin")
REDUCTIONS = (*LINEAR, *ORDERED, "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2")


class _AfterReduction(Rule):
    """Reduce(x ∘ c) → Reduce(x) ∘ c, where c is the same along what is reduced."""

    rows = ("G25",)
    rounding = "sums are scaled or shifted, not their terms"
    examples = tuple(
        {"x": (2, 3, 4), "axes": int64s(-1, 1), "c": c, "reduction": {"keepdims": keep}}
        for c in (np.float32(2.5), (2, 1, 1))
        for keep in (0, 1)
    )
    kind = ""

    def match(self, x: Variable, axes: Variable, c: Variable) -> Any:
        part = Call(self.kind, (x, ops.const(c)), label="inner")
        return [
            Call(kind, (part, ops.const(axes)), label="reduction") for kind in (*LINEAR, *ORDERED)
        ]

    def when(self, x: Value, c: Value, inner: Node, axes: Value, reduction: Node) -> None:
        require_float(x)
        require_same_type(x, inner, "the constant stretches the shape")
        require(c.rank <= x.rank, "the constant stretches the shape")
        reduced = axes_of(axes, x)
        require(reduced, "the axes are all or none")
        self._after(x, c, reduced, reduction)

    def build(self, x: Value, c: Value, axes: Value, reduction: Node) -> Any:
        after = self._after(x, c, axes_of(axes, x), reduction)
        return Call(self.kind, (Call(reduction.kind, (x, axes), reduction.op.attributes()), after))

    def _after(self, x: Value, c: Value, reduced: list[int], reduction: Node) -> Array:
        """The constant as it meets the result; Refusal where it varies along what is reduced."""
        full = data(c).reshape((1,) * (x.rank - c.rank) + data(c).shape)
        require(
            all(full.shape[axis] == 1 for axis in reduced),
            "the constant varies along what is reduced",
        )
        self._require_fit(c, reduction)
        full = rounded(full * self._count(x, reduced, reduction), c)
        shape = (
            full if attribute(reduction, "keepdims") else full.reshape(self._left(full, reduced))
        )
        return shape.reshape(()) if shape.size == 1 and c.rank == 0 else shape

    def _left(self, full: Array, reduced: list[int]) -> list[int]:
        return [n for axis, n in enumerate(full.shape) if axis not in reduced]

    def _count(self, x: Value, reduced: list[int], reduction: Node) -> int:
        return 1

    def _require_fit(self, c: Value, reduction: Node) -> None:
        """Refuse constants that do not commute with the reduction."""


class ScaleAfterReduction(_AfterReduction):
    """ReduceSum(x · c) → ReduceSum(x) · c (ReduceMean; ReduceMax, ReduceMin for c > 0)"""

    kind = "Mul"

    def _require_fit(self, c: Value, reduction: Node) -> None:
        size = np.abs(wide(c))
        require(
            bool(np.all((size > 1e-30) & (size < 1e30))),
            "the constant is zero, infinite or nearly so",
        )
        require(
            reduction.kind in LINEAR or bool(np.all(wide(c) > 0)),
            "a negative factor turns the order round",
        )


class ShiftAfterReduction(_AfterReduction):
    """ReduceMean(x + c) → ReduceMean(x) + c (ReduceMax, ReduceMin), ReduceSum(x + c) → ReduceSum(x)
    + n · c
    """

    kind = "Add"

    def _require_fit(self, c: Value, reduction: Node) -> None:
        require(bool(np.isfinite(wide(c)).all()), "the constant is infinite")
        if reduction.kind in LINEAR and c.dtype.is_float:
            require_addend(wide(c), c.dtype)

    def _count(self, x: Value, reduced: list[int], reduction: Node) -> int:
        sizes = [x.shape[axis] for axis in set(reduced)]
        require(all(isinstance(n, int) for n in sizes), "the number of terms is not known")
        terms = math.prod(int(n) for n in sizes if isinstance(n, int))
        require(terms > 0, "there are no terms")
        return terms if reduction.kind == "ReduceSum" else 1


class AffineAfterPool(Rule):
    """AveragePool(x · c), AveragePool(x + c) → AveragePool(x) · c or + c, per channel (global
    too)
    """

    rows = ("G25",)
    rounding = "means are scaled or shifted, not their terms"
    examples = ({"x": (2, 4, 6), "c": (4, 1), "pool": {"kernel_shape": (2,), "strides": (2,)}},)

    def match(self, x: Variable, c: Variable) -> Any:
        inner = [Call(kind, (x, ops.const(c)), label="inner") for kind in ("Mul", "Add")]
        local = [ops.average_pool(part, name="pool") for part in inner]
        return [*local, *(ops.global_average_pool(part) for part in inner)]

    def when(self, x: Value, c: Value, inner: Node, pool: Node | None = None) -> None:
        require_float(x)
        require_same_type(x, inner, "the constant stretches the shape")
        by_channel(c, x)
        size = np.abs(wide(c))
        require(
            bool(np.all((size > 1e-30) & (size < 1e30))),
            "the constant is zero, infinite or nearly so",
        )
        if inner.kind == "Add":
            require_addend(wide(c), c.dtype)
        if pool is not None:
            require_explicit(pool)
            window = Window.of(pool)
            require(math.prod(window.strides) > 1, "as many pixels remain")
            bare = attribute(pool, "count_include_pad") and (
                any(window.pads) or attribute(pool, "ceil_mode")
            )
            require(inner.kind == "Mul" or not bare, "the padding counts, and is not shifted")

    def build(self, x: Value, c: Value, inner: Node, root: Node) -> Any:
        return Call(inner.kind, (Call(root.kind, (x,), root.op.attributes()), c))


# -- transposes ------------------------------------------------------------------------------------


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(perm.index(i) for i in range(len(perm)))


class ReduceBeforeTranspose(Rule):
    """Reduce(Transpose(x)) → Transpose(Reduce(x)) over the same axes, of which fewer are left to
    move
    """

    rows = ("G25",)
    rounding = "terms are reduced in another order"
    examples = (
        {
            "x": (2, 3, 4),
            "axes": int64s(-1),
            "moved": {"perm": (2, 0, 1)},
            "reduction": {"keepdims": 1},
        },
        {
            "x": (2, 3, 4, 5),
            "axes": int64s(0, 2),
            "moved": {"perm": (0, 2, 3, 1)},
            "reduction": {"keepdims": 0},
        },
    )

    def match(self, x: Variable, axes: Variable) -> Any:
        moved = ops.transpose(x, name="moved")
        return [Call(kind, (moved, ops.const(axes)), label="reduction") for kind in REDUCTIONS]

    def when(self, x: Value, axes: Value, moved: Node) -> None:
        require_shape(x)
        require(axes_of(axes, moved.output), "the axes are all or none")

    def build(self, x: Value, axes: Value, moved: Node, reduction: Node) -> Any:
        perm = permutation(moved)
        reduced = [perm[axis] for axis in axes_of(axes, moved.output)]
        before = Call(reduction.kind, (x, int64s(*sorted(reduced))), reduction.op.attributes())
        if attribute(reduction, "keepdims"):
            return ops.transpose(before, perm=perm)
        left = [p for p in perm if p not in reduced]
        order = tuple(sorted(left).index(p) for p in left)
        return before if order == tuple(range(len(order))) else ops.transpose(before, perm=order)


_AROUND = tuple(
    {
        **{"x": (2, 3, 4, 5), "c": (5, 1), "more": [np.float32(1)], "root": {"perm": perm}},
        **{
            "cut": [int64s(1, 0), int64s(3, 2), int64s(-1, 0)],
            "pads": int64s(0, 1, 0, 2, 1, 0, 0, 0),
        },
        "inner": {"perm": (0, 2, 3, 1)},
    }
    for perm in ((0, 3, 1, 2), (1, 3, 0, 2))
)


class RemoveTransposesAround(Rule):
    """Transpose(f(Transpose(x))) → f(x), transposed once at most, for f on elements, Softmax, Slice
    and Pad
    """

    rows = ("G24", "G25")
    rounding = "lines are summed in another order"
    examples = (
        {"x": Bools((2, 3, 4)), "inner": {"perm": (1, 0, 2)}, "root": {"perm": (1, 2, 0)}},
        {
            "x": (2, 3, 4),
            "inner": {"perm": (1, 0, 2)},
            "root": {"perm": (1, 0, 2)},
            "f": {"to": 11},
        },
        *_AROUND,
    )

    def match(self, x: Variable, c: Variable, cut: Variable, pads: Variable, more: Variable) -> Any:
        moved = ops.transpose(x, name="inner")
        elements = [Call(kind, (moved,), label="f") for kind in UNARY]
        limited = ops.clip(moved, ops.rest(more), name="f")
        lines = [Call(kind, (moved,), label="f") for kind in ("Softmax", "LogSoftmax")]
        constant = [
            Call(kind, (moved, ops.const(c)), label="f")
            for kind in ("Add", "Mul", "Div", "Max", "Min")
        ]
        parts = [
            ops.slice(moved, ops.rest(cut), name="f"),
            ops.pad(moved, ops.const(pads), ops.rest(more), name="f"),
        ]
        return ops.transpose(ops.one_of(*elements, limited, *lines, *constant, *parts))

    def when(
        self,
        x: Value,
        inner: Node,
        f: Node,
        more: tuple[Value | None, ...] = (),
        c: Value | None = None,
    ) -> None:
        require_shape(x, f.output)
        require(f.kind != "Pad" or len(more) <= 1, "the axes are listed")
        require(
            c is None or (f.output.type == inner.output.type and c.rank <= x.rank),
            "the constant stretches the shape",
        )
        self._moved(x, inner, f, more)

    def build(
        self, x: Value, inner: Node, f: Node, root: Node, more: tuple[Value | None, ...] = ()
    ) -> Any:
        first, second = permutation(inner), permutation(root)
        result = self._moved(x, inner, f, more)
        both = tuple(first[p] for p in second)
        return result if both == tuple(range(len(both))) else ops.transpose(result, perm=both)

    def _moved(self, x: Value, inner: Node, f: Node, more: tuple[Value | None, ...]) -> Any:
        """The operator with its axes as they are in x."""
        perm, attributes = permutation(inner), dict(f.op.attributes())
        if f.kind in ("Softmax", "LogSoftmax"):
            return Call(f.kind, (x,), {"axis": perm[attributes["axis"] % x.rank]})
        if f.kind == "Slice":
            return sliced(x, {perm[axis]: place for axis, place in cuts(f).items()})
        if f.kind == "Pad":
            assert f.inputs[1] is not None
            amounts = data(f.inputs[1]).reshape(2, -1)
            require(amounts.shape[1] == x.rank, "the axes are listed")
            return Call("Pad", (x, amounts[:, list(_inverse(perm))].reshape(-1), *more), attributes)
        if len(f.inputs) == 2 and f.kind != "Clip":
            return self._with_constant(x, inner, f)
        return Call(f.kind, (x, *more), attributes)

    def _with_constant(self, x: Value, inner: Node, f: Node) -> Call:
        """An operator with a constant, whose axes go with those of x."""
        place = 0 if f.inputs[0] is inner.output else 1
        c = f.inputs[1 - place]
        assert c is not None
        full = data(c).reshape((1,) * (x.rank - c.rank) + data(c).shape)
        back = (
            data(c)
            if c.tensor.size == 1
            else np.ascontiguousarray(full.transpose(_inverse(permutation(inner))))
        )
        return Call(f.kind, (x, back) if place == 0 else (back, x), f.op.attributes())


class SinkTransposeConcat(Rule):
    """Concat(Transpose(x), Transpose(y)) → Transpose(Concat(x, y)), all in one order"""

    rows = ("G24",)
    shares = True
    examples = (
        {
            "xs": [
                Call("Transpose", (s,), {"perm": (0, 2, 3, 1)})
                for s in ((1, 4, 2, 3), (1, 2, 2, 3))
            ],
            "root": {"axis": -1},
        },
    )

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        require(len(xs) > 1, "there is one operand")
        require_shape(*xs)
        moves = [
            x.producer for x in xs if x.producer is not None and x.producer.kind == "Transpose"
        ]
        require(len(moves) == len(xs), "an operand is not transposed")
        alone = all(
            x.producer is not None and x.producer.graph is root.graph and len(x.uses) == 1
            for x in xs
        )
        require(alone, "an operand is read elsewhere too")
        require(len({permutation(move) for move in moves}) == 1, "the orders differ")

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        moves = [x.producer for x in xs if x.producer is not None]
        perm = permutation(moves[0])
        axis = perm[attribute(root, "axis") % len(perm)]
        return ops.transpose(ops.concat(*(move.inputs[0] for move in moves), axis=axis), perm=perm)


class WidenLater(Rule):
    """Gather(Cast(x)) to a wider type → Cast(Gather(x)), where no element is taken twice"""

    rows = ("G25",)
    examples = (
        {
            "x": Floats((3, 4), dtype=dtypes.float16),
            "i": np.array([1, 0]),
            "wider": {"to": dtypes.float32},
        },
        {"x": Ints((3, 4), dtype=dtypes.int8), "i": np.array(2), "wider": {"to": dtypes.int64}},
    )

    def match(self, x: Variable, i: Variable) -> Any:
        return ops.gather(ops.cast(x, name="wider"), i)

    def when(self, x: Value, wider: Node, root: Node) -> None:
        require_shape(x, root.output)
        require(x.dtype.bits < wider.output.dtype.bits, "it makes elements smaller")
        before, after = dims.product(x.shape), dims.product(root.output.shape)
        require(dims.compare("<=", after, before) is True, "it takes elements several times")

    def build(self, x: Value, i: Value, wider: Node, root: Node) -> Any:
        return Call("Cast", (Call("Gather", (x, i), root.op.attributes()),), wider.op.attributes())


class SinkExpandConstant(Rule):
    """Expand(x) · c → Expand(x · c) for a number c (also + - / max min pow)"""

    rows = ("G25",)
    examples = ({"x": (4,), "s": int64s(3, 4), "c": np.float32(0.5)},)

    def match(self, x: Variable, s: Variable, c: Variable) -> Any:
        wide_x = ops.expand(x, s, name="expanded")
        pairs = [
            *((kind, (wide_x, ops.const(c))) for kind in BINARY),
            *((k, (ops.const(c), wide_x)) for k in ("Sub", "Div")),
        ]
        return [Call(kind, pair) for kind, pair in pairs]

    def when(self, x: Value, c: Value, expanded: Node, root: Node) -> None:
        require_shape(x)
        require(c.tensor.size == 1, "the constant varies")
        require_same_type(expanded.output, root, "the constant stretches the shape")
        require(x.tensor.size != expanded.output.tensor.size, "it stretches nothing")

    def build(self, x: Value, s: Value, c: Value, root: Node) -> Any:
        one = data(c).reshape(())
        return ops.expand(
            Call(root.kind, (one, x) if root.inputs[0] is c else (x, one), root.op.attributes()), s
        )


RULES = (
    *(
        ScaleAfterReduction,
        ShiftAfterReduction,
        AffineAfterPool,
        ReduceBeforeTranspose,
        RemoveTransposesAround,
    ),
    *(SinkTransposeConcat, WidenLater, SinkExpandConstant),
)
