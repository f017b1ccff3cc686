"""Differences, exponentials, roots and products with zero, put together."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait, has_trait
from infuse.passes.rules.cleanup.merging import merged_sum
from infuse.passes.rules.common import (
    data,
    number,
    require_float,
    require_same_type,
    require_shape,
    rounded,
    wide,
)
from infuse.rewrite import Rule, require

_MERGED = "constants are combined before, not after"
DEEPEST = 6
"""Operators that are looked through for a sign."""


class MergeDifferences(Rule):
    """a - (b - x) → x + (a - b), (a - x) + b → (a + b) - x, a - (x + b) → (a - b) - x for
    constants
    """

    rows = ("G26",)
    rounding = _MERGED
    examples = ({"x": (3, 4), "a": np.float32(4), "b": np.float32(3)},)

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        first, second = ops.const(a), ops.const(b)
        return [
            Call("Sub", (first, Call("Sub", (second, x), label="inner"))),
            Call("Add", (Call("Sub", (first, x), label="inner"), second)),
            Call("Sub", (first, Call("Add", (x, second), label="inner"))),
        ]

    def when(self, a: Value, b: Value, root: Node, inner: Node) -> None:
        require(a.dtype.is_float or a.dtype.is_integer, f"not for {a.dtype}")
        size = int(np.prod(np.broadcast_shapes(data(a).shape, data(b).shape)))
        require(size <= max(data(a).size, data(b).size), "the merged constant would be larger")
        self._merged(a, b, root)

    def build(self, x: Value, a: Value, b: Value, root: Node, inner: Node) -> Any:
        merged = self._merged(a, b, root)
        twice = root.kind == "Sub" and inner.kind == "Sub"
        return x + merged if twice else Call("Sub", (merged, x))

    def _merged(self, a: Value, b: Value, root: Node) -> Any:
        sign = 1 if root.kind == "Add" else -1
        if a.dtype.is_float:
            return merged_sum(wide(a), sign * wide(b), a)
        with np.errstate(over="ignore"):
            return rounded(data(a) + data(b) if sign > 0 else data(a) - data(b), a)


class MergeExponentials(Rule):
    """eˣ · eʸ → e^(x + y), eˣ / eʸ → e^(x - y); what leaves the range on the way stays in it"""

    level = "extended"
    rows = ("G26",)
    rounding = "the exponents are added first"

    def match(self, x: Variable, y: Variable) -> Any:
        return [ops.exp(x) * ops.exp(y), ops.exp(x) / ops.exp(y)]

    def when(self, x: Value, y: Value) -> None:
        require_float(x)
        require_shape(x, y)
        require(x.dtype.bits >= 32, f"{x.dtype} has too few bits for a sum of exponents")
        require(x.shape == y.shape, "an exponent is broadcast")

    def build(self, x: Value, y: Value, root: Node) -> Any:
        return ops.exp(x + y if root.kind == "Mul" else x - y)


class SquareOfRoot(Rule):
    """√x · √x, (√x)² → x where x is never negative (the root of a negative number is NaN)"""

    rows = ("G26",)
    rounding = "a root is not rounded"
    examples = ({"x": Call("Abs", ((3, 4),))},)

    def match(self, x: Variable) -> Any:
        root = ops.sqrt(x)
        return [root * root, root**2.0]

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "the exponent stretches the shape")
        require(is_nonnegative(x), "x may be negative, and its root NaN")

    def build(self, x: Value) -> Any:
        return x


class RootOfSquare(Rule):
    """√(x · x), √(x²) → |x|; squares that leave the range on the way stay in it"""

    level = "extended"
    rows = ("G26",)
    rounding = "a square is not rounded"

    def match(self, x: Variable) -> Any:
        return [ops.sqrt(x * x), ops.sqrt(x**2.0)]

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "the exponent stretches the shape")

    def build(self, x: Value) -> Any:
        return ops.abs(x)


def is_nonnegative(value: Value, left: int = DEEPEST) -> bool:
    """Whether no element can be less than zero: by its operator, or as a sum or product of such."""
    if value.const is not None:
        return bool((value.const >= 0).all())
    node = value.producer
    if node is None or node.op.domain or not left:
        return False
    if has_trait(node, Trait.NONNEGATIVE):
        return True
    if node.kind == "Mul" and node.inputs[0] is node.inputs[1]:
        return True
    exponent = node.input(1) if node.kind == "Pow" else None
    if exponent is not None and exponent.const is not None and bool((exponent.const == 2).all()):
        return True
    if node.kind in ("ReduceMean", "ReduceSum"):
        return node.inputs[0] is not None and is_nonnegative(node.inputs[0], left - 1)
    if node.kind in ("Add", "Mul", "Div", "Max"):
        return all(is_nonnegative(v, left - 1) for v in node.operands())
    return has_trait(node, Trait.MOVEMENT) and all(
        is_nonnegative(v, left - 1) for v in node.inputs[:1] if v is not None
    )


class IntegerTimesZero(Rule):
    """x · 0, x - x → 0 in the shape of x for integers; floats may be infinite or NaN"""

    rows = ("G26",)
    examples = (
        {"x": Call("Cast", ((3, 4),), {"to": 7}), "c": np.int64(0)},
        {"x": Call("Cast", ((3, 4),), {"to": 6}), "c": np.int32(0)},
    )

    def match(self, x: Variable, c: Variable) -> Any:
        return [x * ops.const(c), x - x]

    def when(self, x: Value, root: Node, c: Value | None = None) -> None:
        require(x.dtype.is_integer, f"zero times an element of {x.dtype} may be NaN")
        require(c is None or number(c) == 0, "the factor is not zero")
        require_same_type(x, root, "the constant stretches the shape")

    def build(self, x: Value) -> Any:
        zero = np.zeros((), x.dtype.numpy)
        if x.tensor.is_static:
            return ops.expand(zero, int64s(*(int(n) for n in x.shape if isinstance(n, int))))
        return ops.expand(zero, ops.shape(x))


RULES = (MergeDifferences, MergeExponentials, SquareOfRoot, RootOfSquare, IntegerTimesZero)
