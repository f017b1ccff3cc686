"""Work on rows of a constant table, and on a parameter that is repeated for each image: done
once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.axes import Axes
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.attention.rotary import size_of
from infuse.passes.rules.common import (
    BINARY,
    FUNCTIONS,
    attribute,
    data,
    is_one,
    require_float,
    require_own,
    require_shape,
)
from infuse.passes.rules.movement.exchange import require_axes, with_axes
from infuse.passes.rules.movement.gathering import TABLE_LIMIT
from infuse.rewrite import Patch, Rule, require


class ComputeInTable(Rule):
    """f(Gather(table, i)) → Gather(f(table), i) for a constant table that nobody else reads:
    functions, arithmetic with a constant, products with weights
    """

    rows = ("G1", "G12")
    rounding = "the same operators, computed before the model runs"
    examples = (
        {"t": (5, 4), "i": Ints((2,), 0, 5), "c": (4,), "w": (4, 3), "root": {"to": 1}},
        {"t": (5, 4), "i": Ints((2,), 0, 5), "c": np.float32(2), "w": (4, 3)},
    )

    def match(self, t: Variable, i: Variable, c: Variable, w: Variable) -> Any:
        read = ops.gather(ops.const(t), i, axis=0, name="read")
        constant = ops.const(c)
        return [
            *(Call(kind, (read,)) for kind in (*FUNCTIONS, "Cast")),
            *(Call(kind, (read, constant)) for kind in BINARY if kind != "Add"),
            *(Call(kind, (constant, read)) for kind in ("Sub", "Div")),
            ops.matmul(read, ops.const(w)),
        ]

    def when(
        self, t: Value, i: Value, root: Node, c: Value | None = None, w: Value | None = None
    ) -> None:
        require_float(t)
        require_own(t)
        require_shape(i, root.output)
        require(len(t.uses) == 1, "the table is also read elsewhere")
        require(not i.is_const, "the rows are known, and computed anyway")
        require(data(t).nbytes <= TABLE_LIMIT, "the table is large")
        require(t.rank >= 1, "the table has no rows")
        require(root.output.dtype.bits <= t.dtype.bits, "the table would grow")
        if c is not None:
            require(c.rank < t.rank or c.tensor.size == 1, "the constant varies from row to row")
            sizes = zip(c.shape[::-1], t.shape[::-1])
            require(all(n in (1, m) for n, m in sizes), "the constant stretches the rows")
            require(c.rank <= t.rank, "the constant stretches the rows")
        if w is not None:
            require(t.rank == 2 and w.rank == 2, "the operands are not matrices")
            require(i.rank >= 1, "one row is read")
            require(data(w).shape[1] <= data(w).shape[0], "the table would grow")

    def build(self, t: Value, i: Value, read: Node, root: Node) -> Any:
        args = tuple(t if v is read.output else v for v in root.inputs)
        made = Call(root.kind, args, root.op.attributes())
        return Call("Gather", (made, i), {"axis": attribute(read, "axis")})


class ComputeBeforeExpand(Rule):
    """f(Expand(x), weights) → Expand(f(x, weights)), where f computes each repeated place from one
    of x
    """

    level = "extended"
    rows = ("G24", "G25")
    reads = ("Expand",)
    rounding = "fewer rows are multiplied at once"
    examples = tuple(
        {"xs": [Call("Expand", ((1, 3, 4), s)), *more]}
        for s in (int64s(5, 3, 4), int64s(5, 1, 1))
        for more in (
            [np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)],
            [np.ones(4, np.float32)],
            [],
        )
    )

    def match(self, xs: Variable) -> Any:
        kinds = ("MatMul", "LayerNormalization", "RMSNormalization", "Softmax")
        return [Call(kind, (ops.rest(xs),)) for kind in kinds]

    def when(self, root: Node) -> None:
        require_shape(root.output)
        _, axes, repeated = self._parts(root)
        require(repeated, "it repeats nothing")
        require(not axes.mixed & {axes.operands[0][at] for at in repeated}, "places are mixed")  # type: ignore[index]

    def build(self, patch: Patch, root: Node) -> Any:
        x, axes, repeated = self._parts(root)
        result = with_axes(root, [x, *root.inputs[1:]], axes)
        order = axes.operands[0]
        assert order is not None
        places = {axes.result.index(order[at]): at for at in repeated}
        wide = root.inputs[0]
        assert wide is not None
        sizes = [
            size_of(wide.shape[places[axis]], patch.graph, wide, places[axis])
            if axis in places
            else int64s(1)
            for axis in range(root.output.rank)
        ]
        if all(isinstance(size, np.ndarray) for size in sizes):
            return ops.expand(result, np.concatenate(sizes))
        return ops.expand(result, ops.concat(*sizes, axis=0))

    def _parts(self, root: Node) -> tuple[Value, Axes, list[int]]:
        """What is repeated, the axes of the work, and the axes along which it is repeated."""
        wide = root.inputs[0]
        node = None if wide is None else wide.producer
        expands = node is not None and node.kind == "Expand" and not node.op.domain
        require(expands and len(wide.uses) == 1, "nothing is repeated for it alone")  # type: ignore[union-attr]
        assert node is not None
        assert wide is not None
        x = node.inputs[0]
        assert x is not None
        require_shape(x, wide)
        require(x.rank == wide.rank, "an axis is added")
        require(all(v is None or v.is_const for v in root.inputs[1:]), "an operand is computed")
        axes = require_axes(root)
        repeated = [
            at for at in range(x.rank) if is_one(x.shape[at]) and not is_one(wide.shape[at])
        ]
        others = [at for at in range(x.rank) if at not in repeated]
        require(all(x.shape[at] == wide.shape[at] for at in others), "a size may be one")
        order = axes.operands[0]
        require(order is not None, "its axes are not known")
        for other in axes.operands[1:]:
            shared = set(other or ()) & {(order or ())[at] for at in repeated}
            require(not shared, "weights vary along what is repeated")
        return x, axes, repeated


RULES = (ComputeInTable, ComputeBeforeExpand)
