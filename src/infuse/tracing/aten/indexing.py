"""Operators that read and write elements by indices and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of
from infuse.tracing.aten.pointwise import scaled
from infuse.tracing.aten.views import together

_REDUCTIONS: Final = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add",
                      "multiply": "mul"}  # fmt: skip


def _resolved(g: TorchImporter, indices: Sequence[Value | None]) -> list[Value | None]:
    """One index of integers for each axis; masks become the places where they are set."""
    result: list[Value | None] = []
    for index in indices:
        if index is None or index.dtype not in (dtypes.bool_, dtypes.uint8):
            result.append(index)
        elif index.rank == 0:
            raise g.unsupported("an index that is one truth value")
        else:
            places = g("NonZero", g.cast(index, dtypes.bool_))
            result += [g("Gather", places, g.number(i, dtypes.int64)) for i in range(index.rank)]
    return result


class _Layout:
    """Where the indexed axes of a tensor are, and where their places go in what is read."""

    def __init__(self, g: TorchImporter, x: Value, indices: Sequence[Value | None]) -> None:
        resolved = _resolved(g, indices)
        self.axes = [axis for axis, index in enumerate(resolved) if index is not None]
        self.indices = together(
            g, [g.cast(index, dtypes.int64) for index in resolved if index is not None]
        )
        self.count = self.indices[0].rank
        self.rest = [axis for axis in range(x.rank) if axis not in self.axes]
        adjacent = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        place = self.axes[0] if adjacent else 0
        size = self.count + len(self.rest)
        middle = list(range(place, place + self.count))
        self.to_front = [*middle, *(axis for axis in range(size) if axis not in middle)]

    def tuples(self, g: TorchImporter) -> Value:
        """The indices as one tensor of tuples."""
        columns = [g("Unsqueeze", index, g.ints(self.count)) for index in self.indices]
        return columns[0] if len(columns) == 1 else g("Concat", *columns, axis=self.count)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(g: TorchImporter, x: Value, indices: Sequence[Value | None]) -> Value:
    """Elements by one tensor of indices, or of truth values, for some of the axes."""
    if all(i is None for i in indices):
        return x
    layout = _Layout(g, x, indices)
    if len(layout.axes) == 1:
        return g("Gather", x, layout.indices[0], axis=layout.axes[0])
    moved = g.permute(x, *layout.axes, *layout.rest)
    y = g("GatherND", moved, layout.tuples(g))
    return g.permute(y, *(int(i) for i in np.argsort(layout.to_front)))


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    g: TorchImporter,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Value:
    """X with other elements at the places that the indices name."""
    values = g.cast(values, x.dtype)
    masks = [i for i in indices if i is not None]
    first = masks[0]
    single = values.rank == 0 or (values.rank == 1 and values.shape[0] == 1)
    if len(masks) == 1 and first.dtype.is_bool and single and not accumulate:
        start = list(indices).index(first)
        axes = range(first.rank, x.rank - start)
        mask = g("Unsqueeze", first, g.ints(*axes)) if axes else first
        return g("Where", mask, g.shaped(values), x)
    layout = _Layout(g, x, indices)
    moved = g.permute(x, *layout.axes, *layout.rest)
    tuples = layout.tuples(g)
    count = len(layout.axes)
    shape = g("Concat", g("Shape", layout.indices[0]), g("Shape", moved, start=count), axis=0)
    size = layout.count + len(layout.rest)
    values = (
        g("Unsqueeze", values, g.ints(*range(size - values.rank)))
        if (values.rank < size)
        else values
    )
    rows = g.expand(g.permute(values, *layout.to_front), shape)
    y = _scatter_nd(g, moved, tuples, rows, "add" if accumulate else "none")
    order = np.argsort([*layout.axes, *layout.rest])
    return g.permute(y, *(int(i) for i in order))


def _scatter_nd(g: TorchImporter, x: Value, tuples: Value, rows: Value, reduction: str) -> Value:
    if reduction == "none" or not x.dtype.is_bool:
        return g("ScatterND", x, tuples, rows, reduction=reduction)
    wide = (g.cast(v, dtypes.int32) for v in (x, rows))
    base, updates = wide
    return g.cast(g("ScatterND", base, tuples, updates, reduction=reduction), x.dtype)


def _as_vectors(g: TorchImporter, *tensors: Value) -> list[Value]:
    """Tensors without axes as vectors of one element."""
    return [g.shaped(t, 1) if t.rank == 0 else t for t in tensors]


@aten("gather")
def gather(
    g: TorchImporter, x: Value, dim: int, index: Value, *, sparse_grad: bool = False
) -> Value:
    """Elements of an axis, an index for each of them."""
    if index.rank != x.rank and 0 in index.shape:
        return g.expand(g.number(0, x.dtype), g("Shape", index))
    single = index.rank == 0
    x, index = _as_vectors(g, x, index)
    y = g("GatherElements", x, g.cast(index, dtypes.int64), axis=axis_of(dim, x.rank))
    return g.shaped(y) if single else y


@aten("take_along_dim")
def take_along_dim(g: TorchImporter, x: Value, indices: Value, dim: int | None = None) -> Value:
    """Elements of an axis, an index for each of them; other axes are made as long as each other."""
    if dim is None:
        return gather(g, g.shaped(x, -1), 0, g.shaped(indices, -1))
    axis = axis_of(dim, x.rank)
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape)) if i != axis):
        raise g.unsupported("take_along_dim of axes that differ")
    return gather(g, x, dim, indices)


@aten("take")
def take(g: TorchImporter, x: Value, index: Value) -> Value:
    """Elements of x in a row, by their indices."""
    return g("Gather", g.shaped(x, -1), index, axis=0)


@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add")
def scatter(
    g: TorchImporter,
    x: Value,
    dim: int,
    index: Value,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Value:
    """X with other elements at the places of an axis that the indices name."""
    reduction = "add" if "scatter_add" in g.called else _REDUCTIONS[reduce] if reduce else "none"
    return _scattered(g, x, dim, index, value if src is None else src, reduction)


def _scattered(
    g: TorchImporter, x: Value, dim: int, index: Value, src: Any, reduction: str
) -> Value:
    single, dtype = x.rank == 0, x.dtype
    if 0 in index.shape:
        return x
    x, index = _as_vectors(g, x, g.cast(index, dtypes.int64))
    shape = g("Shape", index)
    if isinstance(src, Value) and src.rank:
        axes = range(src.rank)
        if src.shape != index.shape:
            starts = g.ints(*[0] * src.rank)
            src = g("Slice", src, starts, shape, g.ints(*axes))
    else:
        src = g.expand(g.tensor(src, dtype), shape)
    if dtype.is_bool and reduction != "none":
        x, src = g.cast(x, dtypes.int32), g.cast(src, dtypes.int32)
    y = g("ScatterElements", x, index, src, axis=axis_of(dim, x.rank), reduction=reduction)
    y = g.cast(y, dtype)
    return g.shaped(y) if single else y


@aten("scatter_reduce.two")
def scatter_reduce(
    g: TorchImporter,
    x: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """X with what its elements and others at the places that the indices name make together."""
    if reduce == "mean":
        return _scatter_mean(g, x, dim, index, src, include_self)
    reduction = _REDUCTIONS[reduce]
    if not include_self:
        neutral = {"add": 0, "mul": 1, "max": _lowest(x), "min": _highest(x)}[reduction]
        x = _scattered(g, x, dim, index, neutral, "none")
    return _scattered(g, x, dim, index, src, reduction)


def _lowest(x: Value) -> Any:
    if x.dtype.is_float:
        return float("-inf")
    return False if x.dtype.is_bool else int(np.iinfo(x.dtype.numpy).min)


def _highest(x: Value) -> Any:
    if x.dtype.is_float:
        return float("inf")
    return True if x.dtype.is_bool else int(np.iinfo(x.dtype.numpy).max)


def _scatter_mean(
    g: TorchImporter, x: Value, dim: int, index: Value, src: Value, include_self: bool
) -> Value:
    first = 1 if include_self else 0
    ones = g.expand(g.number(first, x.dtype), g("Shape", x))
    counts = _scattered(g, ones, dim, index, 1, "add")
    base = x if include_self else _scattered(g, x, dim, index, 0, "none")
    total = _scattered(g, base, dim, index, src, "add")
    counts = g("Max", counts, 1)
    if x.dtype.is_float:
        return g("Div", total, counts)
    rest = g("Mod", total, counts)
    return g("Div", g("Sub", total, rest), counts)


@aten("index_add")
def index_add(
    g: TorchImporter, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1
) -> Value:
    """X, with rows added at the places of an axis that the indices name."""
    rows = scaled(g, source, alpha)
    return _index_rows(g, x, dim, index, rows, "add")


aten("index_copy")(lambda g, x, dim, index, source: _index_rows(g, x, dim, index, source, "none"))


@aten("index_fill")
def index_fill(g: TorchImporter, x: Value, dim: int, index: Value, value: Any) -> Value:
    """X, with one number at the places of an axis that the indices name."""
    return _index_rows(g, x, dim, index, g.tensor(value, x.dtype), "none")


def _index_rows(
    g: TorchImporter, x: Value, dim: int, index: Value, source: Value, reduction: str
) -> Value:
    single = x.rank == 0
    x, index = _as_vectors(g, x, g.cast(index, dtypes.int64))
    axis = axis_of(dim, x.rank)
    order = [axis, *(i for i in range(x.rank) if i != axis)]
    base = g.permute(x, *order)
    rows = g.permute(source, *order) if source.rank == x.rank else source
    rows = g.expand(rows, g("Concat", g("Shape", index), g("Shape", base, start=1), axis=0))
    y = _scatter_nd(g, base, g("Unsqueeze", index, g.ints(1)), rows, reduction)
    y = g.permute(y, *(int(i) for i in np.argsort(order)))
    return g.shaped(y) if single else y


@aten("masked_select")
def masked_select(g: TorchImporter, x: Value, mask: Value) -> Value:
    """The elements where the mask is set, in a row."""
    x, mask = together(g, [x, mask])
    return g("Compress", g.shaped(x, -1), g.shaped(mask, -1), axis=0)


@aten("masked_scatter")
def masked_scatter(g: TorchImporter, x: Value, mask: Value, source: Value) -> Value:
    """X, with the elements of the source one after the other where the mask is set."""
    x, mask = together(g, [x, mask])
    steps = g.cast(g.shaped(mask, -1), dtypes.int64)
    places = g("Sub", g("CumSum", steps, g.number(0, dtypes.int64)), 1)
    flat = g.shaped(source, -1)
    # One more element, so that there is one to read where nothing is set.
    flat = g("Concat", flat, g.expand(g.number(0, flat.dtype), [1]), axis=0)
    rows = g("Gather", flat, g("Max", places, 0), axis=0)
    return g("Where", mask, g("Reshape", rows, g("Shape", x), allowzero=1), x)


@aten("nonzero")
def nonzero(g: TorchImporter, x: Value) -> Value:
    """Places of the elements that are not 0, a row for each."""
    if x.rank == 0:
        return g.part(
            g.expand(g.number(0, dtypes.int64), [1, 0]),
            0,
            0,
            g.cast(g.cast(x, dtypes.bool_), dtypes.int64),
        )
    return g.permute(g("NonZero", x), 1, 0)


@aten("nonzero_numpy", "where.default")
def nonzero_numpy(g: TorchImporter, x: Value) -> list[Value]:
    """Places of the elements that are not 0, a vector for each axis."""
    if x.rank == 0:
        x = g.shaped(x, 1)
    places = g("NonZero", x)
    return [g("Gather", places, g.number(i, dtypes.int64)) for i in range(x.rank)]


@aten("one_hot")
def one_hot(g: TorchImporter, x: Value, num_classes: Any = -1) -> Value:
    """A one at the place that each number names, zeros elsewhere."""
    if isinstance(num_classes, int) and num_classes < 0:
        raise g.unsupported("one_hot without the number of classes")
    hit = g("Equal", g("Unsqueeze", x, g.ints(x.rank)), g.indices(num_classes))
    return g.cast(hit, g.dtype)


aten("argwhere")(nonzero)
