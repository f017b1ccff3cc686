"""Quantization: numbers as small integers or small floats, with a scale and a zero point for all or
for parts.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import Shape, TensorType
from infuse.ops.conversion import convert
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis
from infuse.ops.core.elementwise import f32
from infuse.ops.core.flops import DEQUANTIZE, QUANTIZE, Flops, Shapes
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.traits import Trait

QUANTIZED = (
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.uint16,
    dtypes.int4,
    dtypes.uint4,
    dtypes.int2,
    dtypes.uint2,
    dtypes.float4e2m1,
    dtypes.float6e2m3,
    dtypes.float6e3m2,
    dtypes.float8e4m3fn,
    dtypes.float8e4m3fnuz,
    dtypes.float8e5m2,
    dtypes.float8e5m2fnuz,
)
"""What numbers can be quantized to."""
STEP = Rounding(ulp=1, steps=1, why="a quotient near the middle of two steps may round to either")


def i8(*values: int) -> Array:
    """An int8 vector, for samples."""
    return np.array(values, np.int8)


def u8(*values: int) -> Array:
    """A uint8 vector, for samples."""
    return np.array(values, np.uint8)


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    info: Any = ml_dtypes.iinfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return int(info.min), int(info.max)


def quantize(steps: Array, zero: Array | None, to: DType, saturate: bool = True) -> Array:
    """Multiples of the scale as elements of `to`: rounded half to even, shifted by the zero point,
    limited; NaN becomes the least integer. Small floats keep their own rounding, those of 8 bits
    take no zero point.
    """
    if not to.is_integer:
        shifted = steps if zero is None or to.bits == 8 else steps + convert(zero, dtypes.float32)
        return convert(shifted, to, saturate)
    low, high = limits(to)
    whole = np.rint(steps.astype(np.result_type(np.float32, steps.dtype)))
    if zero is not None:
        whole = whole + convert(zero, dtypes.float32)
    return convert(np.where(whole > low, np.minimum(whole, high), low), to)


class _Linear(Op, abstract=True):
    """A scale and a zero point for the whole tensor, for each index of an axis, or for each block
    along an axis.
    """

    def granularity(
        self, x: Value, scale: Value, zero: Value | None, axis: int, block: int
    ) -> None:
        """ShapeError unless scale and zero point fit the tensor."""
        shape, sizes = x.tensor.shape, scale.tensor.shape
        if shape is None or sizes is None:
            return
        if zero is not None and zero.tensor.shape is not None and not _agree(sizes, zero.shape):
            raise ShapeError(
                f"the scale and the zero point of {self.name} differ: {scale.type} and {zero.type}"
            )
        if block < 0:
            raise ShapeError(f"the block size of {self.name} must be positive, found {block}")
        if dims.product(sizes) == 1:
            return
        axis = normalize_axis(axis, len(shape), self.name)
        if block:
            blocks: Shape = tuple(
                dims.ceildiv(d, block) if i == axis else d for i, d in enumerate(shape)
            )
        else:
            blocks = shape[axis : axis + 1]
        if not _agree(blocks, sizes):
            expected = ", ".join(map(str, blocks))
            raise ShapeError(
                f"{self.name} of {x.type} needs a scale of shape ({expected}), found {scale.type}"
            )


def _agree(a: Shape, b: Shape) -> bool:
    """Whether two shapes of scales may be the same; those of one element all are."""
    if dims.product(a) == dims.product(b) == 1:
        return True
    return len(a) == len(b) and all(must_equal(x, y) for x, y in zip(a, b))


def spread(parameter: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or zero point as it broadcasts against the tensor."""
    if parameter.size == 1:
        return parameter.reshape(())
    if block:
        return np.repeat(parameter, block, axis).take(range(shape[axis]), axis)
    return parameter.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


class QuantizeLinear(_Linear):
    """x / scale + zero point as elements of `output_dtype`, or else of the zero point's type, or
    uint8.

    The division has the precision of `precision`, or else of the scale.
    """

    traits = Trait.STRAIGHT_THROUGH

    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None
    precision: DType | None = None
    saturate: int = 1

    since = 28
    accuracy = STEP
    samples = (
        cases(
            x=[(2, 3, 4), (7,), Floats((3, 5), -99, 99), f32(0.5, -0.5, 1.5, 1e9, -1e9), ()],
            y_scale=[np.float32(0.02), np.float32(0.5), f32(0.25), np.float32(1), np.float32(0.1)],
            y_zero_point=[np.uint8(128), None, i8(-3), np.int8(1), np.int16(500)],
        ),
        cases(
            x=[(2, 3, 4)],
            y_scale=[f32(0.02, 0.03, 0.04)],
            y_zero_point=[u8(0, 128, 255)],
            axis=[1, -2],
        ),
        cases(
            x=[(2, 6, 3)],
            y_scale=[Floats((2, 2, 3), 0.01, 0.1)],
            y_zero_point=[Ints((2, 2, 3), -9, 9, dtypes.int8)],
            axis=[1],
            block_size=[3],
        ),
        cases(x=[(3, 7)], y_scale=[Floats((3, 3), 0.01, 0.1)], axis=[-1], block_size=[3]),
        cases(x=[(3, 7)], y_scale=[np.float32(0.1)], output_dtype=QUANTIZED),
        cases(
            x=[f32(0, -0.0, 1e9, -1e9, 3)],
            y_scale=[np.float32(0.5)],
            output_dtype=QUANTIZED[-4:],
            saturate=[0, 1],
        ),
        cases(x=[(3, 7)], y_scale=[np.float32(0.1)], precision=[dtypes.float16]),
        cases(x=[Ints((9,), -99, 99, dtypes.int32)], y_scale=[np.float32(0.3)]),
    )

    def target(self, zero: DType | None) -> DType:
        """The element type of the result."""
        if self.output_dtype is not None and zero not in (None, self.output_dtype):
            raise TypeMismatchError(
                f"{self.name} cannot give {self.output_dtype} with a zero point of {zero}"
            )
        to = self.output_dtype or zero or dtypes.uint8
        if to not in QUANTIZED:
            raise TypeMismatchError(f"{self.name} cannot give {to}")
        return to

    def division(self, scale: DType) -> DType:
        """The type in which is divided."""
        chosen = self.precision or scale
        if chosen.is_integer:
            return dtypes.float64
        return chosen if chosen.bits >= 16 else dtypes.float32

    def infer(self, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Inferred:
        self.granularity(x, y_scale, y_zero_point, self.axis, self.block_size)
        return TensorType(
            self.target(None if y_zero_point is None else y_zero_point.dtype), x.tensor.shape
        )

    def eval(self, x: Array, y_scale: Array, y_zero_point: Array | None = None) -> Array:
        zero = (
            None
            if y_zero_point is None
            else spread(y_zero_point, x.shape, self.axis, self.block_size)
        )
        precision = self.division(dtypes.by_numpy(y_scale.dtype))
        scale = convert(spread(y_scale, x.shape, self.axis, self.block_size), precision)
        steps = np.asarray(convert(x, precision) / scale)
        return quantize(
            steps,
            zero,
            self.target(None if zero is None else dtypes.by_numpy(zero.dtype)),
            bool(self.saturate),
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * QUANTIZE)


class DequantizeLinear(_Linear):
    """(x − zero point) · scale as elements of `output_dtype`, or else of the scale's type; computed
    in float32.
    """

    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None

    since = 28
    samples = (
        cases(
            x=[
                Ints((2, 3, 4), 0, 255, dtypes.uint8),
                Ints((7,), -128, 127, dtypes.int8),
                Ints((), 0, 9, dtypes.int32),
            ],
            x_scale=[np.float32(0.02), f32(0.5), np.float32(0.1)],
            x_zero_point=[np.uint8(128), i8(-3), None],
            output_dtype=[None, dtypes.float16],
        ),
        cases(
            x=[Ints((2, 3, 4), -99, 99, dtypes.int16)],
            x_scale=[f32(0.02, 0.03, 0.04)],
            x_zero_point=[np.array([0, 128, -255], np.int16)],
            axis=[1, -2],
        ),
        cases(
            x=[Ints((2, 6, 3), 0, 16, dtypes.uint4)],
            x_scale=[Floats((2, 2, 3), 0.01, 0.1)],
            x_zero_point=[Ints((2, 2, 3), 0, 16, dtypes.uint4)],
            axis=[1],
            block_size=[3],
        ),
        cases(
            x=[Ints((3, 7), -2, 2, dtypes.int2)],
            x_scale=[Floats((3, 3), 0.01, 0.1)],
            axis=[-1],
            block_size=[3],
        ),
        cases(
            x=[Floats((3, 7), dtype=d) for d in QUANTIZED if d.is_float],
            x_scale=[np.float32(0.3)] * sum(d.is_float for d in QUANTIZED),
        ),
    )

    def infer(self, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Inferred:
        if x_zero_point is not None and x_zero_point.dtype != x.dtype:
            raise TypeMismatchError(
                f"{self.name} of {x.dtype} cannot have a zero point of {x_zero_point.dtype}"
            )
        if x.dtype not in (*QUANTIZED, dtypes.int32):
            raise TypeMismatchError(f"{self.name} cannot take {x.dtype}")
        self.granularity(x, x_scale, x_zero_point, self.axis, self.block_size)
        return TensorType(self.target(x_scale.dtype), x.tensor.shape)

    def target(self, scale: DType) -> DType:
        """The element type of the result."""
        to = self.output_dtype or scale
        if not to.is_float or to.bits < 16:
            raise TypeMismatchError(f"{self.name} cannot give {to}")
        return to

    def eval(self, x: Array, x_scale: Array, x_zero_point: Array | None = None) -> Array:
        wide = dtypes.float64 if x_scale.dtype == np.float64 else dtypes.float32
        shifted = convert(x, wide)
        if x_zero_point is not None:
            shifted = shifted - convert(
                spread(x_zero_point, x.shape, self.axis, self.block_size), wide
            )
        scale = convert(spread(x_scale, x.shape, self.axis, self.block_size), wide)
        return convert(np.asarray(shifted * scale), self.target(dtypes.by_numpy(x_scale.dtype)))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * DEQUANTIZE)


class DynamicQuantizeLinear(Op):
    """x as uint8 with the scale and zero point that its range, widened to contain zero, asks for;
    gives all three.
    """

    since = 11
    accuracy = STEP
    samples = cases(x=[f32(1, 0.3, -7.5), f32(1.5, 7.25, 3), f32(-9.5, -2.25, -0.7), np.float32(5)])

    def infer(self, x: Value) -> Inferred:
        if x.dtype != dtypes.float32:
            raise TypeMismatchError(f"{self.name} takes float32, found {x.dtype}")
        result = TensorType(dtypes.uint8, x.tensor.shape)
        return result, TensorType(dtypes.float32, ()), TensorType(dtypes.uint8, ())

    def eval(self, x: Array) -> tuple[Array, Array, Array]:
        low, high = x.min(initial=0), x.max(initial=0)
        scale = np.asarray((high - low) / x.dtype.type(255) if high != low else x.dtype.type(1))
        zero = quantize(np.asarray(-low / scale), None, dtypes.uint8)
        return quantize(np.asarray(x / scale), zero, dtypes.uint8), scale, zero

    def flops(self, shapes: Shapes) -> Flops:
        """The least and the largest element besides."""
        return Flops(0, shapes.made * (QUANTIZE + 2))
