"""Operators that put elements in order, find their places in it, and tell them apart."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of
from infuse.tracing.aten.indexing import gather
from infuse.tracing.semantics import ordering

_END: Final = sys.maxsize


def _ranked(
    g: TorchImporter, x: Value, count: Any, axis: int, largest: bool
) -> tuple[Value, Value]:
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    values, places = g.several(
        2, "TopK", wide, g.ints(count), axis=axis, largest=int(largest), sorted=1
    )
    return g.cast(values, x.dtype), places


@aten("topk")
def topk(
    g: TorchImporter, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Value]:
    """The largest or least elements of an axis, and where they are."""
    if x.rank == 0:
        return [x, g.number(0, dtypes.int64)]
    return list(_ranked(g, x, k, axis_of(dim, x.rank), largest))


@aten("sort.default")
def sort(g: TorchImporter, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    """The elements of an axis in order, and where they were."""
    if x.rank == 0:
        return [x, g.number(0, dtypes.int64)]
    axis = axis_of(dim, x.rank)
    return list(_ranked(g, x, g.size_of(x, axis), axis, descending))


@aten("sort.stable", "argsort.stable")
def stable_sort(
    g: TorchImporter, x: Value, *, stable: bool | None = None, dim: int = -1,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The elements of an axis in order, equal ones as they were, and where they were."""
    values, places = sort(g, x, dim, descending)
    return places if g.called.startswith("aten.argsort") else [values, places]


aten("argsort.default")(lambda g, x, dim=-1, descending=False: sort(g, x, dim, descending)[1])


@aten("bucketize", "searchsorted")
def bucketize(
    g: TorchImporter,
    first: Any,
    second: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """How many limits lie below each number (with `right` at it too), in rows of their own where
    limits have several axes.
    """
    x, limits = (first, second) if "bucketize" in g.called else (second, first)
    right = right or side == "right"
    if sorter is not None:
        limits = gather(g, limits, -1, sorter)
    x = g.tensor(x, limits.dtype)
    rows = limits if limits.rank == 1 else g("Unsqueeze", limits, g.ints(limits.rank - 1))
    a, b = g.tensors(g("Unsqueeze", x, g.ints(x.rank)), rows)
    # NaN lies above all numbers: nothing is at or above it.
    below = g("Not", g("Greater" if right else "GreaterOrEqual", b, a))
    counts = g("ReduceSum", g.cast(below, dtypes.int64), g.ints(-1), keepdims=0)
    return g.cast(counts, dtypes.int32) if out_int32 else counts


# -- different elements ----------------------------------------------------------------------------


@aten("_unique2", "_unique")
def unique(
    g: TorchImporter,
    x: Value,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> list[Value]:
    """Every element once in order, each NaN too; where each is among them, and how often, or
    nothing in place of what is not asked for.
    """
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    values, _, inverse, counts = ordering.distinct(g, g.shaped(wide, -1))
    none = g.constant(np.zeros(0, np.int64))
    places = g("Reshape", inverse, g("Shape", x), allowzero=1) if return_inverse else none
    return [g.cast(values, x.dtype), places, counts if return_counts else none]


@aten("unique_dim")
def unique_dim(g: TorchImporter, x: Value, dim: int, *_: Any, **options: Any) -> list[Value]:
    """Every part along an axis once in order, where each is among them, and how often."""
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    values, _first, inverse, counts = g.several(
        4, "Unique", wide, sorted=1, axis=axis_of(dim, x.rank)
    )
    return [g.cast(values, x.dtype), inverse, counts]


@aten("unique_consecutive")
def unique_consecutive(
    g: TorchImporter,
    x: Value,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> list[Value]:
    """Every element that differs from the one before it, where each is among them, and how many
    follow one another, or nothing in place of what is not asked for.
    """
    if dim is not None and x.rank != 1:
        raise g.unsupported("unique_consecutive along one of several axes")
    if dim is not None:
        return_inverse = return_counts = True
    flat = g.shaped(x, -1)
    none = g.constant(np.zeros(0, np.int64))
    changes = g("Not", g("Equal", g.part(flat, 0, 1, _END), g.part(flat, 0, 0, -1)))
    begins = g.part(g("Concat", g.constant([True]), changes, axis=0), 0, 0, g("Size", flat))
    starts = g("Reshape", g("NonZero", begins), g.ints(-1))
    inverse = counts = none
    if return_inverse:
        numbers = g("CumSum", g.cast(begins, dtypes.int64), g.number(0, dtypes.int64))
        inverse = g("Reshape", g("Sub", numbers, 1), g("Shape", x), allowzero=1)
    if return_counts:
        ends = g("Concat", starts, g.ints(g("Size", flat)), axis=0)
        counts = g("Sub", g.part(ends, 0, 1, _END), starts)
    return [g("Gather", flat, starts, axis=0), inverse, counts]
