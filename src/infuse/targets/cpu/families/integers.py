"""Products of 8-bit integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.targets.cpu.families.base import Arguments, Array, computes, matrix

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Layout:
    """How kernels/integer_layouts.hpp multiplies: the name there, elements in a lane, and their
    type.
    """

    name: str
    group: int
    dtype: dtypes.DType


I16X2 = Layout("I16x2", 2, dtypes.int16)
U8S8X4 = Layout("U8S8x4", 4, dtypes.int8)


def pack_groups(b: Integers, lanes: int, layout: Layout) -> Integers:
    """The matrix b[k, n] as [panel, group of rows, 2 · lanes, row of the group] for
    kernels/integer.hpp.
    """
    k, n = b.shape
    width, group = 2 * lanes, layout.group
    groups, panels = -(-k // group), -(-n // width)
    whole = np.zeros((group * groups, panels * width), layout.dtype.numpy)
    whole[:k, :n] = b
    return np.ascontiguousarray(whole.reshape(groups, group, panels, width).transpose(2, 0, 3, 1))


def pack_columns(filters: Integers, together: int, layout: Layout) -> Integers:
    """Filters [channels, height, width] as [⌈height / together⌉, width, channels, layout.group]."""
    channels, height, width = filters.shape
    blocks = -(-height // together)
    whole = np.zeros((channels, blocks, layout.group, width), layout.dtype.numpy)
    for y in range(height):
        whole[:, y // together, y % together] = filters[:, y]
    return np.ascontiguousarray(whole.transpose(1, 3, 0, 2))


@computes("integer_matmul")
def integer_matmul(call: Arguments) -> Array:
    """Rows less their zero points times the matrix; in groups of four, the sums of its columns take
    the zero points off.
    """
    m, n, k, pitch = call.numbers
    layout = U8S8X4 if call.template[0] == U8S8X4.name else I16X2
    left, *zeros, packed = call.operands[: len(call.operands) - (layout is U8S8X4)]
    width = 2 * call.lanes
    groups, panels = -(-k // layout.group), -(-n // width)
    whole = packed[: panels * groups * width * layout.group]
    whole = whole.reshape(panels, groups, width, layout.group).transpose(1, 3, 0, 2)
    weights = whole.reshape(groups * layout.group, -1)[:k, :n]
    sums = call.operands[-1][:n] if layout is U8S8X4 else weights.sum(0)
    each = m if "1L" in call.words else 1  # one zero point a row, or for all
    shifts = np.broadcast_to(zeros[0][:each], m) if zeros else np.zeros(m)
    product: Array = matrix(left, (m, k), (pitch, 1)) @ weights - np.outer(shifts, sums)
    return product
