"""Common factors and chains of constants.

x - x, x / x and x · 0 are left alone: for NaN and infinities they are not what they are for
numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.passes.rules.cleanup.merging import merged_product, require_product
from infuse.passes.rules.cleanup.numbers import is_nonnegative
from infuse.passes.rules.common import data, require_float, require_same_type, rounded, wide
from infuse.rewrite import Rule, require

_MERGED = "constants are combined before, not after"


def _require_normal(*numbers: Array) -> None:
    """Refuse where constants are zero, infinite or nearly so: products with them might be another
    kind of number.
    """
    for array in numbers:
        size = np.abs(array)
        require(
            bool(np.all((size > 1e-30) & (size < 1e30))),
            "a constant is zero, infinite or nearly so",
        )


def _require_no_larger(merged: Array, *parts: Value) -> None:
    require(merged.size <= max(data(p).size for p in parts), "the merged constant would be larger")


class CommonFactor(Rule):
    """a · x + a · y → a · (x + y), x / a + y / a → (x + y) / a (also - ); the sum may exceed where
    products did not
    """

    level = "extended"
    rows = ("G26",)
    rounding = "one product in place of two"

    def match(self, x: Variable, y: Variable, a: Variable) -> Any:
        products = (Call("Mul", (a, x), label="one"), a * y)
        quotients = (Call("Div", (x, a), label="one"), y / a)
        return [Call(kind, pair) for pair in (products, quotients) for kind in ("Add", "Sub")]

    def when(self, x: Value, y: Value, a: Value, one: Node, root: Node) -> None:
        require_float(x)
        require(not (x.is_const or y.is_const), "a factor is constant")
        shapes = [v.tensor.shape for v in (x, y, a, root.output)]
        require(None not in shapes and shapes[0] == shapes[1], "the operands have different shapes")

    def build(self, x: Value, y: Value, a: Value, one: Node, root: Node) -> Any:
        pair = (x, y) if root.inputs[0] is one.output else (y, x)
        total = Call(root.kind, pair)
        return a * total if one.kind == "Mul" else total / a


class CommonOperand(Rule):
    """x · a + x · b → x · (a + b) for constants of one sign, x + x · a → x · (1 + a)"""

    rows = ("G26",)
    rounding = _MERGED

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        return [x * ops.const(a) + x * ops.const(b), x + x * ops.const(a)]

    def when(self, x: Value, a: Value, b: Value | None = None) -> None:
        require_float(x)
        _require_normal(*(wide(v) for v in (a, b) if v is not None))
        other = np.ones(()) if b is None else wide(b)
        require(bool(np.all(wide(a) * other > 0)), "the constants have different signs")
        self._sum(a, b)

    def build(self, x: Value, a: Value, b: Value | None = None) -> Any:
        return x * self._sum(a, b)

    def _sum(self, a: Value, b: Value | None) -> Array:
        total = rounded(wide(a) + (1.0 if b is None else wide(b)), a)
        _require_no_larger(total, a, *([] if b is None else [b]))
        return total


class MergeAffine(Rule):
    """(x · a + b) · c → x · (a · c) + b · c for constants (also / c)"""

    rows = ("G26",)
    rounding = _MERGED

    def match(self, x: Variable, a: Variable, b: Variable, c: Variable) -> Any:
        shifted = Call("Add", (x * ops.const(a), ops.const(b)), label="shifted")
        return [shifted * ops.const(c), shifted / ops.const(c)]

    def when(self, x: Value, a: Value, b: Value, c: Value, shifted: Node, root: Node) -> None:
        require_float(x)
        require_same_type(shifted.output, root, "the constant stretches the shape")
        _require_normal(wide(a), wide(c))
        self._merged(a, b, c, root)

    def build(self, x: Value, a: Value, b: Value, c: Value, root: Node) -> Any:
        factor, addend = self._merged(a, b, c, root)
        return x * factor + addend

    def _merged(self, a: Value, b: Value, c: Value, root: Node) -> tuple[Array, Array]:
        by = 1 / wide(c) if root.kind == "Div" else wide(c)
        factor, addend = merged_product(wide(a), by, a), rounded(wide(b) * by, b)
        _require_normal(wide(a) * by)
        _require_no_larger(factor, a, c)
        _require_no_larger(addend, b, c)
        return factor, addend


class MergeQuotients(Rule):
    """(x / a) / b → x / (a · b), (x / a) · b → x · (b / a), (a / x) · b → (a · b) / x for constants
    (also mixed)
    """

    rows = ("G26",)
    rounding = _MERGED

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        a, b = ops.const(a), ops.const(b)
        over, under, times = (
            Call("Div", (x, a), label="over"),
            Call("Div", (a, x), label="under"),
            x * a,
        )
        return [over / b, over * b, times / b, under * b, under / b]

    def when(
        self,
        x: Value,
        a: Value,
        b: Value,
        root: Node,
        over: Node | None = None,
        under: Node | None = None,
    ) -> None:
        require_float(x)
        _require_normal(wide(a), wide(b))
        merged = self._merged(a, b, root, over)
        _require_normal(merged)
        _require_no_larger(rounded(merged, a), a, b)

    def build(
        self,
        x: Value,
        a: Value,
        b: Value,
        root: Node,
        over: Node | None = None,
        under: Node | None = None,
    ) -> Any:
        merged = rounded(self._merged(a, b, root, over), a)
        if under is not None:
            return Call("Div", (merged, x))
        return x / merged if over is not None and root.kind == "Div" else x * merged

    def _merged(self, a: Value, b: Value, root: Node, over: Node | None) -> Array:
        first, second = wide(a), wide(b)
        if over is None:
            second = 1 / second if root.kind == "Div" else second
        elif root.kind == "Mul":
            first = 1 / first
        require_product(first, second, a.dtype)
        return first * second


class NegateConstant(Rule):
    """-(x · c), (-x) · c → x · (-c); -(x / c), (-x) / c → x / (-c); c / (-x) → (-c) / x"""

    rows = ("G26",)

    def match(self, x: Variable, c: Variable) -> Any:
        c = ops.const(c)
        return [-(x * c), (-x) * c, -(x / c), (-x) / c, -Call("Div", (c, x)), Call("Div", (c, -x))]

    def when(self, x: Value, c: Value, root: Node) -> None:
        require(
            c.dtype.is_float or (c.dtype.is_signed and self._product(root)), f"not for {c.dtype}"
        )

    def build(self, x: Value, c: Value, root: Node) -> Any:
        other = np.negative(data(c))
        if self._product(root):
            return x * other
        quotient = root if root.kind == "Div" else root.inputs[0].producer  # type: ignore[union-attr]
        assert quotient is not None
        return Call("Div", (other, x)) if quotient.inputs[0] is c else x / other

    def _product(self, root: Node) -> bool:
        return root.kind == "Mul" or (root.kind == "Neg" and root.inputs[0].producer.kind == "Mul")  # type: ignore[union-attr]


class NegateDifference(Rule):
    """-(x - y) → y - x"""

    rows = ("G26",)

    def match(self, x: Variable, y: Variable) -> Any:
        return -(x - y)

    def build(self, x: Value, y: Value) -> Any:
        return y - x


class ProductAsNegation(Rule):
    """x · (-1), x / (-1), 0 - x → -x"""

    rows = ("G26",)

    def match(self, x: Variable) -> Any:
        return [x * -1.0, x / -1.0, 0.0 - x]

    def when(self, x: Value, root: Node) -> None:
        require(x.dtype.is_signed, f"{x.dtype} has no negative numbers")
        require_same_type(x, root, "the constant stretches the shape")

    def build(self, x: Value) -> Any:
        return -x


class RemoveNegationBeforeAbs(Rule):
    """Abs(-x) → Abs(x)"""

    rows = ("G26",)
    shares = True

    def match(self, x: Variable) -> Any:
        return ops.abs(-x)

    def build(self, x: Value) -> Any:
        return ops.abs(x)


class PowAsRoot(Rule):
    """x ** 0.5 → √x where x is not negative: the root of -∞ is NaN, the power +∞"""

    level = "extended"
    rows = ("G26",)
    rounding = "a root is exact"
    examples = (
        {"x": Call("Abs", ((2, 3),))},
        {"x": Call("ReduceMean", (Call("Pow", ((2, 3), np.float32(2))), np.array([1])))},
    )

    def match(self, x: Variable) -> Any:
        return x**0.5

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "the exponent stretches the shape")
        require(is_nonnegative(x), "x may be -∞, and its root NaN")

    def build(self, x: Value) -> Any:
        return ops.sqrt(x)


class NotOfComparison(Rule):
    """not (x < y) → x ≥ y, not (x ≤ y) → x > y, and back, for integers (NaN is neither)"""

    rows = ("G26",)
    examples = (
        {"x": np.arange(4), "y": np.array([[2], [3]])},
        {"x": np.arange(4, dtype=np.int32), "y": np.array(2, dtype=np.int32)},
    )

    def match(self, x: Variable, y: Variable) -> Any:
        return [Call("Not", (Call(kind, (x, y), label="inner"),)) for kind in self._OPPOSITE]

    _OPPOSITE = {
        "Less": "GreaterOrEqual",
        "LessOrEqual": "Greater",
        "Greater": "LessOrEqual",
        "GreaterOrEqual": "Less",
    }

    def when(self, x: Value) -> None:
        require(x.dtype.is_integer, f"NaN may be among {x.dtype}")

    def build(self, x: Value, y: Value, inner: Node) -> Any:
        return Call(self._OPPOSITE[inner.kind], (x, y))


RULES = (
    CommonFactor,
    CommonOperand,
    MergeAffine,
    MergeQuotients,
    NegateConstant,
    NegateDifference,
    ProductAsNegation,
    RemoveNegationBeforeAbs,
    PowAsRoot,
    NotOfComparison,
)
