"""Gathers whose indices are known: what is read in order is not gathered, what is read everywhere
is read once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import require_addend, require_sum
from infuse.passes.rules.common import (
    RESHAPES,
    attribute,
    axes_of,
    data,
    is_one,
    require_float,
    require_own,
    require_shape,
    reshape_target,
    rounded,
    target_shape,
    wide,
)
from infuse.passes.rules.movement.views import View, dense, through
from infuse.rewrite import Rule, require

LONGEST = 1 << 16
"""Constant indices that are looked at."""
DEEPEST = 24
"""Operators of an index computation that are looked through."""
TABLE_LIMIT = 1 << 23
"""Bytes of the largest table of which a changed copy takes the place."""


def counted(value: Value, left: int = DEEPEST) -> View | None:
    """Integers that rise evenly along each axis: the first number, and each axis with its size and
    step; or None.
    """
    if value.const is not None:
        return (
            _written(value.const)
            if value.dtype.is_integer and 0 < value.const.size <= LONGEST
            else None
        )
    node = value.producer
    if (
        node is None
        or node.op.domain
        or not left
        or value.tensor.shape is None
        or not value.dtype.is_integer
    ):
        return None
    first = node.input(0)
    if first is None:
        return None
    if node.kind == "Range":
        numbers = [known_ints(node.input(i)) for i in (0, 2)]
        start, step = (n[0] if n else None for n in numbers)
        return (
            View(start, ((value.shape[0], step),))
            if isinstance(start, int) and isinstance(step, int)
            else None
        )
    if node.kind in ("Add", "Mul"):
        return (_sum if node.kind == "Add" else _scaled)(value, node, left)
    source = counted(first, left - 1)
    if source is None or (node.kind == "Cast" and first.dtype.is_integer):
        return source
    return through(node, value, source)


def _written(numbers: Array) -> View | None:
    """Constant numbers, if they rise evenly along each axis."""
    first = int(numbers.flat[0])
    steps = [
        int(numbers[(0,) * axis + (1,) + (0,) * (numbers.ndim - axis - 1)]) - first
        if size > 1
        else 0
        for axis, size in enumerate(numbers.shape)
    ]
    even = np.full(numbers.shape, first, np.int64)
    for axis, (size, step) in enumerate(zip(numbers.shape, steps)):
        even = even + (np.arange(size) * step).reshape(-1, *(1,) * (numbers.ndim - axis - 1))
    return View(first, tuple(zip(numbers.shape, steps))) if np.array_equal(even, numbers) else None


def _sum(value: Value, node: Node, left: int) -> View | None:
    parts = [counted(v, left - 1) for v in node.operands()]
    steps: list[Dim] = [0] * value.rank
    offset = 0
    for part in parts:
        if part is None:
            return None
        offset += part.offset
        for axis, (size, step) in enumerate(part.axes, value.rank - len(part.axes)):
            steps[axis] = steps[axis] + (0 if is_one(size) else step)
    return View(offset, tuple(zip(value.shape, steps)))


def _scaled(value: Value, node: Node, left: int) -> View | None:
    for x, factor in (node.inputs, node.inputs[::-1]):
        number = known_ints(factor)
        if x is None or number is None or len(number) != 1 or x.tensor.shape != value.shape:
            continue
        part = counted(x, left - 1)
        if part is None:
            return None
        offset = part.offset * number[0]
        if isinstance(offset, int):
            return View(offset, tuple((size, step * number[0]) for size, step in part.axes))
    return None


def is_everything(view: View, size: Dim) -> bool:
    """Whether these are all numbers from zero to before `size`, in order."""
    shape = [n for n, _ in view.axes]
    axes = dense(shape).axes
    even = all(is_one(n) or step == other for (n, step), (_, other) in zip(view.axes, axes))
    return view.offset == 0 and even and dims.product(shape) == size


def _steps(x: Value, count: int) -> list[Dim]:
    """How far the first `count` axes are apart, in steps of the last of them."""
    return [step for _, step in dense(x.shape[:count]).axes]


class RemoveGatherInOrder(Rule):
    """Gather(x, 0 … n - 1) and GatherND(x, all places in order) → Reshape(x)"""

    rows = ("G7", "G24")
    shares = True
    examples = (
        {
            "x": (2, 4),
            "i": Call(
                "Reshape", (Call("Range", (np.array(0), np.array(4), np.array(1))), int64s(2, 2))
            ),
        },
        {
            "x": (4, 3),
            "i": Call(
                "Reshape", (Call("Range", (np.array(0), np.array(4), np.array(1))), int64s(4, 1))
            ),
        },
        {"x": (2, 3, 2), "i": np.stack(np.meshgrid([0, 1], [0, 1, 2], indexing="ij"), -1)},
    )

    def match(self, x: Variable, i: Variable) -> Any:
        return [ops.gather(x, i), ops.gather_nd(x, i)]

    def when(self, x: Value, i: Value, root: Node) -> None:
        require_shape(x, i, root.output)
        require(not x.is_const, "it is computed beforehand")
        if root.kind == "Gather":
            view, size = counted(i), x.shape[attribute(root, "axis")]
        else:
            view, size = self._places(x, i, root)
        require(
            view is not None and is_everything(view, size), "it does not read everything in order"
        )
        self._source(x, root)

    def build(self, x: Value, root: Node) -> Any:
        source = self._source(x, root)
        same = source.shape == root.output.shape
        return (
            source if same else ops.reshape(source, reshape_target(source.shape, root.output.shape))
        )

    def _source(self, x: Value, root: Node) -> Value:
        """`x`, or what it is a Reshape of, whose shape can be changed into that of the result."""
        while target_shape(x.shape, root.output.shape) is None:
            node = x.producer
            require(node is not None and node.kind in RESHAPES, "two sizes change symbolically")
            assert node is not None
            assert node.inputs[0] is not None
            x = node.inputs[0]
            require_shape(x)
        return x

    def _places(self, x: Value, i: Value, root: Node) -> tuple[View | None, Dim]:
        """The tuples of indices as places in the axes that they name, and how many elements these
        have.
        """
        require(attribute(root, "batch_dims") == 0, "it gathers side by side")
        depth = i.shape[-1]
        require(isinstance(depth, int), "the indices are not known")
        assert isinstance(depth, int)
        columns = self._columns(i, depth)
        total: View | None = View(0, tuple((size, 0) for size in i.shape[:-1]))
        for column, step in zip(columns, _steps(x, depth)):
            total = None if column is None or total is None else self._plus(total, column, step)
        return total, dims.product(x.shape[:depth])

    def _columns(self, i: Value, depth: int) -> list[View | None]:
        """The indices of each axis, without the axis of tuples."""
        node = i.producer
        if i.const is not None:
            return (
                [_written(column) for column in np.moveaxis(i.const, -1, 0)]
                if 0 < i.const.size <= LONGEST
                else [None]
            )
        if depth == 1:
            parts = [counted(i)]
        else:
            joined = (
                node is not None
                and node.kind == "Concat"
                and attribute(node, "axis") in (-1, i.rank - 1)
            )
            require(joined, "the indices are not put side by side")
            assert node is not None
            parts = [counted(v) for v in node.operands()]
            require(len(parts) == depth, "the indices are not put side by side")
        return [None if part is None else View(part.offset, part.axes[:-1]) for part in parts]

    def _plus(self, total: View, column: View, step: Dim) -> View | None:
        offset = column.offset * step
        if not isinstance(offset, int):
            return None
        axes = tuple(
            (size, a + (0 if is_one(n) else b * step))
            for (size, a), (n, b) in zip(total.axes, column.axes)
        )
        return View(total.offset + offset, axes)


class GatherEqualElements(Rule):
    """GatherElements(x, i) of a constant whose elements are all the same → Expand(that element) to
    the shape of i
    """

    rows = ("G1", "G32")
    examples = ({"x": np.zeros(6, np.int64), "i": Ints((4,), 0, 6)},)

    def match(self, x: Variable, i: Variable) -> Any:
        return ops.gather_elements(ops.const(x), i)

    def when(self, x: Value) -> None:
        elements = data(x)
        require(
            elements.size > 0 and bool((elements == elements.flat[0]).all()), "the elements differ"
        )

    def build(self, x: Value, i: Value) -> Any:
        return ops.expand(data(x).reshape(-1)[:1].reshape(()), ops.shape(i))


class AddEqualRows(Rule):
    """y + Gather(table, Expand(i)), one index everywhere → y + table[i]"""

    rows = ("G1", "G32")
    examples = ({"y": (2, 3, 4), "t": (5, 4), "i": np.array([[2]]), "s": int64s(2, 3)},)

    def match(self, y: Variable, t: Variable, i: Variable, s: Variable) -> Any:
        return ops.gather(ops.const(t), ops.expand(ops.const(i), s, name="wide"), axis=0) + y

    def when(self, y: Value, t: Value, i: Value, root: Node) -> None:
        require_shape(y, root.output)
        require(data(i).size == 1, "the index varies")
        require(y.shape == root.output.shape, "the rows make the shape")
        require(t.rank >= 1, "the table has no rows")
        rows, place = data(t).shape[0], int(data(i).flat[0])
        require(-rows <= place < rows, "the index lies outside")

    def build(self, y: Value, t: Value, i: Value) -> Any:
        return y + data(t)[int(data(i).flat[0])]


class AddIntoTable(Rule):
    """Gather(table, i) + c, (x + c) + Gather(table, i) → the same with c added to each row of the
    table; Slice too
    """

    rows = ("G12", "G32")
    rounding = "the constant is added to another operand first"
    examples = (
        {"x": (2, 4), "t": (5, 4), "i": Ints((2,), 0, 5), "c": (4,)},
        {"x": (2, 4), "t": (5, 4), "cut": [int64s(1), int64s(3), int64s(0)], "c": (4,)},
    )

    def match(self, x: Variable, t: Variable, i: Variable, cut: Variable, c: Variable) -> Any:
        table = ops.const(t)
        reads = (
            ops.gather(table, i, axis=0, name="read"),
            ops.slice(table, ops.rest(cut), name="read"),
        )
        return [
            *(read + ops.const(c) for read in reads),
            *(read + (x + ops.const(c)) for read in reads),
        ]

    def when(self, t: Value, c: Value, read: Node, root: Node, x: Value | None = None) -> None:
        require_float(t, c)
        require_own(t)
        require(data(t).nbytes <= TABLE_LIMIT, "the table is large")
        require_shape(read.output, root.output)
        read_axes = [0] if read.kind == "Gather" else self._cut(t, read)
        shape = (1,) * (t.rank - c.rank) + data(c).shape
        require(len(shape) == t.rank and t.rank > 0, "the constant varies from place to place")
        require(
            all(shape[axis] == 1 for axis in read_axes), "the constant varies from place to place"
        )
        require(read.kind == "Slice" or c.rank < t.rank, "the constant varies from place to place")
        require(
            all(n in (1, m) for n, m in zip(shape, data(t).shape)),
            "the constant stretches the rows",
        )
        if x is not None:
            require_addend(wide(c), c.dtype)
            require_sum(wide(t), wide(c), c.dtype)

    def build(self, t: Value, c: Value, read: Node, x: Value | None = None) -> Any:
        result = Call(
            read.kind, (rounded(wide(t) + wide(c), t), *read.inputs[1:]), read.op.attributes()
        )
        return result if x is None else x + result

    def _cut(self, t: Value, read: Node) -> list[int]:
        """The axes that a Slice may cut."""
        return list(range(t.rank)) if read.input(3) is None else axes_of(read.input(3), t)


class SliceGatheredTable(Rule):
    """Gather(table, Slice(constant indices)) → Slice(table), its rows put in that order now"""

    rows = ("G1", "G24", "G32")
    examples = (
        {
            "t": (9, 4),
            "i": np.arange(6).reshape(1, 6),
            "n": Call("Shape", ((4,),)),
            "axes": int64s(1),
        },
    )

    def match(self, t: Variable, i: Variable, n: Variable, axes: Variable) -> Any:
        front = (ops.const(i), int64s(0), n, ops.const(axes))
        return [
            ops.gather(ops.const(t), ops.slice(*front, *step, name="cut"), axis=0)
            for step in ((int64s(1),), ())
        ]

    def when(self, t: Value, i: Value, axes: Value, cut: Node) -> None:
        require(t.rank >= 1 and axes.tensor.shape == (1,), "it cuts several axes")
        require(cut.output.tensor.shape is not None, "the shape is not known")
        rows = data(t).shape[0]
        require(rows > 0, "there are no rows")
        require(bool(((data(i) >= -rows) & (data(i) < rows)).all()), "an index lies outside")
        size = data(i).size * data(t).nbytes // rows
        require(size <= min(TABLE_LIMIT, data(t).nbytes), "the table would grow")

    def build(self, t: Value, i: Value, n: Value, axes: Value) -> Any:
        axis = int(data(axes)[0]) % i.rank
        return ops.slice(data(t)[data(i)], int64s(0), n, int64s(axis), int64s(1))


RULES = (RemoveGatherInOrder, GatherEqualElements, AddEqualRows, AddIntoTable, SliceGatheredTable)
