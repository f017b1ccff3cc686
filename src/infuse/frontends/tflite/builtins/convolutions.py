"""Products, convolutions and windows: operators that are NCHW here, and NHWC in the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, builtin, parameters
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ops.quantization import limits
from infuse.tracing.layout import FROM_CHANNELS, TO_CHANNELS, same_padding
from infuse.tracing.semantics import windows
from infuse.tracing.tensorflow.images import batch_matmul, resized

_SAME, _VALID = 0, 1
_ACTIVATION_LIMITS: Final[dict[int, tuple[float | None, float | None]]] = {
    0: (None, None), 1: (0, None), 2: (-1, 1), 3: (0, 6),
}  # fmt: skip
_AXES_2D: Final = ("h", "w")
_AXES_3D: Final = ("d", "h", "w")


def finish(call: LiteCall, y: Value) -> Value:
    """The result in the file's layout and type, after the fused activation."""
    return call.g.permute(call.quantized(call.activated(y)), *FROM_CHANNELS[y.rank])


def per_axis(call: LiteCall, option: str, names: Sequence[str]) -> tuple[int, ...]:
    """An option that is there for each axis, as `stride_h`, which is positive."""
    values = tuple(int(call.option(f"{option}_{name}")) for name in names)
    if any(value < 1 for value in values):
        raise ModelFileError(f"{option} is {list(values)}, and must be positive")
    return values


def padding(
    call: LiteCall, sizes: Sequence[Dim], extents: Sequence[Dim], strides: Sequence[int]
) -> dict[str, Any]:
    """The attribute that says how a window is padded, with numbers where sizes are known."""
    kind = call.option("padding")
    if kind not in (_SAME, _VALID):
        raise ModelFileError(f"there is no padding {kind}")
    if kind == _VALID:
        return {"auto_pad": "VALID"}
    return same_padding(sizes, extents, strides)


def _convolution(
    call: LiteCall, names: Sequence[str], weights: Sequence[int], depthwise: bool = False
) -> Value:
    rank = len(names) + 2
    x, w, b = call.real(0, *TO_CHANNELS[rank]), call.real(1, *weights), call.bias(2)
    strides, spread = per_axis(call, "stride", names), per_axis(call, "dilation", names)
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], spread)]
    channels, group = x.shape[1], 1
    if depthwise:
        if not isinstance(channels, int):
            raise call.unsupported("a depthwise convolution over an unknown number of channels")
        group = channels
    else:
        group = windows.groups(channels, w.shape[1])
    padded = padding(call, x.shape[2:], extents, strides)
    y = call.g("Conv", x, w, b, strides=strides, dilations=spread, group=group, **padded)
    return finish(call, y)


builtin("CONV_2D")(lambda call: _convolution(call, _AXES_2D, (0, 3, 1, 2)))
builtin("CONV_3D")(lambda call: _convolution(call, _AXES_3D, (4, 3, 0, 1, 2)))


@builtin("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(call: LiteCall) -> Value:
    """A convolution of each channel by itself, with filters 1HWO."""
    return _convolution(call, _AXES_2D, (3, 0, 1, 2), depthwise=True)


@builtin("TRANSPOSE_CONV")
def transpose_conv(call: LiteCall) -> Value:
    """The transpose of a convolution with filters OHWI; operand 0 is the shape of the result."""
    x, w = call.real(2, *TO_CHANNELS[4]), call.real(1, 3, 0, 1, 2)
    b = None
    if call.has(3):
        b = _transposed_bias(call)
    return _transposed(call, _AXES_2D, x, w, b, (1, 1))


def _transposed_bias(call: LiteCall) -> Value | None:
    """The bias of a transposed convolution, whose other operands are in another order."""
    if call.tensor(3).quantization is None and call.raw(3).dtype == dtypes.int32:
        raise ModelFileError("the integers of its bias have no scale")
    return call.bias(3)


@builtin("CONV_3D_TRANSPOSE")
def conv_3d_transpose(call: LiteCall) -> Value:
    """The transpose of a convolution over three axes with filters DHWOI."""
    x, w = call.real(2, *TO_CHANNELS[5]), call.real(1, 4, 3, 0, 1, 2)
    b = call.real(3) if call.has(3) else None
    return _transposed(call, _AXES_3D, x, w, b, per_axis(call, "dilation", _AXES_3D))


def _transposed(
    call: LiteCall, names: Sequence[str], x: Value, w: Value, b: Value | None, spread: Sequence[int]
) -> Value:
    g, strides = call.g, per_axis(call, "stride", names)
    expected = call.numbers(0)[1:-1]
    kind = call.option("padding")
    if len(expected) != len(names) or kind not in (_SAME, _VALID):
        raise ModelFileError(f"the result has the sizes {expected}, padding {kind}")
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], spread)]
    begins, ends, missing = [], [], []
    for size, result, extent, stride in zip(x.shape[2:], expected, extents, strides):
        if not all(isinstance(n, int) for n in (size, result, extent)):
            raise call.unsupported("a transposed convolution of unknown sizes")
        total = (int(size) - 1) * stride + int(extent) - int(result)
        begin, end, more = windows.cropped(total, kind == _SAME)
        begins.append(begin)
        ends.append(end)
        missing.append(more)
    attributes = {"strides": strides, "pads": (*begins, *ends), "dilations": tuple(spread)}
    if not any(missing):
        return finish(call, g("ConvTranspose", x, w, b, **attributes))
    y = g("ConvTranspose", x, w, None, **attributes)
    for axis, count in enumerate(missing):
        y = g.pad(y, 2 + axis, 0, count)
    if b is not None:
        y = g("Add", y, g.reshape(b, *b.shape, *(1 for _ in names)))
    return finish(call, y)


# -- products --------------------------------------------------------------------------------------


@builtin("FULLY_CONNECTED")
def fully_connected(call: LiteCall) -> Value:
    """X · weightsᵀ + bias, over the last axis."""
    g = call.g
    if call.option("weights_format") != 0:
        raise call.unsupported("the shuffled format of weights")
    x, w, b = call.real(0), call.real(1), call.bias(2)
    if w.rank != 2:
        raise ModelFileError(f"its weights have {w.rank} axes, not two")
    outputs, inner = w.shape
    flat = x
    if x.rank != 2 or not call.option("keep_num_dims", False):
        same = x.rank == 2 and x.shape[1] == inner
        flat = x if same else g("Reshape", x, g.ints(-1, inner))
    y = g("MatMul", flat, _turned(call)) if b is None else g("Gemm", flat, w, b, transB=1)
    y = call.quantized(call.activated(y))
    if call.option("keep_num_dims", False) and x.rank != 2:
        sizes = [g.size_of(x, axis) for axis in range(x.rank - 1)]
        y = g("Reshape", y, g.ints(*sizes, outputs))
    return y


def _turned(call: LiteCall) -> Value:
    return call.real(1, 1, 0)


# -- windows ---------------------------------------------------------------------------------------


def _pooled(call: LiteCall, kind: str, x: Value, **attributes: int) -> Value:
    kernel = int(call.option("filter_height")), int(call.option("filter_width"))
    if min(kernel) < 1:
        raise ModelFileError(f"its window has the sizes {kernel}")
    strides = per_axis(call, "stride", _AXES_2D)
    padded = padding(call, x.shape[2:], kernel, strides)
    return call.g(kind, x, kernel_shape=kernel, strides=strides, **padded, **attributes)


@builtin("AVERAGE_POOL_2D")
def average_pool(call: LiteCall) -> Value:
    """The mean of each window, without its pads; of scaled integers, the whole number next to it,
    of two the one away from zero.
    """
    if not (call.result().quantized and call.keeps(0)):
        return finish(call, _pooled(call, "AveragePool", call.real(0, *TO_CHANNELS[4])))
    g, x = call.g, call.g.permute(call.raw(0), *TO_CHANNELS[4])
    wide = dtypes.float64 if x.dtype.bits > 8 else dtypes.float32
    mean = _pooled(call, "AveragePool", g.cast(x, wide))
    # Means are multiples of 1 / size: what the division loses must not move one off its half.
    size = int(call.option("filter_height")) * int(call.option("filter_width"))
    whole = g("Floor", g("Add", g("Abs", mean), 0.5 + 0.25 / size))
    low, high = _stored_limits(call)
    y = g("Clip", g("Mul", g("Sign", mean), whole), g.number(low, wide), g.number(high, wide))
    return g.permute(g.cast(y, x.dtype), *FROM_CHANNELS[4])


def _stored_limits(call: LiteCall) -> tuple[int, int]:
    """The least and the largest integer that the fused activation leaves in a scaled result."""
    result, kind = call.result(), call.option("activation")
    low, high = limits(result.dtype)
    if result.quantization is None or kind not in _ACTIVATION_LIMITS:
        raise call.unsupported(f"the fused activation {kind} on scaled integers")
    scale, zero = (part.item() for part in parameters(result.quantization, result.dtype))
    bottom, top = _ACTIVATION_LIMITS[kind]
    if bottom is not None:
        low = max(low, zero - math.floor(-bottom / scale + 0.5))
    if top is not None:
        high = min(high, zero + math.floor(top / scale + 0.5))
    return low, high


@builtin("MAX_POOL_2D")
def max_pool(call: LiteCall) -> Value:
    """The largest element of each window."""
    return finish(call, _pooled(call, "MaxPool", call.real(0, *TO_CHANNELS[4])))


@builtin("L2_POOL_2D")
def l2_pool(call: LiteCall) -> Value:
    """The root of the mean square of each window, without its pads."""
    x = call.real(0, *TO_CHANNELS[4])
    return finish(call, call.g("Sqrt", _pooled(call, "AveragePool", call.g("Mul", x, x))))


builtin("BATCH_MATMUL")(batch_matmul)


# -- sizes of images -------------------------------------------------------------------------------


def _resized(nearest: bool) -> Callable[[LiteCall], Value]:
    def build(call: LiteCall) -> Value:
        axes = TO_CHANNELS[4]
        exact = nearest and call.keeps(0)
        x = call.g.permute(call.raw(0), *axes) if exact else call.real(0, *axes)
        return resized(call, x, nearest)

    return build


builtin("RESIZE_BILINEAR")(_resized(nearest=False))
builtin("RESIZE_NEAREST_NEIGHBOR")(_resized(nearest=True))


def _rearranged(kind: str, **attributes: str) -> Callable[[LiteCall], Value]:
    def build(call: LiteCall) -> Value:
        block = int(call.option("block_size"))
        if block < 1:
            raise ModelFileError(f"its blocks have the size {block}")
        x = call.g.permute(call.moved(0)[0], *TO_CHANNELS[4])
        y = call.g(kind, x, blocksize=block, **attributes)
        return call.g.permute(call.quantized(y), *FROM_CHANNELS[4])

    return build


builtin("SPACE_TO_DEPTH")(_rearranged("SpaceToDepth"))
builtin("DEPTH_TO_SPACE")(_rearranged("DepthToSpace", mode="DCR"))
