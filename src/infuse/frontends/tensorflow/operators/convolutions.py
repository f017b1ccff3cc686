"""Convolutions and windows: operators that are NCHW here, and mostly NHWC in the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.layout import FROM_CHANNELS, TO_CHANNELS, same_padding
from infuse.tracing.semantics import windows

_LAST: Final = {4: "NHWC", 5: "NDHWC"}
_FIRST: Final = {4: "NCHW", 5: "NCDHW"}


MOST_PLACES: Final = 1 << 12
"""Places of a window that is written out place by place."""


def channels_last(call: FlowCall, rank: int) -> bool:
    """Whether the channels are the last axis."""
    return call.text("data_format", _LAST[rank], _FIRST[rank]) == _LAST[rank]


def image(call: FlowCall, index: int, rank: int) -> Value:
    """An operand with its channels behind the batch."""
    if not channels_last(call, rank):
        return call.raw(index)
    return call.real(index, *TO_CHANNELS[rank])


def finish(call: FlowCall, y: Value) -> Value:
    """A result in the model's layout."""
    return call.g.permute(y, *FROM_CHANNELS[y.rank]) if channels_last(call, y.rank) else y


def per_axis(call: FlowCall, option: str, rank: int) -> tuple[int, ...]:
    """An option for each axis of the image, which is 1 for batch and channels."""
    numbers = call.positive(option, rank)
    places = range(1, rank - 1) if channels_last(call, rank) else range(2, rank)
    others = [n for axis, n in enumerate(numbers) if axis not in places]
    if any(n != 1 for n in others):
        raise call.unsupported(f"{option} of {numbers}")
    return tuple(numbers[axis] for axis in places)


def padding(
    call: FlowCall, sizes: Sequence[Dim], extents: Sequence[Dim], strides: Sequence[int]
) -> dict[str, Any]:
    """The attribute that says how a window is padded, with numbers where sizes are known."""
    kind = call.text("padding", "VALID", "SAME", "EXPLICIT")
    if kind == "VALID":
        return {"auto_pad": "VALID"}
    if kind == "EXPLICIT":
        return {"pads": explicit(call, len(sizes) + 2)}
    return same_padding(sizes, extents, strides)


def explicit(call: FlowCall, rank: int) -> tuple[int, ...]:
    """Pads that the model lists: of all axes before, then after."""
    listed = [int(n) for n in call.option("explicit_paddings", None) or ()]
    if len(listed) != 2 * rank or min(listed) < 0:
        raise ModelFileError(f"its explicit paddings are {listed[:10]}")
    pairs = list(zip(listed[::2], listed[1::2]))
    inner = pairs[1:-1] if channels_last(call, rank) else pairs[2:]
    if sum(map(sum, pairs)) != sum(map(sum, inner)):
        raise call.unsupported("padding of batch or channels")
    return (*(before for before, _ in inner), *(after for _, after in inner))


# -- convolutions ----------------------------------------------------------------------------------


def convolution(call: FlowCall, depthwise: bool = False) -> Value:
    """A convolution without what is fused to it, NCHW."""
    rank = call.raw(1).rank
    if rank not in _LAST:
        raise ModelFileError(f"its filters have {rank} axes")
    axes = tuple(range(rank - 2))
    x = image(call, 0, rank)
    if x.rank != rank:
        raise ModelFileError(f"an image of {x.rank} axes meets filters of {rank}")
    strides = per_axis(call, "strides", rank)
    spread = per_axis(call, "dilations", rank)
    if depthwise:
        w, group = _depthwise_filters(call)
    else:
        w = call.real(1, rank - 1, rank - 2, *axes)
        group = windows.groups(x.shape[1], w.shape[1])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], spread)]
    padded = padding(call, x.shape[2:], extents, strides)
    return call.g("Conv", x, w, None, strides=strides, dilations=spread, group=group, **padded)


def _depthwise_filters(call: FlowCall) -> tuple[Value, int]:
    """Filters HWIM as (I · M)1HW, and I."""
    w = call.raw(1)
    height, width, channels, many = w.shape
    if not isinstance(channels, int) or not isinstance(many, int):
        raise call.unsupported("a depthwise convolution over an unknown number of channels")
    turned = call.real(1, 2, 3, 0, 1)
    return call.g.reshape(turned, channels * many, 1, height, width), channels


operator("Conv2D", "Conv3D")(lambda call: finish(call, convolution(call)))
operator("DepthwiseConv2dNative")(lambda call: finish(call, convolution(call, depthwise=True)))


@operator("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def transposed(call: FlowCall) -> Value:
    """The transpose of a convolution; operand 0 is the shape of its result."""
    g, rank = call.g, call.raw(1).rank
    if rank not in _LAST:
        raise ModelFileError(f"its filters have {rank} axes")
    x, group = image(call, 2, rank), 1
    if call.node.op.startswith("Depthwise"):
        w, group = _depthwise_filters(call)
    else:
        w = call.real(1, rank - 1, rank - 2, *range(rank - 2))
    strides, spread = (per_axis(call, option, rank) for option in ("strides", "dilations"))
    expected = _sizes_of_result(call, rank)
    attributes: dict[str, Any] = {"strides": strides, "dilations": spread, "group": group}
    kind = call.text("padding", "VALID", "SAME", "EXPLICIT")
    begins, ends, more = [], [], []
    stated = explicit(call, rank) if kind == "EXPLICIT" else None
    for axis, (size, result, k) in enumerate(zip(x.shape[2:], expected, w.shape[2:])):
        stride, extent = strides[axis], (_number(call, k) - 1) * spread[axis] + 1
        begin, end, rest = _cut(call, kind, size, result, extent, stride)
        if stated is not None:
            begin, end = stated[axis], end - stated[axis]
            end, rest = max(end, 0), max(-end, 0)
        begins.append(begin)
        ends.append(end)
        more.append(rest)
    y = g("ConvTranspose", x, w, None, pads=(*begins, *ends), **attributes)
    for axis, count in enumerate(more):
        y = g.pad(y, 2 + axis, 0, count)
    return finish(call, y)


def _cut(
    call: FlowCall, kind: str, size: Dim, result: Dim | None, extent: int, stride: int
) -> tuple[int, int, int]:
    """What is cut off before and after, and what is added after, so that a result has its size."""
    if not isinstance(size, int) or not isinstance(result, int):
        # Of unknown sizes the result is taken for what fits exactly.
        if kind == "SAME" and stride <= extent:
            total = extent - stride
            return total // 2, total - total // 2, 0
        if kind == "VALID" and stride <= extent:
            return 0, 0, 0
        raise call.unsupported("a transposed convolution of unknown sizes")
    total = (size - 1) * stride + extent - result
    if kind == "EXPLICIT":
        return 0, total, 0
    return windows.cropped(total, kind == "SAME")


def _number(call: FlowCall, size: Dim) -> int:
    if not isinstance(size, int):
        raise call.unsupported("a filter of unknown size")
    return size


def _sizes_of_result(call: FlowCall, rank: int) -> list[Any]:
    listed = known_ints(call.raw(0))
    if listed is None:
        return [None] * (rank - 2)
    if len(listed) == rank - 2:
        return list(listed)
    if len(listed) != rank:
        raise ModelFileError(f"the shape of its result is {list(listed)[:8]}")
    return list(listed[1:-1] if channels_last(call, rank) else listed[2:])


# -- windows ---------------------------------------------------------------------------------------


def _pool(kind: str, rank: int) -> Callable[[FlowCall], Value]:
    def build(call: FlowCall) -> Value:
        x = image(call, 0, rank)
        if x.rank != rank:
            raise ModelFileError(f"an image of {x.rank} axes meets a window of {rank}")
        kernel = per_axis(call, "ksize", rank)
        strides = per_axis(call, "strides", rank)
        padded = padding(call, x.shape[2:], kernel, strides)
        return finish(call, call.g(kind, x, kernel_shape=kernel, strides=strides, **padded))

    return build


for _name, _kind in {"MaxPool": "MaxPool", "AvgPool": "AveragePool"}.items():
    operator(_name)(_pool(_kind, 4))
    operator(f"{_name}3D")(_pool(_kind, 5))


@operator("MaxPoolV2")
def max_pool_v2(call: FlowCall) -> Value:
    """The largest element of each window, whose sizes are operands."""
    ksize, strides = call.ints(1), call.ints(2)
    return _pool("MaxPool", 4)(call.with_options(ksize=ksize, strides=strides))


@operator("Dilation2D")
def dilation(call: FlowCall) -> Value:
    """The largest element of each window after a filter is added."""
    g = call.g
    x, w = call.raw(0), call.raw(1)
    rates = call.positive("rates", 4)
    if w.rank != 3 or x.rank != 4:
        raise ModelFileError(f"an image of {x.rank} axes meets a filter of {w.rank}")
    strides = call.positive("strides", 4)
    padded = call.text("padding", "VALID", "SAME")
    if not all(isinstance(n, int) for n in (*x.shape[1:3], *w.shape[:2])):
        raise call.unsupported("dilation of unknown sizes")
    height, width = int(w.shape[0]), int(w.shape[1])
    if not 0 < height * width <= MOST_PLACES:
        raise call.unsupported(f"a window of {height} × {width}")
    for axis, kernel in ((1, height), (2, width)):
        if padded == "SAME":
            extent = (kernel - 1) * rates[axis] + 1
            pair = same_padding(x.shape[axis : axis + 1], [extent], [strides[axis]])["pads"]
            low = g.constant(_lowest(x))
            x = g("Pad", x, g.ints(*pair), low, g.ints(axis)) if any(pair) else x
    result: Value | None = None
    window = (height, width)
    for (row, column), part in windows.taps(g, x, (1, 2), window, strides[1:], rates[1:]):
        weight = g("Gather", g("Gather", w, g.constant(row), axis=0), g.constant(column))
        sum_ = g("Add", part, weight)
        result = sum_ if result is None else g("Max", result, sum_)
    assert result is not None
    return result


def _lowest(x: Value) -> Any:
    return np.array(np.finfo(x.dtype.numpy).min, x.dtype.numpy)
