"""Activations and reductions written out in smaller operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import kinds_with
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import (
    attribute,
    number,
    require_float,
    require_kernel,
    require_narrow_float,
    require_same_type,
    require_shape,
    rounded,
    wide,
)
from infuse.rewrite import Rule, require

_FUSED = "one function in place of several rounded steps"
_BELOW = np.float32(-np.inf)
_STRETCHED = "a constant stretches the shape"


class FusePRelu(Rule):
    """relu(x) - a · relu(-x), relu(x) + a · min(x, 0), relu(x) + ½ · a · (x - |x|),
    x > 0 ? x : a · x, max(x, a · x) → PRelu(x, a), a constant

    At this level because other runtimes compute PRelu more slowly than its parts.
    """

    level = "all"
    rows = ("G28",)
    rounding = "infinity stays infinite where Clip without a limit ends it"
    examples = (
        {
            "x": (2, 4, 3),
            "a": np.array([[0.1], [0.5], [1.0], [0.25]], dtype=np.float32),
            "low": _BELOW,
        },
    )

    def match(self, x: Variable, a: Variable, low: Variable) -> Any:
        relu, mirrored, a = ops.relu(x), ops.relu(-x), ops.const(a)
        lower, scaled = (
            ops.one_of(ops.clip(x, ops.const(ops.maybe(low)), 0.0), ops.min(x, 0.0)),
            x * a,
        )
        above = [
            ops.where(Call(kind, (x, 0.0)), x, scaled) for kind in ("Greater", "GreaterOrEqual")
        ]
        under = [ops.where(Call(kind, (x, 0.0)), scaled, x) for kind in ("Less", "LessOrEqual")]
        flipped = Call("Add", (relu, mirrored * a), label="flipped")
        halved = Call("Add", (relu, (x - ops.abs(x)) * a), label="halved")
        return [
            relu - mirrored * a,
            relu + lower * a,
            flipped,
            halved,
            *above,
            *under,
            ops.max(x, scaled, name="largest"),
        ]

    def when(
        self, x: Value, a: Value, root: Node, largest: Node | None = None, low: Value | None = None
    ) -> None:
        require_kernel(x)
        require(low is None or number(low) == -np.inf, "there is a lower limit")
        require_same_type(x, root, "the slopes stretch the shape")
        slopes = wide(a)
        require(a.rank <= x.rank and bool(np.isfinite(slopes).all()), "a slope is infinite")
        if largest is not None:
            require(
                bool(np.all((slopes > 0) & (slopes <= 1))), "a slope does not lie between 0 and 1"
            )

    def build(
        self, x: Value, a: Value, flipped: Node | None = None, halved: Node | None = None
    ) -> Any:
        return Call("PRelu", (x, rounded(wide(a) * self._factor(flipped, halved), a)))

    def _factor(self, flipped: Node | None, halved: Node | None) -> float:
        """What the slope is of the constant that is written."""
        return 2.0 if halved is not None else 1.0 if flipped is None else -1.0


class FuseLeakyRelu(FusePRelu):
    """relu(x) - a · relu(-x), relu(x) + a · min(x, 0), relu(x) + ½ · a · (x - |x|),
    x > 0 ? x : a · x, max(x, a · x) → LeakyRelu(x, a), a number
    """

    level = "basic"
    rows = ("G28",)
    examples = ({"x": (2, 4, 3), "a": np.float32(0.25), "low": _BELOW},)

    def when(
        self, x: Value, a: Value, root: Node, largest: Node | None = None, low: Value | None = None
    ) -> None:
        number(a)
        super().when(x, a, root, largest, low)

    def build(
        self, x: Value, a: Value, flipped: Node | None = None, halved: Node | None = None
    ) -> Any:
        return ops.leaky_relu(x, alpha=number(a) * self._factor(flipped, halved))


class FuseClippedLine(Rule):
    """clip(x · a + b, 0, 1) → HardSigmoid(x, a, b), for numbers a and b"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED
    examples = ({"x": (3, 4), "a": np.float32(0.2), "b": np.float32(0.5)},)

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        quotient = Call("Div", (x, ops.const(a)), label="quotient")
        parts = (x * ops.const(a), quotient, x)
        return [ops.clip(part + ops.const(b), 0.0, 1.0) for part in parts]

    def when(
        self,
        x: Value,
        b: Value,
        root: Node,
        a: Value | None = None,
        quotient: Node | None = None,
    ) -> None:
        require_kernel(x)
        require_same_type(x, root, _STRETCHED)
        require(
            np.isfinite(number(b)) and (a is None or np.isfinite(number(a))), "a number is infinite"
        )
        require(quotient is None or a is None or number(a) != 0, "it divides by zero")

    def build(
        self, x: Value, b: Value, a: Value | None = None, quotient: Node | None = None
    ) -> Any:
        slope = 1.0 if a is None else number(a)
        return ops.hard_sigmoid(x, alpha=slope if quotient is None else 1 / slope, beta=number(b))


class FuseSigmoid(Rule):
    """1 / (1 + exp(-x)) → Sigmoid(x), y / (1 + exp(-x)) → y · Sigmoid(x), also with exp(c · x)"""

    rows = ("G18", "G27")
    rounding = _FUSED
    examples = ({"x": (3, 4), "y": (3, 4), "c": np.float32(-1.702)},)

    def match(self, x: Variable, y: Variable, c: Variable) -> Any:
        below = ops.exp(ops.one_of(-x, x * ops.const(c))) + 1.0
        return [ops.reciprocal(below), Call("Div", (1.0, below)), Call("Div", (y, below))]

    def when(self, x: Value, root: Node, y: Value | None = None, c: Value | None = None) -> None:
        require_narrow_float(x)
        require(c is None or np.isfinite(number(c)), "the factor is not a finite number")
        if y is None:
            require_same_type(x, root, _STRETCHED)

    def build(self, x: Value, y: Value | None = None, c: Value | None = None) -> Any:
        gate = ops.sigmoid(x if c is None else x * rounded(-wide(c), c))
        return gate if y is None else y * gate


class FuseTanh(Rule):
    """2 · sigmoid(2 · x) - 1 → Tanh(x)"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        double = ops.sigmoid(x * 2.0) * 2.0
        return [double - 1.0, double + -1.0]

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, _STRETCHED)

    def build(self, x: Value) -> Any:
        return ops.tanh(x)


class FuseSoftsign(Rule):
    """x / (1 + |x|) → Softsign(x)"""

    rows = ("G18", "G27")
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        return x / (ops.abs(x) + 1.0)

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, _STRETCHED)

    def build(self, x: Value) -> Any:
        return ops.softsign(x)


class FuseLogSoftmax(Rule):
    """log(Softmax(x)) → LogSoftmax(x), which is finite where the softmax is too small for a
    number
    """

    level = "extended"
    rows = ("G27",)
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        return ops.log(ops.softmax(x, name="inner"))

    def build(self, x: Value, inner: Node) -> Any:
        return ops.log_softmax(x, **inner.op.attributes())


class ArgMaxBeforeSoftmax(Rule):
    """ArgMax(Softmax(x)) along one axis → ArgMax(x) (ArgMin, LogSoftmax too)"""

    level = "extended"
    rows = ("G26",)
    rounding = "what rounding makes equal is told apart; one NaN no longer makes all of them"
    examples = (
        {"x": (3, 4), "root": {"axis": 1}},
        {"x": (2, 3, 4), "root": {"axis": -1, "keepdims": 0}, "inner": {"axis": 2}},
    )

    def match(self, x: Variable) -> Any:
        inner = [Call(kind, (x,), label="inner") for kind in ("Softmax", "LogSoftmax")]
        return [Call(kind, (part,)) for kind in ("ArgMax", "ArgMin") for part in inner]

    def when(self, x: Value, inner: Node, root: Node) -> None:
        require_shape(x)
        require(x.dtype.bits >= 32, f"{x.dtype} has too few bits to tell probabilities apart")
        require(
            attribute(inner, "axis") % x.rank == attribute(root, "axis") % x.rank,
            "it runs over another axis",
        )

    def build(self, x: Value, root: Node) -> Any:
        return Call(root.kind, (x,), root.op.attributes())


def _reduced(kind: str, x: Any, axes: Any) -> Call:
    return Call(kind, (x, ops.maybe(axes)), label="inner")


class FuseReduction(Rule):
    """log(ReduceSum(x)) → ReduceLogSum, ReduceSum(|x|) → ReduceL1"""

    level = "all"
    rows = ("G27",)
    rounding = _FUSED
    examples = ({"x": (3, 4), "axes": int64s(1), "inner": {"keepdims": 0}},)

    def match(self, x: Variable, axes: Variable) -> Any:
        return [ops.log(_reduced("ReduceSum", x, axes)), _reduced("ReduceSum", ops.abs(x), axes)]

    def when(self, x: Value) -> None:
        require_narrow_float(x)

    def build(self, x: Value, axes: Value | None, inner: Node, root: Node) -> Any:
        kind = "ReduceLogSum" if root.kind == "Log" else "ReduceL1"
        return Call(kind, (x, axes), inner.op.attributes())


class FuseSumSquare(Rule):
    """ReduceSum(x · x) → ReduceSumSquare(x), √ReduceSumSquare(x) → ReduceL2(x)"""

    level = "all"
    rows = ("G27",)
    rounding = _FUSED

    def match(self, x: Variable, axes: Variable) -> Any:
        squares = ops.one_of(x * x, x**2.0)
        return [
            _reduced("ReduceSum", squares, axes),
            ops.sqrt(_reduced("ReduceSumSquare", x, axes)),
        ]

    def when(self, x: Value, inner: Node, root: Node) -> None:
        require_float(x)
        source = inner.inputs[0]
        require(source is not None and source.type == x.type, "the exponent stretches the shape")

    def build(self, x: Value, axes: Value | None, inner: Node, root: Node) -> Any:
        kind = "ReduceL2" if root.kind == "Sqrt" else "ReduceSumSquare"
        return Call(kind, (x, axes), inner.op.attributes())


class RemoveReluOfPositive(Rule):
    """Relu(f(x)), Abs(f(x)) → f(x), where f is never negative: Sigmoid, Exp, Softmax, Abs …"""

    rows = ("G26",)
    shares = True

    def match(self, x: Variable, axes: Variable) -> Any:
        kinds = kinds_with(Trait.NONNEGATIVE)
        plain = [Call(kind, (x,), label="inner") for kind in kinds if not kind.startswith("Reduce")]
        reduced = [_reduced(kind, x, axes) for kind in kinds if kind.startswith("Reduce")]
        parts = {
            outer: [p for p in (*plain, *reduced) if p.kind != outer] for outer in ("Relu", "Abs")
        }
        return [Call(outer, (ops.one_of(*inner),)) for outer, inner in parts.items()]

    def when(self, x: Value, inner: Node) -> None:
        require(inner.output.dtype.is_float, f"{inner.output.dtype} may overflow")

    def build(self, inner: Node) -> Any:
        return inner.output


RULES = (
    FuseLeakyRelu,
    FusePRelu,
    FuseClippedLine,
    FuseSigmoid,
    FuseTanh,
    FuseSoftsign,
    FuseLogSoftmax,
    ArgMaxBeforeSoftmax,
    FuseReduction,
    FuseSumSquare,
    RemoveReluOfPositive,
)
