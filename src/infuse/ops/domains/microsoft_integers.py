"""ONNX Runtime's own products of quantized matrices (domain com.microsoft)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import Inferred, Rounding
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite
from infuse.ops.core.elementwise import f32, require_kind
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, require_rank, require_single
from infuse.ops.domains.microsoft import DOMAIN, require_extent
from infuse.ops.integers import columns_of, require_bytes, require_columnwise
from infuse.ops.quantization import STEP, i8, u8
from infuse.ops.quantizing import dynamically, one_or_each, quantized

_PRODUCT = Rounding(ulp=4, abs=4e-6, why="long sums round in another order")


class RuntimeQuantizeLinear(Composite):
    """QuantizeLinear of whole tensors, or along an axis where one is given."""

    axis: int | None = None

    is_spelling = True
    name = "QuantizeLinear"
    domain = DOMAIN
    accuracy = STEP
    samples = cases(
        x=[(2, 3), (2, 3)],
        y_scale=[np.float32(0.1), np.float32(0.02)],
        y_zero_point=[np.uint8(128), np.int16(-9)],
    )

    def body(
        self, make: GraphBuilder, x: Value, y_scale: Value, y_zero_point: Value | None = None
    ) -> Value:
        axis = 1 if self.axis is None else self.axis
        return make("QuantizeLinear", x, y_scale, y_zero_point, axis=axis)


class RuntimeDequantizeLinear(Composite):
    """DequantizeLinear of whole tensors, or along an axis where one is given."""

    axis: int | None = None

    is_spelling = True
    name = "DequantizeLinear"
    domain = DOMAIN
    samples = cases(
        x=[Ints((2, 3), 0, 256, dtypes.uint8), Ints((2, 3), -128, 128, dtypes.int8)],
        x_scale=[np.float32(0.1), np.float32(0.02)],
        x_zero_point=[np.uint8(128), None],
    )

    def body(
        self, make: GraphBuilder, x: Value, x_scale: Value, x_zero_point: Value | None = None
    ) -> Value:
        axis = 1 if self.axis is None else self.axis
        return make("DequantizeLinear", x, x_scale, x_zero_point, axis=axis)


def scaled(
    make: GraphBuilder,
    operands: Sequence[Value | None],
    scales: tuple[Value, Value],
    bias: Value | None,
    op: str,
) -> Value:
    """A product of bytes, from a, b and their zero points, times both scales, plus the bias; in
    float32, or float64 where the scale of a is one.
    """
    b = operands[1]
    assert b is not None
    require_columnwise(op, columns_of(b), scales[1])
    wide = dtypes.float64 if scales[0].dtype == dtypes.float64 else dtypes.float32
    total = make.cast(make("MatMulInteger", *operands), wide)
    left, right = (one_or_each(make, make.cast(v, wide)) for v in scales)
    result = make("Mul", total, make("Mul", left, right))
    if bias is None:
        return result
    require_rank(bias, 1, op, "the bias")
    agree(bias.shape[0], result.shape[-1], f"bias and columns of {op}")
    return make("Add", result, make.cast(bias, wide))


class MatMulIntegerToFloat(Composite):
    """The product of dequantized a and b, plus a bias over the last axis; b may have a scale for
    each column.
    """

    domain = DOMAIN
    accuracy = _PRODUCT
    samples = cases(
        a=[Ints((4, 7), 0, 256, dtypes.uint8), Ints((2, 3, 7), -128, 128, dtypes.int8)],
        b=[Ints((7, 5), -128, 128, dtypes.int8), Ints((7, 5), -128, 128, dtypes.int8)],
        a_scale=[np.float32(0.02), np.float32(0.1)],
        b_scale=[f32(0.1, 0.2, 0.3, 0.4, 0.5), f32(0.01)],
        a_zero_point=[np.uint8(128), None],
        b_zero_point=[i8(1, 2, 3, 4, 5), None],
        bias=[(5,), None],
    )

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        assert inputs[2] is not None
        return (TensorType(inputs[2].dtype, None),)

    def body(
        self,
        make: GraphBuilder,
        a: Value,
        b: Value,
        a_scale: Value,
        b_scale: Value,
        a_zero_point: Value | None = None,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        require_bytes(self.name, a, b, a_zero_point, b_zero_point)
        require_single(self.name, a_scale, a_zero_point)
        require_kind(self.name, a_scale.dtype, "f")
        operands = a, b, a_zero_point, b_zero_point
        return make.cast(scaled(make, operands, (a_scale, b_scale), bias, self.name), a_scale.dtype)


class QGemm(Composite):
    """alpha · (A · B + C) of quantized matrices (transposed if asked), the vector or matrix C in
    steps of the product: quantized, or as numbers where the result has no scale. B may have a scale
    for each column.
    """

    alpha: float = 1.0
    transA: int = 0
    transB: int = 0

    domain = DOMAIN
    accuracy = Rounding(
        ulp=4, abs=4e-6, steps=1, why="long sums round in another order, and to either of two steps"
    )
    samples = (
        cases(
            a=[Ints((4, 7), 0, 256, dtypes.uint8)],
            a_scale=[np.float32(0.02)],
            a_zero_point=[np.uint8(128)],
            b=[Ints((5, 7), -128, 128, dtypes.int8)],
            b_scale=[f32(0.1, 0.2, 0.3, 0.4, 0.5)],
            b_zero_point=[i8(0, 0, 0, 0, 0)],
            c=[Ints((5,), -999, 999, dtypes.int32)],
            y_scale=[np.float32(0.5)],
            y_zero_point=[np.uint8(128)],
            transB=[1],
        ),
        cases(
            a=[Ints((7, 4), -128, 128, dtypes.int8)],
            a_scale=[np.float32(0.02)],
            a_zero_point=[np.int8(5)],
            b=[Ints((7, 5), -128, 128, dtypes.int8)],
            b_scale=[np.float32(0.1)],
            b_zero_point=[np.int8(3)],
            transA=[1],
            alpha=[0.5],
        ),
    )

    def infer(self, *inputs: Value | None) -> Inferred:
        scales = [inputs[place] for place in (1, 4, 7) if place < len(inputs)]
        if any(scale is not None and scale.dtype != dtypes.float32 for scale in scales):
            raise TypeMismatchError(f"the scales of {self.name} are numbers of float32")
        return super().infer(*inputs)

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        zero = inputs[8] if len(inputs) > 8 else None
        return (TensorType(dtypes.float32 if zero is None else zero.dtype, None),)

    def body(
        self,
        make: GraphBuilder,
        a: Value,
        a_scale: Value,
        a_zero_point: Value,
        b: Value,
        b_scale: Value,
        b_zero_point: Value,
        c: Value | None = None,
        y_scale: Value | None = None,
        y_zero_point: Value | None = None,
    ) -> Value:
        require_bytes(self.name, a, a_zero_point, b, b_zero_point, y_zero_point)
        require_single(self.name, a_scale, a_zero_point, y_scale, y_zero_point)
        for x in (a, b):
            require_rank(x, 2, self.name, "an operand")
        left = make.permute(a, 1, 0) if self.transA else a
        right = make.permute(b, 1, 0) if self.transB else b
        require_columnwise(self.name, right.shape[1], b_scale, b_zero_point)
        zeros = make.reshape(a_zero_point), b_zero_point
        total = make.cast(make("MatMulInteger", left, right, *zeros), dtypes.float32)
        if c is not None:
            require_extent(self.name, total, c)
            total = make("Add", total, make.cast(c, dtypes.float32))
        factor = make("Mul", make.reshape(a_scale), self.alpha)
        scale = make("Mul", factor, one_or_each(make, b_scale))
        if y_scale is None or y_zero_point is None:
            return make("Mul", total, scale)
        steps = make("Mul", total, make("Div", scale, make.reshape(y_scale)))
        return quantized(make, steps, make.reshape(y_zero_point), y_zero_point.dtype)


class DynamicQuantizeMatMul(Composite):
    """The product of a, quantized as DynamicQuantizeLinear does it, with quantized b, plus a
    bias.
    """

    domain = DOMAIN
    accuracy = Rounding(
        ulp=4, abs=0.02, why="an element of a may be quantized to either of two steps"
    )
    samples = cases(
        a=[(4, 7), (2, 3, 7)],
        b=[Ints((7, 5), -128, 128, dtypes.int8), Ints((7, 5), 0, 256, dtypes.uint8)],
        b_scale=[f32(0.1, 0.2, 0.3, 0.4, 0.5), np.float32(0.01)],
        b_zero_point=[None, u8(128)],
        bias=[(5,), None],
    )

    def body(
        self,
        make: GraphBuilder,
        a: Value,
        b: Value,
        b_scale: Value,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        require_bytes(self.name, b, b_zero_point)
        require_kind(self.name, a.dtype, "f")
        y, scale, zero = dynamically(make, make.cast(a, dtypes.float32))
        operands = y, b, zero, b_zero_point
        return make.cast(scaled(make, operands, (scale, b_scale), bias, self.name), a.dtype)
