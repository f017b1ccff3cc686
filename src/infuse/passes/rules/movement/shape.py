"""Reshapes, transposes and casts that cancel, merge or move out of the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.samples import Floats, Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    RESHAPES,
    is_one,
    permutation,
    regroup,
    require_shape,
    reshape_target,
    reshapes,
    target_shape,
)
from infuse.rewrite import Rule, require


class MergeTransposes(Rule):
    """Transpose(Transpose(x)) → Transpose(x)"""

    rows = ("G8", "G9")
    shares = True

    def match(self, x: Variable) -> Any:
        return ops.transpose(ops.transpose(x, name="inner"), name="outer")

    def build(self, x: Value, inner: Node, outer: Node) -> Any:
        first, second = permutation(inner), permutation(outer)
        perm = tuple(first[p] for p in second)
        return x if perm == tuple(range(len(perm))) else ops.transpose(x, perm=perm)


class MergeReshapes(Rule):
    """Reshape, Flatten, Squeeze, Unsqueeze of one another → one Reshape"""

    rows = ("G8", "G9")
    shares = True

    def match(self, x: Variable, inner: Variable, outer: Variable) -> Any:
        return reshapes(ops.one_of(*reshapes(x, inner)), outer)

    def when(self, x: Value, root: Node) -> None:
        require_shape(x, root.output)
        require(
            target_shape(x.shape, root.output.shape) is not None, "two sizes change symbolically"
        )

    def build(self, x: Value, root: Node) -> Any:
        return (
            x
            if x.shape == root.output.shape
            else ops.reshape(x, reshape_target(x.shape, root.output.shape))
        )


class MaterializeReshape(Rule):
    """Reshape(x, computed sizes) → Reshape(x, constant with 0 and -1)"""

    rows = ("G6", "G7")
    examples = ({"x": (4, 6), "shape": Call("Shape", ((3, 8),))},)

    def match(self, x: Variable, shape: Variable) -> Any:
        return ops.reshape(x, shape)

    def when(self, x: Value, shape: Value, root: Node) -> None:
        require(shape.const is None, "the sizes are constant")
        require_shape(x)
        require(known_ints(shape) is not None, "the sizes come from data")
        require(
            target_shape(x.shape, root.output.tensor.shape) is not None,
            "two sizes change symbolically",
        )

    def build(self, x: Value, root: Node) -> Any:
        return ops.reshape(x, reshape_target(x.shape, root.output.shape))


class MergeCasts(Rule):
    """Cast(Cast(x)) → Cast(x), where the inner one loses nothing"""

    rows = ("G8", "G9")
    shares = True

    def match(self, x: Variable) -> Any:
        return ops.cast(ops.cast(x, name="inner"), name="outer")

    def when(self, x: Value, inner: Node) -> None:
        require(
            lossless(x.dtype, inner.output.dtype),
            f"{inner.output.dtype} does not hold every {x.dtype}",
        )

    def build(self, x: Value, outer: Node) -> Any:
        return x if x.dtype == outer.output.dtype else ops.cast(x, **outer.op.attributes())


def lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source == target:
        return True
    if source.is_bool:
        return target.is_integer or target.is_float
    if not (source.kind in "fiu" and target.kind in "fiu"):
        return False
    return bool(np.can_cast(source.numpy, target.numpy, "safe"))


class CastLikeAsCast(Rule):
    """CastLike(x, y) → Cast(x, to the type of y)"""

    rows = ("G6",)

    def match(self, x: Variable, y: Variable) -> Any:
        return ops.cast_like(x, y)

    def when(self, x: Value, y: Value) -> None:
        require(x.dtype != y.dtype, "it converts nothing")

    def build(self, x: Value, y: Value, root: Node) -> Any:
        return ops.cast(x, to=y.dtype, **root.op.attributes())


class WidenLater(Rule):
    """Gather(Cast(x)) to a wider type → Cast(Gather(x)), where no element is taken twice"""

    rows = ("G25",)
    examples = (
        {
            "x": Floats((3, 4), dtype=dtypes.float16),
            "i": np.array([1, 0]),
            "wider": {"to": dtypes.float32},
        },
        {"x": Ints((3, 4), dtype=dtypes.int8), "i": np.array(2), "wider": {"to": dtypes.int64}},
    )

    def match(self, x: Variable, i: Variable) -> Any:
        return ops.gather(ops.cast(x, name="wider"), i)

    def when(self, x: Value, wider: Node, root: Node) -> None:
        require_shape(x, root.output)
        require(x.dtype.bits < wider.output.dtype.bits, "it makes elements smaller")
        before, after = dims.product(x.shape), dims.product(root.output.shape)
        require(dims.compare("<=", after, before) is True, "it takes elements several times")

    def build(self, x: Value, i: Value, wider: Node, root: Node) -> Any:
        return Call("Cast", (Call("Gather", (x, i), root.op.attributes()),), wider.op.attributes())


class SqueezeAsReshape(Rule):
    """Flatten, Squeeze, Unsqueeze of a known shape → Reshape with constant sizes"""

    level = "all"
    rows = ("G2",)

    def match(self, x: Variable, more: Variable) -> Any:
        return [Call(kind, (x, ops.rest(more))) for kind in RESHAPES[1:]]

    def when(self, x: Value, root: Node) -> None:
        require_shape(x, root.output)
        require(
            target_shape(x.shape, root.output.shape) is not None, "two sizes change symbolically"
        )

    def build(self, x: Value, root: Node) -> Any:
        return ops.reshape(x, reshape_target(x.shape, root.output.shape))


class TransposeAsReshape(Rule):
    """Transpose(x) that moves only axes of size one → Reshape(x)"""

    rows = ("G8", "G24")

    def match(self, x: Variable) -> Any:
        return ops.transpose(x)

    def when(self, x: Value, root: Node) -> None:
        require_shape(x, root.output)
        moved = [p for p in permutation(root) if not is_one(x.shape[p])]
        require(moved == sorted(moved), "it moves axes")
        require(x.shape != root.output.shape, "it moves nothing")
        require(
            target_shape(x.shape, root.output.shape) is not None, "two sizes change symbolically"
        )

    def build(self, x: Value, root: Node) -> Any:
        return ops.reshape(x, reshape_target(x.shape, root.output.shape))


_MOVED = (
    {
        "x": (4, 6, 5),
        "inner": [int64s(24, 5)],
        "transpose": {"perm": (1, 0)},
        "outer": [int64s(5, 4, 6)],
    },
    {"x": (4, 6, 5), "inner": [], "transpose": {"perm": (1, 0)}, "outer": [int64s(5, 6, 4)]},
    {
        "x": (4, 1, 6),
        "inner": [int64s(1)],
        "transpose": {"perm": (1, 0)},
        "outer": [int64s(3, 2, 4)],
    },
    {
        "x": (4, 6),
        "inner": [int64s(0)],
        "transpose": {"perm": (2, 0, 1)},
        "outer": [int64s(6, 2, 2)],
    },
)


class MoveReshapeUp(Rule):
    """Reshape(Transpose(Reshape(x))), the outer one cutting axes → Transpose(Reshape(x))"""

    rows = ("G8", "G24")
    examples = tuple(
        {**moved, "outer": outer}
        for moved in _MOVED
        for outer in (moved["outer"], [], [int64s()], [int64s(1)], [int64s(0)])
    )

    def match(self, x: Variable, inner: Variable, outer: Variable) -> Any:
        moved = ops.transpose(ops.one_of(*reshapes(x, inner)), name="transpose")
        return reshapes(moved, outer)

    def when(self, x: Value, transpose: Node, root: Node) -> None:
        require_shape(x, transpose.output, root.output)
        shape, _ = _before(transpose, root)
        require(target_shape(x.shape, shape) is not None, "two sizes change symbolically")

    def build(self, x: Value, transpose: Node, root: Node) -> Any:
        shape, perm = _before(transpose, root)
        inner = x if x.shape == shape else ops.reshape(x, reshape_target(x.shape, shape))
        return ops.transpose(inner, perm=perm)


class MoveUnitAxesUp(Rule):
    """Reshape(Transpose(x)), which adds or removes axes of size one only → Transpose(Reshape(x)),
    so that the Transpose meets others
    """

    level = "all"
    rows = ("G8", "G24")
    examples = (
        {"x": (2, 4, 1, 3), "transpose": {"perm": (0, 2, 3, 1)}, "outer": [int64s(0, 3, 4)]},
        {"x": (2, 4, 1, 3), "transpose": {"perm": (0, 2, 3, 1)}, "outer": [int64s(1, 2, 3, 4)]},
        {"x": (4, 3), "transpose": {"perm": (1, 0)}, "outer": [int64s(3, 1, 4)]},
        *(
            {"x": (3, 1, 4), "transpose": {"perm": (2, 1, 0)}, "outer": outer}
            for outer in ([], [int64s(1)])
        ),
    )

    def match(self, x: Variable, outer: Variable) -> Any:
        return reshapes(ops.transpose(x, name="transpose"), outer)

    def when(self, x: Value, transpose: Node, root: Node) -> None:
        require_shape(x, transpose.output, root.output)
        sizes = [
            [size for size in node.output.shape if not is_one(size)] for node in (transpose, root)
        ]
        require(sizes[0] == sizes[1], "it cuts, joins or mixes axes")
        shape, _ = _before(transpose, root)
        require(target_shape(x.shape, shape) is not None, "two sizes change symbolically")

    def build(self, x: Value, transpose: Node, root: Node) -> Any:
        shape, perm = _before(transpose, root)
        return ops.transpose(ops.reshape(x, reshape_target(x.shape, shape)), perm=perm)


def _before(transpose: Node, root: Node) -> tuple[tuple[Dim, ...], tuple[int, ...]]:
    """The shape before the transpose with the axes cut already, and the order that then gives the
    root's.
    """
    perm, moved, target = permutation(transpose), transpose.output.shape, root.output.shape
    places = [i for i, size in enumerate(target) if not is_one(size)]
    wide = [i for i, size in enumerate(moved) if not is_one(size)]
    groups = regroup([target[i] for i in places], [moved[i] for i in wide])
    require(groups is not None, "it joins or mixes axes")
    assert groups is not None
    ones = [i for i, size in enumerate(target) if is_one(size)]
    by_source = sorted(
        (perm[axis], [places[g] for g in group]) for axis, group in zip(wide, groups)
    )
    order = ones + [place for _, group in by_source for place in group]
    return tuple(target[i] for i in order), tuple(order.index(i) for i in range(len(target)))


class RemoveReshapeBeforeBroadcast(Rule):
    """Add(Reshape(x), y), the Reshape putting axes of size one in front → Add(x, y) (and other such
    operators)
    """

    rows = ("G7",)
    examples = tuple({"x": (4,), "more": more, "y": (3, 4)} for more in (int64s(1, 4), int64s(0)))

    def match(self, x: Variable, more: Variable, y: Variable) -> Any:
        wide = ops.one_of(
            *(Call(kind, (x, more), label="wide") for kind in ("Reshape", "Unsqueeze"))
        )
        one_way = [Call(kind, (wide, y)) for kind in ("Add", "Mul", "Sub", "Div", "Equal")]
        return [*one_way, *(Call(kind, (y, wide)) for kind in ("Sub", "Div"))]

    def when(self, x: Value, y: Value, wide: Node, root: Node) -> None:
        require_shape(x, y, wide.output)
        added = wide.output.rank - x.rank
        require(
            added > 0 and wide.output.shape[added:] == x.shape,
            "it does more than to add axes in front",
        )
        require(
            all(is_one(size) for size in wide.output.shape[:added]),
            "it does more than to add axes in front",
        )
        require(y.rank >= wide.output.rank, "it sets the rank of the result")
        require(x.tensor.size != root.output.tensor.size, "it is not broadcast")

    def build(self, x: Value, y: Value, root: Node) -> Any:
        return Call(root.kind, (y, x) if root.inputs[0] is y else (x, y))


class ReadShapeEarlier(Rule):
    """Shape(f(x)) → Shape(x), where f keeps the shape, so that f is not computed for its shape
    alone
    """

    rows = ("G6",)
    examples = ({"y": Call("Relu", ((3, 4),)), "root": {"start": 1}},)

    def match(self, y: Variable) -> Any:
        return ops.shape(y)

    def when(self, y: Value) -> None:
        self._source(y)

    def build(self, y: Value, root: Node) -> Any:
        return ops.shape(self._source(y), **root.op.attributes())

    def _source(self, y: Value) -> Value:
        """An operand of what makes `y` that has the same shape."""
        require_shape(y)
        require(y.producer is not None, "the shape is that of an input")
        assert y.producer is not None
        same = [
            x
            for x in y.producer.operands()
            if isinstance(x.type, TensorType) and x.type.shape == y.shape
        ]
        require(len(same) > 0, "no operand of what makes it has the same shape")
        return same[0]


RULES = (
    MergeTransposes,
    MaterializeReshape,
    MergeReshapes,
    MergeCasts,
    CastLikeAsCast,
    WidenLater,
    SqueezeAsReshape,
    TransposeAsReshape,
    MoveReshapeUp,
    MoveUnitAxesUp,
    RemoveReshapeBeforeBroadcast,
    ReadShapeEarlier,
)
