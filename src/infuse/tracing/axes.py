"""Axes as foreign models count them: from the front, or from behind where negative."""

from __future__ import annotations

from typing import Any

from infuse.errors import ModelFileError


def is_int(value: Any) -> bool:
    """Whether it is a whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def axis_of(axis: int, rank: int) -> int:
    """An axis from 0 on; ModelFileError for one that there is not."""
    if not -rank <= axis < rank:
        raise ModelFileError(f"there is no axis {axis} of {rank}")
    return axis % rank


def axes_of(value: Any, rank: int, name: str = "axis") -> list[int]:
    """Axes from 0 on; `value` is one, a list of them, or None for all."""
    if value is None:
        return list(range(rank))
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(is_int(axis) and -rank <= axis < rank for axis in listed):
        raise ModelFileError(f"{name} is {value!r}, of a tensor with {rank} axes")
    return [axis % rank for axis in listed]
