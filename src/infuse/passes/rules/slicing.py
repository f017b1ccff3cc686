"""Slice and Gather moved before the work on what they leave out, so that only what is read is
computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value, known_ints
from infuse.ops.core.base import Bools, kinds_with
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.passes.rules.common import (
    attribute,
    axes_of,
    data,
    permutation,
    require_float,
    require_own,
    require_shape,
)
from infuse.passes.rules.motion import BINARY, UNARY
from infuse.passes.rules.movement import cuts, fixed_range
from infuse.rewrite import Rule, require

_FEWER = "sums of what is left run in another order"
_SLICE = [int64s(1), int64s(2), int64s(0)]
_FIRST = {"cut": _SLICE, "i": np.array(1), "read": {"axis": 0}}


def _readers(x: Any, cut: Any, i: Any) -> list[Call]:
    """The patterns of what reads only a part of `x`."""
    return [ops.slice(x, ops.rest(cut)), ops.gather(x, ops.const(i), name="read")]


def _axes(root: Node, whole: Value) -> list[int]:
    """The axes of which `root` reads a part only; Refusal where it may read everything."""
    require_shape(whole, root.output)
    if root.kind == "Gather":
        index, axis = root.input(1), attribute(root, "axis") % whole.rank
        assert index is not None
        size, count = whole.shape[axis], data(index).size
        fewer = index.rank == 0 or (index.rank == 1 and isinstance(size, int) and count < size)
        require(fewer, "it may read everything")
        return [axis]
    numbers = root.input(3)
    starts = root.input(1)
    assert starts is not None
    axes = (
        axes_of(numbers, whole)
        if numbers is not None
        else list(range(len(known_ints(starts) or ())))
    )
    require(axes, "the axes are not known")
    return axes


def _drops(root: Node) -> bool:
    """Whether the axis that is read goes away."""
    index = root.input(1)
    return root.kind == "Gather" and index is not None and index.rank == 0


def _part(root: Node, x: Any, axes: list[int]) -> Call:
    """The same part of another value, along these axes."""
    if root.kind == "Gather":
        return Call("Gather", (x, root.inputs[1]), {"axis": axes[0]})
    steps = [] if root.input(4) is None else [root.input(4)]
    return Call("Slice", (x, root.inputs[1], root.inputs[2], int64s(*axes), *steps))


def _constant_part(root: Node, whole: Value, axes: list[int], c: Value) -> Array:
    """The part of a constant that meets the part of `whole`."""
    array, shift = data(c), whole.rank - c.rank
    if root.kind == "Gather":
        axis, index = axes[0] - shift, root.inputs[1]
        assert index is not None
        if axis < 0:
            return array
        places = np.zeros_like(data(index)) if array.shape[axis] == 1 else data(index)
        return np.take(
            array, places if index.rank == 0 or array.shape[axis] > 1 else places[:1], axis=axis
        )
    met = [axis for axis in axes if axis >= shift and array.shape[axis - shift] != 1]
    for axis in met:
        cut = cuts(root)[axis]
        start, length = fixed_range(whole, axis, (*cut[:2], 1))
        require(cut[2] > 0, "it runs backwards")
        array = np.take(array, list(range(start, start + length, cut[2])), axis=axis - shift)
    return array


class CutBeforeElements(Rule):
    """Slice(f(x)) → f(Slice(x)), Slice(x + c) → Slice(x) + the same part of c (and other operators;
    Gather too)
    """

    rows = ("G24",)
    examples = (
        *(
            {"x": (3, 4), "c": c, "inner": more, **_FIRST}
            for c, more in (((4,), {}), ((3, 1), {"to": 7}), ((), {}))
        ),
        {"x": Bools((3, 4)), **_FIRST},
    )

    def match(self, x: Variable, c: Variable, cut: Variable, i: Variable) -> Any:
        single = ops.one_of(*(Call(kind, (x,), label="inner") for kind in UNARY))
        first = ops.one_of(*(Call(kind, (x, ops.const(c)), label="inner") for kind in BINARY))
        second = ops.one_of(
            *(Call(kind, (ops.const(c), x), label="inner") for kind in ("Sub", "Div", "Pow"))
        )
        return [reader for part in (single, first, second) for reader in _readers(part, cut, i)]

    def when(self, x: Value, inner: Node, root: Node, c: Value | None = None) -> None:
        axes = _axes(root, inner.output)
        require(x.tensor.shape == inner.output.shape, "the constant stretches the shape")
        if c is not None:
            _constant_part(root, inner.output, axes, c)

    def build(self, x: Value, inner: Node, root: Node, c: Value | None = None) -> Any:
        axes = _axes(root, inner.output)
        part: Any = _part(root, x, axes)
        args = [part]
        if c is not None:
            other = _constant_part(root, inner.output, axes, c)
            args = [part, other] if inner.inputs[0] is x else [other, part]
        return Call(inner.kind, tuple(args), inner.op.attributes())


class CutBeforePair(Rule):
    """Slice(x + y) → Slice(x) + Slice(y) for operands of one shape (and other operators; Gather
    too)
    """

    level = "extended"
    rows = ("G24",)
    examples = ({"x": Call("Mul", ((3, 4), (4,))), "y": (3, 4), **_FIRST},)

    def match(self, x: Variable, y: Variable, cut: Variable, i: Variable) -> Any:
        pair = ops.one_of(*(Call(kind, (x, y), label="inner") for kind in BINARY))
        return _readers(pair, cut, i)

    def when(self, x: Value, y: Value, inner: Node, root: Node) -> None:
        _axes(root, inner.output)
        require(x.type == y.type == inner.output.type, "an operand is stretched")
        made = [
            v.producer is not None and v.producer.kind in WORKING and len(v.uses) == 1
            for v in (x, y)
        ]
        require(any(made), "no operand takes work to make")

    def build(self, x: Value, y: Value, inner: Node, root: Node) -> Any:
        axes = _axes(root, inner.output)
        args = [_part(root, v, axes) for v in inner.operands()]
        return Call(inner.kind, tuple(args), inner.op.attributes())


WORKING = ("MatMul", "Gemm", "Conv", "Attention", *BINARY)
"""Operators that are worth to be computed in part."""


class CutBeforeProduct(Rule):
    """Slice of rows of MatMul(x, w) → MatMul(Slice(x), w), of columns → MatMul(x, Slice(w)) (Gather
    and Gemm too)
    """

    rows = ("G24",)
    rounding = _FEWER
    examples = (
        {"x": (3, 4), "w": (4, 5), "b": (5,), "cut": _SLICE, "i": int64s(1)},
        {"x": (2, 3, 4), "w": (4, 5), **_FIRST},
        {
            "x": (3, 4),
            "w": (4, 5),
            "b": (1, 5),
            "cut": [int64s(1), int64s(3), int64s(1)],
            "i": int64s(1, 3),
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable, cut: Variable, i: Variable) -> Any:
        weights = ops.const(w)
        plain = ops.matmul(x, weights, name="inner")
        gemm = ops.gemm(x, weights, ops.const(ops.maybe(b)), transA=0, name="inner")
        return [*_readers(plain, cut, i), *_readers(gemm, cut, i)]

    def when(self, x: Value, w: Value, inner: Node, root: Node, b: Value | None = None) -> None:
        require_float(w)
        require_shape(x, inner.output)
        require(w.rank == 2 and x.rank >= 2, "the weights are no matrix")
        axes, last = _axes(root, inner.output), inner.output.rank - 1
        require(axes == [last] or last not in axes, "it cuts rows and columns")
        require(inner.kind == "MatMul" or not _drops(root), "a matrix is needed")
        if axes == [last]:
            require(not _drops(root), "a matrix is needed")
            require_own(w)
        require(inner.kind == "MatMul" or b is None or b.rank <= 2, "the Gemm adds a matrix")
        if b is not None:
            _constant_part(root, inner.output, axes, b)

    def build(self, x: Value, w: Value, inner: Node, root: Node, b: Value | None = None) -> Any:
        axes = _axes(root, inner.output)
        bias = [] if b is None else [_constant_part(root, inner.output, axes, b)]
        if axes == [inner.output.rank - 1]:
            column = 0 if inner.op.attributes().get("transB", 0) else 1
            weights = _constant_columns(root, inner.output, w, column)
            return Call(inner.kind, (x, weights, *bias), inner.op.attributes())
        return Call(inner.kind, (_part(root, x, axes), w, *bias), inner.op.attributes())


def _constant_columns(root: Node, whole: Value, w: Value, column: int) -> Array:
    """The weights of the columns that are read."""
    last = whole.rank - 1
    if root.kind == "Gather":
        index = root.inputs[1]
        assert index is not None
        return np.take(data(w), data(index), axis=column)
    start, end, step = cuts(root)[last]
    first, length = fixed_range(whole, last, (start, end, 1))
    require(step > 0, "it runs backwards")
    return np.take(data(w), list(range(first, first + length, step)), axis=column)


class CutBeforeNormalization(Rule):
    """Slice(Softmax(x)) → Softmax(Slice(x)) along other axes (LayerNormalization, RMSNormalization;
    Gather too)
    """

    rows = ("G24",)
    rounding = _FEWER
    examples = (
        {"x": (3, 2, 4), "s": (4,), "b": (4,), **_FIRST},
        {
            "x": (2, 4, 3),
            "inner": {"axis": 1},
            "cut": [int64s(1), int64s(2), int64s(2)],
            "i": int64s(1),
        }
        | {"read": {"axis": 2}},
    )

    def match(self, x: Variable, s: Variable, b: Variable, cut: Variable, i: Variable) -> Any:
        along = [ops.softmax(x, name="inner"), Call("LogSoftmax", (x,), label="inner")]
        scaled = [
            Call("LayerNormalization", (x, s, ops.maybe(b)), label="inner"),
            ops.rms_normalization(x, s, name="inner"),
        ]
        return [reader for part in (*along, *scaled) for reader in _readers(part, cut, i)]

    def when(self, x: Value, inner: Node, root: Node) -> None:
        require_shape(x)
        axes, own = _axes(root, inner.output), attribute(inner, "axis") % x.rank
        alone = (
            own not in axes if inner.kind.endswith("Softmax") else all(axis < own for axis in axes)
        )
        require(alone, "it cuts what is normalized")
        require(not any(v.uses for v in inner.outputs[1:]), "its statistics are read")

    def build(self, x: Value, inner: Node, root: Node) -> Any:
        axes, own = _axes(root, inner.output), attribute(inner, "axis") % x.rank - x.rank
        if _drops(root) and axes[0] > own + x.rank:
            own += 1
        args = (_part(root, x, axes), *inner.inputs[1:])
        return Call(inner.kind, args, {**inner.op.attributes(), "axis": own})


class CutBeforeTranspose(Rule):
    """Slice(Transpose(x)) → Transpose(Slice(x)) (Gather too)"""

    rows = ("G24",)
    examples = (
        {"x": (3, 4, 2), "inner": {"perm": (2, 0, 1)}, **_FIRST},
        {"x": (3, 4, 2), "inner": {"perm": (2, 0, 1)}, **_FIRST, "i": int64s(1)},
    )

    def match(self, x: Variable, cut: Variable, i: Variable) -> Any:
        return _readers(ops.transpose(x, name="inner"), cut, i)

    def when(self, x: Value, inner: Node, root: Node) -> None:
        _axes(root, inner.output)

    def build(self, x: Value, inner: Node, root: Node) -> Any:
        perm = permutation(inner)
        axes = [perm[axis] for axis in _axes(root, inner.output)]
        part = _part(root, x, axes)
        if _drops(root):
            remaining = [p for p in perm if p != axes[0]]
            perm = tuple(sorted(remaining).index(p) for p in remaining)
        return part if perm == tuple(range(len(perm))) else ops.transpose(part, perm=perm)


class CutBeforeConv(Rule):
    """Slice of images of Conv(x, w) → Conv(Slice(x), w) (Gather and pooling too)"""

    rows = ("G24",)
    rounding = _FEWER
    examples = (
        {"x": (3, 2, 5, 5), "rest": [(4, 2, 3, 3)], "cut": _SLICE, "i": int64s(1), "inner": {}},
        {
            "x": (3, 2, 5, 5),
            "rest": [],
            "cut": _SLICE,
            "i": int64s(1),
            "inner": {"kernel_shape": (2, 2)},
        },
        {"x": (3, 2, 5, 5), "rest": [], "cut": _SLICE, "i": int64s(1), "inner": {}},
        {"x": (3, 2, 5, 5), "rest": [(2, 4, 3, 3)], "cut": _SLICE, "i": int64s(1), "inner": {}},
    )

    def match(self, x: Variable, rest: Variable, cut: Variable, i: Variable) -> Any:
        inner = ops.one_of(
            *(
                Call(kind, (x, ops.rest(rest)), label="inner")
                for kind in kinds_with(Trait.PER_IMAGE)
            )
        )
        return _readers(inner, cut, i)

    def when(self, inner: Node, root: Node) -> None:
        require(_axes(root, inner.output) == [0] and not _drops(root), "it cuts more than images")
        require(not any(v.uses for v in inner.outputs[1:]), "its places are read")

    def build(self, x: Value, inner: Node, root: Node) -> Any:
        return Call(inner.kind, (_part(root, x, [0]), *inner.inputs[1:]), inner.op.attributes())


RULES = (
    *(
        CutBeforeElements,
        CutBeforePair,
        CutBeforeProduct,
        CutBeforeNormalization,
        CutBeforeTranspose,
        CutBeforeConv,
    ),
)
