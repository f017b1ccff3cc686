"""Operators that only move elements, or say how they are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.ir.contents import known_ints
from infuse.ir.graph import Value
from infuse.tracing.axes import axis_of
from infuse.tracing.importer import Importer
from infuse.tracing.semantics import indexing
from infuse.tracing.semantics.movement import mirrored
from infuse.tracing.semantics.padding import reversed_along
from infuse.tracing.tensorflow.calls import OperandCall, shared


def sizes_of(g: Importer, value: Value) -> list[Any]:
    """The sizes of a tensor, as far as they are numbers; others are read by nodes."""
    return [g.size_of(value, axis) for axis in range(value.rank)]


@shared("Reshape")
def reshape(call: OperandCall) -> Any:
    """The elements in another shape; one size may be -1."""
    g, (x, rank) = call.g, call.placed(0)
    sizes = _stated_shape(call)
    if x.rank > rank:
        sizes = g("Concat", sizes, g.ints(2), axis=0)
    return call.placed_as(0, g("Reshape", x, sizes, allowzero=1))


def _stated_shape(call: OperandCall) -> Value:
    if call.has(1):
        shape = call.raw(1)
        if shape.rank == 1:
            return call.list_of(1)
    stated = call.option("new_shape", None)
    if stated is None:
        raise ModelFileError("it says no shape")
    sizes = stated.tolist()
    return call.g.ints(*([] if sizes == [0] else sizes))


@shared("Squeeze")
def squeeze(call: OperandCall) -> Any:
    """Without axes of size one: those listed, or all."""
    x, rank = call.placed(0)
    listed = call.option("squeeze_dims", None)
    axes = [] if listed is None else [axis_of(a, rank) for a in listed.tolist()]
    if not axes:
        axes = [axis for axis, size in enumerate(x.shape[:rank]) if size == 1]
        if any(not isinstance(size, int) for size in x.shape[:rank]):
            raise call.unsupported("the removal of all axes of size one, where sizes are unknown,")
    y = call.g("Squeeze", x, call.g.ints(*axes)) if axes else call.g("Identity", x)
    return call.placed_as(0, y)


@shared("ExpandDims")
def expand_dims(call: OperandCall) -> Any:
    """With one more axis of size one."""
    x, rank = call.placed(0)
    axis = axis_of(call.one(1), rank + 1)
    return call.placed_as(0, call.g("Unsqueeze", x, call.g.ints(axis)))


@shared("Transpose")
def transpose(call: OperandCall) -> Any:
    """Axes in another order."""
    x, rank = call.placed(0)
    perm = [axis_of(axis, rank) for axis in call.ints(1)]
    if sorted(perm) != list(range(rank)):
        raise ModelFileError(f"{perm} is not an order of {rank} axes")
    return call.placed_as(0, call.g("Transpose", x, perm=(*perm, *range(rank, x.rank))))


@shared("Concatenation")
def concatenation(call: OperandCall) -> Value:
    """Tensors one after another along an axis."""
    if call.option("activation") != 0:
        raise call.unsupported("a fused activation")
    parts = call.moved(*range(call.count))
    axis = axis_of(int(call.option("axis")), parts[0].rank)
    return call.g("Concat", *parts, axis=axis)


@shared("Pack")
def pack(call: OperandCall) -> Value:
    """Tensors one after another along a new axis."""
    g, parts = call.g, call.moved(*range(call.count))
    axis = axis_of(int(call.option("axis")), parts[0].rank + 1)
    return g("Concat", *(g("Unsqueeze", part, g.ints(axis)) for part in parts), axis=axis)


def _split(call: OperandCall, x: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    return call.g.several(len(sizes), "Split", x, call.g.ints(*sizes), axis=axis)


@shared("Unpack")
def unpack(call: OperandCall) -> list[Value]:
    """The parts of one axis, without it."""
    g, count = call.g, call.results
    (x,) = call.moved(0, results=count)
    axis = axis_of(int(call.option("axis")), x.rank)
    parts = _split(call, x, axis, [1] * count)
    return [g("Squeeze", part, g.ints(axis)) for part in parts]


@shared("Split")
def split(call: OperandCall) -> list[Value]:
    """Parts of one size along an axis, which is operand 0."""
    count = call.results
    (x,) = call.moved(1, results=count)
    axis = axis_of(call.one(0), x.rank)
    size = x.shape[axis]
    if not count or (isinstance(size, int) and size % count):
        raise ModelFileError(f"{size} elements are not {count} parts of one size")
    return call.g.several(count, "Split", x, axis=axis, num_outputs=count)


@shared("SplitV")
def split_v(call: OperandCall) -> list[Value]:
    """Parts of these sizes along an axis; one of them may be -1."""
    (x,) = call.moved(0, results=call.results)
    axis, sizes = axis_of(call.one(2), x.rank), call.ints(1)
    if -1 in sizes:
        whole = x.shape[axis]
        if not isinstance(whole, int) or sizes.count(-1) > 1:
            raise call.unsupported(f"a split of {whole} elements into {sizes}")
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    return _split(call, x, axis, sizes)


@shared("Slice")
def slice_(call: OperandCall) -> Value:
    """`size` elements of each axis from `begin` on; -1 for all that follow."""
    g, (x,) = call.g, call.moved(0)
    begin = call.list_of(1)
    axes = g.ints(*range(x.rank))
    starts, sizes = (_known_ints(call, index) for index in (1, 2))
    if starts is not None and sizes is not None:
        if len(starts) != x.rank or len(sizes) != x.rank or min(sizes, default=0) < -1:
            raise ModelFileError(f"it takes {sizes} elements from {starts} on, of {x.type}")
        ends = [_END if size == -1 else start + size for start, size in zip(starts, sizes)]
        return g("Slice", x, begin, g.ints(*ends), axes)
    sizes_value = call.list_of(2)
    behind = g("Add", begin, sizes_value)
    everything = g("Equal", sizes_value, -1)
    ends_value = g("Where", everything, g("Shape", x), behind)
    return g("Slice", x, begin, ends_value, axes)


_END = (1 << 31) - 1


def _known_ints(call: OperandCall, index: int) -> list[int] | None:
    listed = known_ints(call.raw(index))
    if listed is None or not all(isinstance(element, int) for element in listed):
        return None
    return [int(element) for element in listed if isinstance(element, int)]


@shared("Gather")
def gather(call: OperandCall) -> Value:
    """Slices of an axis by number; the first `batch_dims` axes of both operands go together."""
    g, (x,), at = call.g, call.moved(0), call.raw(1)
    batch = int(call.option("batch_dims"))
    batch = batch + at.rank if batch < 0 else batch
    axis = axis_of(int(call.option("axis")), x.rank)
    if batch == 0:
        return g("Gather", x, at, axis=axis)
    if not 0 <= batch <= min(axis, at.rank):
        raise ModelFileError(f"it has {batch} axes in common, before axis {axis}")
    return indexing.gathered_by_batches(g, x, at, axis, batch)


@shared("GatherNd")
def gather_nd(call: OperandCall) -> Value:
    """Elements or slices by the numbers of their first axes."""
    g, (x,) = call.g, call.moved(0)
    return g("GatherND", x, g.cast(call.raw(1), dtypes.int64))


@shared("Tile")
def tile(call: OperandCall) -> Value:
    """Elements repeated along each axis."""
    (x,) = call.moved(0)
    return call.g("Tile", x, call.list_of(1))


@shared("BroadcastTo")
def broadcast_to(call: OperandCall) -> Value:
    """Elements repeated along axes of size one."""
    (x,) = call.moved(0)
    return call.g("Expand", x, call.list_of(1))


@shared("BroadcastArgs")
def broadcast_args(call: OperandCall) -> Value:
    """The shape in which tensors of two shapes are computed together."""
    g = call.g
    parts = [g("Expand", g.number(0, dtypes.uint8), call.list_of(index)) for index in (0, 1)]
    return call.as_result(g("Shape", g("Add", *parts)))


@shared("ReverseV2")
def reverse(call: OperandCall) -> Value:
    """Some axes backwards."""
    g, (x,) = call.g, call.moved(0)
    axes = [axis_of(axis, x.rank) for axis in call.ints(1)]
    return reversed_along(g, x, *axes) if axes else g("Identity", x)


@shared("ReverseSequence")
def reverse_sequence(call: OperandCall) -> Value:
    """The first elements of each row backwards, as many as operand 1 says of it."""
    (x,) = call.moved(0)
    return swapped_sequence(call, x, call.raw(1))


def swapped_sequence(call: OperandCall, x: Value, lengths: Value) -> Value:
    """The first `lengths` elements backwards."""
    g = call.g
    time = axis_of(int(call.option("seq_dim")), x.rank)
    batch = axis_of(int(call.option("batch_dim")), x.rank)
    others = [axis for axis in range(x.rank) if axis not in (time, batch)]
    perm = [time, batch, *others]
    moved = g.permute(x, *perm)
    y = g("ReverseSequence", moved, g.cast(lengths, dtypes.int64), batch_axis=1, time_axis=0)
    return g.permute(y, *np.argsort(perm).tolist())


# -- shapes ----------------------------------------------------------------------------------------


@shared("Shape")
def shape(call: OperandCall) -> Value:
    """The sizes of a tensor."""
    return call.as_result(call.g("Shape", call.raw(0)))


@shared("Rank")
def rank(call: OperandCall) -> Value:
    """How many axes a tensor has."""
    return call.g.constant(np.array(call.raw(0).rank, call.dtype.numpy))


@shared("Fill")
def fill(call: OperandCall) -> Value:
    """A tensor of this shape, full of one element."""
    (x,) = call.moved(1)
    return call.g("Expand", x, call.list_of(0))


shared("Range")(lambda call: call.g("Range", *call.reals()))


# -- padding ---------------------------------------------------------------------------------------


def _pads(call: OperandCall) -> Value:
    """Operand 1, pairs for each axis, as ONNX has them: what comes before all axes, then after."""
    const = call.const(1)
    if const is not None:
        if const.ndim != 2 or const.shape[1] != 2 or const.min(initial=0) < 0:
            raise ModelFileError(f"its paddings are {const.tolist()[:8]}")
        return call.g.ints(*const.T.reshape(-1).tolist())
    g, pairs = call.g, call.raw(1)
    return g.cast(g("Reshape", g("Transpose", pairs, perm=(1, 0)), g.ints(-1)), dtypes.int64)


@shared("Pad", "PadV2")
def pad(call: OperandCall) -> Value:
    """Zeros, or the number that is operand 2, around the elements."""
    g = call.g
    if call.keeps(0) and (not call.has(2) or call.keeps(2)):
        x = call.raw(0)
        number = call.raw(2) if call.has(2) else call.zero_of(0)
    else:
        x, number = call.real(0), call.real(2) if call.has(2) else None
    if number is not None and number.rank:
        number = g("Reshape", number, g.ints())
    return g("Pad", x, _pads(call), number)


@shared("MirrorPad")
def mirror_pad(call: OperandCall) -> Value:
    """The elements themselves, backwards, around them: without those at the border, or with."""
    g, (x,) = call.g, call.moved(0)
    if call.option("mode") == 0:
        return g("Pad", x, _pads(call), mode="reflect")
    const = call.const(1)
    if const is None:
        raise call.unsupported("symmetric padding by a computed number of elements")
    _pads(call)
    for axis, (before, after) in enumerate(const.tolist()):
        x = mirrored(g, x, axis, before, after)
    return x
