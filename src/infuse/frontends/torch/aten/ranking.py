"""Operators that put elements in order."""

from __future__ import annotations

from typing import Any

from infuse import dtypes
from infuse.frontends.torch.calls import TorchImporter, aten, axis_of
from infuse.ir.graph import Value


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


@aten("argsort.default")
def argsort(g: TorchImporter, x: Value, dim: int = -1, descending: bool = False) -> Value:
    """Where the elements of an axis are, in order."""
    return sort(g, x, dim, descending)[1]
