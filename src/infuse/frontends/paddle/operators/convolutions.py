"""Convolutions, and what all operators on images share: their layout and their padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.layout import FROM_CHANNELS, TO_CHANNELS, same_padding

_LAYOUTS = {"NCL": 0, "NCW": 0, "NCHW": 0, "NCDHW": 0, "AnyLayout": 0, "ANYLAYOUT": 0} | {
    "NLC": 1, "NWC": 1, "NHWC": 1, "NDHWC": 1
}  # fmt: skip


def channels_last(call: PaddleCall) -> bool:
    """Whether the channels are the last axis of images."""
    layout = call.attribute("data_format", "NCHW")
    if layout not in _LAYOUTS:
        raise call.unsupported(f"data_format={layout!r}")
    return bool(_LAYOUTS[layout])


def image(call: PaddleCall, name: str) -> Value:
    """An operand with its channels behind the batch."""
    x = call(name)
    return call.g.permute(x, *TO_CHANNELS[x.rank]) if channels_last(call) and x.rank > 2 else x


def as_image(call: PaddleCall, value: Value) -> Value:
    """A result in the layout that the operator has."""
    if channels_last(call) and value.rank > 2:
        return call.g.permute(value, *FROM_CHANNELS[value.rank])
    return value


def several(call: PaddleCall, name: str, count: int, default: int) -> tuple[int, ...]:
    """As many numbers as there are sizes of an image."""
    numbers = call.ints(name, [default] * count)
    if len(numbers) == 1:
        numbers = numbers * count
    if len(numbers) != count:
        raise ModelFileError(f"its {name} are {numbers[:8]}, and images have {count} sizes")
    return tuple(numbers)


def pads_of(call: PaddleCall, count: int) -> tuple[int, ...]:
    """The padding before all axes, then after them."""
    numbers = call.ints("paddings", [0] * count)
    if len(numbers) == 2 * count:
        return (*numbers[::2], *numbers[1::2])
    if len(numbers) != count:
        raise ModelFileError(f"its paddings are {numbers[:8]}, and images have {count} sizes")
    return (*numbers, *numbers)


def padding(
    call: PaddleCall, sizes: Sequence[Dim], extents: Sequence[int], strides: Sequence[int]
) -> dict[str, Any]:
    """The attribute that pads windows of these extents."""
    algorithm, explicit = call.attribute("padding_algorithm", "EXPLICIT"), pads_of(call, len(sizes))
    if algorithm == "SAME":
        return same_padding(sizes, extents, strides)
    if algorithm == "VALID":
        return {"pads": (0,) * 2 * len(sizes)}
    if algorithm != "EXPLICIT":
        raise call.unsupported(f"padding_algorithm={algorithm!r}")
    return {"pads": explicit}


@operator("conv2d", "conv3d", "depthwise_conv2d")
def convolution(call: PaddleCall) -> Value:
    """A convolution over two or three sizes; depthwise ones say so by their groups."""
    x, w = image(call, "input"), call("filter")
    count = x.rank - 2
    kernel = tuple(_fixed(size) for size in w.shape[2:])
    strides = several(call, "strides", count, 1)
    dilations = several(call, "dilations", count, 1)
    if call.attribute("padding_algorithm", "EXPLICIT") == "SAME":
        dilations = (1,) * count
    extents = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    made = call.g(
        "Conv",
        x,
        w,
        call.maybe("bias"),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=int(call.attribute("groups", 1)),
        **padding(call, x.shape[2:], extents, strides),
    )
    return as_image(call, made)


@operator("conv2d_transpose", "conv3d_transpose", "depthwise_conv2d_transpose")
def transposed_convolution(call: PaddleCall) -> Value:
    """A transposed convolution; an output size adds rows behind."""
    x, w = image(call, "x"), call("filter")
    count = x.rank - 2
    kernel = tuple(_fixed(size) for size in w.shape[2:])
    strides = several(call, "strides", count, 1)
    dilations = several(call, "dilations", count, 1)
    extents = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    pads = padding(call, x.shape[2:], extents, strides)
    size, extra = call.ints("output_size", []), call.attribute("output_padding", [])
    added = list(extra) or [0] * count
    if size:
        if "pads" not in pads:
            raise call.unsupported("an output size of an image whose size is not fixed")
        ends = zip(pads["pads"][:count], pads["pads"][count:])
        least = [
            (_fixed(n) - 1) * s + e - sum(p)
            for n, s, e, p in zip(x.shape[2:], strides, extents, ends)
        ]
        added = [wanted - n for wanted, n in zip(size, least)]
        if any(not 0 <= a < max(s, 1) for a, s in zip(added, strides)):
            raise ModelFileError(f"its output size is {size}, and it makes at least {least}")
    made = call.g(
        "ConvTranspose",
        x,
        w,
        None,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=int(call.attribute("groups", 1)),
        output_padding=tuple(added),
        **pads,
    )
    return as_image(call, made)


def _fixed(size: Dim) -> int:
    if not isinstance(size, int):
        raise ModelFileError("a size has to be fixed, and is not")
    return size


@operator("deformable_conv")
def deformable_convolution(call: PaddleCall) -> Value:
    """A convolution whose places are moved by offsets, and weighed by a mask."""
    x, w = call("x"), call("filter")
    return call.g(
        "DeformConv",
        x,
        w,
        call("offset"),
        None,
        call.maybe("mask"),
        kernel_shape=tuple(_fixed(size) for size in w.shape[2:]),
        strides=several(call, "strides", 2, 1),
        dilations=several(call, "dilations", 2, 1),
        pads=pads_of(call, 2),
        group=int(call.attribute("groups", 1)),
        offset_group=int(call.attribute("deformable_groups", 1)),
    )
