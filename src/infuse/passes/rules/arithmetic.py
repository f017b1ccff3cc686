"""Activations recognised from their parts, and arithmetic made simpler."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.rewrite import Rule, require


def _require_float(x: Value) -> None:
    require(x.dtype.is_float, f"it needs a float input, found {x.dtype}")


class FuseErfGelu(Rule):
    """0.5 · x · (1 + erf(x / √2)) → Gelu(x)"""

    level = "extended"
    rows = ("G27",)

    def match(self, x: Any) -> Any:
        spellings = []
        for inner in (x / math.sqrt(2), x * math.sqrt(0.5)):
            gate = ops.erf(inner) + 1.0
            spellings += [(x * gate) * 0.5, (x * 0.5) * gate, x * (gate * 0.5), (x * gate) / 2.0]
        return spellings

    def when(self, x: Value) -> None:
        _require_float(x)

    def build(self, x: Value) -> Any:
        return ops.gelu(x)


class FuseTanhGelu(Rule):
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) → Gelu(x, tanh)"""

    level = "extended"
    rows = ("G27",)

    def match(self, x: Any) -> Any:
        k = math.sqrt(2 / math.pi)
        cubes = ops.one_of(x**3.0, x * (x * x))
        inner = ops.one_of((x + cubes * 0.044715) * k, (x + (0.044715 * x) * (x * x)) * k)
        gate = ops.tanh(inner) + 1.0
        return [(x * gate) * 0.5, (x * 0.5) * gate, x * (gate * 0.5)]

    def when(self, x: Value) -> None:
        _require_float(x)

    def build(self, x: Value) -> Any:
        return ops.gelu(x, approximate="tanh")


class FuseSwish(Rule):
    """x · sigmoid(x) → Swish(x)"""

    level = "extended"
    rows = ("G18", "G27")

    def match(self, x: Any) -> Any:
        return x * ops.sigmoid(x)

    def when(self, x: Value) -> None:
        _require_float(x)

    def build(self, x: Value) -> Any:
        return ops.swish(x)


class FuseHardSwish(Rule):
    """x · HardSigmoid(x, 1/6, 1/2) → HardSwish(x), also from x · clip(x + 3, 0, 6) / 6"""

    level = "extended"
    rows = ("G18", "G27")

    def match(self, x: Any) -> Any:
        gate = ops.clip(x + 3.0, 0.0, 6.0)
        return [
            x * ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
            (x * gate) / 6.0,
            x * (gate / 6.0),
            (x * gate) * (1 / 6),
            x * (gate * (1 / 6)),
        ]

    def when(self, x: Value) -> None:
        _require_float(x)

    def build(self, x: Value) -> Any:
        return ops.hard_swish(x)


class FuseMish(Rule):
    """x · tanh(softplus(x)) → Mish(x)"""

    level = "extended"
    rows = ("G27",)

    def match(self, x: Any) -> Any:
        return x * ops.tanh(ops.softplus(x))

    def when(self, x: Value) -> None:
        _require_float(x)

    def build(self, x: Value) -> Any:
        return ops.mish(x)


class _MergeConstants(Rule):
    """(x ∘ a) ∘ b → x ∘ (a ∘ b) for constants of a float tensor's size or smaller."""

    rows = ("G26",)
    kind = ""

    def match(self, x: Any, a: Any, b: Any) -> Any:
        return Call(self.kind, (Call(self.kind, (x, ops.const(a))), ops.const(b)))

    def when(self, x: Value, a: Value, b: Value, root: Node) -> None:
        assert a.const is not None and b.const is not None
        require(a.dtype.is_float or a.dtype.is_integer, f"not for {a.dtype}")
        merged = np.broadcast_shapes(a.const.shape, b.const.shape)
        require(int(np.prod(merged)) <= max(a.const.size, b.const.size), "the merged constant would be larger")

    def build(self, x: Value, a: Value, b: Value) -> Any:
        assert a.const is not None and b.const is not None
        wide = np.float64 if a.dtype.is_float else a.const.dtype
        left, right = a.const.astype(wide), b.const.astype(wide)
        merged = left + right if self.kind == "Add" else left * right
        return Call(self.kind, (x, np.asarray(merged).astype(a.const.dtype)))


class MergeAddedConstants(_MergeConstants):
    """(x + a) + b → x + (a + b)"""

    kind = "Add"


class MergeFactors(_MergeConstants):
    """(x · a) · b → x · (a · b)"""

    kind = "Mul"


class DivideByConstant(Rule):
    """x / c → x · (1 / c) for a power of two, or on request of level `all` for any float constant"""

    level = "all"
    rows = ("G26",)

    def match(self, x: Any, c: Any) -> Any:
        return x / ops.const(c)

    def when(self, x: Value, c: Value) -> None:
        assert c.const is not None
        _require_float(x)
        magnitude = np.abs(c.const.astype(np.float64))
        require(bool(np.all((magnitude > 1e-30) & (magnitude < 1e30))), "the reciprocal is not a normal number")

    def build(self, x: Value, c: Value) -> Any:
        assert c.const is not None
        return x_times(x, (1 / c.const.astype(np.float64)).astype(c.const.dtype))


def x_times(x: Value, factor: Any) -> Call:
    """x · factor"""
    return Call("Mul", (x, np.asarray(factor)))


class PowAsProduct(Rule):
    """x ** 2 → x · x"""

    level = "all"
    rows = ("G26",)

    def match(self, x: Any) -> Any:
        return x**2.0

    def when(self, x: Value, root: Node) -> None:
        require(x.type == root.output.type, "the exponent stretches the shape")

    def build(self, x: Value) -> Any:
        return Call("Mul", (x, x))


class PReluAsLeakyRelu(Rule):
    """PRelu with one slope → LeakyRelu"""

    rows = ("G20",)

    def match(self, x: Any, s: Any) -> Any:
        return ops.p_relu(x, ops.const(s))

    def when(self, x: Value, s: Value, root: Node) -> None:
        assert s.const is not None
        require(s.const.size > 0 and bool(np.all(s.const == s.const.reshape(-1)[0])), "the slopes differ")
        require(x.type == root.output.type, "the slope stretches the shape")

    def build(self, x: Value, s: Value) -> Any:
        assert s.const is not None
        return ops.leaky_relu(x, alpha=float(s.const.reshape(-1)[0]))


RULES = (
    *(FuseErfGelu, FuseTanhGelu, FuseSwish, FuseHardSwish, FuseMish, MergeAddedConstants, MergeFactors),
    *(DivideByConstant, PowAsProduct, PReluAsLeakyRelu),
)
