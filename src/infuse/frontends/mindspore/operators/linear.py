"""Products of matrices, convolutions, and pools."""

from __future__ import annotations

from typing import Any, Final

from infuse.frontends.mindspore.calls import MindCall, primitive
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import handler_of
from infuse.tracing.layout import same_padding

CHANNELS_SECOND: Final = ("NCHW", "NCDHW", 0, 14)
"""Layouts of images, as text or number, whose second axis is that of channels."""


@primitive("MatMul", "BatchMatMul")
def matmul(call: MindCall) -> Value:
    """A product of matrices, of which each may be turned first."""
    g = call.g
    a, b = (_turned(call, call.value(index), bool(call.item(index + 2, False))) for index in (0, 1))
    return g("MatMul", a, b)


def _turned(call: MindCall, value: Value, turned: bool) -> Value:
    if not turned:
        return value
    axes = list(range(value.rank))
    return call.g.permute(value, *axes[:-2], axes[-1], axes[-2])


def check_layout(call: MindCall, *names: str) -> None:
    """Only images whose second axis is that of channels are known."""
    for name in names:
        layout = call.attribute(name, "NCHW")
        if layout not in CHANNELS_SECOND:
            raise call.unsupported(f"data format {layout!r}")


def _spatial(call: MindCall, item: Any, count: int) -> list[int]:
    """A number for each axis of an image, where a file may also list those before."""
    numbers = call.ints(item)
    return numbers * count if len(numbers) == 1 else numbers[-count:]


def _paired(pads: list[int]) -> tuple[int, ...]:
    """What is before and after every axis in turn, as all before and then all after."""
    return (*pads[::2], *pads[1::2])


def _padding(
    call: MindCall, x: Value, kernel: list[int], strides: list[int], dilations: list[int]
) -> dict[str, Any]:
    """The attribute of padding of a convolution."""
    mode = call.attribute("pad_mode", "valid")
    pads = call.ints(call.attribute("pad", [0] * 2 * len(kernel)), 2 * len(kernel))
    call.ignore("pad_list")
    if mode in ("same", "SAME", 1):
        extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
        return same_padding(x.shape[2:], extents, strides)
    if mode in ("pad", "PAD", 0):
        return {"pads": _paired(pads)}
    if mode in ("valid", "VALID", 2):
        return {}
    raise call.unsupported(f"pad_mode {mode!r}")


@primitive("Conv2D", "Conv3D")
def conv(call: MindCall) -> Value:
    """A convolution."""
    g, x, weight = call.g, call.value(0), call.value(1)
    count = x.rank - 2
    check_layout(call, "format", "data_format")
    call.ignore("kernel_size", "out_channel", "mode", "groups", "group", "offset_x")
    strides, dilations = (_steps(call, name, count) for name in ("stride", "dilation"))
    kernel = call.ints(list(weight.shape[2:]))
    return g(
        "Conv", x, weight,
        strides=tuple(strides), dilations=tuple(dilations), group=_groups(call),
        **_padding(call, x, kernel, strides, dilations),
    )  # fmt: skip


def _steps(call: MindCall, name: str, count: int) -> list[int]:
    """An attribute of a number for each axis of an image, which some files have in the plural."""
    plural = call.attribute(f"{name}s", None)
    single = call.attribute(name, plural)
    return _spatial(call, single if plural is None else plural, count)


def _groups(call: MindCall) -> int:
    groups = call.attribute("group", None)
    return int(call.attribute("groups", 1) if groups is None else groups)


@primitive("Conv2DBackpropInput", "Conv2DTranspose", "Conv3DTranspose")
def conv_transpose(call: MindCall) -> Value:
    """A transposed convolution, whose result has the sizes that the file gives it."""
    g, x, weight = call.g, call.value(0), call.value(1)
    check_layout(call, "format", "data_format")
    call.ignore(2, "kernel_size", "out_channel", "mode", "group", "groups", "pad_list", "pad")
    call.ignore("pad_mode", "output_padding", "in_channel")
    strides, dilations = (_steps(call, name, x.rank - 2) for name in ("stride", "dilation"))
    sizes, kernel = g.results[0].sizes[2:], call.ints(list(weight.shape[2:]))
    pads: list[int] = []
    more: list[int] = []
    mode = call.attribute("pad_mode", "valid")
    given = call.ints(call.attribute("pad", [0] * 2 * len(kernel)), 2 * len(kernel))
    for axis, (size, before) in enumerate(zip(sizes, x.shape[2:])):
        extent = (kernel[axis] - 1) * dilations[axis] + 1
        if not isinstance(size, int) or not isinstance(before, int):
            raise call.unsupported("a transposed convolution of an image of unknown size")
        full = (before - 1) * strides[axis] + extent
        if mode in ("pad", "PAD", 0):
            first, last = given[2 * axis : 2 * axis + 2]
        elif mode in ("same", "SAME", 1):
            total = max(full - size, 0)
            first, last = total // 2, total - total // 2
        else:
            first = last = 0
        pads += [first, last]
        more.append(size - (full - first - last))
    if any(n < 0 or n >= s * d for n, s, d in zip(more, strides, dilations)):
        pads = [
            pad - (more[i // 2] if i % 2 and more[i // 2] < 0 else 0) for i, pad in enumerate(pads)
        ]
        pads = [
            pad - (more[i // 2] if i % 2 and more[i // 2] > 0 else 0) for i, pad in enumerate(pads)
        ]
        more = [0] * len(more)
    return g(
        "ConvTranspose", x, weight,
        strides=tuple(strides), dilations=tuple(dilations), group=_groups(call),
        pads=_paired(pads), output_padding=tuple(more),
    )  # fmt: skip


@primitive("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(call: MindCall) -> Value:
    """The greatest element or the mean of every window."""
    g, x = call.g, call.value(0)
    count = x.rank - 2
    check_layout(call, "format", "data_format")
    positional = len(call.items) > 1
    names = ("kernel_size", "strides", "pad_mode")
    kernel, strides, mode = (
        call.item(i + 1) if positional else call.attribute(name) for i, name in enumerate(names)
    )
    if positional and call.item(4, "NCHW") not in CHANNELS_SECOND:
        raise call.unsupported(f"data format {call.item(4)!r}")
    kernel, strides = (_spatial(call, item, count) for item in (kernel, strides))
    more: dict[str, Any] = {}
    mode = mode.lower() if isinstance(mode, str) else mode
    lists = [call.attribute(name, None) for name in ("pad_list", "pad")]
    pads = next((pads for pads in lists if pads), [0] * 2 * count)
    if mode in ("same", 1):
        more = same_padding(x.shape[2:], kernel, strides)
    elif mode in ("pad", "calculated", 0):
        more = {"pads": _paired(call.ints(pads, 2 * count))}
    elif mode not in ("valid", 2):
        raise call.unsupported(f"pad_mode {mode!r}")
    average = call.name.startswith("Avg")
    if call.attribute("ceil_mode", None):
        more["ceil_mode"] = 1
    if call.attribute("divisor_override", None):
        raise call.unsupported("divisor_override")
    if average and call.attribute("count_include_pad", False):
        more["count_include_pad"] = 1
    kind = "AveragePool" if average else "MaxPool"
    return g(kind, x, kernel_shape=tuple(kernel), strides=tuple(strides), **more)


@primitive("MaxPool3DWithArgmax")
def pool_with_places(call: MindCall) -> list[Any]:
    """The greatest element of every window; where it was is not read."""
    g, x = call.g, call.value(0)
    count = x.rank - 2
    check_layout(call, "format")
    call.ignore("argmax_type")
    names = ("ksize", "strides", "pads", "dilation")
    kernel, strides, pads, dilations = (
        tuple(_spatial(call, call.attribute(name), count)) for name in names
    )
    ceil = int(bool(call.attribute("ceil_mode", False)))
    more = {"strides": strides, "pads": pads * 2, "dilations": dilations, "ceil_mode": ceil}
    return [g("MaxPool", x, kernel_shape=kernel, **more), None]


@primitive("AdaptiveAvgPool2D", "AdaptiveMaxPool2D")
def adaptive_pool(call: MindCall) -> Any:
    """The mean or the greatest element of as many windows as there are to be results."""
    average = call.name == "AdaptiveAvgPool2D"
    size = call.attribute("output_size") if average else call.item(1)
    handler = handler_of(f"aten.adaptive_{'avg' if average else 'max'}_pool2d")
    assert handler is not None
    made = handler(call.g, call.value(0), call.ints(size, 2))
    return made if average else [made[0] if isinstance(made, list) else made, None]


@primitive("Im2Col")
def im2col(call: MindCall) -> Value:
    """Windows of an image: (batch, channels, places of a window, windows)."""
    g, x = call.g, call.value(0)
    if call.attribute("padding_mode", "CALCULATED") != "CALCULATED":
        raise call.unsupported("a padding_mode other than CALCULATED")
    names = ("ksizes", "dilations", "pads", "strides")
    kernel, dilations, pads, strides = (call.ints(call.attribute(name), 2) for name in names)
    handler = handler_of("aten.im2col")
    assert handler is not None
    rows = handler(g, x, kernel, dilations, pads, strides)
    return g.shaped(rows, *g.sizes_of(x)[:2], kernel[0] * kernel[1], -1)
