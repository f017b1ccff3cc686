"""Filters that ONNX's Resize does not have, as products with matrices of weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse.processing.image_sizes import factor
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.sizes import listed


def filtered(
    x: Array,
    size: tuple[Any, Any],
    name: str,
    between: Callable[[Array], Array] | None = None,
) -> Array:
    """Planes of floats resampled along their last two axes, as Pillow does it; `between`: what is
    done with them after the first.
    """
    rows, columns = x.shape[-2:]
    across = node("MatMul", x, _weights(columns, size[1], name, x.dtype).mT)
    across = across if between is None else between(across)
    return node("MatMul", _weights(rows, size[0], name, x.dtype), across)


def _weights(before: Any, after: Any, name: str, dtype: Any) -> Array:
    """How much every pixel before counts for each one after: [after, before], rows of sum 1.

    The arithmetic is Pillow's, step by step: at a filter's edge, rounding decides.
    """
    kernel, reach = FILTERS[name]
    step = lifted(factor(before, after), np.dtype(np.float64))
    stretch = node("Max", step, lifted(np.float64(1)))
    middles = node("Unsqueeze", (_numbers(after) + 0.5) * step, listed(1))
    places = node("Unsqueeze", _numbers(before), listed(0))
    support = stretch * reach
    first, last = (node("Floor", middles + far + 0.5) for far in (-support, support))
    weights = kernel((places - middles + 0.5) * (1.0 / stretch))
    inside = (places >= first) & (places < last)
    weights = node("Where", inside, weights, lifted(np.float64(0)))
    total = node("ReduceSum", weights, listed(1), keepdims=1)
    return (weights / total).astype(dtype)


def _numbers(count: Any) -> Array:
    if isinstance(count, int):
        return lifted(np.arange(count, dtype=np.float64))
    zero, one = lifted(np.int64(0)), lifted(np.int64(1))
    return node("Range", zero, count.astype(np.int64), one).astype(np.float64)


def _box(x: Array) -> Array:
    return ((x > -0.5) & (x <= 0.5)).astype(np.float64)


def _hamming(x: Array) -> Array:
    window = 0.54 + 0.46 * node("Cos", math.pi * x)
    return node("Where", abs(x) < 1, _sinc(x) * window, lifted(np.float64(0)))


def _lanczos(x: Array) -> Array:
    return node("Where", abs(x) < 3, _sinc(x) * _sinc(x / 3), lifted(np.float64(0)))


def _sinc(x: Array) -> Array:
    turned = math.pi * x
    one = lifted(np.float64(1))
    is_zero = x == 0
    return node("Where", is_zero, one, node("Sin", turned) / node("Where", is_zero, one, turned))


FILTERS: Final[dict[str, tuple[Callable[[Array], Array], float]]] = {
    "box": (_box, 0.5),
    "hamming": (_hamming, 1.0),
    "lanczos": (_lanczos, 3.0),
}
"""Weights by distance, and from which distance on they are 0."""
