"""Constants moved behind reductions and pools, to where there is less to compute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import require_addend
from infuse.passes.rules.common import (
    attribute,
    axes_of,
    data,
    require_float,
    require_same_type,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import by_channel
from infuse.passes.rules.convolution.window import Window, require_explicit
from infuse.rewrite import Rule, require

LINEAR = ("ReduceSum", "ReduceMean")
ORDERED = ("ReduceMax", "ReduceMin")


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


class ShiftBitsAfterSum(Rule):
    """ReduceSum(BitShift(x, k)) to the left → BitShift(ReduceSum(x), k) for a number k"""

    rows = ("G25",)
    examples = tuple(
        {
            "x": Call("Cast", (Ints((3, 4), 0, 9),), {"to": 12}),
            "k": np.uint32(3),
            "axes": int64s(1),
            "inner": {"direction": "LEFT"},
            "reduction": {"keepdims": keep},
        }
        for keep in (0, 1)
    )

    def match(self, x: Variable, k: Variable, axes: Variable) -> Any:
        shifted = Call("BitShift", (x, ops.const(k)), label="inner")
        return Call("ReduceSum", (shifted, ops.maybe(axes)), label="reduction")

    def when(self, x: Value, k: Value, inner: Node) -> None:
        require(attribute(inner, "direction") == "LEFT", "bits that fall out would be summed")
        require(k.tensor.size == 1, "the shift varies")
        require(int(data(k).flat[0]) < x.dtype.bits, "it shifts by all bits")
        require_same_type(x, inner, "the constant stretches the shape")

    def build(self, x: Value, k: Value, axes: Value | None, inner: Node, reduction: Node) -> Any:
        total = Call("ReduceSum", (x, axes), reduction.op.attributes())
        return Call("BitShift", (total, data(k).reshape(())), inner.op.attributes())


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


RULES = (ScaleAfterReduction, ShiftAfterReduction, ShiftBitsAfterSum, AffineAfterPool)
