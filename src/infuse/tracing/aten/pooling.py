"""Pooling over windows, and over as many windows as there are to be results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, each


def _batched(g: TorchImporter, x: Value, count: int) -> tuple[Value, bool]:
    """X with an axis of images, and whether it had none."""
    single = x.rank == count + 1
    return (g("Unsqueeze", x, g.ints(0)) if single else x), single


def _unbatched(g: TorchImporter, y: Value, single: bool) -> Value:
    return g("Squeeze", y, g.ints(0)) if single else y


def _attributes(
    count: int, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool
) -> dict[str, Any]:
    """What all pools over windows have; without a stride, windows lie side by side."""
    kernel, pads = tuple(each(kernel_size, count)), each(padding, count)
    return {
        "kernel_shape": kernel,
        "strides": tuple(each(stride, count)) if stride not in ((), []) else kernel,
        "pads": (*pads, *pads),
        "ceil_mode": int(ceil_mode),
    }


def _max_pool(count: int) -> Any:
    def build(
        g: TorchImporter,
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        image, single = _batched(g, x, count)
        attributes = _attributes(count, kernel_size, stride, padding, ceil_mode)
        attributes["dilations"] = tuple(each(dilation, count))
        if len(g.results) == 1:
            return _unbatched(g, g("MaxPool", image, **attributes), single)
        values, places = g.several(2, "MaxPool", image, **attributes)
        size: Any = 1
        for n in g.sizes_of(image)[2:]:
            size = g.calculated("Mul", size, n)
        places = g("Mod", places, g.tensor(size, dtypes.int64))
        return [_unbatched(g, values, single), _unbatched(g, places, single)]

    return build


def _widened(g: TorchImporter, image: Value, attributes: dict[str, Any]) -> Value:
    """An image with zeros around it for all windows that begin within it; `attributes` are then
    those of a pool without padding and without windows that go further.
    """
    count = image.rank - 2
    pads, behind = attributes["pads"][:count], []
    sizes, kernels = image.shape[2:], attributes["kernel_shape"]
    for size, kernel, stride, pad in zip(sizes, kernels, attributes["strides"], pads):
        if not isinstance(size, int):
            raise g.unsupported("ceil_mode with divisor_override of an axis of computed size")
        windows = -((kernel - size - 2 * pad) // stride) + 1
        if (windows - 1) * stride >= size + pad:
            windows -= 1
        behind.append(max(pad, (windows - 1) * stride + kernel - size - pad))
    attributes.update(pads=(0,) * (2 * count), ceil_mode=0)
    axes = g.ints(*range(2, image.rank))
    return g("Pad", image, g.ints(*pads, *behind), None, axes)


def _average_pool(count: int) -> Any:
    def build(
        g: TorchImporter,
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        if not x.dtype.is_float:
            raise g.unsupported(f"average pooling of {x.dtype} elements")
        image, single = _batched(g, x, count)
        attributes = _attributes(count, kernel_size, stride, padding, ceil_mode)
        if divisor_override is not None:
            # Sums: what lies around the image counts as 0, and every window has all its elements.
            if ceil_mode:
                image = _widened(g, image, attributes)
            count_include_pad = True
        y = g("AveragePool", image, count_include_pad=int(count_include_pad), **attributes)
        if divisor_override is not None:
            y = g("Mul", y, math.prod(attributes["kernel_shape"]) / divisor_override)
        return _unbatched(g, y, single)

    return build


def _windows(n: int, count: int) -> list[tuple[int, int]]:
    """Begin and end of as many windows of an axis of n elements."""
    return [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]


def _shares(g: TorchImporter, size: int | Value, count: int) -> Value:
    """What each element of an axis contributes to the mean of each window: (elements, windows)."""
    if isinstance(size, int):
        weights = np.zeros((size, count), np.float64)
        for i, (low, high) in enumerate(_windows(size, count)):
            weights[low:high, i] = 1 / (high - low)
        return g.constant(weights)
    numbers = g.constant(np.arange(count, dtype=np.int64))
    begin = g("Div", g("Mul", numbers, size), count)
    ends = g("Mul", g("Add", numbers, 1), size)
    end = g("Div", g("Add", ends, count - 1), count)
    rows = g("Unsqueeze", g.indices(size), g.ints(1))
    inside = g("And", g("GreaterOrEqual", rows, begin), g("Less", rows, end))
    length = g.cast(g("Sub", end, begin), dtypes.float64)
    return g("Div", g.cast(inside, dtypes.float64), length)


def _adaptive_average(count: int) -> Any:
    def build(g: TorchImporter, x: Value, output_size: Any) -> Value:
        counts = each(output_size, count)
        axes = [x.rank - count + i for i in range(count)]
        if all(isinstance(n, int) and n == 1 for n in counts):
            return g("ReduceMean", x, g.ints(*axes), keepdims=1)
        before = [g.size_of(x, axis) for axis in axes]
        if all(isinstance(n, Value) for n in counts):
            raise g.unsupported("adaptive pooling to sizes that are computed")
        if all(isinstance(n, int) and n and n % w == 0 for n, w in zip(before, counts)):
            kernel = tuple(int(n) // w for n, w in zip(before, counts))  # type: ignore[arg-type]
            image, single = _batched(g, x, count)
            y = g("AveragePool", image, kernel_shape=kernel, strides=kernel)
            return _unbatched(g, y, single)
        for axis, size, windows in zip(axes, before, counts):
            if isinstance(size, int) and size == windows:
                continue
            order = [*(i for i in range(x.rank) if i != axis), axis]
            shares = g.cast(_shares(g, size, windows), x.dtype)
            y = g("MatMul", g.permute(x, *order), shares)
            x = g.permute(y, *(int(i) for i in np.argsort(order)))
        return x

    return build


def _adaptive_max(count: int) -> Any:
    def build(g: TorchImporter, x: Value, output_size: Any) -> list[Value | None]:
        for axis, windows in zip(range(x.rank - count, x.rank), each(output_size, count)):
            size = g.size_of(x, axis)
            if isinstance(windows, int) and windows == 1:
                x = g("ReduceMax", x, g.ints(axis), keepdims=1)
                continue
            if not isinstance(size, int) or not isinstance(windows, int):
                raise g.unsupported("adaptive maxima over an axis of computed size")
            places = _windows(size, windows)
            length = max(end - begin for begin, end in places) if places else 1
            rows = [[min(b + i, e - 1) for i in range(length)] for b, e in places]
            parts = g("Gather", x, g.constant(np.array(rows, np.int64)), axis=axis)
            x = g("ReduceMax", parts, g.ints(axis + 1), keepdims=0)
        return [x, None]

    return build


for _count in (1, 2, 3):
    aten(f"max_pool{_count}d", f"max_pool{_count}d_with_indices")(_max_pool(_count))
    aten(f"avg_pool{_count}d")(_average_pool(_count))
    aten(f"adaptive_avg_pool{_count}d", f"_adaptive_avg_pool{_count}d")(_adaptive_average(_count))
    aten(f"adaptive_max_pool{_count}d")(_adaptive_max(_count))
