"""Building blocks run in every way that Python alone has, and pictures and boxes to run them on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import infuse
from infuse.ops.core.evaluate import evaluate

Sizes = Mapping[str, Sequence[int | str]]


def traced(function: Callable[..., Any], sizes: Sizes, arrays: Mapping[str, Any]) -> infuse.Graph:
    """The graph of a function of these arrays, whose shapes are those of `sizes` where it has
    them.
    """
    specs = {
        name: infuse.Spec(x.dtype, tuple(sizes.get(name, x.shape))) for name, x in arrays.items()
    }
    return infuse.trace(function, specs)


def run(function: Callable[..., Any], sizes: Sizes | None = None, **arrays: Any) -> Any:
    """What a function gives when it is called on NumPy's arrays; its graphs, of fixed sizes and of
    symbolic ones, give the same.
    """
    direct = function(**arrays)
    several = direct if isinstance(direct, tuple) else (direct,)
    for shapes in ({}, sizes or {}):
        graph = traced(function, shapes, arrays)
        results = list(evaluate(graph, arrays).values())
        assert len(results) == len(several)
        for one, other, output in zip(results, several, graph.outputs):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert output.rank == one.ndim
            # Sizes at run time: their arithmetic is that of NumPy and not of Python.
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    return direct


def picture(height: int, width: int, channels: int = 3) -> Any:
    """Random bytes [height, width, channels]."""
    rng = np.random.default_rng(height * 1000 + width)
    return rng.integers(0, 256, (height, width, channels), np.uint8)


def boxes(count: int, seed: int = 0, extent: float = 100) -> Any:
    """Random boxes xyxy."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, extent, (count, 2))
    sides = rng.uniform(1, extent * 0.6, (count, 2))
    return np.concatenate([corner, corner + sides], axis=1).astype(np.float32)


def scores(*shape: int, seed: int = 1) -> Any:
    """Random scores, no two equal."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    return (rng.permutation(count).reshape(shape) / max(count, 1)).astype(np.float32)
