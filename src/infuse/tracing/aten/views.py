"""Operators that change how the elements of a tensor are seen: its sizes, the order of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axes_of, axis_of
from infuse.tracing.semantics import movement


@aten("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy", "_reshape_alias")
def view(g: TorchImporter, x: Value, size: Sequence[Any], *strides: Any) -> Value:
    """The elements in another shape."""
    return g.shaped(x, *size)


aten("view.dtype")(lambda g, x, dtype: x if x.dtype == g.dtype else g("BitCast", x, to=g.dtype))
aten("view_as", "reshape_as")(lambda g, x, other: g("Reshape", x, g("Shape", other), allowzero=1))
aten("ravel")(lambda g, x: g.shaped(x, -1))
aten("expand_as")(lambda g, x, other: g.expand(x, g("Shape", other)))
aten("broadcast_tensors")(lambda g, tensors: list(together(g, tensors)))


@aten("as_strided", "as_strided_copy")
def as_strided(
    g: TorchImporter,
    x: Value,
    size: Sequence[Any],
    stride: Sequence[Any],
    storage_offset: Any = None,
) -> Value:
    """Elements of x in a row, at these distances; x must lie in memory in that order."""
    if not g.dense:
        raise g.unsupported("as_strided of a tensor whose elements do not lie in a row")
    places: Any = g.tensor(storage_offset or 0, dtypes.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        steps = g("Mul", g.indices(count), g.tensor(step, dtypes.int64))
        behind = len(size) - 1 - axis
        places = g("Add", places, g.shaped(steps, count, *[1] * behind))
    return g("Gather", g.shaped(x, -1), places, axis=0)


@aten("unfold", "unfold_copy")
def unfold(g: TorchImporter, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of `size` elements along an axis, each so many steps behind the one before; their
    elements are a new last axis.
    """
    if not x.rank:
        return g.shaped(x, size)
    axis = dimension % x.rank
    return movement.unfolded(g, x, axis, g.size_of(x, axis), size, step)


@aten("flatten.using_ints", "flatten")
def flatten(g: TorchImporter, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Neighbouring axes as one."""
    if x.rank == 0:
        return g.shaped(x, 1)
    first, last = axes_of([start_dim, end_dim], x.rank)
    if first == last:
        return x
    if x.shape.count(0):
        return g.shaped(x, *(0 if s is None else s for s in g.results[0].sizes))
    sizes = g.sizes_of(x)
    return g.shaped(x, *sizes[:first], -1, *sizes[last + 1 :])


@aten("unflatten.int")
def unflatten(g: TorchImporter, x: Value, dim: int, sizes: Sequence[Any]) -> Value:
    """One axis as several."""
    axis, before = axis_of(dim, x.rank), g.sizes_of(x)
    return g.shaped(x, *before[:axis], *sizes, *before[axis + 1 :])


@aten("expand", "expand_copy", "broadcast_to")
def expand(g: TorchImporter, x: Value, size: Sequence[Any], **options: Any) -> Value:
    """Axes of size one repeated; -1 leaves a size as it is."""
    return g.expand(x, [1 if isinstance(n, int) and n == -1 else n for n in size])


def together(g: TorchImporter, tensors: Sequence[Value]) -> list[Value]:
    """Tensors in the shape that they have together."""
    if len({t.shape for t in tensors}) == 1:
        return list(tensors)
    zeros = [g.expand(g.number(0, t.dtype), g("Shape", t)) for t in tensors]
    total = g.cast(zeros[0], tensors[0].dtype)
    for zero in zeros[1:]:
        total = g("Or" if total.dtype.is_bool else "Add", total, g.cast(zero, total.dtype))
    shape = g("Shape", total)
    return [g.expand(t, shape) for t in tensors]


@aten("meshgrid", "meshgrid.indexing")
def meshgrid(g: TorchImporter, tensors: Sequence[Value], *, indexing: str = "ij") -> list[Value]:
    """Coordinates of the places of a grid."""
    count = len(tensors)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    sizes = [g("Size", tensors[axis]) for axis in order]
    return [
        g.expand(
            g.shaped(t, *[-1 if place == order.index(i) else 1 for place in range(count)]), sizes
        )
        for i, t in enumerate(tensors)
    ]


@aten("permute", "permute_copy")
def permute(g: TorchImporter, x: Value, dims: Sequence[int]) -> Value:
    """Axes in another order."""
    return g.permute(x, *axes_of(dims, x.rank)) if x.rank else x


@aten("transpose.int", "transpose_copy.int", "swapaxes", "swapdims")
def transpose(g: TorchImporter, x: Value, dim0: int, dim1: int) -> Value:
    """Two axes exchanged."""
    order = list(range(x.rank))
    if x.rank:
        a, b = axes_of([dim0, dim1], x.rank)
        order[a], order[b] = b, a
    return g.permute(x, *order)


@aten("t", "t_copy", "numpy_T", "mT", "mH", "adjoint", "matrix_H")
def turned(g: TorchImporter, x: Value) -> Value:
    """The last two axes exchanged; all in reverse for `.T`."""
    order = list(range(x.rank))
    order = order[::-1] if "numpy_T" in g.called else [*order[:-2], *order[-2:][::-1]]
    return g.permute(x, *order)


@aten("movedim", "moveaxis")
def movedim(g: TorchImporter, x: Value, source: Any, destination: Any) -> Value:
    """Axes at other places."""
    moved, places = axes_of(source, x.rank), axes_of(destination, x.rank)
    if not x.rank or source == []:
        return x
    rest = iter(axis for axis in range(x.rank) if axis not in moved)
    order = [
        moved[places.index(place)] if place in places else next(rest) for place in range(x.rank)
    ]
    return g.permute(x, *order)


@aten("squeeze", "squeeze_copy")
def squeeze(g: TorchImporter, x: Value, dim: Any = None) -> Value:
    """X without axes of size one: all, or those of these that have it."""
    listed = range(x.rank) if dim is None else ([] if dim == [] else axes_of(dim, x.rank))
    unknown = [axis for axis in listed if not isinstance(x.shape[axis], int)]
    axes = [axis for axis in listed if x.shape[axis] == 1]
    if unknown:
        left = x.rank - len(axes) - (len(g.results[0].sizes) if g.results else -1)
        if left not in (0, len(unknown)):
            raise g.unsupported("squeezing an axis whose size is not known")
        axes = sorted(axes + unknown) if left else axes
    return g("Squeeze", x, g.ints(*axes)) if axes else x


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(g: TorchImporter, x: Value, dim: int) -> Value:
    """A new axis of size one."""
    axis = dim % (x.rank + 1)
    if x.const is not None:
        return g.reshape(x, *x.shape[:axis], 1, *x.shape[axis:])
    return g("Unsqueeze", x, g.ints(axis))


@aten("atleast_1d", "atleast_2d", "atleast_3d")
def atleast(g: TorchImporter, x: Any) -> Any:
    """X with axes of size one, so that there are enough."""
    if isinstance(x, list):
        return [atleast(g, part) for part in x]
    rank = int(g.called.partition("atleast_")[2][0])
    if x.rank >= rank:
        return x
    axes = {(2, 1): [0], (3, 1): [0, 2], (3, 2): [2]}.get((rank, x.rank), list(range(rank)))
    return g("Unsqueeze", x, g.ints(*axes))


@aten("repeat", "tile")
def repeat(g: TorchImporter, x: Value, repeats: Sequence[Any]) -> Value:
    """X several times along its axes, the last of which the last number is for."""
    extra = len(repeats) - x.rank
    counts = [*[1] * -extra, *repeats]
    if extra > 0:
        x = g("Unsqueeze", x, g.ints(*range(extra)))
    if all(isinstance(n, int) and n == 1 for n in counts):
        return x
    return g("Tile", x, g.ints(*counts))


@aten("repeat_interleave.self_int")
def repeat_interleave(
    g: TorchImporter, x: Value, repeats: Any, dim: int | None = None, **options: Any
) -> Value:
    """Every element of an axis several times."""
    if dim is None:
        x, dim = g.shaped(x, -1), 0
    axis = axis_of(dim, x.rank)
    if x.rank == 0:
        x = g.shaped(x, 1)
    sizes = g.sizes_of(x)
    longer = g("Unsqueeze", x, g.ints(axis + 1))
    longer = g.expand(longer, [*[1] * (axis + 1), repeats, *[1] * (x.rank - axis - 1)])
    size = g.calculated("Mul", sizes[axis], repeats)
    return g.shaped(longer, *sizes[:axis], size, *sizes[axis + 1 :])


@aten("pixel_shuffle")
def pixel_shuffle(g: TorchImporter, x: Value, upscale_factor: int) -> Value:
    """Channels as places of a larger image."""
    sizes = g.sizes_of(x)
    y = x if x.rank == 4 else g.shaped(x, -1, *sizes[-3:])
    y = g("DepthToSpace", y, blocksize=upscale_factor, mode="CRD")
    return y if x.rank == 4 else g.shaped(y, *sizes[:-3], *g.sizes_of(y)[1:])


@aten("pixel_unshuffle")
def pixel_unshuffle(g: TorchImporter, x: Value, downscale_factor: int) -> Value:
    """Places of blocks as channels."""
    *outer, channels, height, width = g.sizes_of(x)
    r = downscale_factor
    rows, columns = (divided(g, size, r) for size in (height, width))
    images: Any = 1
    for size in outer:
        images = g.calculated("Mul", images, size)
    y = g.shaped(x, images, channels, rows, r, columns, r)
    y = g.permute(y, 0, 1, 3, 5, 2, 4)
    return g.shaped(y, *outer, g.calculated("Mul", channels, r * r), rows, columns)


def divided(g: TorchImporter, size: int | Value, by: int) -> int | Value:
    """A size divided by a number, rounded down."""
    return size // by if isinstance(size, int) else g("Div", size, by)


@aten("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(g: TorchImporter, x: Value, groups: int) -> Value:
    """The channels of all groups in turn."""
    batch, channels, *rest = g.sizes_of(x)
    y = g.shaped(x, batch, groups, divided(g, channels, groups), *rest)
    y = g.permute(y, 0, 2, 1, *range(3, x.rank + 1))
    return g.shaped(y, batch, channels, *rest)
