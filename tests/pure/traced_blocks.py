"""Building blocks run in every way that needs no compiler."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

import infuse
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

SINGLE = 3e-6
"""Of the largest magnitude: results are rounded to float32 a few times."""


def traced(
    function: Callable[..., Any], arrays: Collection[Any], keep: Collection[int] | None = None
) -> Graph:
    """The graph of a function for arrays like these: of these sizes, or with symbols for all axes
    but those in `keep`; equal sizes have one symbol.
    """
    specs = [
        infuse.Spec(
            "string" if a.dtype.kind in "OU" else a.dtype,
            tuple(
                size if keep is None or axis in keep else f"n{size}"
                for axis, size in enumerate(a.shape)
            ),
        )
        for a in arrays
    ]
    return infuse.trace(function, specs)


def everywhere(function: Callable[..., Any], *arrays: Any, keep: Collection[int] = ()) -> Any:
    """What a function of arrays gives for arrays of NumPy, after graphs with fixed and with
    symbolic sizes have given the same.
    """
    results = function(*arrays)
    listed = results if isinstance(results, tuple) else (results,)
    for axes in (None, keep):
        graph = traced(function, arrays, axes)
        feeds = dict(zip((v.name for v in graph.inputs), arrays))
        same(list(evaluate(graph, feeds).values()), listed)
    return results


def same(results: Collection[Any], others: Collection[Any]) -> None:
    """AssertionError unless arrays are equal but for the rounding of sums in another order."""
    for one, other in zip(results, others, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def close(result: Any, right: Any, tolerance: float = SINGLE) -> None:
    """Equal within a part of the largest magnitude."""
    right = np.asarray(right)
    assert result.shape == right.shape
    scale = np.abs(right[np.isfinite(right)]).max(initial=1e-30)
    np.testing.assert_allclose(result, right, rtol=0, atol=tolerance * scale)
