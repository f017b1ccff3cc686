"""Quantization that has no effect, comes too early, or does the work of the operator before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value, constant
from infuse.ops.core.base import kinds_with
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.ops.quantization import i8, limits, u8
from infuse.passes.rules.common import attribute, data, number
from infuse.rewrite import Rule, require

_BYTES = Ints((2, 3), 0, 256, dtypes.uint8)
_STEP = np.array(0.02, np.float32)
_ROWS = np.array([0.02, 0.5, 0.1], np.float32)
_WHOLE: dict[str, Any] = {"q": _BYTES, "s": _STEP, "z": np.uint8(128)}
MOVEMENTS = (*kinds_with(Trait.RESHAPE), "Transpose", "Slice", "Gather")


def _equal(a: Value | None, b: Value | None) -> bool:
    """Whether two scales or zero points are the same."""
    if a is b:
        return True
    values = [v for v in (a, b) if v is not None]
    if not all(v.is_const for v in values):
        return False
    if len(values) == 1:
        return not np.any(data(values[0]))
    return values[0].dtype == values[1].dtype and np.array_equal(data(values[0]), data(values[1]))


def _require_steps(scale: Value) -> None:
    """Refuse unless a scale is known, and multiples of it are as exact as the numbers
    themselves.
    """
    require(
        scale.const is not None and scale.dtype == dtypes.float32,
        "the scale is not known in float32",
    )
    sizes = np.abs(data(scale))
    require(bool(np.all((sizes > 1e-30) & (sizes < 1e30))), "the scale is out of range")


class RemoveRequantization(Rule):
    """QuantizeLinear(DequantizeLinear(q, s, z), s, z) → q: the rounding finds every integer
    again
    """

    rows = ("G9",)
    examples = (
        {"q": _BYTES, "s": _STEP, "z": np.uint8(0), "t": _STEP, "y": np.uint8(0)},
        {
            "q": Ints((2, 3), -8, 8, dtypes.int8),
            "s": _ROWS,
            "z": i8(1, 2, 3),
            "t": _ROWS,
            "y": i8(1, 2, 3),
        },
    )

    def match(self, q: Variable, s: Variable, z: Variable, t: Variable, y: Variable) -> Any:
        numbers = ops.dequantize_linear(q, ops.const(s), ops.maybe(z), name="numbers")
        return Call("QuantizeLinear", (numbers, ops.const(t), ops.maybe(y)))

    def when(
        self,
        q: Value,
        s: Value,
        z: Value | None,
        t: Value,
        y: Value | None,
        numbers: Node,
        root: Node,
    ) -> None:
        require(q.dtype == root.output.dtype, f"it turns {q.dtype} into {root.output.dtype}")
        require(q.dtype.is_integer and q.dtype.bits <= 16, "the elements are not small integers")
        _require_steps(s)
        require(_equal(s, t) and _equal(z, y), "the scales or zero points differ")
        for name in ("axis", "block_size"):
            same = attribute(numbers, name) == attribute(root, name)
            require(same or s.tensor.size == 1, f"they differ in {name}")
        require(numbers.output.dtype == dtypes.float32, "the numbers are not float32")
        require(
            attribute(root, "precision") in (None, dtypes.float32), "the division is less precise"
        )

    def build(self, q: Value) -> Any:
        return q


class SinkDequantization(Rule):
    """Reshape(DequantizeLinear(q, s, z)) → DequantizeLinear(Reshape(q), s, z) with one scale (and
    other movements)
    """

    rows = ("G9", "G24")
    examples = (
        *(
            {**_WHOLE, "more": more}
            for more in ([int64s(3, 2)], [int64s(1)], [int64s(1), int64s(2), int64s(0)])
        ),
        {**_WHOLE, "more": [], "root": {"axis": 0}},
        {**_WHOLE, "more": [], "root": {"perm": (1, 0)}},
        {**_WHOLE, "more": [int64s(1, 0, 1)], "root": {"axis": 1}},
        {**_WHOLE, "q": Ints((2, 1), 0, 9, dtypes.uint8), "more": [int64s(1)]},
    )

    def match(self, q: Variable, s: Variable, z: Variable, more: Variable) -> Any:
        numbers = ops.dequantize_linear(q, s, ops.maybe(z), name="numbers")
        return [Call(kind, (numbers, ops.rest(more))) for kind in MOVEMENTS]

    def when(self, q: Value, s: Value, root: Node) -> None:
        require(s.tensor.shape is not None and s.tensor.size == 1, "there are several scales")
        require(q.dtype in (dtypes.int8, dtypes.uint8), "runtimes do not move such elements")

    def build(
        self,
        q: Value,
        s: Value,
        z: Value | None,
        more: tuple[Value | None, ...],
        numbers: Node,
        root: Node,
    ) -> Any:
        moved = Call(root.kind, (q, *more), root.op.attributes())
        return Call("DequantizeLinear", (moved, s, z), numbers.op.attributes())


class PoolBeforeDequantization(Rule):
    """MaxPool(DequantizeLinear(q, s, z)) → DequantizeLinear(MaxPool(q), s, z) with one positive
    scale
    """

    rows = ("G9",)
    examples = (
        {
            "q": Ints((1, 2, 6, 5), 0, 256, dtypes.uint8),
            "s": _STEP,
            "z": np.uint8(128),
            "root": {"kernel_shape": (2, 2)},
        },
        {
            "q": Ints((2, 3, 5, 5), -128, 128, dtypes.int8),
            "s": _STEP,
            "z": i8(-7),
            "root": {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)},
        },
    )

    def match(self, q: Variable, s: Variable, z: Variable) -> Any:
        numbers = ops.dequantize_linear(q, ops.const(s), ops.maybe(z), name="numbers")
        return Call("MaxPool", (numbers,))

    def when(self, q: Value, s: Value, root: Node) -> None:
        require(s.tensor.size == 1, "there are several scales")
        _require_steps(s)
        require(bool(np.all(data(s) > 0)), "the scale is not positive")
        require(q.dtype in (dtypes.int8, dtypes.uint8), "runtimes do not pool such elements")
        require(
            not any(v.uses for v in root.outputs[1:]), "the places of the largest are asked for"
        )

    def build(self, q: Value, s: Value, z: Value | None, numbers: Node, root: Node) -> Any:
        pooled = Call("MaxPool", (q,), root.op.attributes())
        return Call("DequantizeLinear", (pooled, s, z), numbers.op.attributes())


class RemoveLimitBeforeQuantization(Rule):
    """QuantizeLinear(Relu(x)) or of Clip(x), whose limits the integers have anyway →
    QuantizeLinear(x)
    """

    rows = ("G9", "G18")
    examples = (
        {"x": (2, 3), "s": _STEP, "z": np.uint8(0), "low": np.float32(-1), "high": np.float32(6)},
        {"x": (2, 3), "s": _STEP, "z": i8(-128), "low": np.float32(0), "high": np.float32(6)},
        {"x": (2, 3), "s": _ROWS, "z": u8(0, 0, 0), "low": np.float32(0), "high": np.float32(200)},
    )

    def match(self, x: Variable, s: Variable, z: Variable, low: Variable, high: Variable) -> Any:
        clipped = ops.clip(x, ops.maybe(ops.const(low)), ops.maybe(ops.const(high)), name="limit")
        return [
            Call("QuantizeLinear", (limited, ops.const(s), ops.maybe(ops.const(z))))
            for limited in (ops.relu(x, name="limit"), clipped)
        ]

    def when(
        self,
        s: Value,
        z: Value | None,
        limit: Node,
        root: Node,
        low: Value | None = None,
        high: Value | None = None,
    ) -> None:
        dtype = root.output.dtype
        require(dtype.is_integer, "small floats have other limits")
        require(dtype.bits <= 8, "runtimes leave out quantization to 16 bits, its limits too")
        _require_steps(s)
        require(bool(np.all(data(s) > 0)), "a scale is negative")
        zero = 0 if z is None else data(z).astype(np.float64)
        least, most = ((edge - zero) * data(s).astype(np.float64) for edge in limits(dtype))
        lower = 0.0 if limit.kind == "Relu" else -np.inf if low is None else number(low)
        upper = np.inf if high is None or limit.kind == "Relu" else number(high)
        require(
            bool(np.all(lower <= least) and np.all(upper >= most)),
            "the limits are narrower than the integers",
        )

    def build(self, x: Value, s: Value, z: Value | None, root: Node) -> Any:
        return Call("QuantizeLinear", (x, s, z), root.op.attributes())


class QuantizeToUnsigned(Rule):
    """DequantizeLinear(QuantizeLinear(x, s, z)) between int8 → the same between uint8, zero points
    128 more
    """

    level = "all"
    rows = ("G9",)
    examples = (
        {"x": (2, 3), "s": _STEP, "z": i8(-3), "t": _STEP, "y": i8(-3)},
        {"x": (2, 3), "s": _STEP, "z": np.int8(0), "t": np.array(0.3, np.float32), "y": np.int8(5)},
    )

    def match(self, x: Variable, s: Variable, z: Variable, t: Variable, y: Variable) -> Any:
        steps = Call("QuantizeLinear", (x, s, ops.const(z)), label="steps")
        return Call("DequantizeLinear", (steps, t, ops.const(y)))

    def when(self, z: Value, y: Value) -> None:
        require(z.dtype == y.dtype == dtypes.int8, "the integers are not int8")

    def build(
        self, x: Value, s: Value, z: Value, t: Value, y: Value, steps: Node, root: Node
    ) -> Any:
        attributes = {**steps.op.attributes(), "output_dtype": None}
        unsigned = Call("QuantizeLinear", (x, s, _unsigned(z)), attributes)
        return Call("DequantizeLinear", (unsigned, t, _unsigned(y)), root.op.attributes())


def _unsigned(zero: Value) -> Value:
    """Zero points of int8 as those of integers that are 128 more."""
    return constant((data(zero).astype(np.int16) + 128).astype(np.uint8))


RULES = (
    RemoveRequantization,
    SinkDequantization,
    PoolBeforeDequantization,
    RemoveLimitBeforeQuantization,
    QuantizeToUnsigned,
)
