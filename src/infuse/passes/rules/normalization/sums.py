"""Reductions put together, means written as sums, and what takes sums of exponentials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    RESHAPES,
    attribute,
    axes_of,
    require_float,
    require_narrow_float,
    require_same_type,
    require_shape,
)
from infuse.rewrite import Rule, require
from infuse.rewrite.matcher import is_number

_ORDER = "sums run in another order"
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


def _kept(kind: str, x: Any, axes: Any) -> Call:
    return Call(kind, (x, ops.const(axes)), {"keepdims": 1})


def _terms(x: Value, axes: Value | None) -> int:
    """How many elements are summed into one; Refusal where that is not known."""
    require_shape(x)
    places = range(x.rank) if axes is None else set(axes_of(axes, x))
    sizes = [x.shape[axis] for axis in places]
    require(places and all(isinstance(n, int) for n in sizes), "the number of terms is not known")
    return math.prod(int(n) for n in sizes if isinstance(n, int))


class SumAsMean(Rule):
    """ReduceSum(x) / n, ReduceSum(x) · (1 / n) over n elements → ReduceMean(x)"""

    rows = ("G31",)
    rounding = "a quotient in place of a rounded factor"
    examples = tuple(
        {"x": (2, 3, 4), "a": axes, "c": np.float32(c), "sum": {"keepdims": keep}}
        for axes, n in ((int64s(-1), 4), (int64s(0, 1), 6), (None, 24))
        for keep in (0, 1)
        for c in (n, 1 / n)
    )

    def match(self, x: Variable, a: Variable, c: Variable) -> Any:
        total = Call("ReduceSum", (x, ops.const(ops.maybe(a))), label="sum")
        return [total / ops.const(c), total * ops.const(c)]

    def when(self, x: Value, a: Value | None, c: Value, sum: Node, root: Node) -> None:
        require_float(x)
        require_same_type(sum.output, root, "the constant stretches the shape")
        require(a is None or a.tensor.size != 0, "the axes are all or none")
        require(a is not None or not attribute(sum, "noop_with_empty_axes"), "nothing is summed")
        terms = _terms(x, a)
        require(terms > 0, "there are no terms")
        by = terms if root.kind == "Div" else 1 / terms
        require(is_number(c, by), f"it is not the mean of {terms} elements")

    def build(self, x: Value, a: Value | None, sum: Node) -> Any:
        return Call("ReduceMean", (x, a), {"keepdims": attribute(sum, "keepdims")})


class FuseLogSumExp(Rule):
    """log(sum(eˣ)), max(x) + log(sum(e^(x - max(x)))) → ReduceLogSumExp(x), which stays finite"""

    level = "extended"
    rows = ("G27",)
    rounding = _ORDER
    examples = tuple(
        {
            "x": (2, 3, 4),
            "a": int64s(1),
            "b": int64s(1),
            "s": int64s(2, 4),
            "t": int64s(1),
            **labels,
        }
        for labels in ({"inner": {"keepdims": 1}}, {"inner": {"keepdims": 0}})
    )

    def match(self, x: Variable, a: Variable, b: Variable, s: Variable, t: Variable) -> Any:
        powers, axes = ops.exp(x), ops.maybe(a)
        most = Call("ReduceMax", (x, ops.const(b)), {"keepdims": 1}, label="most")
        shifted = (x - most, ops.const(a))
        kept = Call("ReduceLogSumExp", shifted, {"keepdims": 1}, label="inner")
        dropped = Call("ReduceLogSumExp", shifted, {"keepdims": 0}, label="inner")
        return [
            ops.log(Call("ReduceSum", (powers, axes), label="inner")),
            Call("ReduceLogSum", (powers, axes), label="inner"),
            most + kept,
            ops.reshape(most, ops.const(s)) + dropped,
            ops.squeeze(most, ops.const(t)) + dropped,
        ]

    def when(
        self,
        x: Value,
        inner: Node,
        root: Node,
        a: Value | None = None,
        most: Node | None = None,
    ) -> None:
        require_narrow_float(x)
        if most is None:
            return
        require_shape(x)
        other = most.input(1)
        assert a is not None
        assert other is not None
        require(
            sorted(axes_of(a, x)) == sorted(axes_of(other, x)),
            "maximum and sum run over different axes",
        )
        require(inner.output.type == root.output.type, "the maximum is arranged otherwise")

    def build(self, x: Value, inner: Node, a: Value | None = None) -> Any:
        return Call("ReduceLogSumExp", (x, a), inner.op.attributes())


class RemoveShiftBeforeSoftmax(Rule):
    """Softmax(x - max(x)) → Softmax(x), which takes the maximum off itself (LogSoftmax too; the
    mean, the minimum)
    """

    level = "extended"
    rows = ("G5", "G27")
    rounding = "a difference is not rounded"
    examples = ({"x": (2, 3, 4), "a": int64s(1), "root": {"axis": 1}},)

    def match(self, x: Variable, a: Variable) -> Any:
        return [
            Call(kind, (x - Call(shift, (x, ops.const(a)), {"keepdims": 1}),))
            for kind in ("Softmax", "LogSoftmax")
            for shift in ("ReduceMax", "ReduceMean", "ReduceMin")
        ]

    def when(self, x: Value, a: Value, root: Node) -> None:
        require_float(x)
        require_shape(x)
        require(axes_of(a, x) == [attribute(root, "axis") % x.rank], "it runs over other axes")

    def build(self, x: Value, root: Node) -> Any:
        return Call(root.kind, (x,), root.op.attributes())


class ExpOfLogSoftmax(Rule):
    """e^LogSoftmax(x) → Softmax(x)"""

    level = "extended"
    rows = ("G27",)
    rounding = _ORDER

    def match(self, x: Variable) -> Any:
        return ops.exp(ops.log_softmax(x, name="inner"))

    def when(self, x: Value) -> None:
        require_float(x)

    def build(self, x: Value, inner: Node) -> Any:
        return ops.softmax(x, **inner.op.attributes())


class MergeReductions(Rule):
    """ReduceMean over one axis, then over another → ReduceMean over both (also Sum, Max, Min,
    Prod), whether both keep the axes or both drop them
    """

    rows = ("G31",)
    rounding = _ORDER
    examples = ({"x": (2, 3, 4), "a": int64s(1), "b": int64s(0)},)

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        return [
            Call(
                kind,
                (Call(kind, (x, ops.const(a)), {"keepdims": keep}), ops.const(b)),
                {"keepdims": keep},
            )
            for keep in (1, 0)
            for kind in REDUCTIONS
        ]

    def when(self, x: Value, a: Value, b: Value, root: Node) -> None:
        require(root.kind != "ReduceMean" or x.dtype.is_float, "means of integers are rounded")
        first, second = self._axes(x, a, b, root)
        require(len(first) > 0 and len(second) > 0, "the axes are all or none")
        require(not set(first) & set(second), "an axis is reduced twice")

    def build(self, x: Value, a: Value, b: Value, root: Node) -> Any:
        first, second = self._axes(x, a, b, root)
        keep = attribute(root, "keepdims")
        return Call(root.kind, (x, int64s(*sorted({*first, *second}))), {"keepdims": keep})

    def _axes(self, x: Value, a: Value, b: Value, root: Node) -> tuple[list[int], list[int]]:
        """The axes of x that both reduce; the second counts those that the first has left."""
        first, inner = axes_of(a, x), root.inputs[0]
        assert inner is not None
        left = [i for i in range(x.rank) if attribute(root, "keepdims") or i not in first]
        return first, [left[i] for i in axes_of(b, inner)]


class FuseReductionReshape(Rule):
    """Squeeze or Unsqueeze of what a reduction keeps or drops → the reduction that drops or keeps
    it
    """

    rows = ("G7", "G9")

    def match(self, x: Variable, a: Variable, more: Variable) -> Any:
        parts = [Call(kind, (x, ops.const(a)), label="reduction") for kind in REDUCTIONS]
        return [Call(kind, (ops.one_of(*parts), ops.rest(more))) for kind in RESHAPES]

    def when(self, x: Value, a: Value, reduction: Node, root: Node) -> None:
        axes = axes_of(a, x)
        require(len(axes) > 0, "the axes are all or none")
        with_ones: list[Dim] = [1 if i in axes else d for i, d in enumerate(x.shape)]
        dropped: list[Dim] = [d for i, d in enumerate(x.shape) if i not in axes]
        expected = dropped if attribute(reduction, "keepdims") else with_ones
        require(
            root.output.tensor.shape == tuple(expected),
            "it does more than to drop or restore the axes",
        )

    def build(self, x: Value, a: Value, reduction: Node) -> Any:
        return Call(reduction.kind, (x, a), {"keepdims": 1 - attribute(reduction, "keepdims")})


class FuseUnshiftedSoftmax(Rule):
    """exp(x) / sum(exp(x)) → Softmax(x), which stays finite where a power does not"""

    level = "extended"
    rows = ("G27",)
    rounding = _ORDER

    def match(self, x: Variable, a: Variable) -> Any:
        powers = ops.exp(x)
        return powers / _kept("ReduceSum", powers, a)

    def when(self, x: Value, a: Value) -> None:
        require_float(x)
        require(len(axes_of(a, x)) == 1, "it runs over several axes")

    def build(self, x: Value, a: Value) -> Any:
        return ops.softmax(x, axis=axes_of(a, x)[0] - x.rank)


class FuseLogSoftmaxParts(Rule):
    """(x - max(x)) - log(sum(exp(x - max(x)))), x - log(sum(exp(x))) → LogSoftmax(x)"""

    level = "extended"
    rows = ("G27",)
    rounding = _ORDER

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        shifted = x - _kept("ReduceMax", x, b)
        sums = [ops.log(_kept("ReduceSum", ops.exp(y), a)) for y in (shifted, x)]
        return [shifted - sums[0], x - sums[1], x - _kept("ReduceLogSumExp", x, a)]

    def when(self, x: Value, a: Value, b: Value | None = None) -> None:
        require_float(x)
        axes = axes_of(a, x)
        require(len(axes) == 1, "it runs over several axes")
        require(b is None or axes_of(b, x) == axes, "maximum and sum run over different axes")

    def build(self, x: Value, a: Value) -> Any:
        return Call("LogSoftmax", (x,), {"axis": axes_of(a, x)[0] - x.rank})


RULES = (
    MergeReductions,
    FuseReductionReshape,
    SumAsMean,
    FuseUnshiftedSoftmax,
    FuseLogSoftmaxParts,
    FuseLogSumExp,
    RemoveShiftBeforeSoftmax,
    ExpOfLogSoftmax,
)
