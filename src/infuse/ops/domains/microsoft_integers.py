"""ONNX Runtime's own products of quantized matrices (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.contraction import Gemm, MatMul
from infuse.ops.core.base import Array, Inferred, Op, Rounding
from infuse.ops.core.elementwise import f32, require_kind, require_shape, widened
from infuse.ops.core.flops import DEQUANTIZE, QUANTIZE, Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, require_rank, require_single
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.integers import columns_of, columnwise, require_bytes, require_columnwise
from infuse.ops.quantization import (
    STEP,
    DequantizeLinear,
    DynamicQuantizeLinear,
    QuantizeLinear,
    i8,
    quantize,
    u8,
)

_PRODUCT = Rounding(ulp=4, abs=4e-6, why="long sums round in another order")


class RuntimeQuantizeLinear(Op):
    """QuantizeLinear of whole tensors, or along an axis where one is given."""

    axis: int | None = None

    name = "QuantizeLinear"
    domain = DOMAIN
    accuracy = STEP
    samples = cases(
        x=[(2, 3), (2, 3)],
        y_scale=[np.float32(0.1), np.float32(0.02)],
        y_zero_point=[np.uint8(128), np.int16(-9)],
    )

    def plain(self) -> QuantizeLinear:
        """ONNX's own form."""
        return QuantizeLinear(axis=1 if self.axis is None else self.axis)

    def infer(self, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Inferred:
        return self.plain().infer(x, y_scale, y_zero_point)

    def eval(self, x: Array, y_scale: Array, y_zero_point: Array | None = None) -> Array:
        return self.plain().eval(x, y_scale, y_zero_point)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * QUANTIZE)


class RuntimeDequantizeLinear(Op):
    """DequantizeLinear of whole tensors, or along an axis where one is given."""

    axis: int | None = None

    name = "DequantizeLinear"
    domain = DOMAIN
    samples = cases(
        x=[Ints((2, 3), 0, 256, dtypes.uint8), Ints((2, 3), -128, 128, dtypes.int8)],
        x_scale=[np.float32(0.1), np.float32(0.02)],
        x_zero_point=[np.uint8(128), None],
    )

    def plain(self) -> DequantizeLinear:
        """ONNX's own form."""
        return DequantizeLinear(axis=1 if self.axis is None else self.axis)

    def infer(self, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Inferred:
        return self.plain().infer(x, x_scale, x_zero_point)

    def eval(self, x: Array, x_scale: Array, x_zero_point: Array | None = None) -> Array:
        return self.plain().eval(x, x_scale, x_zero_point)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * DEQUANTIZE)


def _product(a: Value, b: Value) -> TensorType:
    wide = [Value(TensorType(dtypes.float32, v.tensor.shape)) for v in (a, b)]
    result = MatMul().infer(*wide)
    assert isinstance(result, TensorType)
    return result


def _require_bias(op: str, bias: Value | None, product: TensorType) -> None:
    """ShapeError unless a bias has one number for each column of the product."""
    if bias is not None and bias.tensor.shape is not None and product.shape:
        require_rank(bias, 1, op, "the bias")
        agree(bias.shape[0], product.shape[-1], f"bias and columns of {op}")


def _sum(a: Array, a_zero: Array | None, b: Array, b_zero: Array | None) -> Array:
    left, right = (x.astype(np.float64) for x in (a, b))
    left = left if a_zero is None else left - a_zero
    right = right if b_zero is None else right - columnwise(b_zero)
    return np.asarray(np.matmul(left, right))


class MatMulIntegerToFloat(Op):
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

    def infer(
        self,
        a: Value,
        b: Value,
        a_scale: Value,
        b_scale: Value,
        a_zero_point: Value | None = None,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, a, b, a_zero_point, b_zero_point)
        product = _product(a, b)
        require_single(self.name, a_scale, a_zero_point)
        require_columnwise(self.name, columns_of(b), b_scale, b_zero_point)
        _require_bias(self.name, bias, product)
        return TensorType(require_kind(self.name, a_scale.dtype, "f"), product.shape)

    def eval(
        self,
        a: Array,
        b: Array,
        a_scale: Array,
        b_scale: Array,
        a_zero_point: Array | None = None,
        b_zero_point: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        scale = widened(a_scale).reshape(()) * widened(columnwise(b_scale))
        result = _sum(a, a_zero_point, b, b_zero_point).astype(scale.dtype) * scale
        return np.asarray(result if bias is None else result + widened(bias)).astype(a_scale.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made * shapes.input(0)[-1], shapes.made * (1 + int(shapes.has(6))))


class QGemm(Op):
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

    def infer(
        self,
        a: Value,
        a_scale: Value,
        a_zero_point: Value,
        b: Value,
        b_scale: Value,
        b_zero_point: Value,
        c: Value | None = None,
        y_scale: Value | None = None,
        y_zero_point: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, a, a_zero_point, b, b_zero_point, y_zero_point)
        if any(
            scale is not None and scale.dtype != dtypes.float32
            for scale in (a_scale, b_scale, y_scale)
        ):
            raise TypeMismatchError(f"the scales of {self.name} are numbers of float32")
        dtype = dtypes.float32 if y_zero_point is None else y_zero_point.dtype
        wide = [Value(TensorType(dtypes.float32, v.tensor.shape)) for v in (a, b)]
        result = Gemm(transA=self.transA, transB=self.transB).infer(*wide)
        assert isinstance(result, TensorType)
        require_single(self.name, a_scale, a_zero_point, y_scale, y_zero_point)
        if result.shape is not None:
            require_columnwise(self.name, result.shape[1], b_scale, b_zero_point)
            if c is not None:
                require_shape(
                    self.name,
                    broadcast_shapes(c.tensor.shape, result.shape, exact=True),
                    result.shape,
                )
        return TensorType(dtype, result.shape)

    def eval(
        self,
        a: Array,
        a_scale: Array,
        a_zero_point: Array,
        b: Array,
        b_scale: Array,
        b_zero_point: Array,
        c: Array | None = None,
        y_scale: Array | None = None,
        y_zero_point: Array | None = None,
    ) -> Array:
        left, right = a.T if self.transA else a, b.T if self.transB else b
        total = _sum(left, a_zero_point, right, b_zero_point)
        total = (total if c is None else total + c).astype(a_scale.dtype)
        scale = a_scale.dtype.type(self.alpha) * a_scale.reshape(()) * columnwise(b_scale)
        if y_scale is None or y_zero_point is None:
            return np.asarray(total * scale)
        steps = np.asarray(total * (scale / y_scale.reshape(())))
        return quantize(steps, y_zero_point.reshape(()), dtypes.by_numpy(y_zero_point.dtype))

    def flops(self, shapes: Shapes) -> Flops:
        depth = shapes.input(0)[0 if self.transA else -1]
        return Flops(shapes.made * depth, shapes.made * QUANTIZE)


class DynamicQuantizeMatMul(Op):
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

    def infer(
        self,
        a: Value,
        b: Value,
        b_scale: Value,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, b, b_zero_point)
        product = _product(a, b)
        require_columnwise(self.name, columns_of(b), b_scale, b_zero_point)
        _require_bias(self.name, bias, product)
        return TensorType(require_kind(self.name, a.dtype, "f"), product.shape)

    def eval(
        self,
        a: Array,
        b: Array,
        b_scale: Array,
        b_zero_point: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        y, scale, zero = DynamicQuantizeLinear().eval(widened(a))
        result = MatMulIntegerToFloat().eval(
            y, b, scale, widened(b_scale), zero, b_zero_point, bias
        )
        return result.astype(a.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        prepared = shapes.size(0) * (QUANTIZE + 2)
        scaled = shapes.made * (1 + int(shapes.has(4)))
        return Flops(shapes.made * shapes.input(0)[-1], prepared + scaled)
