"""Expansions that need not be written out, and constants that only stretch a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import kinds_with
from infuse.ops.core.samples import Bools
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import attribute, is_one, number, require_shape
from infuse.rewrite import Rule, require


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
        require(a.dtype.is_integer, "the numbers are not integers")
        require(number(d) > 0, "it counts down")
        require(number(a) >= number(b), "some numbers may be smaller")
        first = root.inputs[0]
        assert first is not None
        require_shape(first)
        require(first.shape == root.output.shape, "the constant stretches the shape")

    def build(self, root: Node) -> Any:
        return ops.constant_of_shape(ops.shape(root.inputs[0]), value=np.asarray([True]))


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


class RemoveExpandBeforeMatMul(Rule):
    """MatMul(Expand(x), y) → MatMul(x, y), which broadcasts stacks by itself"""

    rows = ("G7",)
    shares = True
    rounding = "a library may sum a stack in another order"
    examples = (
        {"x": (3, 4), "s": int64s(2, 1, 1), "y": (2, 4, 5)},
        {"x": (4, 3), "s": int64s(2, 1, 1), "y": (2, 5, 4)},
    )

    def match(self, x: Variable, s: Variable, y: Variable) -> Any:
        stack = ops.expand(x, s, name="stack")
        return [ops.matmul(stack, y), ops.matmul(y, stack)]

    def when(self, x: Value, y: Value, stack: Node, root: Node) -> None:
        require_shape(x, y, stack.output)
        require(x.rank >= 2 and y.rank >= 2 and stack.output.rank >= 2, "an operand is a vector")
        require(x.shape[-2:] == stack.output.shape[-2:], "it stretches the matrices")
        both = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        require(both == root.output.shape[:-2], "the expansion makes the shape")

    def build(self, x: Value, y: Value, root: Node) -> Any:
        return ops.matmul(y, x) if root.inputs[0] is y else ops.matmul(x, y)


class ConcatAsExpand(Rule):
    """Concat(x, x, x) along an axis of size one → Expand(x)"""

    rows = ("G24",)
    shares = True
    examples = tuple(
        {"xs": [_ONE, _ONE, _ONE], "root": {"axis": -1}} for _ONE in (Call("Neg", ((2, 3, 1),)),)
    )

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        require(len(xs) > 1 and all(x is xs[0] for x in xs), "the operands differ")
        require_shape(xs[0])
        require(is_one(xs[0].shape[attribute(root, "axis")]), "the axis has several elements")

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        target = np.ones(xs[0].rank, dtype=np.int64)
        target[attribute(root, "axis")] = len(xs)
        return ops.expand(xs[0], target)


class RemoveExpandBeforeBroadcast(Rule):
    """Add(Expand(x), y) → Add(x, y), where y has the full shape (and other such operators;
    ConstantOfShape too)
    """

    rows = ("G7",)
    shares = True
    examples = (
        {"x": (4,), "shape": int64s(3, 4), "y": (3, 4)},
        {"x": Bools((4,)), "shape": int64s(3, 4), "y": Bools((3, 4))},
    )

    def match(self, x: Variable, shape: Variable, y: Variable) -> Any:
        expanded = ops.expand(x, shape, name="wide")
        wide = ops.one_of(expanded, ops.constant_of_shape(shape, name="wide"))
        one_way = [
            Call(kind, (wide, y)) for kind in (*kinds_with(Trait.ARITHMETIC), "Equal", "Less")
        ]
        logic = [Call(kind, (expanded, y)) for kind in ("And", "Or")]
        return [
            *one_way,
            *logic,
            *(Call(kind, (y, wide)) for kind in ("Sub", "Div", "Pow", "Less")),
        ]

    def when(self, y: Value, wide: Node, root: Node) -> None:
        require(
            y.tensor.shape is not None and y.shape == root.output.tensor.shape,
            "the expansion makes the shape",
        )

    def build(self, y: Value, wide: Node, root: Node) -> Any:
        narrow: Any = wide.inputs[0]
        if wide.kind == "ConstantOfShape":
            narrow = (
                np.asarray(attribute(wide, "value")).astype(wide.output.dtype.numpy).reshape(())
            )
        return Call(root.kind, (y, narrow) if root.inputs[0] is y else (narrow, y))


class TileAsExpand(Rule):
    """Tile(x) of axes of size one → Expand(x)"""

    rows = ("G24",)

    def match(self, x: Variable, repeats: Variable) -> Any:
        return ops.tile(x, repeats)

    def when(self, x: Value, repeats: Value, root: Node) -> None:
        counts = known_ints(repeats)
        require(x.tensor.shape is not None and counts is not None, "the counts are not known")
        pairs: list[tuple[Dim, Dim]] = list(zip(x.shape, counts or ()))
        require(any(count != 1 for _, count in pairs), "it repeats nothing")
        require(
            all(count == 1 or is_one(size) for size, count in pairs),
            "it repeats more than one element",
        )

    def build(self, x: Value, repeats: Value) -> Any:
        return ops.expand(x, repeats)


class MergeExpands(Rule):
    """Expand(Expand(x)) of known shape → Expand(x)"""

    rows = ("G8",)
    shares = True

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        return ops.expand(ops.expand(x, a), b)

    def when(self, b: Value, root: Node) -> None:
        shape = root.output.tensor.shape
        is_static = shape is not None and all(dims.is_static(d) for d in shape)
        require(
            is_static or (shape is not None and known_ints(b) == shape), "the shape is not known"
        )

    def build(self, x: Value, b: Value, root: Node) -> Any:
        shape = root.output.shape
        return ops.expand(
            x, np.asarray(shape, dtype=np.int64) if all(dims.is_static(d) for d in shape) else b
        )


RULES = (
    TileAsExpand,
    MergeExpands,
    ConcatAsExpand,
    NeutralAsExpand,
    CompareRange,
    RemoveExpandBeforeMatMul,
    RemoveExpandBeforeAttention,
    RemoveExpandBeforeBroadcast,
)
