"""Convolutions: NCHW here, and channels_last or channels_first in the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.config import Config
from infuse.frontends.keras.layers.activations import activated
from infuse.frontends.keras.layers.dense import kernel_and_bias
from infuse.ir.graph import Array, Value
from infuse.tracing.layout import FROM_CHANNELS, TO_CHANNELS, same_padding
from infuse.tracing.semantics import windows


def channels_in_front(call: KerasCall, x: Value, rank: int) -> Value:
    """An image with its channels behind the batch, from where the model has them."""
    if x.rank != rank:
        raise ModelFileError(f"its operand has {x.rank} axes, not {rank}")
    return x if call.config.channels_first else call.g.permute(x, *TO_CHANNELS[rank])


def channels_back(call: KerasCall, y: Value) -> Value:
    """The image with its channels where the model has them."""
    return y if call.config.channels_first else call.g.permute(y, *FROM_CHANNELS[y.rank])


def positive(config: Config, name: str, count: int, default: Any = 1) -> tuple[int, ...]:
    """A field that is a positive number for each axis."""
    values = config.wholes(name, count, default)
    if min(values) < 1:
        raise ModelFileError(f"{name} is {list(values)}, and must be positive")
    return values


def padded(
    call: KerasCall, x: Value, extents: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[Value, dict[str, Any]]:
    """The operand of windows and the attribute that pads it."""
    if padding == "valid":
        return x, {"auto_pad": "VALID"}
    if padding == "causal" and len(extents) == 1:
        return call.g.pad(x, 2, extents[0] - 1, 0), {"auto_pad": "VALID"}
    if padding != "same":
        raise ModelFileError(f"there is no padding {padding!r}")
    return x, same_padding(x.shape[2:], extents, strides)


def convolved(
    call: KerasCall,
    x: Value,
    kernel: Array,
    bias: Value | None,
    group: int,
    count: int,
    plain: bool = False,
) -> Value:
    """The convolution of NCHW with a kernel OIHW; a `plain` one has neither steps nor gaps."""
    config = call.config
    strides = (1,) * count if plain else positive(config, "strides", count)
    spread = (1,) * count if plain else positive(config, "dilation_rate", count)
    padding = "same" if plain else config.text("padding", "valid")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], spread)]
    x, pads = padded(call, x, extents, strides, padding.lower())
    w = call.constant(kernel, "kernel")
    return call.g("Conv", x, w, bias, strides=strides, dilations=spread, group=group, **pads)


def turned(kernel: Array) -> Array:
    """A kernel HWIO as OIHW."""
    return np.transpose(kernel, (kernel.ndim - 1, kernel.ndim - 2, *range(kernel.ndim - 2)))


def _conv(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        call.config.require("lora_rank", None)
        images = channels_in_front(call, call.floats(x), count + 2)
        kernel = turned(call.needed("kernel", count + 2))
        group = call.config.whole("groups", 1)
        y = convolved(call, images, kernel, call.optional("bias"), group, count)
        return activated(call, channels_back(call, y))

    return build


def _depthwise_kernel(kernel: Array) -> Array:
    """A kernel of HW, channels, multiples as one of OIHW, where I is one."""
    *window, channels, multiple = kernel.shape
    order = (kernel.ndim - 2, kernel.ndim - 1, *range(kernel.ndim - 2))
    return np.transpose(kernel, order).reshape(channels * multiple, 1, *window)


def _depthwise(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        images = channels_in_front(call, call.floats(x), count + 2)
        name = "kernel" if call.array("kernel") is not None else "depthwise_kernel"
        kernel = call.needed(name, count + 2)
        group, bias = kernel.shape[-2], call.optional("bias")
        y = convolved(call, images, _depthwise_kernel(kernel), bias, group, count)
        return activated(call, channels_back(call, y))

    return build


def _separable_weights(config: Config) -> list[str]:
    names = ["depthwise_kernel", "pointwise_kernel"]
    return [*names, "bias"] if config.flag("use_bias", True) else names


def _separable(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        images = channels_in_front(call, call.floats(x), count + 2)
        kernel = call.needed("depthwise_kernel", count + 2)
        points = turned(call.needed("pointwise_kernel", count + 2))
        group = kernel.shape[-2]
        y = convolved(call, images, _depthwise_kernel(kernel), None, group, count)
        y = call.g("Conv", y, call.constant(points, "pointwise_kernel"), call.optional("bias"))
        return activated(call, channels_back(call, y))

    return build


def _transposed(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        g, config = call.g, call.config
        images = channels_in_front(call, call.floats(x), count + 2)
        kernel = call.needed("kernel", count + 2)
        order = (count + 1, count, *range(count))
        w = call.constant(np.transpose(kernel, order), "kernel")
        strides = positive(config, "strides", count)
        spread = positive(config, "dilation_rate", count)
        extra = config.wholes("output_padding", count, -1)
        same = config.text("padding", "valid").lower() == "same"
        begins, ends, missing = [], [], []
        extents = [(k - 1) * d + 1 for k, d in zip(kernel.shape, spread)]
        for row in zip(extents, strides, extra):
            begin, end, more = windows.cropped(_surplus(*row, same), same)
            begins.append(begin)
            ends.append(end)
            missing.append(more)
        attributes = {"strides": strides, "dilations": spread, "pads": (*begins, *ends)}
        y = g("ConvTranspose", images, w, None, **attributes)
        for axis, number in enumerate(missing):
            y = g.pad(y, 2 + axis, 0, number)
        bias = call.optional("bias")
        if bias is not None:
            y = g("Add", y, g.reshape(bias, *bias.shape, *(1,) * count))
        return activated(call, channels_back(call, y))

    return build


def _surplus(extent: int, stride: int, extra: int, same: bool) -> int:
    """How much longer all that a transposed convolution gives is than what Keras keeps of it;
    `extra`: the padding of the output, -1 where none is said.
    """
    if same:
        return extent - stride if extra < 0 else extent - extent % 2 - extra
    return extent - max(extent, stride) if extra < 0 else -extra


def depthwise_weights(config: Config) -> list[str]:
    """Names of the weights of a convolution of each channel by itself."""
    names = ["kernel"]
    return [*names, "bias"] if config.flag("use_bias", True) else names


for _count in (1, 2, 3):
    _names = (f"Conv{_count}D", f"Convolution{_count}D")
    layer(*_names, weights=kernel_and_bias)(_conv(_count))
    layer(f"Conv{_count}DTranspose", f"Convolution{_count}DTranspose", weights=kernel_and_bias)(
        _transposed(_count)
    )
    if _count < 3:
        layer(f"DepthwiseConv{_count}D", weights=depthwise_weights)(_depthwise(_count))
        layer(
            f"SeparableConv{_count}D", f"SeparableConvolution{_count}D", weights=_separable_weights
        )(_separable(_count))
