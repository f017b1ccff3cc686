"""Activations written out with exponentials, comparisons and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import kinds_with
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import (
    number,
    require_attribute,
    require_float,
    require_kernel,
    require_narrow_float,
    require_same_type,
)
from infuse.rewrite import Rule, require

_FUSED = "one function in place of several rounded steps"
_STRETCHED = "a constant stretches the shape"
ABOVE, BELOW = ("Greater", "GreaterOrEqual"), ("Less", "LessOrEqual")


class NegateAfterOdd(Rule):
    """f(-x) → -f(x) for odd functions: Erf, Tanh, Sin, Atan …"""

    rows = ("G26",)

    def match(self, x: Variable) -> Any:
        return [Call(kind, (-x,)) for kind in kinds_with(Trait.ODD)]

    def build(self, x: Value, root: Node) -> Any:
        return -Call(root.kind, (x,))


class FuseTanhSigmoid(Rule):
    """½ · tanh(½ · x) + ½, ½ · (tanh(½ · x) + 1) → Sigmoid(x); a factor beside the half stays"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED

    def match(self, x: Variable, y: Variable) -> Any:
        curve = ops.tanh(x * 0.5)
        gate = curve + 1.0
        return [curve * 0.5 + 0.5, gate * 0.5, gate / 2.0, (y * 0.5) * gate, (y * gate) * 0.5]

    def when(self, x: Value, root: Node, y: Value | None = None) -> None:
        require_narrow_float(x)
        if y is None:
            require_same_type(x, root, _STRETCHED)
        else:
            require(y.type == root.output.type, _STRETCHED)

    def build(self, x: Value, y: Value | None = None) -> Any:
        return ops.sigmoid(x) if y is None else y * ops.sigmoid(x)


class FuseSoftplus(Rule):
    """log(1 + eˣ), max(x, 0) + Softplus(-|x|), -log(Sigmoid(-x)) → Softplus(x), finite where eˣ is
    not
    """

    level = "extended"
    rows = ("G27",)
    rounding = "one function in place of several rounded steps, and finite where eˣ is not"

    def match(self, x: Variable) -> Any:
        largest = ops.one_of(ops.relu(x), ops.max(x, 0.0))
        rest = ops.softplus(-ops.abs(x))
        return [ops.log(ops.exp(x) + 1.0), largest + rest, -ops.log(ops.sigmoid(-x))]

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, _STRETCHED)

    def build(self, x: Value) -> Any:
        return ops.softplus(x)


class FuseElu(Rule):
    """x > 0 ? x : a · (eˣ - 1), relu(x) + min(a · (eˣ - 1), 0), relu(x) + a · (e^min(x, 0) - 1) →
    Elu(x, a) for a number a
    """

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED
    examples = ({"x": (3, 4), "a": np.float32(1.5), "low": np.float32(-np.inf)},)

    def match(self, x: Variable, a: Variable, low: Variable) -> Any:
        end = ops.const(ops.maybe(low))
        least = ops.one_of(ops.min(x, 0.0), ops.clip(x, end, 0.0))
        chosen = [
            *(ops.where(Call(kind, (x, 0.0)), 0.0, x) for kind in ABOVE),
            *(ops.where(Call(kind, (x, 0.0)), x, 0.0) for kind in BELOW),
            least,
        ]
        power = ops.exp(ops.one_of(x, *chosen))
        unit = ops.one_of(power + -1.0, power - 1.0)
        grown = ops.one_of(unit * ops.const(a), unit)
        zero = ops.exp(least)
        safe = ops.one_of(zero + -1.0, zero - 1.0)
        largest = ops.one_of(ops.relu(x), ops.max(x, 0.0))
        bent = ops.exp(x)
        bare = ops.one_of(bent + -1.0, bent - 1.0)
        curve = ops.one_of(bare * ops.const(a), bare)
        return [
            *(ops.where(Call(kind, (x, 0.0)), x, grown) for kind in ABOVE),
            *(ops.where(Call(kind, (x, 0.0)), grown, x) for kind in BELOW),
            largest + ops.one_of(safe * ops.const(a), safe),
            largest + ops.one_of(ops.min(curve, 0.0), ops.clip(curve, end, 0.0, name="cut")),
        ]

    def when(self, x: Value, root: Node, a: Value | None = None, low: Value | None = None) -> None:
        require_kernel(x)
        require_same_type(x, root, _STRETCHED)
        require(low is None or number(low) == -np.inf, "there is a lower limit")
        if a is not None:
            require(0 < number(a) < np.inf, "the factor is not a positive number")
            require_attribute(number(a), x)

    def build(self, x: Value, a: Value | None = None) -> Any:
        return ops.elu(x, alpha=1.0 if a is None else number(a))


class FuseSelu(Rule):
    """γ · Elu(x, α) → Selu(x) for the two numbers of Selu"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED
    ALPHA, GAMMA = 1.6732632423543772, 1.0507009873554805

    def match(self, x: Variable) -> Any:
        return ops.elu(x, alpha=self.ALPHA) * self.GAMMA

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, _STRETCHED)

    def build(self, x: Value) -> Any:
        return ops.selu(x)


class ComparisonAsLimit(Rule):
    """x < c ? c : x → Max(x, c), x > c ? c : x → Min(x, c) for a number c (also ≥, ≤); where the
    comparison takes x, NaN would become c
    """

    rows = ("G26",)
    examples = ({"x": (3, 4), "c": np.float32(0.5), "d": np.float32(0.5)},)

    def match(self, x: Variable, c: Variable, d: Variable) -> Any:
        limit, other = ops.const(c), ops.const(d)
        return [
            ops.where(Call(kind, (x, limit), label="test"), other, x) for kind in (*ABOVE, *BELOW)
        ]

    def when(self, x: Value, c: Value, d: Value, test: Node, root: Node) -> None:
        require_float(x)
        require(number(c) == number(d), "it takes another number than it compares with")
        require(np.isfinite(number(c)), "the limit is not a finite number")
        strict = test.kind in ("Less", "Greater")
        require(strict or number(c) != 0, "zeros of both signs become the limit")
        require_same_type(x, root, _STRETCHED)

    def build(self, x: Value, c: Value, test: Node) -> Any:
        limit = np.asarray(number(c), x.dtype.numpy)
        return Call("Min" if test.kind in ABOVE else "Max", (x, limit))


class MaskAsRelu(Rule):
    """x · (x > 0 as a number) → Relu(x)"""

    rows = ("G26",)
    rounding = "-∞ becomes zero, which times zero is not a number"
    examples = tuple(
        {"x": x, "number": {"to": to}}
        for x, to in (
            ((3, 4), dtypes.float32),
            (Call("Cast", ((3, 4),), {"to": dtypes.float64}), dtypes.float64),
        )
    )

    def match(self, x: Variable) -> Any:
        return [x * ops.cast(Call(kind, (x, 0.0)), name="number") for kind in ABOVE]

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, _STRETCHED)

    def build(self, x: Value) -> Any:
        return ops.relu(x)


RULES = (
    NegateAfterOdd,
    FuseTanhSigmoid,
    FuseSoftplus,
    FuseElu,
    FuseSelu,
    ComparisonAsLimit,
    MaskAsRelu,
)
