"""Activations recognised from their parts, and activations of activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.conversion import finite_limit
from infuse.ops.core.base import kinds_with
from infuse.ops.core.elementwise import f32
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import (
    data,
    float_info,
    number,
    require_attribute,
    require_float,
    require_kernel,
    require_same_type,
    wide,
)
from infuse.rewrite import Rule, require

_FUSED = "one function in place of several rounded steps"


def _gated(x: Any, curve: Any) -> list[Any]:
    """½ · x · (1 + curve), in the ways in which the half is shared out."""
    gate, half = curve + 1.0, x * 0.5
    return [
        (x * gate) * 0.5,
        half * gate,
        x * (gate * 0.5),
        (x * gate) / 2.0,
        x * (curve * 0.5 + 0.5),
        half + half * curve,
        (x + x * curve) * 0.5,
        x * (gate / 2.0),
    ]


class FuseErfGelu(Rule):
    """0.5 · x · (1 + erf(x / √2)) → Gelu(x)"""

    level = "extended"
    rows = ("G27",)
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        below = 1.0 - ops.erf(ops.one_of(x * -math.sqrt(0.5), x / -math.sqrt(2)))
        mirrored = [(x * below) * 0.5, (x * 0.5) * below, x * (below * 0.5)]
        curve = ops.erf(ops.one_of(x / math.sqrt(2), x * math.sqrt(0.5)))
        return [*_gated(x, curve), *mirrored]

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, "a constant stretches the shape")

    def build(self, x: Value) -> Any:
        return ops.gelu(x)


class FuseTanhGelu(Rule):
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) → Gelu(x, tanh)"""

    level = "extended"
    rows = ("G27",)
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        k, c = math.sqrt(2 / math.pi), 0.044715
        line = self._line(x, c, 1.0)
        return _gated(
            x,
            ops.tanh(
                ops.one_of(
                    (x + self._cubes(x, c)) * k,
                    (x * k) * line,
                    x * (line * k),
                    (x * line) * k,
                    x * self._line(x, c * k, k),
                    x * k + self._cubes(x, c * k),
                )
            ),
        )

    def _cubes(self, x: Variable, c: float) -> Any:
        """The patterns of c · x³."""
        square = ops.one_of(x * x, x**2.0)
        cubes = ops.one_of(x**3.0, x * square)
        return ops.one_of(cubes * c, (x * c) * square, ((x * c) * x) * x, (square * c) * x)

    def _line(self, x: Variable, c: float, start: float) -> Any:
        """The patterns of start + c · x²."""
        square = ops.one_of(x * x, x**2.0)
        return ops.one_of(square * c, (x * c) * x) + start

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, "a constant stretches the shape")

    def build(self, x: Value) -> Any:
        return ops.gelu(x, approximate="tanh")


class FuseSwish(Rule):
    """x · sigmoid(α · x) → Swish(x, α)"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED

    def match(self, x: Variable, a: Variable) -> Any:
        return [x * ops.sigmoid(x), x * ops.sigmoid(x * ops.const(a), name="gate")]

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "the factor stretches the shape")
        require_attribute(self._alpha(x, root), x)

    def build(self, x: Value, root: Node) -> Any:
        return ops.swish(x, alpha=self._alpha(x, root))

    def _alpha(self, x: Value, root: Node) -> float:
        gate = next(v.producer for v in root.operands() if v is not x)
        assert gate is not None
        inner = gate.inputs[0]
        assert inner is not None
        if inner is x:
            return 1.0
        assert inner.producer is not None
        return number(next(v for v in inner.producer.operands() if v is not x))


class FuseHardSigmoid(Rule):
    """clip(x + 3, 0, 6) / 6 → HardSigmoid(x, 1/6, 1/2)"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        gate = ops.clip(x + 3.0, 0.0, 6.0)
        return [gate / 6.0, gate * (1 / 6)]

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, "a constant stretches the shape")
        require_attribute(1 / 6, x)

    def build(self, x: Value) -> Any:
        return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


class FuseHardSwish(Rule):
    """x · HardSigmoid(x, 1/6, 1/2) → HardSwish(x), also from x · clip(x + 3, 0, 6) / 6"""

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        product = x * ops.clip(x + 3.0, 0.0, 6.0)
        return [x * ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5), product / 6.0, product * (1 / 6)]

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, "a constant stretches the shape")

    def build(self, x: Value) -> Any:
        return ops.hard_swish(x)


class FuseHardSwishOfSum(Rule):
    """(x + b) · clip(x + b + 3, 0, 6) → 6 · HardSwish(x + b), where 1/6 was put together with
    another constant
    """

    level = "extended"
    rows = ("G18", "G27")
    rounding = _FUSED
    examples = (
        {"x": (3, 4), "b": np.float32(0.5), "c": np.float32(3.5)},
        {"x": (2, 3, 4), "b": f32(0.5, -1, 2).reshape(3, 1), "c": f32(3.5, 2, 5).reshape(3, 1)},
        {"x": (3, 4)},
    )

    def match(self, x: Variable, b: Variable, c: Variable) -> Any:
        y = x + ops.const(b)
        return [y * ops.clip(x + ops.const(c), 0.0, 6.0), x * ops.clip(x + 3.0, 0.0, 6.0)]

    def when(self, x: Value, root: Node, b: Value | None = None, c: Value | None = None) -> None:
        require_kernel(x)
        require_same_type(x, root, "a constant stretches the shape")
        if b is not None and c is not None:
            shift, other = wide(b), wide(c)
            require(shift.shape == other.shape, "the sums are not 3 apart")
            # Both constants are rounded sums.
            slack = 4 * float(float_info(b.dtype).eps) * (np.abs(shift) + 3)
            require((np.abs(other - shift - 3) <= slack).all(), "the sums are not 3 apart")

    def build(self, x: Value, b: Value | None = None) -> Any:
        y = x if b is None else Call("Add", (x, b))
        return ops.hard_swish(y) * 6.0


class FuseMish(Rule):
    """x · tanh(softplus(x)) → Mish(x), also x · (t² - 1) / (t² + 1) for t = 1 + eˣ, x · n / (n + 2)
    for n = eˣ · (eˣ + 2)
    """

    level = "extended"
    rows = ("G27",)
    rounding = _FUSED

    def match(self, x: Variable) -> Any:
        grown = ops.exp(x) + 1.0
        squares = ops.one_of(grown * grown, grown**2.0)
        power = ops.exp(x)
        ratio = power * (power + 2.0)
        return [
            x * ops.tanh(ops.softplus(x)),
            x * ((squares + -1.0) / (squares + 1.0)),
            x * (ratio / (ratio + 2.0)),
            (x * ratio) / (ratio + 2.0),
        ]

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_same_type(x, root, "a constant stretches the shape")

    def build(self, x: Value) -> Any:
        return ops.mish(x)


class PReluAsLeakyRelu(Rule):
    """PRelu with one slope → LeakyRelu"""

    rows = ("G20",)

    def match(self, x: Variable, s: Variable) -> Any:
        return ops.p_relu(x, ops.const(s))

    def when(self, x: Value, s: Value, root: Node) -> None:
        require_float(x)
        slopes = data(s)
        require(slopes.size > 0 and bool(np.all(slopes == slopes.flat[0])), "the slopes differ")
        require_same_type(x, root, "the slope stretches the shape")
        require_attribute(float(slopes.flat[0]), x)

    def build(self, x: Value, s: Value) -> Any:
        return ops.leaky_relu(x, alpha=float(data(s).flat[0]))


class RemoveRepeated(Rule):
    """f(f(x)) → f(x) for Relu, Abs, Sign, Ceil, Floor, Round"""

    rows = ("G8", "G26")
    shares = True

    def match(self, x: Variable) -> Any:
        kinds = kinds_with(Trait.IDEMPOTENT)
        return [Call(kind, (Call(kind, (x,), label="inner"),)) for kind in kinds]

    def build(self, inner: Node) -> Any:
        return inner.output


class RemoveInverse(Rule):
    """Neg(Neg(x)), Not(Not(x)), BitwiseNot(BitwiseNot(x)) → x"""

    rows = ("G9", "G26")
    shares = True

    def match(self, x: Variable) -> Any:
        return [Call(kind, (Call(kind, (x,)),)) for kind in ("Neg", "Not", "BitwiseNot")]

    def build(self, x: Value) -> Any:
        return x


class MergeClips(Rule):
    """Clip(Clip(x)), Relu(Clip(x)), Clip(Relu(x)) → Clip(x)"""

    rows = ("G8", "G26")
    shares = True

    def match(self, x: Variable, a: Variable, b: Variable, c: Variable, d: Variable) -> Any:
        inner = ops.clip(x, ops.const(ops.maybe(a)), ops.const(ops.maybe(b)), name="inner")
        below = ops.one_of(inner, ops.relu(x, name="inner"))
        outer = ops.clip(below, ops.const(ops.maybe(c)), ops.const(ops.maybe(d)), name="outer")
        return [outer, ops.relu(inner, name="outer")]

    def when(self, inner: Node, outer: Node) -> None:
        for low, high in (_limits(inner), _limits(outer)):
            require(
                not any(limit is not None and limit != limit for limit in (low, high)),
                "a limit is not a number",
            )
            require(
                low is None or high is None or low <= high, "the lower limit is above the upper one"
            )

    def build(self, x: Value, inner: Node, outer: Node) -> Any:
        (low, high), second = _limits(inner), _limits(outer)
        limits = []
        for own, other in ((low, second[0]), (high, second[1])):
            chosen = other if own is None else _clipped(own, *second)
            absent = chosen is None or abs(float(chosen)) == finite_limit(x.dtype)
            limits.append(None if absent else np.asarray(chosen, dtype=x.dtype.numpy))
        return Call("Clip", (x, *limits))


def _limits(node: Node) -> tuple[Any, Any]:
    """What Clip or Relu limits to, None where it does not."""
    if node.kind == "Relu":
        return 0, np.inf if node.output.dtype.is_float else None
    far = finite_limit(node.output.dtype)
    absent = (None, None) if far is None else (-far, far)
    limits = ((node.input(i), end) for i, end in zip((1, 2), absent))
    return tuple(end if v is None else data(v).flat[0] for v, end in limits)  # type: ignore[return-value]


def _clipped(x: Any, low: Any, high: Any) -> Any:
    raised = x if low is None or x >= low else low
    return raised if high is None or raised <= high else high


class LimitAsClip(Rule):
    """Max(x, number), Min(x, number) → Clip(x)"""

    rows = ("G26",)

    def match(self, x: Variable, c: Variable) -> Any:
        return [Call(kind, (x, ops.const(c))) for kind in ("Max", "Min")]

    def when(self, x: Value, c: Value, root: Node) -> None:
        require(c.tensor.size == 1, "the limit varies")
        require_same_type(x, root, "the limit stretches the shape")
        require(not np.isnan(data(c).astype(np.float64)).any(), "the limit is not a number")

    def build(self, x: Value, c: Value, root: Node) -> Any:
        limit = data(c).reshape(())
        far = np.asarray(np.inf, limit.dtype) if x.dtype.is_float else None
        return Call(
            "Clip",
            (x, limit, far) if root.kind == "Max" else (x, None if far is None else -far, limit),
        )


class ClipAsRelu(Rule):
    """Clip(x, 0) → Relu(x); +∞ stays where it became the largest finite number"""

    rows = ("G26",)
    rounding = "infinity stays infinite where Clip without a limit ends it"
    examples = ({"x": (4, 4), "high": np.float32(np.inf)},)

    def match(self, x: Variable, high: Variable) -> Any:
        return ops.clip(x, 0.0, ops.const(ops.maybe(high)))

    def when(self, x: Value, high: Value | None) -> None:
        require(x.dtype.is_float, f"Relu is not for {x.dtype}")
        require(high is None or float(data(high).flat[0]) == np.inf, "there is an upper limit")

    def build(self, x: Value) -> Any:
        return ops.relu(x)


RULES = (
    FuseErfGelu,
    FuseTanhGelu,
    FuseSwish,
    FuseHardSwish,
    FuseHardSwishOfSum,
    FuseHardSigmoid,
    FuseMish,
    PReluAsLeakyRelu,
    RemoveRepeated,
    RemoveInverse,
    MergeClips,
    LimitAsClip,
    ClipAsRelu,
)
