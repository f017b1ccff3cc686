"""Batch normalizations merged with each other and with constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    merged_sum,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    attribute,
    require_float,
    require_same_type,
    require_unread,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import (
    by_channel,
    scale_and_shift,
)
from infuse.rewrite import Rule

COMBINED = "constants are combined first"
STATISTICS = {"scale": (4,), "shift": (4,), "mean": (4,), "var": (4,)}
RUNNING = "the running statistics are"
_EXAMPLES = tuple({"x": (2, 4, 3), "c": c, **STATISTICS} for c in ((4, 1), (1,)))


def batch_normalization(
    x: Any, scale: Any, shift: Any, mean: Any, var: Any, name: str = "norm"
) -> Call:
    """The pattern of a BatchNormalization with constant statistics."""
    return Call(
        "BatchNormalization", (x, *(ops.const(v) for v in (scale, shift, mean, var))), label=name
    )


class FuseNormScale(Rule):
    """BatchNormalization(x) · c → BatchNormalization with scale · c and shift · c, per channel
    (Instance too)
    """

    rows = ("G17",)
    rounding = COMBINED
    examples = _EXAMPLES

    def match(
        self,
        x: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
        c: Variable,
    ) -> Any:
        instance = ops.instance_normalization(x, ops.const(scale), ops.const(shift), name="norm")
        return [
            norm * ops.const(c)
            for norm in (batch_normalization(x, scale, shift, mean, var), instance)
        ]

    def when(self, norm: Node, c: Value) -> None:
        require_float(c)
        require_unread(norm, RUNNING)
        by_channel(c, norm.output)

    def build(self, norm: Node, x: Value, scale: Value, shift: Value, c: Value) -> Any:
        factor = by_channel(c, norm.output)
        require_factors(scale.dtype, scale, factor)
        args = [rounded(wide(v) * factor, v) for v in (scale, shift)]
        return Call(norm.kind, (x, *args, *norm.inputs[3:]), norm.op.attributes())


class FuseNormShift(Rule):
    """BatchNormalization(x) + c → BatchNormalization with shift + c, per channel (Instance too)"""

    rows = ("G17",)
    rounding = COMBINED
    examples = _EXAMPLES

    def match(
        self,
        x: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
        c: Variable,
    ) -> Any:
        instance = ops.instance_normalization(x, ops.const(scale), ops.const(shift), name="norm")
        return [
            norm + ops.const(c)
            for norm in (batch_normalization(x, scale, shift, mean, var), instance)
        ]

    def when(self, norm: Node, c: Value) -> None:
        require_float(c)
        require_unread(norm, RUNNING)
        by_channel(c, norm.output)

    def build(self, norm: Node, x: Value, scale: Value, shift: Value, c: Value) -> Any:
        require_addend(by_channel(c, norm.output), c.dtype, magnitude(scale))
        moved = merged_sum(wide(shift), by_channel(c, norm.output), shift, magnitude(scale))
        return Call(norm.kind, (x, scale, moved, *norm.inputs[3:]), norm.op.attributes())


class FuseAffineNorm(Rule):
    """BatchNormalization(x · c), BatchNormalization(x + c) → BatchNormalization(x) with other
    constants
    """

    rows = ("G17",)
    rounding = COMBINED
    examples = _EXAMPLES

    def match(
        self,
        x: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
        c: Variable,
    ) -> Any:
        before = [Call(kind, (x, ops.const(c)), label="before") for kind in ("Mul", "Add")]
        return [batch_normalization(part, scale, shift, mean, var) for part in before]

    def when(self, x: Value, c: Value, before: Node, norm: Node) -> None:
        require_float(c)
        require_unread(norm, RUNNING)
        require_same_type(x, before, "the constant stretches the shape")
        by_channel(c, x)

    def build(
        self, x: Value, scale: Value, shift: Value, c: Value, before: Node, norm: Node
    ) -> Any:
        mean, var = norm.inputs[3:5]
        assert mean is not None
        amount = by_channel(c, x)
        if before.kind == "Add":
            require_addend(amount, mean.dtype)
            args: list[Any] = [scale, shift, merged_sum(wide(mean), -amount, mean)]
        else:
            require_factors(scale.dtype, scale, amount)
            _, addend = scale_and_shift(norm)
            args = [
                rounded(wide(scale) * amount, scale),
                rounded(addend, shift),
                np.zeros_like(rounded(amount, mean)),
            ]
        return Call("BatchNormalization", (x, *args, var), norm.op.attributes())


class MergeNorms(Rule):
    """BatchNormalization(BatchNormalization(x)) → one BatchNormalization"""

    rows = ("G17", "G21")
    rounding = COMBINED
    examples = ({"x": (2, 4, 3), **STATISTICS, "s": (4,), "b": (4,), "m": (4,), "v": (4,)},)

    def match(
        self,
        x: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
        s: Variable,
        b: Variable,
        m: Variable,
        v: Variable,
    ) -> Any:
        return batch_normalization(
            batch_normalization(x, scale, shift, mean, var, "inner"), s, b, m, v, "outer"
        )

    def when(self, s: Value, inner: Node, outer: Node) -> None:
        require_float(s)
        require_unread(inner, RUNNING)
        require_unread(outer, RUNNING)

    def build(
        self, x: Value, s: Value, b: Value, m: Value, v: Value, inner: Node, outer: Node
    ) -> Any:
        (factor, addend), (_, last) = scale_and_shift(inner), scale_and_shift(outer)
        second = wide(s) / np.sqrt(wide(v) + attribute(outer, "epsilon"))
        require_factors(s.dtype, factor, second)
        require_sum(addend * second, last, s.dtype, magnitude(factor) * magnitude(second))
        scale = wide(s) * factor
        moved = addend * second + last
        args = (rounded(scale, s), rounded(moved, b), np.zeros_like(rounded(moved, m)), v)
        return Call("BatchNormalization", (x, *args), outer.op.attributes())


RULES = (FuseNormScale, FuseNormShift, FuseAffineNorm, MergeNorms)
