"""Rotary position embedding whose two halves are computed apart."""

from __future__ import annotations

from typing import Any

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.samples import Floats
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.attention.rotary import RotaryRule, are_halves
from infuse.passes.rules.common import attribute, require_float, require_shape
from infuse.passes.rules.movement.views import views
from infuse.rewrite import Refusal, require


def _example(
    x: tuple[int, ...], table: tuple[int, ...], neighbours: bool, kind: str = "Reshape"
) -> dict[str, Any]:
    """Operands on which the pattern fits: the parts of one value, and tables of half its size."""
    whole = Call("Relu", (x,))
    half = x[-1] // 2
    cut = ((0, 99, 3, 2), (1, 99, 3, 2)) if neighbours else ((0, half, 3, 1), (half, 99, 3, 1))
    a, b = (Call("Slice", (whole, *(int64s(n) for n in place))) for place in cut)
    angles = Call("Sin", (Floats(table, 0, 3),))
    pairs = [int64s(*x[:-1], half, 1) if kind == "Reshape" else int64s(-1)]
    labels = {"joined": {"axis": -1}, "stacked": {"axis": -1}}
    return {"a": a, "b": b, "cos": angles, "sin": angles, "s": pairs, "t": [int64s(*x)], **labels}


class FuseRotaryHalves(RotaryRule):
    """a · cos - b · sin next to b · cos + a · sin, a and b the halves of x (or its even and odd
    places) → RotaryEmbedding(x)
    """

    examples = tuple(
        _example(x, table, neighbours, kind)
        for neighbours, kind in ((False, "Reshape"), (True, "Reshape"), (True, "Unsqueeze"))
        for x, table in (
            ((2, 3, 5, 4), (2, 1, 5, 2)),
            ((2, 3, 5, 4), (1, 1, 5, 2)),
            ((2, 5, 3, 4), (1, 5, 1, 2)),
        )
    )
    tables_of = 2

    def match(
        self, a: Variable, b: Variable, cos: Variable, sin: Variable, s: Variable, t: Variable
    ) -> Any:
        parts = a * cos - b * sin, b * cos + a * sin
        stacked = [
            ops.concat(*(Call(kind, (part, ops.rest(s))) for part in parts), name="stacked")
            for kind in ("Reshape", "Unsqueeze")
        ]
        return [
            ops.concat(*parts, name="joined"),
            *(ops.reshape(pairs, ops.rest(t)) for pairs in stacked),
        ]

    def when(
        self,
        a: Value,
        b: Value,
        cos: Value,
        sin: Value,
        root: Node,
        joined: Node | None = None,
        stacked: Node | None = None,
    ) -> None:
        require_float(a)
        require_shape(a, b, cos, sin, root.output)
        require(root.output.rank == 4, "it does not turn (batch, heads, length, size)")
        made = joined or stacked
        assert made is not None
        require(
            attribute(made, "axis") in (-1, made.output.rank - 1),
            "the parts are not joined along the last axis",
        )
        require(
            stacked is None or stacked.output.tensor.shape == (*a.shape, 2),
            "the parts are not joined in pairs",
        )
        self._length_axis(self._whole(a, b, root, stacked), cos, sin)

    def build(
        self,
        a: Value,
        b: Value,
        cos: Value,
        sin: Value,
        root: Node,
        stacked: Node | None = None,
    ) -> Any:
        return self._rotary(self._whole(a, b, root, stacked), cos, sin, root, stacked)

    def _half(self, table: Value, neighbours: bool) -> Any:
        return table

    def _whole(self, a: Value, b: Value, root: Node, stacked: Node | None) -> Value:
        """What both are parts of."""
        for source, _ in views(a):
            if source.shape == root.output.shape and are_halves(source, a, b, stacked is not None):
                return source
        raise Refusal("the parts are not halves of one value")


RULES = (FuseRotaryHalves,)
