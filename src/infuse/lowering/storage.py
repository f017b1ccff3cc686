"""Where the values of a program lie: in the caller's memory, in weights, in the arena, or inside
one another.
"""

from __future__ import annotations

from typing import Any, Final

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.lowering.concat_slots import ConcatSlots, Slot
from infuse.lowering.expressions import Converted, Element, Operation, Size
from infuse.lowering.program import Program
from infuse.lowering.statements import CopyElements, InterleavePlanes
from infuse.lowering.tensors import Buffer, Order, Tensor, dense, dense_strides, natural
from infuse.lowering.view_chains import place_before, seen_through
from infuse.lowering.writer import FunctionWriter

MOST_AXES: Final = 16
"""Axes of a tensor that kernels have loops for."""


class Storage:
    """Memory for the values of a graph, and the copies between them, which are steps of its
    program. `parent`: that of the graph around. `homes`: results that lie inside of others.
    """

    homes: ConcatSlots

    def __init__(self, graph: Graph, program: Program, parent: Storage | None = None) -> None:
        self._graph, self._program, self._parent = graph, program, parent
        self.tensors: dict[Value, Tensor] = {}
        program.places = self.tensors
        self.captured: list[Tensor] = []
        """Where values of the graphs around lie, in the order of the inputs that come after the
        body's own.
        """
        self._copies: dict[tuple[Any, Any, Order], Tensor] = {}
        self._joined: set[tuple[Value, int, Dim]] = set()

    def tensor(self, value: Value) -> Tensor:
        """Where a value lies; constants go to the weight file, known sizes are stored by a step."""
        place = self.tensors.get(value)
        if place is not None:
            return place
        if value.const is not None:
            place = self._program.weight(value.const)
        elif value.content is not None and all(
            isinstance(size, int) for size in value.content.reshape(-1)
        ):
            place = self._program.weight(value.content.astype(value.dtype.numpy))
        elif value.content is not None:
            place = self._store_sizes(value)
        elif self._parent is not None and not self._makes(value):
            place = self._capture(value, self._parent)
        else:
            raise UnsupportedOperatorError(f"value {value.name!r} has no native code")
        self.tensors[value] = place
        return place

    def _makes(self, value: Value) -> bool:
        """Whether a value belongs to this graph, not to one around it."""
        return (
            value in self._graph.inputs
            if value.producer is None
            else value.producer.graph is self._graph
        )

    def _capture(self, value: Value, parent: Storage) -> Tensor:
        """A value of the graph around, as one more input."""
        outer = parent.tensor(value)
        number = len(self._graph.inputs) + len(self.captured)
        self.captured.append(outer)
        buffer = Buffer("input", 0, number, label=value.name)
        return Tensor(buffer, outer.dtype, outer.shape, outer.strides, outer.order)

    def _store_sizes(self, value: Value) -> Tensor:
        assert value.content is not None
        target = self.allocate(value)
        sizes = value.content.reshape(-1).tolist()
        f = self._function("sizes", value.producer)
        pointer = f.write(target)
        for divisor in sorted(dims.divisors(sizes), key=str):
            f.fail_unless(Operation(">", (Size(divisor), "0")), "DIVIDES_BY_ZERO")
        for i, size in enumerate(sizes):
            f.assign(Element(pointer, i), Converted(value.dtype, Size(size)))
        f.finish("sizes")
        return target

    def allocate(
        self,
        value: Value,
        order: Order | None = None,
        *,
        strided: bool = False,
        rounded: bool = False,
    ) -> Tensor:
        """A place for a result whose axes lie in `order`: its home if it has one that fits, else
        the arena.

        `strided`: the writer takes any strides whose innermost is 1, so the place may be inside
        another tensor. `rounded`: its readers take bfloat16 in place of float32.
        """
        axes = order or natural(value.rank)
        if strided and value in self.homes.slots:
            slot = self._slot(value, axes)
            if slot is not None:
                return slot
        return self._own_place(value, axes, rounded)

    def _own_place(self, value: Value, axes: Order, rounded: bool = False) -> Tensor:
        """Memory of the caller for an output that lies so, else of the arena."""
        shape = value.shape
        for home in self.homes.outputs.get(value, ()):
            if home.is_dense(axes):
                return dense(home.buffer, value.dtype, shape, axes)
        return self.scratch_tensor(
            dtypes.bfloat16 if rounded else value.dtype, shape, axes, value.name
        )

    def output_order(self, value: Value) -> Order | None:
        """How the axes of a value have to lie that is an output and nothing else, or is seen as
        one alone; None where it is not, or other steps read it.
        """
        homes = self.homes.outputs.get(value, ()) if len(value.uses) == 1 else ()
        return next((home.order for home in homes if home.is_dense()), None)

    def scratch_tensor(
        self, dtype: dtypes.DType, shape: tuple[Dim, ...], order: Order, label: str = ""
    ) -> Tensor:
        """A tensor of its own in the arena."""
        return dense(
            self._program.arena(dims.product(shape) * dtype.bytes, label), dtype, shape, order
        )

    def _slot(self, value: Value, order: Order) -> Tensor | None:
        """The part of the concatenation's result that `value` fills, or that is a view of it; None
        where the orders differ, also that of an output, to which parts are turned one by one.
        Results of which that one is a part get their places first.
        """
        path = [(value, order)]
        while path[-1][0] not in self.tensors:
            inner, axes = path[-1]
            slot = self.homes.slots.get(inner)
            seen = None if slot is None else self._seen(inner, axes, slot)
            if slot is None or seen is None:
                break
            path.append((slot.whole, seen.order))
        last, axes = path[-1]
        if last not in self.tensors and self.output_order(last) not in (None, axes):
            return None
        for whole, axes in reversed(path[1:]):
            if whole not in self.tensors:
                fitting = self._part(whole, axes)
                self.tensors[whole] = fitting or self._own_place(whole, axes)
        return self._part(value, order)

    def _seen(self, value: Value, order: Order, slot: Slot) -> Tensor | None:
        """A value in a slot as the concatenation sees it; None where that would be a copy."""
        return seen_through(slot.views, dense(Buffer("none", 0), value.dtype, value.shape, order))

    def _part(self, value: Value, order: Order) -> Tensor | None:
        """The place of a value in its slot, whose whole may have one; None where it does not fit
        there.
        """
        slot = self.homes.slots.get(value)
        target = None if slot is None else self.tensors.get(slot.whole)
        seen = None if slot is None else self._seen(value, order, slot)
        if slot is None or target is None or seen is None:
            return None
        if target.order != seen.order or target.dtype != value.dtype:
            return None
        part = place_before(slot.views, target.slice(slot.axis, slot.offset, slot.size))
        if part is None or part.order != order:
            return None
        return part if not slot.views or part.last_stride == 1 else None

    def dense(self, value: Value, order: Order | None = None) -> Tensor:
        """The value without gaps, its axes in `order` (default: as they lie); copied when it is
        not.
        """
        return self.arranged(self.tensor(value), order, value)

    def arranged(
        self, tensor: Tensor, order: Order | None = None, value: Value | None = None
    ) -> Tensor:
        """A tensor without gaps in `order`; copied when it is not."""
        axes = order or tensor.order
        if tensor.is_dense(axes):
            return Tensor(
                tensor.buffer,
                tensor.dtype,
                tensor.shape,
                dense_strides(tensor.shape, axes),
                axes,
                tensor.offset,
            )
        if value is not None and value.const is not None:
            return self._program.weight(value.const, axes)
        place = (id(tensor.buffer), tensor.dtype, tensor.offset)
        key = (place, (tensor.shape, tensor.strides), axes)
        if key not in self._copies:
            target = self.scratch_tensor(tensor.dtype, tensor.shape, axes)
            self.copy(tensor, target, "reorder")
            self._copies[key] = target
        return self._copies[key]

    def join(self, value: Value, part: Tensor, node: Node) -> None:
        """Bring an operand of a concatenation to its place, unless it was written or copied there
        before.
        """
        tensor = self.tensor(value)
        there = (
            tensor.buffer is part.buffer
            and tensor.offset == part.offset
            and all(
                size == 1 or have == need
                for size, have, need in zip(tensor.shape, tensor.strides, part.strides)
            )
        )
        key = (value, id(part.buffer), part.offset)
        if not there and key not in self._joined:
            self.copy(tensor, part, "concat", node)
            self._joined.add(key)

    def copy(self, source: Tensor, target: Tensor, label: str, node: Node | None = None) -> None:
        """A step that moves elements from one view to another of the same shape."""
        if target.size == 0:
            return
        if target.rank > MOST_AXES:
            raise UnsupportedOperatorError(f"a copy along {target.rank} axes has no native code")
        f = self._function("copy", node)
        planes = _few_planes(source, target)
        if planes is not None:
            channels, *sizes = planes
            images, pixels = map(f.number, sizes)
            pointers = f.read(source.bits), f.write(target.bits)
            f.add(InterleavePlanes(channels, images, pixels, *pointers))
            f.finish(label)
            return
        pointers = f.read(source.bits), f.write(target.bits)
        lists = (target.shape, source.strides, target.strides)
        shape, reads, writes = (tuple(map(f.number, sizes)) for sizes in lists)
        f.add(CopyElements(source.dtype.bytes, target.rank, shape, reads, writes, *pointers))
        f.finish(label)

    def _function(self, name: str, node: Node | None) -> FunctionWriter:
        """A step under construction."""
        return FunctionWriter(self._program, name, [] if node is None else [node])


def _few_planes(source: Tensor, target: Tensor) -> tuple[int, Dim, Dim] | None:
    """Channels, images and pixels where a copy makes planes of 4 bytes neighbours, for which there
    is a kernel that compiles faster than that of all copies.
    """
    if source.rank < 3 or source.dtype.bytes != 4:
        return None
    first, channel, *others = source.order
    channels = source.shape[channel]
    if not isinstance(channels, int) or not 2 <= channels <= 4:
        return None
    is_turned = target.order == (first, *others, channel)
    if not is_turned or not source.is_dense() or not target.is_dense():
        return None
    return channels, source.shape[first], dims.product(source.shape[axis] for axis in others)
