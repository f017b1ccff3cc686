"""Blocks of images as rows of a batch."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.ir.graph import Value
from infuse.tracing.tensorflow.calls import OperandCall, shared

_END = np.iinfo(np.int64).max

Edge = tuple[int, int]
Size = int | Value


def _blocks(call: OperandCall, x: Value) -> tuple[list[int], list[Edge] | Value]:
    """The sizes of blocks, and what is put or cut off before and after each axis: numbers, or a
    list that is computed.
    """
    blocks = call.ints(1)
    if len(blocks) >= x.rank or any(block < 1 for block in blocks):
        raise ModelFileError(f"it has blocks of {blocks} in {x.rank} axes")
    edges = call.list_of(2)
    if edges.tensor.size != 2 * len(blocks):
        raise ModelFileError(f"it has blocks of {blocks} and {edges.tensor.size} edges around them")
    if edges.const is None:
        return blocks, edges
    whole = [int(edge) for edge in edges.const]
    if any(edge < 0 for edge in whole):
        raise ModelFileError(f"it has blocks of {blocks} and {whole} around them")
    return blocks, list(zip(whole[::2], whole[1::2]))


def _sides(call: OperandCall, edges: Value, count: int) -> tuple[Value, Value]:
    """What is before all axes, and what is after them, of pairs that are computed."""
    g = call.g
    pairs = g("Reshape", edges, g.ints(count, 2))
    before, after = (g("Gather", pairs, g.number(i, dtypes.int64), axis=1) for i in range(2))
    return before, after


def _sizes(call: OperandCall, x: Value, first: int, last: int) -> list[Size]:
    return [call.g.size_of(x, axis) for axis in range(first, last)]


def _parts(call: OperandCall, size: Size, block: int) -> Size:
    """How many blocks there are."""
    if isinstance(size, Value):
        return call.g("Div", size, block)
    if size % block:
        raise ModelFileError(f"{size} elements are not blocks of {block}")
    return size // block


@shared("SpaceToBatchND")
def space_to_batch(call: OperandCall) -> Value:
    """The places inside of blocks as rows of the batch, after padding with zeros."""
    g, (x,) = call.g, call.moved(0)
    blocks, edges = _blocks(call, x)
    count = len(blocks)
    number = call.zero_of(0) if call.keeps(0) else None
    axes = g.ints(*range(1, count + 1))
    if isinstance(edges, Value):
        x = g("Pad", x, g("Concat", *_sides(call, edges, count), axis=0), number, axes)
    elif any(map(any, edges)):
        before, after = zip(*edges)
        x = g("Pad", x, g.ints(*before, *after), number, axes)
    counts = [
        _parts(call, size, block) for size, block in zip(_sizes(call, x, 1, count + 1), blocks)
    ]
    rest = _sizes(call, x, count + 1, x.rank)
    parts = [part for pair in zip(counts, blocks) for part in pair]
    # The batch is no -1: blocks that do not fit are an error of the run.
    split = g("Reshape", x, g.ints(g.size_of(x, 0), *parts, *rest))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    moved = g("Transpose", split, perm=(*inner, 0, *outer, *range(2 * count + 1, split.rank)))
    return g("Reshape", moved, g.ints(-1, *counts, *rest))


@shared("BatchToSpaceND")
def batch_to_space(call: OperandCall) -> Value:
    """Rows of the batch as the places inside of blocks, whose edges are cut off."""
    g, (x,) = call.g, call.moved(0)
    blocks, edges = _blocks(call, x)
    count = len(blocks)
    sizes, rest = _sizes(call, x, 1, count + 1), _sizes(call, x, count + 1, x.rank)
    batch = x.shape[0]
    if isinstance(batch, int) and batch % math.prod(blocks):
        raise ModelFileError(f"{batch} rows are not blocks of {blocks}")
    split = g("Reshape", x, g.ints(*blocks, -1, *sizes, *rest))
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    moved = g("Transpose", split, perm=(count, *pairs, *range(2 * count + 1, split.rank)))
    whole = [
        size * block if isinstance(size, int) else g("Mul", size, block)
        for size, block in zip(sizes, blocks)
    ]
    y = g("Reshape", moved, g.ints(-1, *whole, *rest))
    if isinstance(edges, Value):
        before, after = _sides(call, edges, count)
        ends = g("Sub", g.ints(*whole), after)
        return g("Slice", y, before, ends, g.ints(*range(1, count + 1)))
    for axis, ((begin, end), size) in enumerate(zip(edges, whole), 1):
        if isinstance(size, int) and begin + end >= size:
            raise ModelFileError(f"{begin} and {end} are cut off {size}")
        if isinstance(size, int) and (begin or end):
            y = g.slice(y, axis, begin, size - end)
        elif begin or end:
            y = g("Slice", y, g.ints(begin), g.ints(-end if end else _END), g.ints(axis))
    return y
