"""Rotary position embedding recognised from its parts, pairs being halves apart or neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.samples import Floats
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.attention.rotary_tables import half_table
from infuse.passes.rules.common import attribute, is_one, require_float, require_shape
from infuse.passes.rules.movement.views import View, dense, views
from infuse.rewrite import Refusal, Rule, require


def size_of(size: Dim, graph: Graph | None, like: Value, axis: int) -> Any:
    """One size as a tensor of one element: a number, or read from an input of the model, so that
    equal ones are one.

    Where no input has it, it is read from axis `axis` of `like`.
    """
    if isinstance(size, int):
        return int64s(size)
    while graph is not None and graph.parent is not None:
        graph = graph.parent.graph
    for value in graph.inputs if graph is not None else ():
        shape = getattr(value.type, "shape", None) or ()
        if size in shape:
            like, axis = value, shape.index(size)
            break
    return ops.shape(like, start=axis, end=axis + 1)


# -- the pattern -----------------------------------------------------------------------------------


def are_halves(x: Value, a: Value, b: Value, neighbours: bool) -> bool:
    """Whether `a` and `b` are the first and the second half of the last axis of `x`, or its even
    and odd places.
    """
    size = x.shape[-1]
    if not isinstance(size, int) or size % 2 or size == 0:
        return False
    seen = {id(source): view for source, view in views(x)}
    step, jump = (2, 1) if neighbours else (1, size // 2)
    return all(_has_part(part, seen, size // 2, step, jump * i) for i, part in enumerate((a, b)))


def _has_part(part: Value, seen: Mapping[int, View], count: int, step: int, start: int) -> bool:
    for source, view in views(part):
        whole = seen.get(id(source))
        if whole is None:
            continue
        own = whole.axes[-1][1]
        last: tuple[Dim, Dim] = (count, own * step)
        same = view.axes[:-1] == whole.axes[:-1] and (
            view.axes[-1] == last or (count == 1 and view.axes[-1][0] == 1)
        )
        return same and view.offset == whole.offset + start * own
    return False


_LAST = {"joined": {"axis": -1}, "stacked": {"axis": -1}}


def _example(
    x: tuple[int, ...], table: tuple[int, ...], neighbours: bool, kind: str = "Unsqueeze"
) -> dict[str, Any]:
    """Operands that the pattern fits on, one table repeated and one constant."""
    whole = Call("Relu", (x,))
    half = table[-1] // 2
    single = Call("Sin", (Floats((*table[:-1], half), 0, 3),))
    if neighbours:
        wide = Call("Expand", (Call("Unsqueeze", (single, int64s(4))), int64s(1, 1, 1, 1, 2)))
        cos: Any = Call("Reshape", (wide, int64s(*table)))
        cut = ((0, 99, 3, 2), (1, 99, 3, 2))
    else:
        cos = Call("Concat", (single, single), {"axis": -1})
        cut = ((0, x[-1] // 2, 3, 1), (x[-1] // 2, 99, 3, 1))
    a, b = (Call("Slice", (whole, *(int64s(n) for n in place))) for place in cut)
    s = int64s(-1) if kind == "Unsqueeze" else int64s(*x[:-1], x[-1] // 2, 1)
    return {
        "x": whole,
        "cos": cos,
        "sin": cos,
        "a": a,
        "b": b,
        "s": [s],
        "t": [int64s(*x)],
        **_LAST,
    }


class RotaryRule(Rule):
    """Pairs of elements turned by cosines and sines → RotaryEmbedding."""

    level = "extended"
    rows = ("G33",)
    rounding = "products are added in another order"
    tables_of = 1
    """How many elements of a head share one of a table."""

    def _rotary(self, x: Value, cos: Value, sin: Value, root: Node, stacked: Node | None) -> Any:
        """The operator, on tables of half the size."""
        axis = self._length_axis(x, cos, sin)
        tables = [self._table(x, table, axis, stacked is not None, root) for table in (cos, sin)]
        attributes = {"interleaved": int(stacked is not None)}
        if axis == 2:
            return Call("RotaryEmbedding", (x, *tables), attributes)
        return _over_rows(x, x.shape, tables, attributes)

    def _length_axis(self, x: Value, cos: Value, sin: Value) -> int:
        """Which axis the tables run along; Refusal when it cannot be the length."""
        require(
            cos.shape == sin.shape and cos.rank in (3, 4),
            "the tables do not have the axes of what is turned",
        )
        shape = (1,) * (4 - cos.rank) + cos.shape
        require(
            shape[3] * self.tables_of == x.shape[3]
            and (shape[0] == x.shape[0] or is_one(shape[0])),
            "the tables are stretched",
        )
        for axis, heads in ((2, 1), (1, 2)):
            if (
                is_one(shape[heads])
                and shape[axis] == x.shape[axis]
                and isinstance(x.shape[heads], int)
            ):
                unambiguous = axis == 2 or all(isinstance(n, int) and n > 0 for n in x.shape[2:])
                require(unambiguous, "the heads are not known")
                return axis
        raise Refusal("the tables do not run along the length")

    def _half(self, table: Value, neighbours: bool) -> Any:
        """The part of a table that the operator takes."""
        raise NotImplementedError

    def _table(self, x: Value, table: Value, axis: int, neighbours: bool, root: Node) -> Any:
        half = self._half(table, neighbours)
        if table.rank == 4:
            half = ops.squeeze(half, int64s(3 - axis))
            if table.shape[0] == x.shape[0]:
                return half
        elif axis == 1:
            half = ops.unsqueeze(ops.squeeze(half, int64s(1)), int64s(0))
        elif is_one(x.shape[0]):
            return half
        batch = size_of(x.shape[0], root.graph, x, 0)
        wide = (
            np.append(batch, [1, 1])
            if isinstance(batch, np.ndarray)
            else ops.concat(batch, int64s(1, 1), axis=0)
        )
        return ops.expand(half, wide)


class FuseRotaryEmbedding(RotaryRule):
    """x · cos + (-b next to a) · sin, a and b the halves of x (or its even and odd places) →
    RotaryEmbedding(x)
    """

    examples = (
        *(
            _example((2, 3, 5, 4), (n, 1, 5, 4), neighbours)
            for n in (1, 2)
            for neighbours in (False, True)
        ),
        *(_example((2, 5, 3, 4), (1, 5, 1, 4), neighbours) for neighbours in (False, True)),
        *(
            _example((2, *x), (1, *table), False)
            for x, table in (((3, 5, 4), (5, 4)), ((5, 3, 4), (5, 1, 4)))
        ),
        _example((2, 3, 5, 4), (1, 1, 5, 4), True, "Reshape"),
    )

    def match(
        self,
        x: Variable,
        cos: Variable,
        sin: Variable,
        a: Variable,
        b: Variable,
        s: Variable,
        t: Variable,
    ) -> Any:
        halves = ops.concat(-b, a, name="joined")
        columns = [
            [Call(kind, (part, ops.rest(s))) for part in (-b, a)]
            for kind in ("Unsqueeze", "Reshape")
        ]
        neighbours = [
            ops.reshape(ops.concat(*pair, name="stacked"), ops.rest(t)) for pair in columns
        ]
        return [x * cos + turned * sin for turned in (halves, *neighbours)]

    def when(
        self,
        x: Value,
        a: Value,
        b: Value,
        cos: Value,
        sin: Value,
        root: Node,
        joined: Node | None = None,
        stacked: Node | None = None,
    ) -> None:
        require_float(x)
        require_shape(x, a, b, cos, sin, root.output)
        require(
            x.rank == 4 and x.shape == root.output.shape,
            "it does not turn (batch, heads, length, size)",
        )
        made = joined or stacked
        assert made is not None
        require(
            attribute(made, "axis") in (-1, made.output.rank - 1),
            "the parts are not joined along the last axis",
        )
        require(
            are_halves(x, a, b, stacked is not None), "the parts are not halves of what is turned"
        )
        stack = (*a.shape, 2)
        require(
            stacked is None or stacked.output.tensor.shape == stack,
            "the parts are not joined in pairs",
        )
        self._length_axis(x, cos, sin)
        for table in (cos, sin):
            require(
                half_table(table, stacked is not None) is not None,
                "the table holds other angles for both halves",
            )

    def build(
        self, x: Value, cos: Value, sin: Value, root: Node, stacked: Node | None = None
    ) -> Any:
        return self._rotary(x, cos, sin, root, stacked)

    def _half(self, table: Value, neighbours: bool) -> Any:
        return half_table(table, neighbours)


def _over_rows(x: Any, shape: Shape, tables: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """RotaryEmbedding of (batch, length, heads, size)."""
    heads, size = (int(n) for n in shape[2:] if isinstance(n, int))
    rows = ops.reshape(x, int64s(0, 0, heads * size))
    turned = Call("RotaryEmbedding", (rows, *tables), {**attributes, "num_heads": heads})
    return ops.reshape(turned, int64s(0, 0, heads, size))


_PARTS = Call("Split", ((2, 3, 5, 6), int64s(4, 2)), {"axis": 3})
_MORE = Call("Split", ((2, 3, 5, 8), int64s(1, 4, 2, 1)), {"axis": 3})
_ROWS = Call("Split", ((2, 5, 3, 6), int64s(4, 2)), {"axis": 3})
_ANGLES = {"cos": (2, 5, 2), "sin": (2, 5, 2), "root": {"axis": 3}}


class FusePartialRotaryEmbedding(Rule):
    """Concat(RotaryEmbedding(first channels of x), the others) → RotaryEmbedding(x) with
    rotary_embedding_dim
    """

    level = "extended"
    rows = ("G33",)
    rounding = "the same, in another order in memory"
    examples = (
        {"x": _PARTS, "rest": _PARTS[1], **_ANGLES},
        {"x": _MORE[1], "rest": _MORE[2], **_ANGLES},
        {
            "x": _ROWS,
            "rest": _ROWS[1],
            "s": int64s(2, 5, 12),
            "t": int64s(2, 5, 3, 4),
            "turn": {"num_heads": 3},
        }
        | _ANGLES,
    )

    def match(
        self, x: Variable, cos: Variable, sin: Variable, rest: Variable, s: Variable, t: Variable
    ) -> Any:
        heads = Call("RotaryEmbedding", (x, cos, sin), label="turn")
        rows = Call("RotaryEmbedding", (ops.reshape(x, s), cos, sin), label="turn")
        return [ops.concat(heads, rest), ops.concat(ops.reshape(rows, t), rest)]

    def when(self, x: Value, rest: Value, turn: Node, root: Node, t: Value | None = None) -> None:
        require_shape(x, rest, root.output)
        require(attribute(root, "axis") in (-1, 3) and x.rank == 4, "other axes are joined")
        require(attribute(turn, "rotary_embedding_dim") == 0, "it turns a part already")
        if t is not None:
            joined = root.inputs[0]
            assert joined is not None
            require(joined.tensor.shape == x.shape, "the heads are arranged anew")
            require(attribute(turn, "num_heads") == x.shape[2], "the heads are arranged anew")
            require(
                all(isinstance(n, int) for n in (*x.shape[2:], rest.shape[3])),
                "the heads are not known",
            )
        self._whole(x, rest, root)

    def build(
        self,
        x: Value,
        rest: Value,
        cos: Value,
        sin: Value,
        turn: Node,
        root: Node,
        t: Value | None = None,
    ) -> Any:
        attributes = {
            "interleaved": attribute(turn, "interleaved"),
            "rotary_embedding_dim": x.shape[3],
        }
        whole = self._whole(x, rest, root)
        if t is None:
            return Call("RotaryEmbedding", (whole, cos, sin), attributes)
        return _over_rows(whole, root.output.shape, (cos, sin), attributes)

    def _whole(self, x: Value, rest: Value, root: Node) -> Any:
        """What both are cut from, one after the other."""
        parts = {id(source): view for source, view in views(rest)}
        shape = root.output.shape
        for source, view in views(x):
            other, count = parts.get(id(source)), x.shape[3]
            if other is None or source.shape[:-1] != shape[:-1]:
                continue
            follows = isinstance(count, int) and other.offset == view.offset + count
            steps = [step for _, step in dense(source.shape).axes]
            even = all(_steps_are(v, steps) for v in (view, other))
            require(follows and even, "the parts do not lie side by side")
            if source.shape == shape:
                require(view.offset == 0, "the parts do not lie side by side")
                return source
            total, width = shape[3], source.shape[3]
            fits = (
                isinstance(total, int) and isinstance(width, int) and view.offset + total <= width
            )
            require(fits, "the parts do not lie side by side")
            end = view.offset + sum(n for n in shape[3:] if isinstance(n, int))
            return ops.slice(source, int64s(view.offset), int64s(end), int64s(3), int64s(1))
        raise Refusal("the parts do not come from one value")


def _steps_are(view: View, steps: Sequence[Dim]) -> bool:
    return all(is_one(size) or own == step for (size, own), step in zip(view.axes, steps))


RULES = (FuseRotaryEmbedding, FusePartialRotaryEmbedding)
