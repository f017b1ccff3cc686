"""Shapes of traced programs: tuples of numbers and of arrays without axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import ShapeError
from infuse.frontends.arrays.array import Array, importer, source_line


def listed(sizes: Any) -> Array:
    """Sizes as an array of int64."""
    entries = sizes if isinstance(sizes, (list, tuple)) else (sizes,)
    parts = [s.astype(np.int64).value if isinstance(s, Array) else int(s) for s in entries]
    return Array(importer().ints(*parts))


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0; ShapeError where there is none such."""
    if not -rank <= axis < rank:
        raise ShapeError(f"there is no axis {axis} of {rank}", where=source_line())
    return axis % rank


def axes_of(axis: int | Sequence[int] | None, rank: int) -> list[int]:
    """Axes counted from 0, all of them for None; ShapeError where one comes twice."""
    if axis is None:
        return list(range(rank))
    axes = [axis_of(a, rank) for a in ([axis] if isinstance(axis, int) else axis)]
    if len({*axes}) != len(axes):
        raise ShapeError(f"an axis comes twice in {axis}", where=source_line())
    return axes
