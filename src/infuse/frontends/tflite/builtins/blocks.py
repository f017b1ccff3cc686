"""Blocks of images as rows of a batch, and random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import Call, builtin
from infuse.ir.graph import Value


def _blocks(call: Call, x: Value) -> tuple[list[int], list[tuple[int, int]]]:
    blocks, edges = call.ints(1), call.ints(2)
    pairs = list(zip(edges[::2], edges[1::2]))
    if len(edges) != 2 * len(blocks) or len(blocks) >= x.rank:
        raise ModelFileError(f"it has blocks of {blocks} and {edges} around them")
    if any(block < 1 for block in blocks) or any(edge < 0 for edge in edges):
        raise ModelFileError(f"it has blocks of {blocks} and {edges} around them")
    return blocks, pairs


def _sizes(call: Call, x: Value, first: int, last: int) -> list[int]:
    sizes = x.shape[first:last]
    if not all(isinstance(size, int) for size in sizes):
        raise call.unsupported("blocks of unknown size")
    return [int(size) for size in sizes if isinstance(size, int)]


def _rest(call: Call, x: Value, first: int) -> list[Any]:
    return [call.g.size_of(x, axis) for axis in range(first, x.rank)]


@builtin("SPACE_TO_BATCH_ND")
def space_to_batch(call: Call) -> Value:
    """The places inside of blocks as rows of the batch, after padding with zeros."""
    g, (x,) = call.g, call.moved(0)
    blocks, edges = _blocks(call, x)
    count = len(blocks)
    number = call.zero_of(0) if call.keeps(0) else None
    if any(map(any, edges)):
        before, after = zip(*edges)
        x = g("Pad", x, g.ints(*before, *after), number, g.ints(*range(1, count + 1)))
    sizes, rest = _sizes(call, x, 1, count + 1), _rest(call, x, count + 1)
    if any(size % block for size, block in zip(sizes, blocks)):
        raise ModelFileError(f"{sizes} elements are no blocks of {blocks}")
    parts = [part for s, b in zip(sizes, blocks) for part in (s // b, b)]
    split = g("Reshape", x, g.ints(-1, *parts, *rest))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    moved = g("Transpose", split, perm=(*inner, 0, *outer, *range(2 * count + 1, split.rank)))
    return g("Reshape", moved, g.ints(-1, *(s // b for s, b in zip(sizes, blocks)), *rest))


@builtin("BATCH_TO_SPACE_ND")
def batch_to_space(call: Call) -> Value:
    """Rows of the batch as the places inside of blocks, whose edges are cut off."""
    g, (x,) = call.g, call.moved(0)
    blocks, edges = _blocks(call, x)
    count = len(blocks)
    sizes, rest = _sizes(call, x, 1, count + 1), _rest(call, x, count + 1)
    batch = x.shape[0]
    if isinstance(batch, int) and batch % math.prod(blocks):
        raise ModelFileError(f"{batch} rows are no blocks of {blocks}")
    split = g("Reshape", x, g.ints(*blocks, -1, *sizes, *rest))
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    moved = g("Transpose", split, perm=(count, *pairs, *range(2 * count + 1, split.rank)))
    whole = [size * block for size, block in zip(sizes, blocks)]
    y = g("Reshape", moved, g.ints(-1, *whole, *rest))
    if any(begin + end >= size for (begin, end), size in zip(edges, whole)):
        raise ModelFileError(f"{edges} are cut off {whole}")
    for axis, ((begin, end), size) in enumerate(zip(edges, whole)):
        if begin or end:
            y = g.slice(y, axis + 1, begin, size - end)
    return y


# -- random numbers --------------------------------------------------------------------------------


def _seed(call: Call) -> dict[str, float]:
    seeds: Sequence[int] = [int(call.option("seed")), int(call.option("seed2"))]
    return {"seed": float(np.float32(seeds[0] ^ seeds[1]))} if any(seeds) else {}


@builtin("RANDOM_UNIFORM")
def random_uniform(call: Call) -> Value:
    """Random numbers from 0 to 1; other ones than TensorFlow Lite's for the same seed."""
    like = call.g("Expand", call.g.number(0, dtypes.float32), call.list_of(0))
    return call.g("RandomUniformLike", like, **_seed(call))


@builtin("RANDOM_STANDARD_NORMAL")
def random_normal(call: Call) -> Value:
    """Random numbers of the normal distribution; other ones for the same seed."""
    like = call.g("Expand", call.g.number(0, dtypes.float32), call.list_of(0))
    return call.g("RandomNormalLike", like, **_seed(call))


@builtin("MULTINOMIAL")
def multinomial(call: Call) -> Value:
    """Random classes by the logarithms of their chances; other ones for the same seed."""
    count = call.one(1)
    if count < 1:
        raise ModelFileError(f"it draws {count} samples")
    return call.g("Multinomial", call.real(0), sample_size=count, dtype=call.dtype, **_seed(call))
