"""Movement exchanged with operators, to where it cancels, costs nothing, or leaves less to
compute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import kinds_with
from infuse.ops.core.samples import Bools
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import (
    BINARY,
    UNARY,
    data,
    permutation,
    require_shape,
)
from infuse.passes.rules.movement.exchange import (
    Moved,
    maker,
    moved_below,
    moved_through,
    part_of_operands,
    require_axes,
    transposed_operands,
)
from infuse.rewrite import Rule, require

REDUCTIONS = kinds_with(Trait.TOTAL | Trait.REDUCTION)
"""Those that give a number whatever they reduce, so no logarithms."""
WORKING = ("MatMul", "Gemm", "Conv", "Attention", *BINARY)
"""Operators that are worth to be computed in part."""
_FEWER = "sums of what is left run in another order"
_SLICE = [int64s(1), int64s(2), int64s(0)]
_FIRST = {"cut": _SLICE, "i": np.array(1), "read": {"axis": 0}}
_COLUMN = {"cut": [int64s(1), int64s(3), int64s(1)], "i": int64s(1, 3), "read": {"axis": 1}}
_MATRIX = np.arange(20, dtype=np.float32).reshape(4, 5)
_PERM = {"perm": (0, 2, 3, 1)}


# -- parts -----------------------------------------------------------------------------------------


class _CutOperands(Rule):
    """A Slice or Gather exchanged with the operator that makes what it reads."""

    rows = ("G24",)
    shares = True
    rounding = _FEWER

    def match(self, y: Variable, cut: Variable, i: Variable) -> Any:
        return [ops.slice(y, ops.rest(cut)), ops.gather(y, ops.const(i), name="read")]

    def when(self, y: Value, root: Node) -> None:
        node = maker(y, root)
        require(node is not None and node.kind != "Slice", "what it reads is not made for it alone")
        assert node is not None
        axes = require_axes(node)
        moved = [
            x for x, order in zip(node.inputs, axes.operands) if x and order and not x.is_const
        ]
        self._require_operands(node, moved, root)
        part_of_operands(root, node)

    def _require_operands(self, node: Node, operands: list[Value], root: Node) -> None:
        """Refuse where parts of these operands are more work than the part of the result."""

    def build(self, y: Value, root: Node) -> Any:
        assert y.producer is not None
        return part_of_operands(root, y.producer)

    def covers(self, y: Value) -> list[Node]:
        assert y.producer is not None
        return [y.producer]


class CutOperand(_CutOperands):
    """Slice(f(x, c)) → f(Slice(x), the same part of c), where f computes each place that is cut
    from one of x (Gather too)
    """

    examples = (
        *(
            {"y": y, **_FIRST}
            for y in (
                Call("Relu", ((3, 4),)),
                Call("Not", (Bools((3, 4)),)),
                Call("Add", ((3, 4), np.ones((3, 1), np.float32))),
                Call("Softmax", ((3, 2, 4),)),
                Call("LayerNormalization", ((3, 2, 4), (4,), (4,))),
                Call("Transpose", ((3, 4, 2),), {"perm": (2, 0, 1)}),
                Call("MatMul", ((3, 2, 4), _MATRIX)),
            )
        ),
        {"y": Call("Gemm", ((3, 4), _MATRIX, np.ones((1, 5), np.float32))), **_COLUMN},
        {"y": Call("Conv", ((3, 2, 5, 5), (4, 2, 3, 3))), **_FIRST, "i": int64s(1)},
    )

    def _require_operands(self, node: Node, operands: list[Value], root: Node) -> None:
        require(len(operands) == 1, "there is not one operand")
        require(operands[0].tensor.rank, "the operand has no axes")


class CutOperands(_CutOperands):
    """Slice(x + y) → Slice(x) + Slice(y), where x or y takes work that is saved, or half is left at
    most (and other operators; Gather too)
    """

    level = "extended"
    examples = (
        {"y": Call("Add", (Call("Mul", ((3, 4), (4,))), (3, 4))), **_FIRST},
        {"y": Call("Add", ((9, 4), (9, 4))), **_FIRST},
    )

    def _require_operands(self, node: Node, operands: list[Value], root: Node) -> None:
        require(len(operands) > 1, "there is one operand")
        same = all(x.type == node.output.type for x in operands)
        require(same and node.kind in BINARY, "an operand is stretched")
        makers = [maker(x, node) for x in operands]
        works = any(made is not None and made.kind in WORKING for made in makers)
        require(works or self._halves(node, root), "no operand takes work to make")

    def _halves(self, node: Node, root: Node) -> bool:
        """Whether half of the elements are left at most."""
        if root.output.tensor.shape is None:
            return False
        whole, part = (dims.product(v.shape) for v in (node.output, root.output))
        return dims.compare("<=", 2 * part, whole) is True


# -- transposes ------------------------------------------------------------------------------------


class SinkTranspose(Rule):
    """f(Transpose(x), c) → Transpose(f(x, c)), the axes of the constant moved back, so that f fuses
    with what makes x
    """

    level = "all"
    rows = ("G24",)
    examples = (
        *(
            {"x": (2, 3, 4, 5), "c": c, "more": [np.float32(1)], "root": more, "moved": _PERM}
            for c, more in (((4, 1, 3), {}), ((), {}), ((), {"to": 11}))
        ),
        {"x": Bools((3, 2))},
    )

    def match(self, x: Variable, c: Variable, more: Variable) -> Any:
        moved = ops.transpose(x, name="moved")
        return [
            *(Call(kind, (moved,)) for kind in UNARY),
            ops.clip(moved, ops.rest(more)),
            *(Call(kind, (moved, ops.const(c))) for kind in BINARY),
            *(Call(kind, (ops.const(c), moved)) for kind in BINARY),
        ]

    def when(self, moved: Node, root: Node) -> None:
        whole = moved.output.tensor.shape == root.output.tensor.shape
        require(whole, "the constant stretches the shape")
        moved_below(root, transposed_operands(root))

    def build(self, root: Node) -> Any:
        return moved_below(root, transposed_operands(root)).value()


def _transposed(*shape: int) -> Call:
    return Call("Transpose", (shape,), _PERM)


class SinkTransposes(Rule):
    """Transpose(x) + Transpose(y) → Transpose(x + y), all in one order (other operators, Concat,
    and reductions of one, of which fewer axes are left to move)
    """

    rows = ("G24", "G25")
    reads = ("Transpose",)
    shares = True
    rounding = "terms are reduced in another order"
    examples = (
        {"xs": [_transposed(2, 3, 4, 5), _transposed(2, 3, 4, 5)]},
        {"xs": [_transposed(2, 3, 4, 5), _transposed(2, 2, 4, 5)], "root": {"axis": -1}},
        {"xs": [_transposed(2, 3, 4, 5), int64s(0, -1)], "root": {"keepdims": 0}},
        {"xs": [_transposed(2, 3, 4, 5), int64s(-1)], "root": {"keepdims": 1}},
    )

    def match(self, xs: Variable) -> Any:
        return [Call(kind, (ops.rest(xs),)) for kind in (*BINARY, "Concat", *REDUCTIONS)]

    def when(self, root: Node) -> None:
        moves = transposed_operands(root)
        require(moves, "no operand is transposed for it alone")
        axes = require_axes(root)
        operands = [x for x, order in zip(root.inputs, axes.operands) if order is not None]
        require(all(x in moves for x in operands), "an operand is not transposed for it alone")
        require(len(operands) > 1 or root.kind in REDUCTIONS, "there is one operand")
        moved_below(root, moves)

    def build(self, root: Node) -> Any:
        return moved_below(root, transposed_operands(root)).value()

    def covers(self, root: Node) -> list[Node]:
        return [x.producer for x in transposed_operands(root) if x.producer is not None]


class SinkTransposeResidual(Rule):
    """Transpose(x) + y → Transpose(x + Transpose(y)) from channels last to first, so that sums fuse
    with products
    """

    level = "all"
    rows = ("G24",)
    examples = (
        {"x": Call("Relu", ((2, 3, 4, 5),)), "y": (2, 5, 3, 4), "moved": {"perm": (0, 3, 1, 2)}},
    )

    def match(self, x: Variable, y: Variable) -> Any:
        return [Call(kind, (ops.transpose(x, name="moved"), y)) for kind in ("Add", "Mul")]

    def when(self, x: Value, y: Value, moved: Node) -> None:
        require_shape(x, y)
        require(not y.is_const, "the other operand is constant")
        require(y.type == moved.output.type, "the other operand is broadcast")
        require(permutation(moved) == (0, 3, 1, 2), "it does not move channels to the front")
        node = x.producer
        moves = node is None or node.kind in ("Transpose", "Reshape")
        require(not moves, "nothing computes x")

    def build(self, x: Value, y: Value, moved: Node, root: Node) -> Any:
        perm = permutation(moved)
        inverse = tuple(perm.index(i) for i in range(len(perm)))
        return ops.transpose(Call(root.kind, (x, ops.transpose(y, perm=inverse))), perm=perm)


def _swapped(x: Any) -> Call:
    return Call("Transpose", (x,), {"perm": (1, 0, 2)})


def _moved_work() -> tuple[Any, ...]:
    x = _swapped((2, 3, 4))
    return (
        Call("Not", (_swapped(Bools((2, 3, 4))),)),
        ops.tanh(x) * ops.matmul(x, np.eye(4, dtype=np.float32)),
        ops.pad(ops.softmax(x, axis=1), int64s(0, 1, 0, 2, 0, 0)),
        ops.slice(x, int64s(1, 0), int64s(2, 3), int64s(-1, 0)),
    )


class RemoveTransposesAround(Rule):
    """Transpose(f(Transpose(x))) → f(x), transposed once at most, for any work f that other axes
    let be
    """

    rows = ("G9", "G24", "G25")
    shares = True
    rounding = "sums and lines are computed in another order"
    examples = tuple(
        {"y": y, "root": {"perm": perm}} for y in _moved_work() for perm in ((1, 0, 2), (2, 1, 0))
    )

    def match(self, y: Variable) -> Any:
        return ops.transpose(y)

    def when(self, y: Value, root: Node) -> tuple[Moved, list[Node]]:
        require_shape(y)
        below, nodes = moved_through(y, root)
        below = Moved(below.source, tuple(below.perm[p] for p in permutation(root)))
        lost = any(node.kind == "Transpose" for node in nodes)
        require(below.stays or lost, "as many are left")
        return below, nodes

    def build(self, analysis: tuple[Moved, list[Node]]) -> Any:
        return analysis[0].value()

    def covers(self, analysis: tuple[Moved, list[Node]]) -> list[Node]:
        return analysis[1]


# -- rows ------------------------------------------------------------------------------------------


class SinkExpand(Rule):
    """f(Expand(x)) → Expand(f(x)), also beside numbers: Expand(x) · 2, Where(Expand(x), 1, 0)"""

    rows = ("G24", "G25")
    examples = (
        *(
            {"x": (4,), "s": int64s(3, 4), "a": np.float32(0.5), "b": np.float32(2), "root": more}
            for more in ({}, {"to": 7})
        ),
        {"x": Bools((4,)), "s": int64s(3, 4), "a": np.float32(0.5), "b": np.float32(2)},
    )

    def match(self, x: Variable, s: Variable, a: Variable, b: Variable) -> Any:
        wide = ops.expand(x, s, name="wide")
        first, second = ops.const(a), ops.const(b)
        return [
            *(Call(kind, (wide,)) for kind in UNARY),
            *(Call(kind, (wide, first)) for kind in BINARY),
            *(Call(kind, (first, wide)) for kind in ("Sub", "Div")),
            ops.where(wide, first, second),
        ]

    def when(self, x: Value, wide: Node, root: Node) -> None:
        require_shape(x, root.output)
        numbers = [v for v in root.operands() if v is not wide.output]
        require(all(v.tensor.size == 1 for v in numbers), "a constant varies")
        require(root.output.shape == wide.output.shape, "a constant stretches the shape")
        require(x.tensor.size != wide.output.tensor.size, "it stretches nothing")

    def build(self, x: Value, s: Value, wide: Node, root: Node) -> Any:
        args = [x if v is wide.output else data(v).reshape(()) for v in root.operands()]
        return ops.expand(Call(root.kind, tuple(args), root.op.attributes()), s)


RULES = (
    RemoveTransposesAround,
    SinkTranspose,
    SinkTransposes,
    SinkTransposeResidual,
    SinkExpand,
    CutOperand,
    CutOperands,
)
