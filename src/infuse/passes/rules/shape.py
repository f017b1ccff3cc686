"""Reshapes, transposes and casts that cancel, merge or move out of the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.dtypes import DType
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value, known_ints
from infuse.ir.types import Shape
from infuse.rewrite import Rule, require


class MergeTransposes(Rule):
    """Transpose(Transpose(x)) → Transpose(x)"""

    rows = ("G8", "G9")
    shares = True

    def match(self, x: Any) -> Any:
        return ops.transpose(ops.transpose(x, name="inner"), name="outer")

    def when(self, inner: Node, outer: Node) -> None:
        require(inner.op.attributes()["perm"] and outer.op.attributes()["perm"], "an order is left to its default")

    def build(self, x: Value, inner: Node, outer: Node) -> Any:
        first, second = inner.op.attributes()["perm"], outer.op.attributes()["perm"]
        perm = tuple(first[p] for p in second)
        return x if perm == tuple(range(len(perm))) else ops.transpose(x, perm=perm)


_RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def _reshape_like(x: Any, more: Any, name: str) -> list[Call]:
    return [Call(kind, (x, ops.rest(more)), label=name) for kind in _RESHAPES]


class MergeReshapes(Rule):
    """Reshape, Flatten, Squeeze, Unsqueeze of one another → one Reshape"""

    rows = ("G8", "G9")
    shares = True

    def match(self, x: Any, inner: Any, outer: Any) -> Any:
        below = ops.one_of(*_reshape_like(x, inner, ""))
        return [Call(kind, (below, ops.rest(outer))) for kind in _RESHAPES]

    def when(self, x: Value, root: Node) -> None:
        require(x.tensor.shape is not None, "the shape is not known")
        require(target_shape(x.shape, root.output.tensor.shape) is not None, "two sizes are computed from data")

    def build(self, x: Value, root: Node) -> Any:
        if x.shape == root.output.shape:
            return x
        target = target_shape(x.shape, root.output.shape)
        return ops.reshape(x, np.asarray(target, dtype=np.int64))


def target_shape(given: Shape, wanted: Shape | None) -> list[int] | None:
    """A constant Reshape target that gives `wanted`: 0 keeps a size, one -1; None where that cannot say it."""
    if wanted is None:
        return None
    target: list[int] = []
    for axis, size in enumerate(wanted):
        if isinstance(size, int):
            if size == 0:
                return None
            target.append(size)
        elif axis < len(given) and given[axis] == size:
            target.append(0)
        elif -1 not in target:
            target.append(-1)
        else:
            return None
    return target


class MaterializeReshape(Rule):
    """Reshape(x, computed sizes) → Reshape(x, constant with 0 and -1)"""

    rows = ("G6", "G7")

    def match(self, x: Any, shape: Any) -> Any:
        return ops.reshape(x, shape, name="reshape")

    def when(self, x: Value, shape: Value, root: Node) -> None:
        require(shape.const is None, "the sizes are constant")
        require(x.tensor.shape is not None and known_ints(shape) is not None, "the sizes come from data")
        require(target_shape(x.shape, root.output.tensor.shape) is not None, "two sizes change symbolically")

    def build(self, x: Value, root: Node) -> Any:
        return ops.reshape(x, np.asarray(target_shape(x.shape, root.output.shape), dtype=np.int64))


class MergeCasts(Rule):
    """Cast(Cast(x)) → Cast(x), where the inner one loses nothing"""

    rows = ("G8", "G9")
    shares = True

    def match(self, x: Any) -> Any:
        return ops.cast(ops.cast(x, name="inner"), name="outer")

    def when(self, x: Value, inner: Node, outer: Node) -> None:
        require(lossless(x.dtype, inner.output.dtype), f"{inner.output.dtype} does not hold every {x.dtype}")

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


class SqueezeAsReshape(Rule):
    """Flatten, Squeeze, Unsqueeze of a known shape → Reshape with constant sizes"""

    level = "all"
    rows = ("G2",)

    def match(self, x: Any, more: Any) -> Any:
        return [Call(kind, (x, ops.rest(more))) for kind in _RESHAPES[1:]]

    def when(self, x: Value, root: Node) -> None:
        require(x.tensor.shape is not None, "the shape is not known")
        require(target_shape(x.shape, root.output.tensor.shape) is not None, "two sizes change symbolically")

    def build(self, x: Value, root: Node) -> Any:
        return ops.reshape(x, np.asarray(target_shape(x.shape, root.output.shape), dtype=np.int64))


class RemoveExpandBeforeElementwise(Rule):
    """Add(Expand(x), y) → Add(x, y), where y has the full shape (also Sub, Mul, Div, Where)"""

    rows = ("G7",)
    shares = True

    def match(self, x: Any, shape: Any, y: Any) -> Any:
        wide = ops.expand(x, shape)
        pairs = [Call(kind, (wide, y)) for kind in ("Add", "Mul", "Sub", "Div", "And", "Or")]
        return [*pairs, *(Call(kind, (y, wide)) for kind in ("Sub", "Div"))]

    def when(self, y: Value, root: Node) -> None:
        require(y.tensor.shape is not None and y.shape == root.output.shape, "the expansion makes the shape")

    def build(self, x: Value, y: Value, root: Node) -> Any:
        first = root.inputs[0] is not y
        return Call(root.kind, (x, y) if first else (y, x))


class CountIndicesFromFront(Rule):
    """Gather(x, negative constant) → Gather(x, the same counted from the front)"""

    rows = ("G5",)

    def match(self, x: Any, i: Any) -> Any:
        return ops.gather(x, ops.const(i), name="gather")

    def when(self, x: Value, i: Value, gather: Node) -> None:
        assert i.const is not None
        axis = gather.op.attributes()["axis"]
        require(bool((i.const < 0).any()), "no index counts from the end")
        require(x.tensor.shape is not None and isinstance(x.shape[axis], int), "the size is not known")

    def build(self, x: Value, i: Value, gather: Node) -> Any:
        assert i.const is not None
        axis = gather.op.attributes()["axis"]
        size = x.shape[axis]
        assert isinstance(size, int)
        return ops.gather(x, np.where(i.const < 0, i.const + size, i.const), axis=axis)


RULES = (
    *(MergeTransposes, MaterializeReshape, MergeReshapes, MergeCasts, SqueezeAsReshape),
    *(RemoveExpandBeforeElementwise, CountIndicesFromFront),
)
