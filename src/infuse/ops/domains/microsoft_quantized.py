"""ONNX Runtime's own quantized operators (domain com.microsoft): elementwise work, poolings,
products of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType, Type
from infuse.ops.arithmetic import Div, Mul
from infuse.ops.core.base import normalize_axis
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite
from infuse.ops.core.elementwise import f32
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import require_single
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.integers import require_bytes
from infuse.ops.pooling import AveragePool
from infuse.ops.quantization import STEP
from infuse.ops.quantizing import (
    at_once,
    from_zero,
    quantized,
    quantized_sum,
    real,
    rounded_factors,
    shifted,
    single,
    stored,
)

_MOST_PIXELS = 2**24 // 255
"""How many bytes have a sum that is exact in float32."""


def _u8(*shape: int) -> Ints:
    return Ints(shape, 0, 256, dtypes.uint8)


def _i8(*shape: int) -> Ints:
    return Ints(shape, -128, 128, dtypes.int8)


class _OfBytes(Composite, abstract=True):
    """An operator whose first input, and result, are bytes of one type."""

    domain = DOMAIN
    accuracy = STEP


class _Unary(_OfBytes, abstract=True):
    """f of what x stands for, quantized anew."""

    samples = cases(
        x=[_u8(2, 50), _i8(7)],
        x_scale=[np.float32(0.03), f32(0.1)],
        x_zero_point=[np.uint8(128), None],
        y_scale=[np.float32(0.01), np.float32(0.05)],
        y_zero_point=[np.uint8(3), np.int8(-4)],
    )

    def body(
        self,
        make: GraphBuilder,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y_scale: Value,
        y_zero_point: Value | None = None,
    ) -> Value:
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        y = self.function(make, real(make, x, x_scale, x_zero_point))
        return stored(make, y, y_scale, y_zero_point, x.dtype)

    def function(self, make: GraphBuilder, x: Value) -> Value:
        """The function of numbers."""
        return make(self.name.removeprefix("QLinear"), x, **self.attributes())


class QLinearSigmoid(_Unary):
    """1 / (1 + exp(−x)) of quantized elements."""


class QLinearLeakyRelu(_Unary):
    """x, or alpha · x where that is negative, of quantized elements."""

    alpha: float = 0.01


class _Binary(_OfBytes, abstract=True):
    """f of what a and b stand for, quantized; they broadcast. As in ONNX Runtime, scales are put
    together first, and the result is rounded when its zero point has been added: so exact halves
    stay exact, and where the zero point is odd go the other way. Every step is one of float32.
    """

    samples = cases(
        a=[_u8(3, 1, 50), _i8(7), _u8(2, 3)],
        a_scale=[np.float32(0.03), np.float32(0.1), np.float32(0.5)],
        a_zero_point=[np.uint8(128), np.int8(0), np.uint8(5)],
        b=[_u8(4, 1), _i8(7), _u8()],
        b_scale=[np.float32(0.02), np.float32(0.1), np.float32(0.25)],
        b_zero_point=[np.uint8(100), np.int8(-3), np.uint8(9)],
        c_scale=[np.float32(0.05), np.float32(0.2), np.float32(2)],
        c_zero_point=[np.uint8(120), np.int8(1), np.uint8(3)],
    )

    def body(
        self,
        make: GraphBuilder,
        a: Value,
        a_scale: Value,
        a_zero_point: Value | None,
        b: Value,
        b_scale: Value,
        b_zero_point: Value | None,
        c_scale: Value,
        c_zero_point: Value | None = None,
    ) -> Value:
        zeros = a_zero_point, b_zero_point, c_zero_point
        require_bytes(self.name, a, b, *zeros)
        require_single(self.name, a_scale, b_scale, c_scale, *zeros)
        scales = [single(make, scale) for scale in (a_scale, b_scale, c_scale)]
        return quantized(make, self.steps(make, (a, b), scales, zeros), None, a.dtype)

    def steps(
        self,
        make: GraphBuilder,
        operands: tuple[Value, Value],
        scales: Sequence[Value],
        zeros: Sequence[Value | None],
    ) -> Value:
        """The function of elements, as multiples of the scale of the result from its zero point on;
        scales and zero points are those of the operands and the result.
        """
        raise NotImplementedError


class QLinearAdd(_Binary):
    """The sum of quantized elements: what the zero points make of it is one number, and products
    are added without being rounded before, as ONNX Runtime's vectors do.
    """

    def steps(
        self,
        make: GraphBuilder,
        operands: tuple[Value, Value],
        scales: Sequence[Value],
        zeros: Sequence[Value | None],
    ) -> Value:
        shifts = [None if zero is None else single(make, zero) for zero in zeros]
        first, second = zip(operands, scales, shifts)
        return quantized_sum(make, first, second, (scales[2], shifts[2]))


class QLinearMul(_Binary):
    """The product of quantized elements."""

    def steps(
        self,
        make: GraphBuilder,
        operands: tuple[Value, Value],
        scales: Sequence[Value],
        zeros: Sequence[Value | None],
    ) -> Value:
        a, b = (shifted(make, x, zero) for x, zero in zip(operands, zeros))
        ratio = make("Div", make("Mul", scales[0], scales[1]), scales[2])
        return from_zero(make, rounded_factors(make, make("Mul", a, b), ratio), zeros[2])


class QLinearSoftmax(_Unary):
    """Softmax along an axis (before opset 13 along all from it on, taken as one) of quantized
    elements.
    """

    opset: int
    axis: int = -1

    samples = cases(
        x=[_u8(2, 3, 9), _i8(2, 7)],
        x_scale=[np.float32(0.03), np.float32(0.1)],
        x_zero_point=[np.uint8(128), None],
        y_scale=[np.float32(1 / 256), np.float32(1 / 256)],
        y_zero_point=[np.uint8(0), np.int8(-128)],
        opset=[13],
        axis=[-1],
    )

    def function(self, make: GraphBuilder, x: Value) -> Value:
        axis = normalize_axis(self.axis, x.rank, self.name)
        if self.opset >= 13:
            return make("Softmax", x, axis=axis)
        flat = make("Softmax", make("Flatten", x, axis=axis), axis=-1)
        return make.reshape(flat, *x.shape)


class QLinearConcat(Composite):
    """Quantized tensors, each with a scale and a zero point, side by side along an axis with one
    scale and zero point for all: `inputs` are tensor, scale, zero point, tensor, scale, …
    """

    axis: int

    domain = DOMAIN
    accuracy = STEP
    samples = cases(
        y_scale=[np.float32(0.05)],
        y_zero_point=[np.uint8(7)],
        inputs=[
            [_u8(2, 3), np.float32(0.03), np.uint8(100), _u8(2, 5), np.float32(0.05), np.uint8(7)]
        ],
        axis=[1, -1],
    )

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        assert inputs[1] is not None
        return (TensorType(inputs[1].dtype, None),)

    def body(
        self, make: GraphBuilder, y_scale: Value, y_zero_point: Value, *inputs: Value
    ) -> Value:
        require_bytes(self.name, y_zero_point)
        if not inputs or len(inputs) % 3:
            raise ShapeError(
                f"{self.name} takes tensors with scale and zero point each, found {len(inputs)} "
                "inputs"
            )
        require_single(self.name, y_scale, y_zero_point, *inputs[1::3], *inputs[2::3])
        parts = [
            stored(make, real(make, *operands), y_scale, y_zero_point, y_zero_point.dtype)
            for operands in zip(*(inputs[i::3] for i in range(3)))
        ]
        return make("Concat", *parts, axis=self.axis)


class QLinearGlobalAveragePool(_OfBytes):
    """The mean of each channel of quantized images: their sum times one factor, as in ONNX Runtime;
    with `channels_last` the channels are the last axis.
    """

    channels_last: int = 0

    samples = cases(
        x=[_u8(2, 3, 4, 5), _i8(1, 7, 6)],
        x_scale=[np.float32(0.03), np.float32(0.1)],
        x_zero_point=[np.uint8(128), np.int8(-3)],
        y_scale=[np.float32(0.01), np.float32(0.05)],
        y_zero_point=[np.uint8(100), np.int8(-4)],
        channels_last=[0, 1],
    )

    def body(
        self,
        make: GraphBuilder,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y_scale: Value,
        y_zero_point: Value | None,
    ) -> Value:
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        wide, axes = shifted(make, x, x_zero_point), self.axes(x.rank)
        count = dims.product([x.shape[axis] for axis in axes])
        if isinstance(count, int) and count > _MOST_PIXELS:
            wide = make.cast(wide, dtypes.float64)
        total = make.cast(make.reduce("ReduceSum", wide, *axes), dtypes.float32)
        scale, to, pixels = (single(make, v) for v in (x_scale, y_scale, make.ints(count)))
        ratio = at_once(make, Div(), scale, at_once(make, Mul(), to, pixels))
        steps = make("Mul", total, ratio)
        zero = None if y_zero_point is None else make.reshape(y_zero_point)
        return quantized(make, steps, zero, x.dtype)

    def axes(self, rank: int) -> tuple[int, ...]:
        """The spatial axes."""
        return tuple(range(1, rank - 1) if self.channels_last else range(2, rank))


class QLinearAveragePool(_OfBytes):
    """AveragePool of what quantized images stand for, in float32, quantized; with `channels_last`
    the channels are the last axis. As in ONNX Runtime it is rounded when the zero point has been
    added, and a window that is the image computes what QLinearGlobalAveragePool does.
    """

    kernel_shape: tuple[int, ...]
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    channels_last: int = 0
    count_include_pad: int = 0
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    samples = cases(
        x=[_u8(1, 2, 7, 6), _i8(2, 5, 6, 3)],
        x_scale=[np.float32(0.03), np.float32(0.1)],
        x_zero_point=[np.uint8(128), np.int8(5)],
        y_scale=[np.float32(0.01), np.float32(0.05)],
        y_zero_point=[np.uint8(100), np.int8(-4)],
        kernel_shape=[(3, 2)],
        strides=[(1, 1)],
        pads=[(0, 0, 0, 0), (1, 0, 1, 1)],
        count_include_pad=[0, 1],
    )

    def of_images(self, shape: Shape) -> QLinearGlobalAveragePool | None:
        """The pooling of whole images of this shape, if that is what the windows are."""
        sizes = shape[1:-1] if self.channels_last else shape[2:]
        if self.auto_pad not in ("NOTSET", "VALID") or any(self.pads) or sizes != self.kernel_shape:
            return None
        return QLinearGlobalAveragePool(channels_last=self.channels_last)

    def plain(self) -> AveragePool:
        """The pooling of numbers, channels second."""
        return AveragePool(**{k: v for k, v in self.attributes().items() if k != "channels_last"})

    def body(
        self,
        make: GraphBuilder,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y_scale: Value,
        y_zero_point: Value | None = None,
    ) -> Value:
        whole = self.of_images(x.shape)
        if whole is not None:
            return whole.body(make, x, x_scale, x_zero_point, y_scale, y_zero_point)
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        scale, to = single(make, x_scale), single(make, y_scale)
        numbers = rounded_factors(make, shifted(make, x, x_zero_point), scale)
        if self.channels_last:
            numbers = make.permute(numbers, 0, x.rank - 1, *range(1, x.rank - 1))
        y = make.apply(self.plain(), [numbers])[0]
        if self.channels_last:
            y = make.permute(y, 0, *range(2, x.rank), 1)
        return quantized(make, from_zero(make, make("Div", y, to), y_zero_point), None, x.dtype)
