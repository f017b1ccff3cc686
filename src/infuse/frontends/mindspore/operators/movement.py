"""Primitives that move elements, choose some of them, or make tensors of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.mindspore.calls import MindCall, primitive, shared
from infuse.frontends.mindspore.operators.linear import check_layout
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import axis_of, handler_of
from infuse.tracing.semantics import indexing, slicing
from infuse.tracing.semantics.movement import mirrored
from infuse.tracing.semantics.slicing import LAST, Masks

shared("GatherD", "gather", "0", "1", "2")
shared("Stack", "stack", "0", "@axis")
shared("ReverseV2", "flip", "0", "1")
shared("Concat", "cat", "0", "1")


@primitive("Unstack")
def unstack(call: MindCall) -> list[Value]:
    """All elements of an axis."""
    x, g = call.value(0), call.g
    axis = axis_of(call.attribute("axis", 0), x.rank)
    count = x.shape[axis]
    if not isinstance(count, int):
        raise call.unsupported("taking an axis apart whose size is not known")
    return [g("Gather", x, g.number(i, dtypes.int64), axis=axis) for i in range(count)]


@primitive("Meshgrid")
def meshgrid(call: MindCall) -> list[Value]:
    """Coordinates of the places of a grid."""
    indexing = {0: "ij", 1: "xy"}.get(call.item(1, 1))
    if indexing is None:
        raise call.unsupported(f"indexing {call.item(1)!r}")
    handler = handler_of("aten.meshgrid")
    assert handler is not None
    return list(handler(call.g, call.item(0), indexing=indexing))


primitive("Reshape", "View")(lambda call: call.g.shaped(call.value(0), *call.sizes(1)))
primitive("Flatten")(lambda call: call.g("Flatten", call.value(0), axis=1))


@primitive("Transpose", "TransposeView")
def transpose(call: MindCall) -> Value:
    """The axes in another order."""
    x = call.value(0)
    order = [axis % max(x.rank, 1) for axis in call.ints(call.item(1))]
    if sorted(order) != list(range(x.rank)):
        raise ModelFileError(f"{order} is not an order of {x.rank} axes")
    return call.g.permute(x, *order)


@primitive("Squeeze")
def squeeze(call: MindCall) -> Value:
    """X without these axes, or without all of size one."""
    x = call.value(0)
    axes = call.ints(call.item(1, []))
    if not axes and not all(isinstance(size, int) for size in x.shape):
        raise call.unsupported("squeezing all axes of size one, where sizes are not known,")
    chosen = sorted({axis % max(x.rank, 1) for axis in axes}) if axes else _ones(x)
    return call.g("Squeeze", x, call.g.ints(*chosen)) if chosen else x


def _ones(x: Value) -> list[int]:
    return [axis for axis, size in enumerate(x.shape) if size == 1]


@primitive("Tile")
def tile(call: MindCall) -> Value:
    """X several times along its axes."""
    g, x, counts = call.g, call.value(0), call.sizes(1)
    extra = len(counts) - x.rank
    counts = [1] * -extra + counts
    if extra > 0:
        x = g("Unsqueeze", x, g.ints(*range(extra)))
    return g("Tile", x, g.ints(*counts))


@primitive("ExpandAs")
def expand_as(call: MindCall) -> Value:
    """Axes of size one repeated, as the other tensor has them."""
    return call.g("Expand", call.value(0), call.g("Shape", call.value(1)))


@primitive("BroadcastTo", "BroadcastToView")
def broadcast_to(call: MindCall) -> Value:
    """Axes of size one repeated; -1 leaves a size as it is."""
    return call.g.expand(
        call.value(0), [1 if isinstance(n, int) and n == -1 else n for n in _sizes(call, 1)]
    )


def _sizes(call: MindCall, index: int) -> list[Any]:
    return [n if isinstance(n, Value) else int(n) for n in call.sizes(index)]


@primitive("Split")
def split(call: MindCall) -> list[Value]:
    """Parts of one size along an axis."""
    g, x = call.g, call.value(0)
    (axis,) = call.axes(call.item(1, 0), x.rank)
    count = call.number(2, 1)
    if not 0 < count <= 1 << 16:
        raise ModelFileError(f"it makes {count} parts")
    return g.several(count, "Split", x, axis=axis, num_outputs=count)


@primitive("StridedSlice")
def strided_slice(call: MindCall) -> Value:
    """Parts along the first axes, with masks whose bits are axes."""
    begin, end, steps = (call.sizes(i) for i in (1, 2, 3))
    masks = Masks(*(call.number(i, 0) for i in range(4, 9)))
    if not len(begin) == len(end) == len(steps):
        raise ModelFileError("its begins, ends and steps are not as many")

    def part(i: int, begin: Any, end: Any, step: Any) -> tuple[Any, Any, int]:
        has_begin, has_end = not masks.begin >> i & 1, not masks.end >> i & 1
        if isinstance(step, Value):
            raise call.unsupported("a computed step")
        if step == 0:
            raise ModelFileError("a step is 0")
        if step < 0 and not (has_begin and has_end):
            # MindSpore's CPU backend does not turn the axis then, and so is no witness.
            raise call.unsupported("a negative step from or to the end of an axis")
        return begin if has_begin else 0, end if has_end else LAST, step

    return slicing.strided_slice(call.g, call.value(0), [*zip(begin, end, steps)], masks, part)


@primitive("Slice")
def slice_(call: MindCall) -> Value:
    """A box of x, by its first place and its sizes; -1 is all that is left."""
    g, x = call.g, call.value(0)
    begin, sizes = call.sizes(1), call.sizes(2)
    most = np.iinfo(np.int64).max
    ends = [
        most if isinstance(size, int) and size == -1 else g.calculated("Add", first, size)
        for first, size in zip(begin, sizes)
    ]
    return g("Slice", x, g.ints(*begin), g.ints(*ends), g.ints(*range(len(begin))))


@primitive("Gather")
def gather(call: MindCall) -> Value:
    """Parts of x by their places along an axis, for each of the first `batch_dims` axes."""
    g, x, places = call.g, call.value(0), call.value(1)
    (axis,) = call.axes(call.item(2), x.rank)
    batch = call.number(3, 0)
    batch = batch % places.rank if batch < 0 else batch
    if not batch:
        return g("Gather", x, places, axis=axis)
    if not batch <= min(axis, places.rank):
        raise ModelFileError(f"it has {batch} axes of batches")
    return indexing.gathered_by_batches(g, x, places, axis, batch)


@primitive("EmbeddingLookup")
def embedding_lookup(call: MindCall) -> Value:
    """Rows of a table by their numbers."""
    if call.number(2, 0) != 0:
        raise call.unsupported("an offset of the numbers")
    call.ignore("bprop_return_sparse")
    return call.g("Gather", call.value(0), call.value(1), axis=0)


@primitive("Unique")
def unique(call: MindCall) -> list[Value]:
    """The different elements in the order of their first places, and the number of each element."""
    call.ignore("output_is_dynamic_shape")
    elements, _, numbers, _ = call.g.several(4, "Unique", call.value(0), sorted=0)
    return [elements, numbers]


@primitive("GatherNd")
def gather_nd(call: MindCall) -> Value:
    """Parts of x by their places along its first axes."""
    return call.g("GatherND", call.value(0), call.g.cast(call.value(1), dtypes.int64))


@primitive("ScatterNd")
def scatter_nd(call: MindCall) -> Value:
    """Zeros to which parts are added."""
    g, updates = call.g, call.value(1)
    zeros = g.expand(g.number(0, updates.dtype), call.sizes(2))
    places = g.cast(call.value(0), dtypes.int64)
    return g("ScatterND", zeros, places, updates, reduction="add")


@primitive("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMul")
def tensor_scatter(call: MindCall) -> Value:
    """X with parts replaced, or with others added to them."""
    g = call.g
    reductions = {"Update": "none", "Add": "add", "Mul": "mul"}
    reduction = reductions[call.name.removeprefix("TensorScatter")]
    places = g.cast(call.value(1), dtypes.int64)
    return g("ScatterND", call.value(0), places, call.value(2), reduction=reduction)


@primitive("TensorScatterElements")
def tensor_scatter_elements(call: MindCall) -> Value:
    """X with elements of an axis replaced, or with others added to them."""
    g, x = call.g, call.value(0)
    (axis,) = call.axes(call.item(3, 0), x.rank)
    how = call.item(4, "none")
    reduction = {"none": "none", "add": "add", 0: "none", 1: "add"}.get(how)
    if reduction is None:
        raise call.unsupported(f"reduction {how!r}")
    places = g.cast(call.value(1), dtypes.int64)
    return g("ScatterElements", x, places, call.value(2), axis=axis, reduction=reduction)


@primitive("Scatter")
def scatter(call: MindCall) -> Value:
    """X with elements of an axis replaced, or with others added to them."""
    g, x, how = call.g, call.value(0), call.item(4, 0)
    (axis,) = call.axes(call.item(1), x.rank)
    if how not in (0, 1):
        raise call.unsupported(f"reduce {how!r}")
    source = g.cast(call.value(3), x.dtype)
    places = g.cast(call.value(2), dtypes.int64)
    if source.rank != places.rank:
        source = g.expand(source, g("Shape", places))
    return g("ScatterElements", x, places, source, axis=axis, reduction="add" if how else "none")


@primitive("OneHot", "OneHotExt")
def one_hot(call: MindCall) -> Value:
    """One number at the place that an index says, another at all others."""
    g, places = call.g, call.value(0)
    on, off = call.value(2), call.value(3)
    (depth,) = call.sizes(1)
    axis = int(call.number(4, -1)) % (places.rank + 1)
    if isinstance(depth, int) and depth < 0:
        raise call.unsupported("a number of classes that the elements say")
    wide = g("Unsqueeze", g.cast(places, dtypes.int64), g.ints(axis))
    row = g.shaped(g.indices(depth), -1, *[1] * (places.rank - axis))
    return g("Where", g("Equal", wide, row), g.cast(on, g.dtype), g.cast(off, g.dtype))


@primitive("FillV2", "Fill", "FillScalar", "FillTensor", "Zeros", "Ones", "FullLike")
def fill(call: MindCall) -> Value:
    """One number everywhere."""
    g, kind = call.g, call.name
    if kind == "Fill":
        shape, number, used = call.sizes(1), call.item(2), 0
    elif kind == "FullLike":
        shape, number, used = g.sizes_of(call.value(0)), call.item(1), 2
    elif kind in ("Zeros", "Ones"):
        shape, number, used = call.sizes(0), int(kind == "Ones"), 1
    else:
        shape, number, used = call.sizes(0), call.item(1), 2
    call.ignore(used)
    value = g.tensor(number, g.dtype)
    return g.expand(g.shaped(value) if value.rank else value, shape)


@primitive("Range", "Arange")
def range_(call: MindCall) -> Value:
    """Numbers from one on, by steps, to before another."""
    g = call.g
    call.ignore(3, "maxlen")
    return g("Range", *(g.tensor(call.item(i), g.dtype) for i in range(3)))


@primitive("LinSpace", "LinSpaceExt")
def lin_space(call: MindCall) -> Value:
    """Numbers from one to another, at equal distances."""
    g = call.g
    call.ignore(3)
    first, last = call.number(0), call.number(1)
    numbers = np.linspace(first, last, int(call.number(2)), dtype=np.float32)
    return g.constant(numbers.astype(g.dtype.numpy))


@primitive("Eye")
def eye(call: MindCall) -> Value:
    """Ones where the places along both axes are the same."""
    call.ignore(2)
    rows, columns = int(call.number(0)), int(call.number(1))
    if not 0 <= rows * columns <= 1 << 26:
        raise ModelFileError(f"it has {rows} times {columns} elements")
    return call.g.constant(np.eye(rows, columns, dtype=call.g.dtype.numpy))


@primitive("Diag")
def diag(call: MindCall) -> Value:
    """A matrix with these numbers where the places along both axes are the same."""
    g, x = call.g, call.value(0)
    if x.rank != 1:
        raise call.unsupported(f"a tensor of {x.rank} axes")
    places = g.indices(g.size_of(x, 0))
    same = g("Equal", g.shaped(places, -1, 1), places)
    return g("Where", same, x, g.number(0, x.dtype))


@primitive("Pad", "PadV3", "MirrorPad")
def pad(call: MindCall) -> Value:
    """X with elements around it."""
    g, x = call.g, call.value(0)
    mode = str(call.attribute("mode", "constant")).lower()
    mode = {"symmetric": "symmetric", "circular": "wrap"}.get(mode, mode)
    widths = call.ints(call.attribute("paddings") if call.name == "Pad" else call.item(1))
    fill = call.value(2) if call.name == "PadV3" and call.item(2, None) is not None else None
    if call.name != "PadV3" or not call.attribute("paddings_contiguous", True):
        before, after, axes = _by_axis(call, widths, x.rank)
    else:
        before, after = widths[::2], widths[1::2]
        axes = [x.rank - 1 - i for i in range(len(before))]
    if mode == "symmetric":
        for axis, first, last in zip(axes, before, after):
            x = mirrored(g, x, axis, first, last)
        return x
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise call.unsupported(f"mode {mode!r}")
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    number = None if fill is None else g.shaped(g.cast(fill, wide.dtype))
    amounts = g.ints(*before, *after)
    return g.cast(g("Pad", wide, amounts, number, g.ints(*axes), mode=mode), x.dtype)


def _by_axis(
    call: MindCall, widths: list[int], rank: int
) -> tuple[list[int], list[int], list[int]]:
    if call.name != "PadV3":
        return widths[::2], widths[1::2], list(range(len(widths) // 2))
    half = len(widths) // 2
    return widths[:half], widths[half:], [rank - 1 - i for i in range(half)]


@primitive("SpaceToDepth", "DepthToSpace")
def blocks(call: MindCall) -> Value:
    """Places of blocks as channels, or the other way round."""
    check_layout(call, "format", "data_format")
    size = call.ints(call.attribute("block_size"))[0]
    return call.g(call.name, call.value(0), blocksize=size)
