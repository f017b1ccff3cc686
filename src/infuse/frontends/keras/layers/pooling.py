"""Pools over windows, over parts of known number, and over whole images."""

from __future__ import annotations

from collections.abc import Callable

from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.layers.convolutions import (
    channels_back,
    channels_in_front,
    padded,
    positive,
)
from infuse.ir.graph import Value


def pool(kind: str, count: int) -> Callable[[KerasCall, Value], Value]:
    """A pool over windows of so many axes, as the configuration says."""

    def build(call: KerasCall, x: Value) -> Value:
        config, floats = call.config, call.floats(x)
        images = channels_in_front(call, floats, count + 2)
        kernel = positive(config, "pool_size", count, 2)
        strides = positive(config, "strides", count, kernel)
        padding = config.text("padding", "valid").lower()
        images, pads = padded(call, images, kernel, strides, padding)
        y = call.g(kind, images, kernel_shape=kernel, strides=strides, **pads)
        return channels_back(call, y)

    return build


def _global(kind: str, count: int) -> Callable[..., Value]:
    def build(call: KerasCall, x: Value) -> Value:
        images = channels_in_front(call, call.floats(x), count + 2)
        keep = call.config.flag("keepdims")
        y = call.reduced(kind, images, range(2, count + 2), keep)
        return channels_back(call, y) if keep else y

    return build


@layer("GlobalAveragePooling1D", "GlobalAvgPool1D")
def global_average_1d(call: KerasCall, x: Value, mask: Value | None = None) -> Value:
    """The mean over times, of those that the mask does not hide."""
    mask = mask if mask is not None else call.mask(x)
    if mask is None:
        plain: Value = _global("ReduceMean", 1)(call, x)
        return plain
    axis, channels = (2, 1) if call.config.channels_first else (1, 2)
    keep = call.config.flag("keepdims")
    wide = call.unsqueezed(call.boolean(mask), channels)
    floats = call.floats(x)
    total = call.reduced("ReduceSum", call.where(wide, floats, 0), [axis], keep)
    number = call.reduced("ReduceSum", call.g.cast(wide, floats.dtype), [axis], keep)
    return call.g("Div", total, number)


def adaptive_pool(kind: str, count: int) -> Callable[[KerasCall, Value], Value]:
    """A pool over parts of so many axes, whose number the configuration says."""

    def build(call: KerasCall, x: Value) -> Value:
        images = channels_in_front(call, call.floats(x), count + 2)
        for axis, parts in enumerate(positive(call.config, "output_size", count, None), 2):
            images = _parts(call, kind, images, axis, parts)
        return channels_back(call, images)

    return build


def _parts(call: KerasCall, kind: str, x: Value, axis: int, count: int) -> Value:
    """Parts of an axis, each reduced: from ⌊i · size / count⌋ to ⌈(i + 1) · size / count⌉."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise call.unsupported("an adaptive pool over an axis of unknown size")
    if size % count == 0:
        sizes = [0] * axis + [count, size // count]
        sizes += [n if isinstance(n, int) else -1 for n in x.shape[axis + 1 :]]
        if sizes.count(-1) <= 1:
            return call.reduced(kind, call.shaped(x, *sizes), [axis + 1])
    pieces = [
        call.reduced(
            kind,
            call.g.slice(x, axis, i * size // count, -(-(i + 1) * size // count)),
            [axis],
            keep=True,
        )
        for i in range(count)
    ]
    return call.g("Concat", *pieces, axis=axis)


for _count in (1, 2, 3):
    for _names, _kind, _whole in (
        (("AveragePooling", "AvgPool"), "AveragePool", "ReduceMean"),
        (("MaxPooling", "MaxPool"), "MaxPool", "ReduceMax"),
    ):
        layer(*(f"{name}{_count}D" for name in _names))(pool(_kind, _count))
        layer(f"Adaptive{_names[0]}{_count}D")(adaptive_pool(_whole, _count))
        if (_count, _whole) != (1, "ReduceMean"):
            layer(*(f"Global{name}{_count}D" for name in _names))(_global(_whole, _count))
