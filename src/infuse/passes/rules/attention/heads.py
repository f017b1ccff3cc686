"""Attention over rows of all heads side by side: no Reshape and no Transpose before and after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import ops
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import data, is_one, permutation, require_shape, reshape_target
from infuse.passes.rules.movement.views import View, views
from infuse.rewrite import Rule, require

MOVED_LIMIT = 1 << 26
"""Bytes of the largest weights whose columns are put in another order."""


class Rows(Immutable):
    """Heads (batch, heads, length, size) found as columns of a matrix: `width` of them, from
    `start` on `count`.

    Its rows run over batch and length, or over length and batch where `turned`. Heads follow one
    another at once, or one each `step` columns where the columns of other operands lie between.
    """

    source: Value
    batch: Dim
    length: Dim
    width: int
    start: int
    count: int
    turned: bool
    size: int
    step: int

    @property
    def places(self) -> list[int]:
        """Its columns in order."""
        heads = range(self.count // self.size)
        return [self.start + head * self.step + i for head in heads for i in range(self.size)]

    @property
    def is_scattered(self) -> bool:
        return self.step != self.size

    @property
    def shape(self) -> tuple[Dim, Dim, int]:
        """The shape in which its rows lie."""
        return (
            (self.length, self.batch, self.width)
            if self.turned
            else (self.batch, self.length, self.width)
        )

    @property
    def cost(self) -> int:
        """Operators from the source to these columns."""
        return (self.source.shape != self.shape) + self.turned + (self.count != self.width)

    @property
    def matrix(self) -> tuple[Value, bool, int]:
        """What it has in common with other columns of the same rows."""
        return self.source, self.turned, self.width

    def whole(self) -> Any:
        """All columns as (batch, length, width)."""
        x: Any = self.source
        if x.shape != self.shape:
            x = ops.reshape(x, reshape_target(x.shape, self.shape))
        return ops.transpose(x, perm=(1, 0, 2)) if self.turned else x


def find_rows(heads: Value) -> Rows | None:
    """The columns that a value (batch, heads, length, size) consists of, None where it does not.

    Of all values on the way the one is taken that leaves the fewest operators, its own and those
    above it.
    """
    if heads.tensor.shape is None or heads.rank != 4:
        return None
    _, count, _, size = heads.shape
    if not isinstance(count, int) or not isinstance(size, int) or count * size == 0:
        return None
    seen = [_rows(heads, source, view) for source, view in views(heads)]
    strips = [
        (rows.cost - depth, depth, rows) for depth, rows in enumerate(seen) if rows is not None
    ]
    return min(strips, key=lambda each: each[:2])[2] if strips else None


def _rows(heads: Value, source: Value, view: View) -> Rows | None:
    batch, count, length, size = heads.shape
    assert isinstance(count, int)
    assert isinstance(size, int)
    steps = [None if is_one(n) else step for n, step in view.axes]
    width = dims.exact_divide(dims.product(source.shape), batch * length)
    step = size if steps[1] is None else steps[1]
    if (
        not isinstance(width, int)
        or not isinstance(step, int)
        or step < size
        or steps[3] not in (None, 1)
    ):
        return None
    if view.offset + (count - 1) * step + size > width or (
        step != size and _product(source) is None
    ):
        return None
    for turned in (False, True):
        strides = (width, batch * width) if turned else (length * width, width)
        if steps[0] in (None, strides[0]) and steps[2] in (None, strides[1]):
            return Rows(source, batch, length, width, view.offset, count * size, turned, size, step)
    return None


def _product(source: Value) -> tuple[Value, Value, Value | None] | None:
    """x, w and b where `source` is x · w + b for one reader, w and b constant and not huge; None
    where it is not.
    """
    node, bias = source.producer, None
    if node is not None and node.kind == "Add" and not node.op.domain:
        constants = [v for v in node.operands() if v.is_const]
        others = [v for v in node.operands() if not v.is_const]
        if (
            len(constants) != 1
            or constants[0].shape != source.shape[-1:]
            or len(others[0].uses) != 1
        ):
            return None
        bias, node = constants[0], others[0].producer
    if node is None or node.kind != "MatMul" or node.op.domain or len(source.uses) != 1:
        return None
    x, weights = node.inputs
    if x is None or weights is None or not weights.is_const or weights.rank != 2:
        return None
    if weights.shape[1] != source.shape[-1]:
        return None
    return (
        (x, weights, bias)
        if data(weights).nbytes <= MOVED_LIMIT and len(weights.uses) == 1
        else None
    )


def gathered(operands: Sequence[Rows]) -> list[Any] | None:
    """Columns that lie scattered, from one product whose weights are put in another order; None
    where some are left.
    """
    order = [place for rows in operands for place in rows.places]
    product = _product(operands[0].source)
    one = all(rows.matrix == operands[0].matrix for rows in operands)
    if product is None or not one or sorted(order) != list(range(operands[0].width)):
        return None
    x, weights, bias = product
    result = ops.matmul(x, data(weights)[:, order])
    result = result if bias is None else result + data(bias)[order]
    if operands[0].source.shape != operands[0].shape:
        result = ops.reshape(result, reshape_target(operands[0].source.shape, operands[0].shape))
    if operands[0].turned:
        result = ops.transpose(result, perm=(1, 0, 2))
    split = ops.split(result, int64s(*(rows.count for rows in operands)), axis=2)
    return [split[index] for index in range(len(operands))]


def columns(operands: Sequence[Rows]) -> list[Any]:
    """An expression (batch, length, count) for each; columns of one matrix come from one Split."""
    if any(rows.is_scattered for rows in operands):
        return gathered(operands) or []
    parts: dict[tuple[Value, bool, int], set[tuple[int, int]]] = {}
    for rows in operands:
        parts.setdefault(rows.matrix, set()).add((rows.start, rows.count))
    wholes = {matrix: next(r for r in operands if r.matrix == matrix).whole() for matrix in parts}
    splits = {
        matrix: _split(wholes[matrix], matrix[2], sorted(ranges))
        for matrix, ranges in parts.items()
    }
    return [splits[rows.matrix][rows.start, rows.count] for rows in operands]


def _split(whole: Any, width: int, ranges: list[tuple[int, int]]) -> dict[tuple[int, int], Any]:
    """Each range of the columns of `whole`."""
    if ranges == [(0, width)]:
        return {ranges[0]: whole}
    ends = [0, *(start + count for start, count in ranges)]
    if [start for start, _ in ranges] == ends[:-1] and ends[-1] == width:
        split = ops.split(whole, int64s(*(count for _, count in ranges)), axis=2)
        return {part: split[index] for index, part in enumerate(ranges)}
    axis, step = int64s(2), int64s(1)
    return {(a, n): ops.slice(whole, int64s(a), int64s(a + n), axis, step) for a, n in ranges}


def _interleaved(bias: bool) -> list[Call]:
    """Heads of queries, keys and values in turn, from one product."""
    rows: Any = Call("MatMul", ((2, 5, 4), np.linspace(-1, 1, 96, dtype=np.float32).reshape(4, 24)))
    rows = Call("Add", (rows, np.linspace(-1, 1, 24, dtype=np.float32))) if bias else rows
    heads = Call(
        "Transpose", (Call("Reshape", (rows, int64s(2, 5, 2, 12))),), {"perm": (0, 2, 1, 3)}
    )
    split = Call("Split", (heads, int64s(4, 4, 4)), {"axis": 3})
    return [split, split[1], split[2]]


class FlattenAttention(Rule):
    """Transpose(Attention(heads of q, k, v)) → Reshape(Attention(rows of q, k, v)), which splits
    into heads itself

    The heads may come through Reshape, Transpose, Split, Slice and Gather from rows of q, k and v
    side by side, and may be turned by RotaryEmbedding on the way.
    """

    level = "extended"
    rows = ("G33",)
    rounding = "the same, in another order in memory"
    examples = tuple(
        {
            "operands": [
                Call("Transpose", (Call("Reshape", (x, int64s(*s))),), {"perm": (0, 2, 1, 3)})
                for x, s in xs
            ],
            "moved": {"perm": (0, 2, 1, 3)},
        }
        for xs in (
            (((2, 5, 12), (2, 5, 3, 4)), ((2, 6, 12), (2, 6, 3, 4)), ((2, 6, 9), (2, 6, 3, 3))),
            (((4, 5, 12), (4, 5, 3, 4)),) * 3,
        )
    ) + tuple(
        {"operands": _interleaved(bias), "moved": {"perm": (0, 2, 1, 3)}} for bias in (False, True)
    )

    def match(self, operands: Variable) -> Any:
        return ops.transpose(
            Call("Attention", (ops.rest(operands),), label="attention"), name="moved"
        )

    def when(self, operands: tuple[Value | None, ...], attention: Node, moved: Node) -> list[Rows]:
        rows = self._rows(operands)
        self._shape(attention)
        require_shape(moved.output)
        perm = [p for p in permutation(moved) if not is_one(attention.output.shape[p])]
        require(
            [p for p in perm if p in (1, 3)] in ([1, 3], [1], [3], []),
            "the elements of a head are mixed",
        )
        require(self._order(attention, moved) is not None, "heads do not come to lie side by side")
        return rows

    def build(
        self,
        operands: tuple[Value | None, ...],
        attention: Node,
        moved: Node,
        analysis: list[Rows],
    ) -> Any:
        flat = _turned(operands, columns(analysis))
        q, k = operands[0], operands[1]
        assert q is not None
        assert k is not None
        heads = {"q_num_heads": q.shape[1], "kv_num_heads": k.shape[1]}
        call: Any = Call(
            "Attention", (*flat, *operands[3:]), {**attention.op.attributes(), **heads}
        )
        shape = self._shape(attention)
        order = self._order(attention, moved)
        if order == (1, 0, 2):
            call, shape = ops.transpose(call, perm=order), (shape[1], shape[0], shape[2])
        return ops.reshape(call, reshape_target(shape, moved.output.shape))

    def _rows(self, operands: tuple[Value | None, ...]) -> list[Rows]:
        found = []
        for heads in operands[:3]:
            assert heads is not None
            require_shape(heads)
            require(heads.rank == 4, "heads are side by side already")
            rows = find_rows(_unturned(heads))
            require(rows is not None, f"{heads.name!r} is not cut from rows of all heads")
            assert rows is not None
            found.append(rows)
        scattered = any(rows.is_scattered for rows in found)
        require(
            not scattered or gathered(found) is not None, "the columns of the heads lie scattered"
        )
        return found

    def _shape(self, attention: Node) -> tuple[Dim, Dim, Dim]:
        """The shape of the rows of all heads."""
        batch, heads, length, size = attention.output.shape
        require(isinstance(size, int) and isinstance(heads, int), "the heads are not known")
        return batch, length, heads * size

    def _order(self, attention: Node, moved: Node) -> tuple[int, ...] | None:
        """The order of batch, length and columns in the result; None where it mixes them."""
        shape = attention.output.shape
        perm = [p for p in permutation(moved) if not is_one(shape[p])]
        for order, expected in (((0, 1, 2), (0, 2, 1, 3)), ((1, 0, 2), (2, 0, 1, 3))):
            if perm == [p for p in expected if not is_one(shape[p])]:
                return order
        return None


def _unturned(heads: Value) -> Value:
    """What RotaryEmbedding turns, or the heads themselves."""
    turn = _rotary(heads)
    source = heads if turn is None else turn.inputs[0]
    assert source is not None
    return source


def _rotary(heads: Value) -> Node | None:
    node = heads.producer
    return (
        node if node is not None and node.kind == "RotaryEmbedding" and not node.op.domain else None
    )


def _turned(operands: Sequence[Value | None], flat: list[Any]) -> list[Any]:
    """The rows of all heads, turned as the heads were."""
    result = []
    for heads, rows in zip(operands, flat):
        assert heads is not None
        turn = _rotary(heads)
        if turn is not None:
            attributes = {**turn.op.attributes(), "num_heads": heads.shape[1]}
            rows = Call("RotaryEmbedding", (rows, *turn.inputs[1:]), attributes)
        result.append(rows)
    return result


class ShareHeads(Rule):
    """Attention(q, each head of k repeated, each head of v repeated) → Attention(q, k, v), which
    shares them itself
    """

    level = "extended"
    rows = ("G33",)
    rounding = "the same, in another order in memory"
    examples = tuple(
        {
            "q": (2, 6, 5, 4),
            "k": (2, 3, 1, 7, 4),
            "v": (2, 3, 1, 7, 4),
            "more": more,
            "wide": int64s(2, 3, 2, 7, 4),
            "k_shape": int64s(2, 6, 7, 4),
            "v_shape": int64s(2, 6, 7, 4),
        }
        for more in ([], [(5, 7)])
    )

    def match(
        self,
        q: Variable,
        k: Variable,
        v: Variable,
        wide: Variable,
        k_shape: Variable,
        v_shape: Variable,
        more: Variable,
    ) -> Any:
        keys, values = (
            ops.reshape(ops.expand(k, wide), k_shape),
            ops.reshape(ops.expand(v, wide), v_shape),
        )
        return Call("Attention", (q, keys, values, ops.rest(more)))

    def when(self, k: Value, v: Value, root: Node, more: tuple[Value | None, ...]) -> None:
        require(all(x is None for x in more[1:]), "it has a past")
        for heads, operand in zip((k, v), root.inputs[1:]):
            assert operand is not None
            repeated = operand.producer.inputs[0] if operand.producer is not None else None
            assert repeated is not None
            require_shape(heads, operand, repeated)
            own, shape = heads.shape, repeated.shape
            fits = len(own) == 5 and is_one(own[2]) and shape == (*own[:2], shape[2], *own[3:])
            require(
                fits and operand.shape == (own[0], own[1] * shape[2], *own[3:]),
                "other axes are repeated",
            )

    def build(self, q: Value, k: Value, v: Value, root: Node) -> Any:
        apart = [ops.squeeze(heads, int64s(2)) for heads in (k, v)]
        return Call("Attention", (q, *apart, *root.inputs[3:]), root.op.attributes())


RULES = (ShareHeads, FlattenAttention)
