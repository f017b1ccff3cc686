"""Operators that take tensors apart along an axis, and put them together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of
from infuse.tracing.aten.views import divided
from infuse.tracing.semantics import movement
from infuse.tracing.semantics.padding import reversed_along

_END: Final = sys.maxsize


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(
    g: TorchImporter, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """Every step-th element of an axis from start on, before end."""
    axis = axis_of(dim, x.rank)
    start, end = (0 if start is None else start), (_END if end is None else end)
    if (start, step) == (0, 1) and isinstance(end, int) and end >= _END:
        return x
    return g.part(x, axis, start, end, step)


@aten("narrow", "narrow_copy")
def narrow(g: TorchImporter, x: Value, dim: int, start: Any, length: Any) -> Value:
    """As many elements of an axis, from start on."""
    axis = axis_of(dim, x.rank)
    if isinstance(start, int) and start < 0:
        start = g.calculated("Add", g.size_of(x, axis), start)
    elif isinstance(start, Value):
        start = g.cast(start, dtypes.int64)
    return g.part(x, axis, start, g.calculated("Add", start, length))


@aten("select.int", "select_copy.int")
def select(g: TorchImporter, x: Value, dim: int, index: Any) -> Value:
    """One element of an axis, which goes."""
    return g("Gather", x, g.tensor(index, dtypes.int64), axis=axis_of(dim, x.rank))


@aten("index_select")
def index_select(g: TorchImporter, x: Value, dim: int, index: Value) -> Value:
    """Elements of an axis, by their indices."""
    single = x.rank == 0
    x = g.shaped(x, 1) if single else x
    index = g.shaped(index, 1) if index.rank == 0 else index
    y = g("Gather", x, index, axis=axis_of(dim, x.rank))
    return g.shaped(y) if single else y


@aten("cat", "concat", "concatenate")
def cat(g: TorchImporter, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors one behind the other; those of the one shape (0) count as nothing."""
    parts = [g.cast(t, g.dtype) for t in tensors if t.rank != 1 or t.shape[0] != 0]
    if not parts:
        return g.cast(tensors[0], g.dtype)
    axis = axis_of(dim, max(t.rank for t in parts))
    return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=axis)


@aten("stack")
def stack(g: TorchImporter, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors along a new axis."""
    axis = dim % (tensors[0].rank + 1)
    rows = [g("Unsqueeze", g.cast(t, g.dtype), g.ints(axis)) for t in tensors]
    return g("Concat", *rows, axis=axis)


@aten("hstack", "vstack", "dstack", "column_stack")
def stacked(g: TorchImporter, tensors: Sequence[Value]) -> Value:
    """Tensors one behind the other, along the axis that the name says."""
    kind = g.called.partition(".")[2].partition(".")[0]
    rank = {"hstack": 1, "vstack": 2, "dstack": 3, "column_stack": 2}[kind]
    parts = []
    for t in tensors:
        t = g.cast(t, g.dtype)
        if kind == "column_stack" and t.rank < 2:
            t = g.shaped(t, -1, 1)
        elif kind == "dstack" and t.rank < 3:
            t = g("Unsqueeze", t, g.ints(*{0: [0, 1, 2], 1: [0, 2], 2: [2]}[t.rank]))
        elif t.rank < rank:
            t = g("Unsqueeze", t, g.ints(*range(rank - t.rank)))
        parts.append(t)
    first = parts[0].rank == 1
    axis = {"hstack": 0 if first else 1, "vstack": 0, "dstack": 2, "column_stack": 1}[kind]
    return g("Concat", *parts, axis=axis)


def split_by(g: TorchImporter, x: Value, sizes: Sequence[Any], axis: int) -> list[Value]:
    """Parts of these sizes of an axis."""
    if len(sizes) == 1:
        return [x]
    return g.several(len(sizes), "Split", x, g.ints(*sizes), axis=axis)


@aten("split_with_sizes", "split_with_sizes_copy", "split.sizes",
      "unsafe_split_with_sizes")  # fmt: skip
def split_with_sizes(
    g: TorchImporter, x: Value, split_sizes: Sequence[Any], dim: int = 0
) -> list[Value]:
    """Parts of these sizes of an axis."""
    return split_by(g, x, split_sizes, axis_of(dim, x.rank))


@aten("split.Tensor", "split_copy.Tensor", "unsafe_split")
def split(g: TorchImporter, x: Value, split_size: Any, dim: int = 0) -> list[Value]:
    """Parts of one size of an axis; the last may be smaller."""
    axis, count = axis_of(dim, x.rank), len(g.results)
    size = g.size_of(x, axis)
    if isinstance(size, int) and isinstance(split_size, int):
        rest = size - split_size * (count - 1)
        return split_by(g, x, [*[split_size] * (count - 1), rest], axis)
    before = g.calculated("Mul", split_size, count - 1)
    return split_by(g, x, [*[split_size] * (count - 1), g.calculated("Sub", size, before)], axis)


@aten("chunk", "tensor_split.sections", "unsafe_chunk")
def chunk(g: TorchImporter, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    """An axis in as many parts, as torch counts them."""
    axis = axis_of(dim, x.rank)
    sizes = [meta.sizes[axis] for meta in g.results]
    if all(size is not None for size in sizes):
        return split_by(g, x, sizes, axis)
    if "tensor_split" in g.called or len(sizes) != chunks:
        raise g.unsupported("splitting an axis of computed size in such parts")
    size = g.calculated("Add", g.size_of(x, axis), chunks - 1)
    each = divided(g, size, chunks)
    rest = g.calculated("Sub", g.size_of(x, axis), g.calculated("Mul", each, chunks - 1))
    return split_by(g, x, [*[each] * (chunks - 1), rest], axis)


@aten("tensor_split.indices")
def tensor_split(g: TorchImporter, x: Value, indices: Sequence[Any], dim: int = 0) -> list[Value]:
    """Parts of an axis that begin at these places."""
    ends = [*indices, _END]
    starts = [0, *indices]
    return [g.part(x, axis_of(dim, x.rank), a, b) for a, b in zip(starts, ends)]


@aten("unbind", "unbind_copy")
def unbind(g: TorchImporter, x: Value, dim: int = 0) -> list[Value]:
    """All elements of an axis."""
    axis = axis_of(dim, x.rank)
    return [g("Gather", x, g.number(i, dtypes.int64), axis=axis) for i in range(len(g.results))]


@aten("flip", "fliplr", "flipud")
def flip(g: TorchImporter, x: Value, dims: Sequence[int] | None = None) -> Value:
    """Axes in reverse."""
    if dims is None:
        dims = [1] if "fliplr" in g.called else [0]
    axes = [axis_of(dim, x.rank) for dim in dims] if x.rank else []
    return reversed_along(g, x, *axes)


@aten("roll")
def roll(g: TorchImporter, x: Value, shifts: Any, dims: Any = ()) -> Value:
    """Elements moved along axes; what leaves at one end enters at the other."""
    shifts = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    dims = [dims] if isinstance(dims, int) else dims
    if x.rank == 0:
        return x
    if not dims:
        y = roll(g, g.shaped(x, -1), shifts, [0])
        return g("Reshape", y, g("Shape", x), allowzero=1)
    for shift, dim in zip(shifts, dims, strict=True):
        x = movement.rolled(g, x, axis_of(dim, x.rank), shift)
    return x


@aten("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(g: TorchImporter, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of two axes as the last one."""
    return movement.diagonal(g, x, offset, axis_of(dim1, x.rank), axis_of(dim2, x.rank))


@aten("triu", "tril")
def triangle(g: TorchImporter, x: Value, diagonal: Any = 0) -> Value:
    """X on one side of a diagonal, zeros on the other."""
    upper = int(g.called.startswith("aten.triu"))
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    return g.cast(g("Trilu", wide, g.tensor(diagonal, dtypes.int64), upper=upper), x.dtype)


def _range(g: TorchImporter, x: Value, axis: int, start: Any, end: Any, step: int) -> Value:
    """Indices of the part of an axis that Slice would take."""
    return g.part(g.indices(g.size_of(x, axis)), 0, start, end, step)


@aten("slice_scatter")
def slice_scatter(
    g: TorchImporter,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Value:
    """X with other elements in a part of an axis."""
    axis = axis_of(dim, x.rank)
    start, end = (0 if start is None else start), (_END if end is None else end)
    whole = (start, step) == (0, 1) and isinstance(end, int) and end >= _END
    if whole and src.shape == x.shape:
        return g.cast(src, x.dtype)
    places = _range(g, x, axis, start, end, step)
    return _put(g, x, places, src, axis)


def _put(g: TorchImporter, x: Value, places: Value, src: Value, axis: int) -> Value:
    """X with the elements of `src` at these places of an axis."""
    rows = g.permute(g.cast(src, x.dtype), axis, *(i for i in range(x.rank) if i != axis))
    base = g.permute(x, axis, *(i for i in range(x.rank) if i != axis))
    shape = g("Concat", g("Shape", places), g("Shape", base, start=1), axis=0)
    rows = rows if base.rank == 1 and rows.shape == places.shape else g.expand(rows, shape)
    y = g("ScatterND", base, g("Unsqueeze", places, g.ints(1)), rows)
    order = np.argsort([axis, *(i for i in range(x.rank) if i != axis)])
    return g.permute(y, *(int(i) for i in order))


@aten("select_scatter")
def select_scatter(g: TorchImporter, x: Value, src: Value, dim: int, index: Any) -> Value:
    """X with another element at one place of an axis."""
    axis = axis_of(dim, x.rank)
    places = g.shaped(g.tensor(index, dtypes.int64), 1)
    return _put(g, x, places, g("Unsqueeze", src, g.ints(axis)), axis)


@aten("diagonal_scatter")
def diagonal_scatter(
    g: TorchImporter, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """X with another diagonal."""
    numbers = g.shaped(g.indices(g("Size", x)), *g.sizes_of(x))
    places = diagonal(g, numbers, offset, dim1, dim2)
    places, rows = g.shaped(places, -1), g.shaped(g.cast(src, x.dtype), -1)
    y = g("ScatterElements", g.shaped(x, -1), places, rows, axis=0)
    return g("Reshape", y, g("Shape", x), allowzero=1)


@aten("diag_embed")
def diag_embed(
    g: TorchImporter, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Value:
    """The last axis as a diagonal of two axes, zeros elsewhere."""
    size = g.calculated("Add", g.size_of(x, -1), abs(offset))
    a, b = dim1 % (x.rank + 1), dim2 % (x.rank + 1)
    column = g.part(g.indices(size), 0, max(0, -offset), _END)
    column = g.part(column, 0, 0, g.size_of(x, -1))
    rows = g.indices(size)
    hit = g("Equal", g("Unsqueeze", rows, g.ints(1)), column)  # row of the result, element of x
    spread = g("Where", hit, g("Unsqueeze", x, g.ints(x.rank - 1)), g.number(0, x.dtype))
    before, after = max(0, offset), max(0, -offset)
    padded = spread
    if before or after:
        wide = g.cast(spread, dtypes.uint8) if x.dtype.is_bool else spread
        padded = g.cast(g("Pad", wide, g.ints(before, after), None, g.ints(x.rank)), spread.dtype)
    order = [axis for axis in range(x.rank + 1) if axis not in (a, b)]
    source = {a: x.rank - 1, b: x.rank, **dict(zip(order, range(x.rank - 1)))}
    return g.permute(padded, *(source[axis] for axis in range(x.rank + 1)))
