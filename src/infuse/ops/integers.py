"""Products and convolutions of 8-bit integers, summed up in 32 bits, and those that quantize their
result.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import TypeMismatchError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.contraction import MatMul
from infuse.ops.conversion import convert
from infuse.ops.convolution import Convolving
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.elementwise import f32, require_shape
from infuse.ops.core.flops import QUANTIZE, Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, require_single
from infuse.ops.quantization import STEP, i8, limits, quantize, u8

BYTES = (dtypes.int8, dtypes.uint8)
_SMALL = (
    *BYTES,
    dtypes.float8e4m3fn,
    dtypes.float8e4m3fnuz,
    dtypes.float8e5m2,
    dtypes.float8e5m2fnuz,
)


def _i8(*shape: int) -> Ints:
    return Ints(shape, *_range(dtypes.int8), dtypes.int8)


def _u8(*shape: int) -> Ints:
    return Ints(shape, *_range(dtypes.uint8), dtypes.uint8)


def _range(dtype: DType) -> tuple[int, int]:
    low, high = limits(dtype)
    return low, high + 1


def require_bytes(name: str, *values: Value | None, kinds: tuple[DType, ...] = BYTES) -> None:
    """TypeMismatchError unless all elements are of 8 bits."""
    for value in values:
        if value is not None and value.dtype not in kinds:
            raise TypeMismatchError(
                f"{name} takes {', '.join(map(str, kinds))}, found {value.dtype}"
            )


def require_rowwise(op: str, a: Value, *parameters: Value | None) -> None:
    """ShapeError unless scales and zero points of the left operand `a` are one number, or one for
    each row.
    """
    for value in parameters:
        if value is None or value.tensor.size in (None, 1) or a.tensor.shape is None:
            continue
        if value.rank == 1 and a.rank > 1:
            agree(value.shape[0], a.shape[-2], f"scales or zero points and rows of {op}")
        elif value.rank == 1:
            require_single(op, value)
        else:
            rows = (*a.shape[:-1], 1)
            require_shape(op, broadcast_shapes(value.shape, rows, exact=True), rows)


def require_columnwise(op: str, columns: Dim | None, *parameters: Value | None) -> None:
    """ShapeError unless scales and zero points of the right operand are one number, or one for each
    column.
    """
    for value in parameters:
        if value is None or value.tensor.size in (None, 1) or value.tensor.shape is None:
            continue
        if columns is None:
            require_single(op, value)
        else:
            agree(value.shape[-1], columns, f"scales or zero points and columns of {op}")
            for size in value.shape[:-1]:
                agree(size, 1, f"other sizes of scales or zero points of {op}")


def rowwise(parameter: Array | None) -> Array:
    """A scale or zero point of the left operand of a product, where a vector has one element for
    each row.
    """
    if parameter is None:
        return np.zeros((), np.int64)
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 else parameter


def columnwise(parameter: Array | None) -> Array:
    """The same of the right operand, where a vector has one element for each column."""
    if parameter is None:
        return np.zeros((), np.int64)
    return parameter.reshape(()) if parameter.size == 1 else parameter


def _shifted(x: Array, zero: Array) -> Array:
    """X − zero, exact in float64."""
    return np.asarray(x.astype(np.float64) - zero.astype(np.float64))


def sum_in_32_bits(total: Array) -> Array:
    """Exact sums as int32, which they may overflow."""
    return total.astype(np.int64).astype(np.int32)


def columns_of(b: Value) -> Dim | None:
    """The columns of the right operand of a product; None for a vector, which has none, or where
    nothing is said.
    """
    return b.shape[-1] if b.tensor.shape is not None and b.rank > 1 else None


def _product_shape(a: Value, b: Value) -> TensorType:
    wide = [Value(TensorType(dtypes.int32, v.tensor.shape)) for v in (a, b)]
    result = MatMul().infer(*wide)
    assert isinstance(result, TensorType)
    return result


class MatMulInteger(Op):
    """(a − its zero point) · (b − its zero point) in int32; zero points are scalars, or one for
    each row of a and each column of b.
    """

    since = 10
    samples = cases(
        a=[_u8(4, 7), _i8(2, 3, 7), _u8(7), _u8(3, 4, 70), _u8(2, 1, 4, 7), _u8(17, 33)],
        b=[_i8(7, 5), _i8(7, 5), _u8(7, 5), _i8(70, 40), _u8(3, 7, 5), _u8(33)],
        a_zero_point=[np.uint8(128), None, np.uint8(3), u8(1, 2, 3, 255)[:, None], u8(9), None],
        b_zero_point=[None, np.int8(-3), u8(0, 1, 2, 3, 255), i8(5), None, np.uint8(255)],
    )

    def infer(
        self,
        a: Value,
        b: Value,
        a_zero_point: Value | None = None,
        b_zero_point: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, a, b, a_zero_point, b_zero_point)
        product = _product_shape(a, b)
        require_rowwise(self.name, a, a_zero_point)
        require_columnwise(self.name, columns_of(b), b_zero_point)
        return TensorType(dtypes.int32, product.shape)

    def eval(
        self,
        a: Array,
        b: Array,
        a_zero_point: Array | None = None,
        b_zero_point: Array | None = None,
    ) -> Array:
        left, right = _shifted(a, rowwise(a_zero_point)), _shifted(b, columnwise(b_zero_point))
        return sum_in_32_bits(np.asarray(np.matmul(left, right)))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made * shapes.input(0)[-1])


class ConvInteger(Convolving):
    """Convolution of x − its zero point with the filters w − theirs (one, or one for each filter)
    in int32.
    """

    since = 10
    samples = (
        cases(
            x=[_u8(1, 4, 6, 7), _i8(2, 4, 5, 5)],
            w=[_i8(6, 4, 3, 3), _u8(2, 4, 1, 1)],
            x_zero_point=[np.uint8(128), None],
            w_zero_point=[i8(0, 1, 2, 3, 4, -5), np.uint8(9)],
            strides=[(), (2, 1)],
            pads=[(), (1, 0, 2, 1)],
        ),
        cases(
            x=[_u8(2, 4, 9, 8)],
            w=[_u8(6, 2, 3, 2)],
            x_zero_point=[np.uint8(7)],
            group=[2],
            dilations=[(), (2, 3)],
        ),
        cases(
            x=[_u8(1, 40, 5, 5)],
            w=[_i8(40, 1, 3, 3)],
            x_zero_point=[np.uint8(99)],
            group=[40],
            pads=[(1, 1, 1, 1)],
        ),
        cases(
            x=[_u8(1, 2, 6, 7)], w=[_i8(3, 2, 3, 2)], auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"]
        ),
        cases(x=[_i8(2, 3, 11)], w=[_i8(4, 3, 3)], x_zero_point=[np.int8(-9)], pads=[(1, 1)]),
        cases(x=[_u8(1, 2, 4, 5, 6)], w=[_i8(3, 2, 2, 3, 2)]),
    )

    def infer(
        self,
        x: Value,
        w: Value,
        x_zero_point: Value | None = None,
        w_zero_point: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, x, w, x_zero_point, w_zero_point)
        require_single(self.name, x_zero_point)
        require_columnwise(self.name, w.shape[0] if w.tensor.shape else None, w_zero_point)
        return TensorType(dtypes.int32, self.shape(x, w))

    def eval(
        self,
        x: Array,
        w: Array,
        x_zero_point: Array | None = None,
        w_zero_point: Array | None = None,
    ) -> Array:
        filters = columnwise(w_zero_point)
        filters = filters.reshape(-1, *(1,) * (w.ndim - 1)) if filters.size > 1 else filters
        return sum_in_32_bits(
            self.convolve(_shifted(x, columnwise(x_zero_point)), _shifted(w, filters))
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made * dims.product(shapes.input(1)[1:]))


def requantized(total: Array, scale: Array, zero: Array) -> Array:
    """Sums times a scale, quantized to the type of the zero point; computed in float32."""
    steps = total.astype(np.float32) * scale.astype(np.float32)
    return quantize(np.asarray(steps), zero, dtypes.by_numpy(zero.dtype))


class QLinearMatMul(Op):
    """The product of dequantized a and b, quantized; scales and zero points as in MatMulInteger."""

    since = 21
    accuracy = STEP
    samples = (
        cases(
            a=[_u8(4, 7), _i8(2, 3, 7), _u8(3, 4, 70)],
            a_scale=[np.float32(0.02), f32(0.01), f32(0.01, 0.02, 0.01, 0.03)[:, None]],
            a_zero_point=[np.uint8(128), i8(3), u8(1, 2, 3, 255)[:, None]],
            b=[_i8(7, 5), _i8(7, 5), _i8(70, 4)],
            b_scale=[np.float32(0.01), np.float32(0.03), f32(0.01, 0.02, 0.03, 0.04)],
            b_zero_point=[np.int8(0), np.int8(-3), i8(1, 2, 3, 4)],
            y_scale=[np.float32(0.1), np.float32(0.02), np.float32(0.5)],
            y_zero_point=[np.uint8(100), np.int8(3), np.uint8(128)],
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
        y_scale: Value,
        y_zero_point: Value,
    ) -> Inferred:
        require_bytes(self.name, a, a_zero_point, b, b_zero_point, y_zero_point, kinds=_SMALL)
        product = _product_shape(a, b)
        require_rowwise(self.name, a, a_scale, a_zero_point, y_scale, y_zero_point)
        require_columnwise(self.name, columns_of(b), b_scale, b_zero_point)
        return TensorType(y_zero_point.dtype, product.shape)

    def eval(
        self,
        a: Array,
        a_scale: Array,
        a_zero_point: Array,
        b: Array,
        b_scale: Array,
        b_zero_point: Array,
        y_scale: Array,
        y_zero_point: Array,
    ) -> Array:
        left = _shifted(a, convert(rowwise(a_zero_point), dtypes.float32))
        right = _shifted(b, convert(columnwise(b_zero_point), dtypes.float32))
        total = np.asarray(np.matmul(left, right))
        if a.dtype.kind in "iu":
            total = sum_in_32_bits(total)
        scale = rowwise(a_scale) * columnwise(b_scale) / rowwise(y_scale)
        return requantized(total, np.asarray(scale), rowwise(y_zero_point))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made * shapes.input(0)[-1], shapes.made * QUANTIZE)


class QLinearConv(Convolving):
    """The convolution of dequantized x and w plus the bias b (int32, in steps of the product),
    quantized.

    Scale and zero point of the filters may have one element for each.
    """

    since = 10
    accuracy = STEP
    samples = (
        cases(
            x=[_u8(1, 4, 6, 7), _i8(2, 4, 5, 5)],
            x_scale=[np.float32(0.02), f32(0.01)],
            x_zero_point=[np.uint8(128), np.int8(3)],
            w=[_i8(6, 4, 3, 3), _i8(2, 4, 1, 1)],
            w_scale=[np.float32(0.01), f32(0.02, 0.03)],
            w_zero_point=[np.int8(0), i8(0, 3)],
            y_scale=[np.float32(0.05), np.float32(0.1)],
            y_zero_point=[np.uint8(128), np.int8(3)],
            b=[Ints((6,), -999, 999, dtypes.int32), None],
            pads=[(), (1, 0, 2, 1)],
        ),
        cases(
            x=[_u8(1, 4, 7)],
            x_scale=[np.float32(0.02)],
            x_zero_point=[np.uint8(9)],
            w=[_u8(4, 1, 3)],
            w_scale=[np.float32(0.02)],
            w_zero_point=[u8(128)],
            y_scale=[np.float32(0.1)],
            y_zero_point=[np.uint8(100)],
            b=[Ints((4,), -99, 99, dtypes.int32)],
            group=[4],
        ),
    )

    def infer(
        self,
        x: Value,
        x_scale: Value,
        x_zero_point: Value,
        w: Value,
        w_scale: Value,
        w_zero_point: Value,
        y_scale: Value,
        y_zero_point: Value,
        b: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, x, x_zero_point, w, w_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        require_columnwise(self.name, w.shape[0] if w.tensor.shape else None, w_scale, w_zero_point)
        return TensorType(y_zero_point.dtype, self.shape(x, w, b))

    def eval(
        self,
        x: Array,
        x_scale: Array,
        x_zero_point: Array,
        w: Array,
        w_scale: Array,
        w_zero_point: Array,
        y_scale: Array,
        y_zero_point: Array,
        b: Array | None = None,
    ) -> Array:
        lift = (-1, *(1,) * (w.ndim - 2))
        total = ConvInteger(**self.attributes()).eval(x, w, x_zero_point, w_zero_point)
        if b is not None:
            total = total + b.reshape(lift)
        scale = x_scale.reshape(()) * columnwise(w_scale) / y_scale.reshape(())
        scale = scale.reshape(lift) if scale.size > 1 else scale
        return requantized(total, np.asarray(scale), y_zero_point.reshape(()))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(
            shapes.made * dims.product(shapes.input(3)[1:]),
            shapes.made * (QUANTIZE + int(shapes.has(8))),
        )
