"""Arithmetic made simpler: constants merged, signs and reciprocals absorbed, cheaper operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import merged_product, merged_sum
from infuse.passes.rules.common import (
    data,
    regroup,
    require_float,
    require_same_type,
    rounded,
    wide,
)
from infuse.rewrite import Rule, require

_MERGED = "constants are combined before, not after"


class _MergeConstants(Rule):
    """(x ∘ a) ∘ b → x ∘ (a ∘ b) where the merged constant is no larger."""

    rows = ("G26",)
    rounding = _MERGED
    kind = ""

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        return Call(self.kind, (Call(self.kind, (x, ops.const(a))), ops.const(b)))

    def when(self, a: Value, b: Value) -> None:
        require(a.dtype.is_float or a.dtype.is_integer, f"not for {a.dtype}")
        size = int(np.prod(np.broadcast_shapes(data(a).shape, data(b).shape)))
        require(size <= max(data(a).size, data(b).size), "the merged constant would be larger")
        self._merged(a, b)

    def build(self, x: Value, a: Value, b: Value) -> Any:
        return Call(self.kind, (x, self._merged(a, b)))

    def _merged(self, a: Value, b: Value) -> Any:
        if a.dtype.is_float:
            return (merged_sum if self.kind == "Add" else merged_product)(wide(a), wide(b), a)
        with np.errstate(over="ignore"):
            return rounded(data(a) + data(b) if self.kind == "Add" else data(a) * data(b), a)


class MergeAddedConstants(_MergeConstants):
    """(x + a) + b → x + (a + b)"""

    kind = "Add"


class MergeFactors(_MergeConstants):
    """(x · a) · b → x · (a · b)"""

    kind = "Mul"


class AddThroughReshape(Rule):
    """Reshape(Reshape(x) + c) back to the shape of x → x + Reshape(c), so that masks of windows
    meet their scores
    """

    rows = ("G24", "G33")
    examples = tuple(
        {"x": (4, 3, 2), "inside": inside, "c": (1, 4, 1, 2), "outside": outside}
        for inside in (int64s(1, 4, 3, 2), int64s(0))
        for outside in (int64s(4, 3, 2), int64s(0))
    )

    def match(self, x: Variable, inside: Variable, c: Variable, outside: Variable) -> Any:
        into = [Call(kind, (x, inside), label="inner") for kind in ("Reshape", "Unsqueeze")]
        shifted = ops.one_of(*into) + ops.const(c)
        return [Call(kind, (shifted, outside)) for kind in ("Reshape", "Squeeze")]

    def when(self, x: Value, c: Value, inner: Node, root: Node) -> None:
        require_same_type(x, root, "it does not come back to the shape")
        require(inner.output.tensor.is_static, "the shape is not known")
        self._addend(x, c, inner)

    def build(self, x: Value, c: Value, inner: Node) -> Any:
        return x + self._addend(x, c, inner)

    def _addend(self, x: Value, c: Value, inner: Node) -> Any:
        """The constant as it meets x: whole where its axes are cut or joined, broadcast where they
        stay.
        """
        shape = [int(d) for d in inner.output.shape if isinstance(d, int)]
        sizes = [int(d) for d in x.shape if isinstance(d, int)]
        require(c.rank <= len(shape), "the constant stretches the shape")
        full = data(c).reshape((1,) * (len(shape) - c.rank) + data(c).shape)
        fine = [i for i, n in enumerate(shape) if n != 1]
        coarse = [i for i, n in enumerate(sizes) if n != 1]
        groups = regroup([shape[i] for i in fine], [sizes[i] for i in coarse])
        require(groups is not None, "it cuts the axes of x")
        assert groups is not None
        target = [1] * len(sizes)
        for axis, group in zip(coarse, groups):
            varies = [full.shape[fine[g]] != 1 for g in group]
            require(all(varies) or not any(varies), "the constant repeats inside of an axis")
            target[axis] = sizes[axis] if any(varies) else 1
        return full.reshape(target)


class SubtractAsAdd(Rule):
    """x - c → x + (-c) for a constant c"""

    rows = ("G26",)

    def match(self, x: Variable, c: Variable) -> Any:
        return x - ops.const(c)

    def when(self, c: Value) -> None:
        require(c.dtype.is_signed, f"{c.dtype} has no negative numbers")

    def build(self, x: Value, c: Value) -> Any:
        return x + np.negative(data(c))


class AbsorbNegation(Rule):
    """x + (-y) → x - y, x - (-y) → x + y, (-x) · (-y) → x · y, (-x) / (-y) → x / y"""

    rows = ("G26",)

    def match(self, x: Variable, y: Variable) -> Any:
        return [x + (-y), x - (-y), (-x) * (-y), (-x) / (-y)]

    def build(self, x: Value, y: Value, root: Node) -> Any:
        return {"Add": x - y, "Sub": x + y, "Mul": x * y, "Div": x / y}[root.kind]


class DoubleAsProduct(Rule):
    """x + x → x · 2"""

    rows = ("G26",)

    def match(self, x: Variable) -> Any:
        return x + x

    def when(self, x: Value) -> None:
        require_float(x)

    def build(self, x: Value) -> Any:
        return x * 2.0


class SumAsAdd(Rule):
    """Sum(x, y) → x + y"""

    rows = ("G26",)

    def match(self, x: Variable, y: Variable) -> Any:
        return ops.sum(x, y)

    def build(self, x: Value, y: Value) -> Any:
        return x + y


class ReciprocalAsQuotient(Rule):
    """x · Reciprocal(y), x · (1 / y) → x / y; 1 / y → Reciprocal(y)"""

    rows = ("G26",)
    rounding = "one rounding in place of two, and no overflow of 1 / y on the way"
    examples = ({"x": (3, 4), "y": (4,)},)

    def match(self, x: Variable, y: Variable) -> Any:
        return [x * ops.reciprocal(y), x * (1.0 / y), ops.div(1.0, y, name="inverse")]

    def when(self, y: Value, root: Node) -> None:
        require_float(y)
        if root.kind == "Div":
            require_same_type(y, root, "the one stretches the shape")

    def build(self, y: Value, root: Node, x: Value | None = None) -> Any:
        return ops.reciprocal(y) if root.kind == "Div" else Call("Div", (x, y))


class DivideByPowerOfTwo(Rule):
    """x / c → x · (1 / c) for powers of two, exactly"""

    rows = ("G26",)
    examples = ({"x": (4,), "c": np.array([0.5, 2, -4, 1], dtype=np.float32)},)

    def match(self, x: Variable, c: Variable) -> Any:
        return x / ops.const(c)

    def when(self, c: Value) -> None:
        require_float(c)
        mantissa, exponent = np.frexp(wide(c))
        require(bool(np.all(np.abs(mantissa) == 0.5)), "it is not a power of two")
        require(bool(np.all(np.abs(exponent) < 14)), "the reciprocal might not be a normal number")

    def build(self, x: Value, c: Value) -> Any:
        return x * (1 / wide(c)).astype(c.dtype.numpy)


class DivideByConstant(Rule):
    """x / c → x · (1 / c) for any float constant, to the last bit or the one before"""

    level = "all"
    rows = ("G26",)
    rounding = "the reciprocal is rounded"

    def match(self, x: Variable, c: Variable) -> Any:
        return x / ops.const(c)

    def when(self, c: Value) -> None:
        require_float(c)
        magnitude = np.abs(wide(c))
        require(
            bool(np.all((magnitude > 1e-30) & (magnitude < 1e30))),
            "the reciprocal is not a normal number",
        )
        require(c.dtype.bits >= 32, f"{c.dtype} has too few bits")

    def build(self, x: Value, c: Value) -> Any:
        return x * (1 / wide(c)).astype(c.dtype.numpy)


class PowAsProduct(Rule):
    """x ** 2 → x · x, x ** 3 → x · x · x, x ** -1 → Reciprocal(x)"""

    level = "all"
    rows = ("G26",)
    rounding = "products round at every step"

    def match(self, x: Variable) -> Any:
        return [x**2.0, x**3.0, x**-1.0]

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "the exponent stretches the shape")

    def build(self, x: Value, root: Node) -> Any:
        exponent = root.inputs[1]
        assert exponent is not None
        power = int(data(exponent).flat[0])
        return {2: x * x, 3: (x * x) * x}[power] if power > 0 else ops.reciprocal(x)


class RemoveNotBeforeWhere(Rule):
    """Where(Not(c), a, b) → Where(c, b, a)"""

    rows = ("G26",)
    shares = True

    def match(self, c: Variable, a: Variable, b: Variable) -> Any:
        return ops.where(Call("Not", (c,)), a, b)

    def build(self, c: Value, a: Value, b: Value) -> Any:
        return ops.where(c, b, a)


RULES = (
    MergeAddedConstants,
    MergeFactors,
    AddThroughReshape,
    SubtractAsAdd,
    AbsorbNegation,
    DoubleAsProduct,
    SumAsAdd,
    ReciprocalAsQuotient,
    DivideByPowerOfTwo,
    DivideByConstant,
    PowAsProduct,
    RemoveNotBeforeWhere,
)
