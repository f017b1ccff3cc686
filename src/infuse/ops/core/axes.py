"""How the axes of a node's operands and of its result go together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import numpy as np

from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.graph import Array, Node
from infuse.ir.types import Shape

Order = tuple[int, ...]
"""The axes of a tensor, each by its number."""


class Axes(Immutable):
    """Which axes of a node's operands and of its first result go together.

    Axes of one number do: what the result has at a place, it has of the places of the same index
    along them, so that an operator may be moved behind a slice or a new order of them. Along the
    axes in `mixed` elements are computed from others; they can be moved to another position only.
    """

    operands: tuple[Order | None, ...]
    """Of each input; None where it has no axes of the result (weights, sizes, indices)."""
    result: Order
    mixed: frozenset[int] = frozenset()

    def reordered(self, ranks: Sequence[int]) -> Axes:
        """The same where the axes of each tensor are in the order in which `ranks` has them."""
        place = {axis: i for i, axis in enumerate(ranks)}

        def ordered(order: Iterable[int]) -> Order:
            return tuple(sorted(order, key=place.__getitem__))

        operands = (None if order is None else ordered(order) for order in self.operands)
        return Axes(tuple(operands), ordered(self.result), self.mixed)

    def without(self, axis: int) -> Axes:
        """The same without one axis."""

        def rest(order: Order) -> Order:
            return tuple(number for number in order if number != axis)

        operands = (None if order is None else rest(order) for order in self.operands)
        return Axes(tuple(operands), rest(self.result), self.mixed)


def same_axes(node: Node, mixed: Collection[int], operands: int = 1) -> Axes | None:
    """The axes of a node whose first operands all have those of its result; None where the rank is
    not known.
    """
    if node.output.tensor.rank is None:
        return None
    order = tuple(range(node.output.rank))
    others = (None,) * (len(node.inputs) - operands)
    return Axes((order,) * operands + others, order, frozenset(mixed))


def axis_of_lines(axes: Axes) -> int | None:
    """Where the one axis of mixed elements is in operand and result; None where they differ."""
    (own,) = axes.mixed
    same = axes.operands[0] == axes.result and own in axes.result
    return axes.result.index(own) if same else None


def image_axes(node: Node) -> Axes | None:
    """The axes of a node that computes every image on its own: the first of its first operand."""
    x = node.inputs[0]
    rank, after = None if x is None else x.tensor.rank, node.output.tensor.rank
    return None if rank is None or after is None else _image_axes(rank, after, len(node.inputs))


@lru_cache(maxsize=256)
def _image_axes(before: int, after: int, inputs: int) -> Axes:
    inner = tuple(range(1, before))
    outer = tuple(range(before, before + after - 1))
    operands = ((0, *inner), *(None,) * (inputs - 1))
    return Axes(operands, (0, *outer), frozenset(inner + outer))


def aligned(shape: Shape | None, whole: Shape | None) -> Order | None:
    """The axes of `whole` that an operand of this shape, which is broadcast to it, has; None where
    that is not known.
    """
    if shape is None or whole is None or len(shape) > len(whole):
        return None
    start = len(whole) - len(shape)
    part = whole[start:]
    fits = shape == part or all(
        a == b or dims.compare("==", a, 1) is True for a, b in zip(shape, part)
    )
    return tuple(range(start, len(whole))) if fits else None


def broadcast_axes(node: Node, mixed: Collection[int] = ()) -> Axes | None:
    """The axes of a node whose operands are broadcast to its result; None where they may be
    otherwise.
    """
    whole = node.output.tensor.shape
    operands = [None if x is None else aligned(x.tensor.shape, whole) for x in node.inputs]
    if whole is None or any(x is not None and o is None for x, o in zip(node.inputs, operands)):
        return None
    return Axes(tuple(operands), tuple(range(len(whole))), frozenset(mixed))


def broadcast_operand(operand: object, order: Order, result: Order) -> object | None:
    """An operand of these axes as one that is broadcast to `result`: arrays get axes of size one
    where these lack; None where anything else needs them.
    """
    if order == result[len(result) - len(order) :]:
        return operand
    if not isinstance(operand, np.ndarray) or not set(order) <= set(result):
        return None
    places = [result.index(axis) for axis in order]
    if places != sorted(places):
        return None
    sizes = dict(zip(order, operand.shape))
    full: Array = operand.reshape([sizes.get(axis, 1) for axis in result])
    return full
