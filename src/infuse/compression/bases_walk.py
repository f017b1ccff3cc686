"""A walk over values whose channels are those of one space, to the constants that write and read
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infuse import dtypes
from infuse.compression.layers import Layer
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value

LEAST = 8
"""Channels that are turned together, at least."""


@dataclass(frozen=True)
class Fold:
    """A constant operand of a node that is multiplied along an axis; before that, and only where a
    layer reads what a normalization makes, by the scale of that.
    """

    node: Node
    operand: int
    axis: int
    norm: Node | None = None


class Fixed(Exception):
    """Why channels cannot be turned."""


class Finer(Exception):
    """Only so many channels can be turned together."""

    def __init__(self, block: int) -> None:
        super().__init__(block)
        self.block = block


class Walk:
    """A walk over all values whose channels are those of one space. `Fixed` where one of them is
    read or made by what treats each channel in its own way, `Finer` where a part of the channels
    goes its own way.
    """

    def __init__(self, makers: Mapping[Node, Layer], block: int) -> None:
        self.makers, self.block = makers, block
        self.members: dict[Value, tuple[int, Node | None]] = {}
        self.folds: dict[tuple[Node, int], Fold] = {}
        self.norms: dict[Node, None] = {}
        self.waiting: list[Value] = []

    def take(self, value: Value | None, axis: int, norm: Node | None = None) -> None:
        """A value has the channels along an axis; behind a normalization whose scale was not
        applied yet.
        """
        if value is None:
            return
        if value in self.members:
            if self.members[value] != (axis, norm):
                raise Fixed(f"{told(value)} is used in two ways")
            return
        self.members[value] = axis, norm
        if value.dtype != dtypes.float32:
            raise Fixed(f"{told(value)} is {value.dtype}")
        if value.producer is None:
            raise Fixed(f"{told(value)} comes from outside")
        if value.is_graph_output:
            raise Fixed(f"{told(value)} is an output of the model")
        size = value.shape[axis]
        if not isinstance(size, int) or size < self.block:
            raise Fixed(f"{told(value)} has {size} channels")
        self.whole(size)
        self.waiting.append(value)

    def whole(self, size: int) -> None:
        """`Finer` or `Fixed` unless the channels fit so many a whole number of times."""
        if size % self.block:
            self.split(size)

    def split(self, size: int) -> None:
        """`Finer`, so that channels fit into such parts, or `Fixed` where these are small."""
        block = math.gcd(self.block, size)
        raise Finer(block) if block >= LEAST else Fixed(f"parts of {size} channels go their way")

    def fold(self, node: Node, operand: int, axis: int, norm: Node | None = None) -> None:
        """A constant operand of a node has the channels along an axis; where it is one number for
        all of them, it stays.
        """
        value = node.inputs[operand]
        assert value is not None
        axis += value.rank if axis < 0 else 0
        if axis < 0 or value.shape[axis] == 1:
            return
        size = value.shape[axis]
        assert isinstance(size, int)
        if value.dtype != dtypes.float32:
            raise Fixed(f"a constant of {named(node)} is {value.dtype}")
        self.whole(size)
        self.folds[node, operand] = Fold(node, operand, axis, norm)


def moved(before: Sequence[Dim], axis: int, after: Sequence[Dim], block: int) -> int:
    """The axis of channels after a change of the shape. `Finer` where they are cut into parts,
    `Fixed` where they are not on one axis.
    """
    behind = dims.product(before[axis + 1 :])
    for place, size in enumerate(after):
        if dims.product(after[place + 1 :]) != behind or not isinstance(size, int) or size == 1:
            continue
        if size % block == 0:
            return place
        if math.gcd(size, block) >= LEAST:
            raise Finer(math.gcd(size, block))
    raise Fixed("channels are torn apart")


def told(value: Value) -> str:
    """What reasons call a value."""
    maker = value.producer
    return f"the result of {named(maker)}" if maker is not None else f"{value.name!r}"


def named(node: Node) -> str:
    """What reasons call a node."""
    return f"{node.kind} {node.name!r}" if node.name else node.kind
