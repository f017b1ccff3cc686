"""ONNX Runtime's own quantized operators (domain com.microsoft): elementwise work, poolings,
products of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis
from infuse.ops.core.elementwise import f32, fused
from infuse.ops.core.flops import DEQUANTIZE, QUANTIZE, SOFTMAX, Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree_shapes, require_single, with_dim
from infuse.ops.core.special import sigmoid
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.integers import require_bytes
from infuse.ops.pooling import AveragePool
from infuse.ops.quantization import STEP, quantize
from infuse.ops.softmax_family import Softmax

_PRODUCT = Rounding(ulp=4, abs=4e-6, why="long sums round in another order")


def _u8(*shape: int) -> Ints:
    return Ints(shape, 0, 256, dtypes.uint8)


def _i8(*shape: int) -> Ints:
    return Ints(shape, -128, 128, dtypes.int8)


def shifted(x: Array, zero: Array | None) -> Array:
    """Quantized elements as multiples of their scale."""
    wide = x.astype(np.float32)
    return wide if zero is None else np.asarray(wide - zero.astype(np.float32))


def real(x: Array, scale: Array, zero: Array | None) -> Array:
    """What quantized elements stand for."""
    return np.asarray(shifted(x, zero) * scale)


def stored(y: Array, scale: Array, zero: Array | None, to: DType) -> Array:
    """Numbers as quantized elements, as QuantizeLinear rounds: before the zero point is added."""
    return quantize(np.asarray(y / scale), zero, to)


class _OfBytes(Op, abstract=True):
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

    def infer(
        self,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y_scale: Value,
        y_zero_point: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        return x.type

    def eval(
        self,
        x: Array,
        x_scale: Array,
        x_zero_point: Array | None,
        y_scale: Array,
        y_zero_point: Array | None = None,
    ) -> Array:
        result = self.function(real(x, x_scale, x_zero_point))
        return stored(result, y_scale, y_zero_point, dtypes.by_numpy(x.dtype))

    def function(self, x: Array) -> Array:
        """The function of numbers."""
        raise NotImplementedError

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (DEQUANTIZE + 4 + QUANTIZE))


class QLinearSigmoid(_Unary):
    """1 / (1 + exp(−x)) of quantized elements."""

    def function(self, x: Array) -> Array:
        return sigmoid(x)


class QLinearLeakyRelu(_Unary):
    """x, or alpha · x where that is negative, of quantized elements."""

    alpha: float = 0.01

    def function(self, x: Array) -> Array:
        return np.where(x >= 0, x, x * x.dtype.type(self.alpha))


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

    def infer(
        self,
        a: Value,
        a_scale: Value,
        a_zero_point: Value | None,
        b: Value,
        b_scale: Value,
        b_zero_point: Value | None,
        c_scale: Value,
        c_zero_point: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, a, a_zero_point, b, b_zero_point, c_zero_point)
        require_single(
            self.name, a_scale, a_zero_point, b_scale, b_zero_point, c_scale, c_zero_point
        )
        return TensorType(a.dtype, broadcast_shapes(a.tensor.shape, b.tensor.shape))

    def eval(
        self,
        a: Array,
        a_scale: Array,
        a_zero_point: Array | None,
        b: Array,
        b_scale: Array,
        b_zero_point: Array | None,
        c_scale: Array,
        c_zero_point: Array | None = None,
    ) -> Array:
        scales = [np.asarray(x, np.float32) for x in (a_scale, b_scale, c_scale)]
        zeros = [
            np.zeros((), np.float32) if z is None else z.astype(np.float32).reshape(())
            for z in (a_zero_point, b_zero_point, c_zero_point)
        ]
        steps = self.function(a.astype(np.float32), b.astype(np.float32), scales, zeros)
        return quantize(steps, None, dtypes.by_numpy(a.dtype))

    def function(
        self, a: Array, b: Array, scales: Sequence[Array], zeros: Sequence[Array]
    ) -> Array:
        """The function of elements, as multiples of the scale of the result from its zero point on;
        scales and zero points are those of a, b and the result.
        """
        raise NotImplementedError

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (2 * DEQUANTIZE + 1 + QUANTIZE))


class QLinearAdd(_Binary):
    """The sum of quantized elements: what the zero points make of it is one number, and products
    are added without being rounded before, as ONNX Runtime's vectors do.
    """

    def function(
        self, a: Array, b: Array, scales: Sequence[Array], zeros: Sequence[Array]
    ) -> Array:
        first, second = scales[0] / scales[2], scales[1] / scales[2]
        start = zeros[2] - fused(first, zeros[0], second * zeros[1])
        return fused(a, first, fused(b, second, start))


class QLinearMul(_Binary):
    """The product of quantized elements."""

    def function(
        self, a: Array, b: Array, scales: Sequence[Array], zeros: Sequence[Array]
    ) -> Array:
        product = (a - zeros[0]) * (b - zeros[1])
        return np.asarray(product * (scales[0] * scales[1] / scales[2]) + zeros[2])


class QLinearSoftmax(_OfBytes):
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

    def infer(
        self,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y_scale: Value,
        y_zero_point: Value,
    ) -> Inferred:
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        return x.type

    def eval(
        self,
        x: Array,
        x_scale: Array,
        x_zero_point: Array | None,
        y_scale: Array,
        y_zero_point: Array,
    ) -> Array:
        numbers = real(x, x_scale, x_zero_point)
        axis = self.axis % x.ndim
        if self.opset < 13:
            flat = numbers.reshape(*x.shape[:axis], -1)
            result = Softmax(axis=-1).eval(flat).reshape(x.shape)
        else:
            result = Softmax(axis=axis).eval(numbers)
        return stored(result, y_scale, y_zero_point, dtypes.by_numpy(x.dtype))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (DEQUANTIZE + SOFTMAX + QUANTIZE))


class QLinearConcat(Op):
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

    def infer(self, y_scale: Value, y_zero_point: Value, *inputs: Value) -> Inferred:
        require_bytes(self.name, y_zero_point)
        if not inputs or len(inputs) % 3:
            raise ShapeError(
                f"{self.name} takes tensors with scale and zero point each, found {len(inputs)} "
                "inputs"
            )
        require_single(self.name, y_scale, y_zero_point, *inputs[1::3], *inputs[2::3])
        shapes = [v.tensor.shape for v in inputs[::3]]
        complete = [s for s in shapes if s is not None]
        if len(complete) < len(shapes):
            return TensorType(y_zero_point.dtype, None)
        axis = normalize_axis(self.axis, len(complete[0]), self.name)
        total: Dim = 0
        for shape in complete:
            agree_shapes(
                with_dim(shape, axis, 1),
                with_dim(complete[0], axis, 1),
                f"the other sizes of {self.name}",
            )
            total = total + shape[axis]
        return TensorType(
            y_zero_point.dtype, (*complete[0][:axis], total, *complete[0][axis + 1 :])
        )

    def eval(self, y_scale: Array, y_zero_point: Array, *inputs: Array) -> Array:
        to = dtypes.by_numpy(y_zero_point.dtype)
        parts = [
            stored(real(x, scale, zero), y_scale, y_zero_point, to)
            for x, scale, zero in zip(inputs[::3], inputs[1::3], inputs[2::3])
        ]
        return np.concatenate(parts, axis=self.axis)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (DEQUANTIZE + QUANTIZE))


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

    def infer(
        self, x: Value, x_scale: Value, x_zero_point: Value, y_scale: Value, y_zero_point: Value
    ) -> Inferred:
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        if x.tensor.shape is None:
            return x.type
        axes = self.axes(x.rank)
        return TensorType(x.dtype, tuple(1 if i in axes else d for i, d in enumerate(x.shape)))

    def axes(self, rank: int) -> tuple[int, ...]:
        """The spatial axes."""
        return tuple(range(1, rank - 1) if self.channels_last else range(2, rank))

    def eval(
        self,
        x: Array,
        x_scale: Array,
        x_zero_point: Array | None,
        y_scale: Array,
        y_zero_point: Array | None,
    ) -> Array:
        axes = self.axes(x.ndim)
        pixels = np.float32(np.prod([x.shape[axis] for axis in axes]))
        total = x.astype(np.int64).sum(axis=axes, keepdims=True)
        if x_zero_point is not None:
            total = total - int(x_zero_point.reshape(())) * int(pixels)
        steps = total.astype(np.float32) * (np.asarray(x_scale, np.float32) / (y_scale * pixels))
        return quantize(np.asarray(steps), y_zero_point, dtypes.by_numpy(x.dtype))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) + shapes.made * (DEQUANTIZE + QUANTIZE))


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

    def infer(
        self,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y_scale: Value,
        y_zero_point: Value | None = None,
    ) -> Inferred:
        require_bytes(self.name, x, x_zero_point, y_zero_point)
        require_single(self.name, x_scale, x_zero_point, y_scale, y_zero_point)
        if x.tensor.shape is None:
            return x.type
        if not self.channels_last:
            return self.plain().shape(x, x.dtype)
        moved = Value(TensorType(x.dtype, (x.shape[0], x.shape[-1], *x.shape[1:-1])))
        pooled = self.plain().shape(moved, x.dtype).shape
        assert pooled is not None
        return TensorType(x.dtype, (pooled[0], *pooled[2:], pooled[1]))

    def eval(
        self,
        x: Array,
        x_scale: Array,
        x_zero_point: Array | None,
        y_scale: Array,
        y_zero_point: Array | None = None,
    ) -> Array:
        whole = self.of_images(x.shape)
        if whole is not None:
            return whole.eval(x, x_scale, x_zero_point, y_scale, y_zero_point)
        numbers = real(x, x_scale, x_zero_point)
        if self.channels_last:
            numbers = np.moveaxis(numbers, -1, 1)
        result = self.plain().eval(numbers)
        if self.channels_last:
            result = np.moveaxis(result, 1, -1)
        steps = np.asarray(result / y_scale)
        if y_zero_point is not None:
            steps = steps + y_zero_point.astype(np.float32)
        return quantize(steps, None, dtypes.by_numpy(x.dtype))

    def flops(self, shapes: Shapes) -> Flops:
        window = dims.product(self.kernel_shape)
        return Flops(0, shapes.made * (window + DEQUANTIZE + QUANTIZE))
