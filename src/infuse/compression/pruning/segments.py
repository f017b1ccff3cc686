"""Which axes of an operand and of the result of a reshape have the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infuse.ir.dims import Dim
from infuse.ir.types import Shape


@dataclass(frozen=True)
class Segment:
    """Axes of the operand and axes of the result, neither of size one, that have the same elements
    in the same order.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


def segments(before: Shape, after: Shape) -> list[Segment]:
    """The shortest such parts of two shapes of as many elements, from the last axes on; axes of
    size one belong to none. The first axes may be left over, where only a run tells their sizes.
    """
    left, right = (_products(shape) for shape in (before, after))
    result: list[Segment] = []
    start = stop = 0
    for end, (_, product) in enumerate(left):
        match = next((at for at in range(stop, len(right)) if right[at][1] == product), None)
        if match is not None:
            own = [axis for axis, _ in left[start : end + 1]]
            other = [axis for axis, _ in right[stop : match + 1]]
            result.append(Segment(tuple(own[::-1]), tuple(other[::-1])))
            start, stop = end + 1, match + 1
    if start < len(left) or stop < len(right):
        rest = ([axis for axis, _ in side] for side in (left[start:], right[stop:]))
        result.append(Segment(*(tuple(axes[::-1]) for axes in rest)))
    return result


def _products(shape: Sequence[Dim]) -> list[tuple[int, Dim]]:
    """The axes other than of size one from the last on, with the elements from each one on."""
    total: Dim = 1
    products = []
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] != 1:
            total = total * shape[axis]
            products.append((axis, total))
    return products
