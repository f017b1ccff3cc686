"""Transposes and expansions moved down, to where they cancel, cost nothing, or leave less to
compute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.base import REGISTRY, Bools, Op, kinds_with, signature
from infuse.ops.core.elementwise import Numeric
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import (
    attribute,
    data,
    number,
    permutation,
    require_same_type,
    require_shape,
)
from infuse.rewrite import Rule, require


def _is_function(op: type[Op]) -> bool:
    """Whether it maps a real number to one."""
    if op.domain or not issubclass(op, Numeric) or "f" not in op.kinds:
        return False
    operands = signature(op)
    return len(operands.names) == 1 and not operands.variadic


FUNCTIONS = tuple(op.name for _, op in sorted(REGISTRY.items()) if _is_function(op))
"""Elementwise operators of one operand that give its type."""
UNARY = (*FUNCTIONS, "Cast", "Not")
BINARY = kinds_with(Trait.ARITHMETIC)
_PERM = {"moved": {"perm": (0, 2, 3, 1)}, "other": {"perm": (0, 2, 3, 1)}}


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(perm.index(i) for i in range(len(perm)))


class SinkTransposeUnary(Rule):
    """f(Transpose(x)) → Transpose(f(x)), so that f fuses with what makes x"""

    level = "all"
    rows = ("G24",)
    examples = (
        *(
            {"x": (2, 3, 4, 5), "more": [np.float32(1)], "root": more, **_PERM}
            for more in ({}, {"to": 11})
        ),
        {"x": Bools((3, 2))},
    )

    def match(self, x: Variable, more: Variable) -> Any:
        moved = ops.transpose(x, name="moved")
        return [*(Call(kind, (moved,)) for kind in UNARY), ops.clip(moved, ops.rest(more))]

    def build(self, x: Value, moved: Node, root: Node, more: tuple[Value | None, ...] = ()) -> Any:
        return ops.transpose(
            Call(root.kind, (x, *more), root.op.attributes()), perm=permutation(moved)
        )


class SinkTransposeConstant(Rule):
    """Transpose(x) + c → Transpose(x + c), the constant's axes moved back (and other operators)"""

    level = "all"
    rows = ("G24",)
    examples = ({"x": (2, 3, 4, 5), "c": (5, 4, 1), **_PERM}, {"x": (2, 3, 4, 5), "c": (), **_PERM})

    def match(self, x: Variable, c: Variable) -> Any:
        moved = ops.transpose(x, name="moved")
        return [
            *(Call(k, (moved, ops.const(c))) for k in BINARY),
            *(Call(k, (ops.const(c), moved)) for k in BINARY),
        ]

    def when(self, c: Value, moved: Node, root: Node) -> None:
        require_same_type(moved.output, root, "the constant stretches the shape")
        require(c.rank <= moved.output.rank, "the constant stretches the shape")

    def build(self, x: Value, c: Value, moved: Node, root: Node) -> Any:
        perm = permutation(moved)
        back = _moved_back(data(c), perm)
        args = (x, back) if root.inputs[0] is moved.output else (back, x)
        return ops.transpose(Call(root.kind, args, root.op.attributes()), perm=perm)


def _moved_back(array: Array, perm: tuple[int, ...]) -> Array:
    """A constant that meets the transposed axes as it meets the axes before."""
    full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    result = np.ascontiguousarray(np.transpose(full, _inverse(perm)))
    while result.ndim and result.shape[0] == 1:
        result = np.asarray(result[0])
    return result


class SinkTransposePair(Rule):
    """Transpose(x) + Transpose(y) → Transpose(x + y), both in one order (and other operators)"""

    rows = ("G24",)
    examples = ({"x": (2, 3, 4, 5), "y": (2, 3, 4, 5), **_PERM},)

    def match(self, x: Variable, y: Variable) -> Any:
        pair = (ops.transpose(x, name="moved"), ops.transpose(y, name="other"))
        return [Call(kind, pair) for kind in BINARY]

    def when(self, x: Value, y: Value, moved: Node, other: Node) -> None:
        require_shape(x, y)
        require(permutation(moved) == permutation(other), "the orders differ")

    def build(self, x: Value, y: Value, moved: Node, root: Node) -> Any:
        args = (x, y) if root.inputs[0] is moved.output else (y, x)
        return ops.transpose(Call(root.kind, args, root.op.attributes()), perm=permutation(moved))


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
        maker = x.producer
        require(
            maker is not None and maker.kind not in ("Transpose", "Reshape"), "nothing computes x"
        )

    def build(self, x: Value, y: Value, moved: Node, root: Node) -> Any:
        perm = permutation(moved)
        return ops.transpose(Call(root.kind, (x, ops.transpose(y, perm=_inverse(perm)))), perm=perm)


class NeutralAsExpand(Rule):
    """y + ConstantOfShape(s, 0), y · ConstantOfShape(s, 1), y and true, y or false → Expand(y,
    s)
    """

    rows = ("G7", "G26")
    examples = tuple(
        {"y": y, "s": int64s(3, 1, 4), "wide": {"value": np.asarray([value])}}
        for y, value in (
            ((2, 1), np.float32(0)),
            ((2, 1), np.float32(1)),
            (Bools((2, 1)), True),
            (Bools((2, 1)), False),
        )
    )

    def match(self, y: Variable, s: Variable) -> Any:
        wide = ops.constant_of_shape(s, name="wide")
        return [Call(kind, (y, wide)) for kind in ("Add", "Mul", "And", "Or")]

    def when(self, wide: Node, root: Node) -> None:
        neutral = {"Add": 0, "Mul": 1, "And": True, "Or": False}[root.kind]
        require(attribute(wide, "value") == neutral, "the number changes y")

    def build(self, y: Value, s: Value) -> Any:
        return ops.expand(y, s)


class CompareRange(Rule):
    """Range(a, …) ≥ b with constants a ≥ b, counting up → true everywhere; also reshaped"""

    rows = ("G1", "G26")
    shares = True
    examples = (
        {
            "a": np.array(1),
            "n": Call("Size", ((3,),)),
            "d": np.array(2),
            "b": np.array(0),
            "s": int64s(-1, 1),
        },
    )

    def match(self, a: Variable, n: Variable, d: Variable, b: Variable, s: Variable) -> Any:
        numbers = ops.range(ops.const(a), n, ops.const(d))
        shaped = ops.one_of(numbers, ops.reshape(numbers, s), ops.unsqueeze(numbers, s))
        return Call("GreaterOrEqual", (shaped, ops.const(b)))

    def when(self, a: Value, b: Value, d: Value, root: Node) -> None:
        require(a.dtype.is_integer, "the numbers are no integers")
        require(number(d) > 0, "it counts down")
        require(number(a) >= number(b), "some numbers may be smaller")
        first = root.inputs[0]
        assert first is not None
        require_shape(first)
        require(first.shape == root.output.shape, "the constant stretches the shape")

    def build(self, root: Node) -> Any:
        return ops.constant_of_shape(ops.shape(root.inputs[0]), value=np.asarray([True]))


class SinkExpand(Rule):
    """f(Expand(x)) → Expand(f(x)); Where(Expand(c), a, b) with two numbers → Expand(Where(c, a,
    b))
    """

    rows = ("G24",)
    examples = (
        *(
            {"x": (4,), "s": int64s(3, 4), "a": np.float32(0.5), "b": np.float32(2), "root": more}
            for more in ({}, {"to": 7})
        ),
        {"x": Bools((4,)), "s": int64s(3, 4), "a": np.float32(0.5), "b": np.float32(2)},
    )

    def match(self, x: Variable, s: Variable, a: Variable, b: Variable) -> Any:
        wide = ops.expand(x, s)
        first, second = ops.const(a), ops.const(b)
        return [*(Call(kind, (wide,)) for kind in UNARY), ops.where(wide, first, second)]

    def when(self, x: Value, root: Node, a: Value | None = None, b: Value | None = None) -> None:
        require_shape(x, root.output)
        for side in (a, b):
            require(
                side is None or (side.tensor.size == 1 and side.rank <= root.output.rank),
                "a side varies",
            )
        require(x.tensor.size != root.output.tensor.size, "it stretches nothing")

    def build(
        self, x: Value, s: Value, root: Node, a: Value | None = None, b: Value | None = None
    ) -> Any:
        sides = [side for side in (a, b) if side is not None]
        return ops.expand(Call(root.kind, (x, *sides), root.op.attributes()), s)


class RemoveExpandBeforeAttention(Rule):
    """Attention(q, k, v, Expand(mask)) → Attention(q, k, v, mask), which broadcasts by itself"""

    level = "all"
    rows = ("G33",)
    shares = True
    rounding = "the same, block by block"
    examples = (
        {
            "q": (2, 3, 5, 4),
            "k": (2, 3, 6, 4),
            "v": (2, 3, 6, 4),
            "mask": (1, 6),
            "s": int64s(2, 1, 5, 6),
        },
    )

    def match(self, q: Variable, k: Variable, v: Variable, mask: Variable, s: Variable) -> Any:
        return Call("Attention", (q, k, v, ops.expand(mask, s, name="wide")))

    def when(self, q: Value, mask: Value, wide: Node, root: Node) -> None:
        require_shape(mask, wide.output, root.output)
        rows = q.shape[2 if q.rank == 4 else 1], wide.output.shape[-2:][0]
        require(dims.compare("==", *rows) is True, "the mask makes the shape")
        require(mask.rank >= 2, "the mask has one axis")
        require(mask.shape[-1] == wide.output.shape[-1], "the mask has one column for all keys")

    def build(self, q: Value, k: Value, v: Value, mask: Value, root: Node) -> Any:
        return Call("Attention", (q, k, v, mask), root.op.attributes())


RULES = (
    *(
        SinkTransposeUnary,
        SinkTransposeConstant,
        SinkTransposePair,
        SinkTransposeResidual,
        NeutralAsExpand,
    ),
    *(CompareRange, SinkExpand, RemoveExpandBeforeAttention),
)
