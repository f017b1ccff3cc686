"""An operator exchanged with movement of its operands or of its result: with a part of it, another
order of its axes, or other rows of the same elements. Operators say which axes allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from infuse import ops
from infuse.immutable import Immutable
from infuse.ir.expression import Call
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.axes import Axes, Order
from infuse.ops.core.base import Op
from infuse.ops.core.sizes import int64s
from infuse.ops.movement import Slice
from infuse.passes.rules.common import (
    attribute,
    data,
    is_one,
    permutation,
    require_own,
    require_shape,
)
from infuse.passes.rules.movement.movement import cuts, fixed_range, sliced
from infuse.rewrite import Refusal, require

MOST = 64
"""Operators between two movements that may be exchanged with them."""


def shared_axes(node: Node) -> Axes | None:
    """Which axes the operands and the result of a node share; None where that is not known."""
    return node.op.shared_axes(node) if isinstance(node.op, Op) and node.op.deterministic else None


def require_axes(node: Node) -> Axes:
    """The same; Refusal where that is not known, or results after the first are read."""
    require(not any(v.uses for v in node.outputs[1:]), "further results are read")
    axes = shared_axes(node)
    if axes is None:
        raise Refusal(f"the axes of {node.kind} are not known")
    return axes


def with_axes(node: Node, args: Sequence[Any], axes: Axes) -> Any:
    """The work of a node on operands with these axes; Refusal where it needs its own."""
    assert isinstance(node.op, Op)
    result = node.op.with_axes(node, args, axes)
    if result is None:
        raise Refusal(f"{node.kind} needs its axes as they are")
    return result


def maker(value: Value, root: Node) -> Node | None:
    """The node that makes a value for `root` alone."""
    node = value.producer
    alone = node is not None and node.graph is root.graph and len(value.uses) == 1
    return node if alone else None


# -- parts -----------------------------------------------------------------------------------------


class Part(Immutable):
    """What a Slice or a Gather reads of its first operand, along these axes."""

    reader: Node
    axes: tuple[int, ...]

    @staticmethod
    def of(reader: Node) -> Part:
        """What a node reads; Refusal where it may read everything."""
        whole = reader.inputs[0]
        assert whole is not None
        require_shape(whole, reader.output)
        if reader.kind == "Gather":
            index, axis = reader.inputs[1], attribute(reader, "axis") % whole.rank
            assert index is not None
            size = whole.shape[axis]
            fewer = isinstance(size, int) and index.rank == 1 and data(index).size < size
            require(index.rank == 0 or fewer, "it may read everything")
            return Part(reader, (axis,))
        assert isinstance(reader.op, Slice)
        axes = reader.op.cut_axes(reader)
        require(axes, "the axes are not known")
        return Part(reader, axes or ())

    @property
    def whole(self) -> Value:
        """What a part is read of."""
        assert self.reader.inputs[0] is not None
        return self.reader.inputs[0]

    @property
    def index(self) -> Value | None:
        """The index of a Gather."""
        return self.reader.inputs[1] if self.reader.kind == "Gather" else None

    @property
    def drops(self) -> bool:
        """Whether the axis goes away."""
        return self.index is not None and self.index.rank == 0

    def of_operand(self, x: Value, places: Mapping[int, int]) -> Any:
        """The same part of an operand, whose axes `places` gives by those of the whole."""
        own = {axis: at for axis, at in places.items() if not self._stretched(x, axis, at)}
        require(x.is_const or not self.drops or own == places, "an operand is stretched")
        if x.is_const:
            return self._of_constant(x, places, own) if places else x
        if not own:
            return x
        if self.index is not None:
            return Call("Gather", (x, self.index), {"axis": own[self.axes[0]]})
        if own.keys() == set(self.axes):
            _, starts, ends, _, steps = (*self.reader.inputs, None, None)[:5]
            rest = [] if steps is None else [steps]
            return Call("Slice", (x, starts, ends, int64s(*(own[a] for a in self.axes)), *rest))
        ranges = cuts(self.reader)
        return sliced(x, {at: ranges[axis] for axis, at in own.items()})

    def _stretched(self, x: Value, axis: int, at: int) -> bool:
        return is_one(x.shape[at]) and not is_one(self.whole.shape[axis])

    def _of_constant(self, x: Value, places: Mapping[int, int], own: Mapping[int, int]) -> Array:
        require_own(x)
        array = data(x)
        if self.index is not None:
            ((axis, at),) = places.items()
            index = data(self.index)
            if axis in own:
                return np.take(array, index, axis=at)
            return array.take(0, axis=at) if self.drops else array
        for axis, at in own.items():
            start, end, step = cuts(self.reader)[axis]
            first, length = fixed_range(self.whole, axis, (start, end, 1))
            require(step > 0, "it runs backwards")
            array = np.take(array, range(first, first + length, step), axis=at)
        return array


def part_of_operands(reader: Node, node: Node) -> Any:
    """What `reader` reads of the result of `node`, computed from parts of the operands."""
    part, axes = Part.of(reader), require_axes(node)
    numbers = {axes.result[axis]: axis for axis in part.axes}
    require(not axes.mixed & numbers.keys(), "it cuts what is computed together")
    args: list[Any] = []
    for x, order in zip(node.inputs, axes.operands):
        places = {numbers[n]: at for at, n in enumerate(order or ()) if n in numbers}
        args.append(x if x is None or not places else part.of_operand(x, places))
    return with_axes(node, args, axes.without(*numbers) if part.drops else axes)


# -- transposes ------------------------------------------------------------------------------------


class Moved(Immutable):
    """A value as a Transpose of something else."""

    source: Any
    perm: tuple[int, ...]

    @staticmethod
    def by(move: Node) -> Moved:
        """The result of a Transpose."""
        return Moved(move.inputs[0], permutation(move))

    @property
    def stays(self) -> bool:
        """Whether no axis has another place."""
        return self.perm == tuple(range(len(self.perm)))

    def value(self) -> Any:
        """The value itself."""
        return self.source if self.stays else ops.transpose(self.source, perm=self.perm)


def _is_transpose(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.kind == "Transpose" and not node.op.domain


def transposed_operands(node: Node) -> dict[Value, Moved]:
    """The operands of a node that a Transpose makes for it alone."""
    result = {}
    for x in node.operands():
        move = maker(x, node)
        if _is_transpose(move):
            result[x] = Moved.by(move)
    return result


def moved_below(node: Node, operands: Mapping[Value, Moved]) -> Moved:
    """The work of a node on what these operands are a Transpose of; the others are constants, or
    have no axes to move.
    """
    axes = require_axes(node)
    sources: dict[int, Order] = {}
    for place, (x, order) in enumerate(zip(node.inputs, axes.operands)):
        if x is not None and order is not None and x in operands:
            perm = operands[x].perm
            sources[place] = tuple(order[perm.index(i)] for i in range(len(perm)))
    require(sources, "no operand is transposed")
    ranks: Order = max(sources.values(), key=len)
    numbers = [n for order in (axes.result, *axes.operands) for n in order or ()]
    after = axes.reordered(list(dict.fromkeys([*ranks, *numbers])))
    args: list[Any] = []
    for place, x in enumerate(node.inputs):
        before, order = axes.operands[place], after.operands[place]
        if x is None or order is None or before is None:
            args.append(x)
        elif place in sources:
            require(order == sources[place], "the orders differ")
            args.append(operands[x].source)
        elif x.is_const:
            args.append(np.ascontiguousarray(data(x).transpose([before.index(n) for n in order])))
        else:
            require(order == before, "an operand is not transposed")
            args.append(x)
    result = with_axes(node, args, after)
    return Moved(result, tuple(after.result.index(n) for n in axes.result))


def moved_through(top: Value, root: Node) -> tuple[Moved, list[Node]]:
    """`top` as a Transpose of what operators make of the sources of Transposes above them, and
    these nodes, each before those that it reads; of the Transposes those that nobody else reads.
    Refusal where something else comes in between.
    """
    result: dict[Value, Moved] = {}
    moves: list[Node] = []
    region = between(top, root, _is_transpose, splits=True)
    for node in region:
        for x in node.operands():
            move = x.producer
            if _is_transpose(move) and x not in result:
                result[x] = Moved.by(move)
                moves += [move] * (len(x.uses) == 1)
        if _is_split(node):
            result.update(zip(node.outputs, _split_below(node, result)))
        else:
            result[node.output] = moved_below(node, result)
    require(top in result, "nothing is between two Transposes")
    return result[top], [*reversed(region), *moves]


def _is_split(node: Node) -> bool:
    return node.kind == "Split" and not node.op.domain


def _split_below(node: Node, operands: Mapping[Value, Moved]) -> list[Moved]:
    """The parts of what a Split reads a Transpose of, each to be transposed."""
    x = node.inputs[0]
    require(x in operands, "no operand is transposed")
    assert x is not None
    perm = operands[x].perm
    axis = perm[attribute(node, "axis") % len(perm)]
    attributes = {**node.op.attributes(), "axis": axis}
    split = Call("Split", (operands[x].source, *node.inputs[1:]), attributes)
    return [Moved(split[index], perm) for index in range(len(node.outputs))]


def between(
    top: Value, root: Node, ends: Callable[[Node], bool], splits: bool = False
) -> list[Node]:
    """The operators that make `top`, each after those that it reads, up to where `ends` holds, or
    something is read elsewhere; Split is one of them where `splits` says so. Nothing where `ends`
    holds nowhere around.
    """

    def fits(node: Node) -> bool:
        return shared_axes(node) is not None or (splits and _is_split(node))

    around = _region(top, root, ends, None)
    if around is not None and not any(map(ends, _makers(around))):
        return []  # in most cases: whether operators fit takes much longer
    region = _region(top, root, ends, fits)
    require(region is not None, "there is much between the two")
    return list(reversed(region or ()))


def _region(
    top: Value, root: Node, ends: Callable[[Node], bool], fits: Callable[[Node], bool] | None
) -> dict[Node, None] | None:
    """The operators that make `top`, up to where `ends` holds, something is read elsewhere, or an
    operator does not fit; None for more than `MOST`.
    """
    region: dict[Node, None] = {}
    pending = [top.producer]
    while pending:
        node = pending.pop()
        if node is None or node in region or node is root or node.graph is not root.graph:
            continue
        if ends(node) or not _is_read_inside(node, region, root):
            continue
        if fits is not None and not fits(node):
            continue
        if len(region) == MOST:
            return None
        region[node] = None
        pending += [x.producer for x in node.operands()]
    return region


def _makers(nodes: Iterable[Node]) -> Iterator[Node]:
    """What makes the operands of nodes."""
    return (x.producer for n in nodes for x in n.operands() if x.producer is not None)


def _is_read_inside(node: Node, region: Container[Node], root: Node) -> bool:
    """Whether only a region and `root` read what a node gives."""
    for output in node.outputs:
        for user, _ in output.uses:
            if user is not root and user not in region:
                return False
    return True
