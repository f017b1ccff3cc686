"""Shapes of traced programs: tuples of numbers and of arrays without axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import ShapeError, TypeMismatchError
from infuse.tracing.arrays.array import Array, importer, lifted, node, source_line


def listed(sizes: Any) -> Array:
    """Sizes as an array of int64."""
    entries = sizes if isinstance(sizes, (list, tuple)) else (sizes,)
    parts = [s.astype(np.int64).value if isinstance(s, Array) else int(s) for s in entries]
    return Array(importer().ints(*parts))


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0; ShapeError where there is none such."""
    if not isinstance(axis, (int, np.integer)):
        raise TypeMismatchError(f"an axis is an integer, not {axis!r}", where=source_line())
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


def joint_sizes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that arrays of these shapes have together; ShapeError where there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(*(1,) * (rank - len(shape)), *shape) for shape in shapes]
    return tuple(_joint(sizes) for sizes in zip(*padded))


def _joint(sizes: Sequence[Any]) -> Any:
    numbers = {size for size in sizes if isinstance(size, int) and size != 1}
    if len(numbers) > 1:
        raise ShapeError(f"sizes {sorted(numbers)} do not fit together", where=source_line())
    if numbers:
        return numbers.pop()
    one = np.int64(1)
    result: Any = 1
    for size in sizes:
        if isinstance(size, Array):
            is_one = node("Equal", size, lifted(one))
            result = node("Where", is_one, lifted(result, one.dtype), size)
    return result
