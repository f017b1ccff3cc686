"""Slices, concatenations, splits, gathers and pads that cancel or merge."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.ops.movement import bounds
from infuse.passes.rules.common import attribute, data, require_shape
from infuse.rewrite import Refusal, Rule, require

Cut = dict[int, tuple[int, int, int]]
END = 2**63 - 1


def cuts(node: Node) -> Cut:
    """Start, end and step of each axis that a Slice cuts; Refusal where they are not constant."""
    value, columns = node.inputs[0], [known_ints(node.input(i)) for i in (1, 2)]
    assert value is not None
    require_shape(value)
    starts, ends = columns
    require(starts is not None and ends is not None, "the range is computed")
    assert starts is not None
    assert ends is not None
    axes = tuple(range(len(starts))) if node.input(3) is None else known_ints(node.input(3))
    steps = (1,) * len(starts) if node.input(4) is None else known_ints(node.input(4))
    require(axes is not None and steps is not None, "the range is computed")
    result: Cut = {}
    for axis, start, end, step in zip(axes or (), starts, ends, steps or ()):
        if not all(isinstance(n, int) for n in (axis, start, end, step)):
            raise Refusal("the range is symbolic")
        result[int(axis) % value.rank] = (int(start), int(end), int(step))
    return result


def sliced(x: Value, cut: Cut) -> Any:
    """The Slice of x with these ranges."""
    axes = sorted(cut)
    columns = [np.asarray([cut[a][i] for a in axes], dtype=np.int64) for i in range(3)]
    return ops.slice(x, columns[0], columns[1], np.asarray(axes, dtype=np.int64), columns[2])


def fixed_range(x: Value, axis: int, cut: tuple[int, int, int]) -> tuple[int, int]:
    """First index and length of a slice with step 1 of an axis of known size."""
    size = x.shape[axis]
    require(isinstance(size, int), "the size is not known")
    assert isinstance(size, int)
    require(cut[2] == 1, "it steps through the elements")
    start, end = bounds(size, *cut)
    return start, max(end - start, 0)


def _cut(places: range, cut: tuple[int, int, int]) -> range:
    """What a slice leaves of places. ONNX counts backwards from the first one at least."""
    start, end = bounds(len(places), *cut)
    return places[start : None if end < 0 else end : cut[2]] if places else places


class MergeSlices(Rule):
    """Slice(Slice(x)) → Slice(x), with steps too"""

    rows = ("G8",)
    shares = True
    examples = tuple(
        {
            "x": (9, 4),
            "a": [int64s(a[0]), int64s(a[1]), int64s(0), int64s(a[2])],
            "b": [int64s(b[0]), int64s(b[1]), int64s(0), int64s(b[2])],
        }
        for a, b in (
            ((1, 7, 1), (2, 5, 1)),
            ((1, 99, 2), (0, 99, 2)),
            ((-1, -99, -1), (1, 6, 3)),
            ((0, 99, 3), (-1, -99, -1)),
            ((-99, -99, -1), (-2, 9, 2)),
        )
    )

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        return ops.slice(ops.slice(x, ops.rest(a), name="inner"), ops.rest(b), name="outer")

    def when(self, x: Value, inner: Node, outer: Node) -> None:
        self._merged(x, inner, outer)

    def build(self, x: Value, inner: Node, outer: Node) -> Any:
        return sliced(x, self._merged(x, inner, outer))

    def _merged(self, x: Value, inner: Node, outer: Node) -> Cut:
        first, second = cuts(inner), cuts(outer)
        merged = {**first, **second}
        for axis in first.keys() & second.keys():
            size = x.shape[axis]
            require(isinstance(size, int), "the size is not known")
            assert isinstance(size, int)
            places = _cut(_cut(range(size), first[axis]), second[axis])
            end = places.stop if places.stop >= 0 else -size - 1
            merged[axis] = (places.start, end, places.step) if places else (0, 0, 1)
        return merged


class MergeConcats(Rule):
    """Concat(Concat(x, y), z) along one axis → Concat(x, y, z)"""

    rows = ("G8",)
    reads = ("Concat",)
    examples = (
        {"xs": [Call("Concat", ((4, 3), (4, 2)), {"axis": 1}), (4, 1)], "root": {"axis": -1}},
    )

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        require(
            any(self._parts(x, root) is not None for x in xs),
            "no operand is a Concat for it alone along its axis",
        )

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        flat = [part for x in xs for part in (self._parts(x, root) or [x])]
        return ops.concat(*flat, axis=attribute(root, "axis"))

    def _parts(self, x: Value, root: Node) -> list[Value] | None:
        """The operands of the Concat that makes `x` for `root` alone, None where there is none."""
        node = x.producer
        if node is None or node.kind != "Concat" or node.op.domain or node.graph is not root.graph:
            return None
        axes = [attribute(n, "axis") % x.rank for n in (node, root) if x.tensor.shape is not None]
        alone = len(x.uses) == 1
        return list(node.operands()) if alone and len(axes) == 2 and axes[0] == axes[1] else None


_HALVES = Call("Split", ((4, 6),), {"axis": 1, "num_outputs": 2})


class RemoveSplitConcat(Rule):
    """Concat(Split(x)) of all parts in order → x"""

    rows = ("G9",)
    reads = ("Split",)
    shares = True
    examples = ({"xs": [_HALVES, _HALVES[1]], "root": {"axis": 1}},)

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        split = xs[0].producer
        require(
            split is not None and split.kind == "Split" and split.op.domain == "",
            "the operands are not Split",
        )
        assert split is not None
        require(list(xs) == split.outputs, "it does not join all parts in order")
        source = split.inputs[0]
        assert source is not None
        require_shape(source)
        axes = [attribute(node, "axis") % source.rank for node in (split, root)]
        require(axes[0] == axes[1], "it joins along another axis")
        sizes = root.output.shape[axes[0]], source.shape[axes[0]]
        parts = attribute(split, "num_outputs") or len(xs)
        require(
            parts == len(xs) and dims.compare("==", *sizes) is not False,
            "some parts are not joined",
        )

    def build(self, xs: tuple[Value, ...]) -> Any:
        assert xs[0].producer is not None
        return xs[0].producer.inputs[0]


class RemoveConcatSplit(Rule):
    """Split(Concat(x, y)) into the operands → x, y"""

    rows = ("G9",)
    shares = True

    def match(self, xs: Variable, more: Variable) -> Any:
        return ops.split(ops.concat(ops.rest(xs), name="concat"), ops.rest(more), name="split")

    def when(self, xs: tuple[Value, ...], concat: Node, split: Node) -> None:
        require_shape(*xs)
        axes = [attribute(node, "axis") % xs[0].rank for node in (concat, split)]
        require(axes[0] == axes[1], "it splits along another axis")
        sizes = [x.shape[axes[0]] for x in xs]
        parts = [v.shape[axes[0]] for v in split.outputs]
        require(sizes == parts, "it cuts at other places")

    def build(self, xs: tuple[Value, ...]) -> Any:
        return tuple(xs)


class RemoveConcatSlice(Rule):
    """Slice(Concat(x, y)) inside one operand → that operand, or a Slice of it"""

    rows = ("G9",)
    shares = True

    def match(self, xs: Variable, more: Variable) -> Any:
        return ops.slice(ops.concat(ops.rest(xs), name="concat"), ops.rest(more), name="slice")

    def when(self, xs: tuple[Value, ...], concat: Node, slice: Node) -> None:
        self._found(xs, concat, slice)

    def build(self, xs: tuple[Value, ...], concat: Node, slice: Node) -> Any:
        part, cut = self._found(xs, concat, slice)
        return sliced(part, cut)

    def _found(self, xs: tuple[Value, ...], concat: Node, slice: Node) -> tuple[Value, Cut]:
        """The operand in which the slice lies, and the slice of that."""
        require_shape(concat.output)
        axis, cut = attribute(concat, "axis") % concat.output.rank, cuts(slice)
        require(axis in cut, "it cuts another axis")
        start, length = fixed_range(concat.output, axis, cut[axis])
        before = 0
        for x in xs:
            size = x.shape[axis]
            assert isinstance(size, int)
            if before <= start and start + length <= before + size:
                return x, {**cut, axis: (start - before, start - before + length, 1)}
            before += size
        raise Refusal("it takes elements of several operands")


class CountIndicesFromFront(Rule):
    """Gather(x, negative constant) → Gather(x, the same counted from the front)"""

    rows = ("G5",)

    def match(self, x: Variable, i: Variable) -> Any:
        return ops.gather(x, ops.const(i))

    def when(self, x: Value, i: Value, root: Node) -> None:
        require(bool((data(i) < 0).any()), "no index counts from the end")
        require(x.tensor.shape is not None, "the size is not known")
        require(isinstance(x.shape[attribute(root, "axis")], int), "the size is not known")

    def build(self, x: Value, i: Value, root: Node) -> Any:
        axis, places = attribute(root, "axis"), data(i)
        size = x.shape[axis]
        assert isinstance(size, int)
        return ops.gather(
            x, np.where(places < 0, places + size, places).astype(places.dtype), axis=axis
        )


class SqueezeSliceAsGather(Rule):
    """Squeeze(Slice(x)) of one index → Gather(x, index)"""

    rows = ("G8",)
    examples = ({"x": (3, 4), "cut": [int64s(-2), int64s(3), int64s(1)], "axes": int64s(1)},)

    def match(self, x: Variable, cut: Variable, axes: Variable) -> Any:
        return ops.squeeze(ops.slice(x, ops.rest(cut), name="slice"), axes)

    def when(self, x: Value, slice: Node, root: Node) -> None:
        self._place(x, slice, root)

    def build(self, x: Value, slice: Node, root: Node) -> Any:
        axis, index = self._place(x, slice, root)
        return ops.gather(x, np.asarray(index, dtype=np.int64), axis=axis)

    def _place(self, x: Value, slice: Node, root: Node) -> tuple[int, int]:
        cut = cuts(slice)
        require(len(cut) == 1, "it cuts several axes")
        ((axis, place),) = cut.items()
        start, length = fixed_range(x, axis, place)
        require(length == 1, "it takes several elements")
        axes = known_ints(root.input(1))
        require(
            axes is not None and [int(a) % x.rank for a in axes if isinstance(a, int)] == [axis],
            "other axes go",
        )
        return axis, start


_ZERO = np.zeros((), dtype=np.float32)


class MergePads(Rule):
    """Pad(Pad(x)) with one constant → Pad(x)"""

    rows = ("G8",)
    examples = (
        {
            "x": (3, 4),
            "a": int64s(1, 0, 0, 2),
            "b": int64s(0, 3, 1, 0),
            "fill": _ZERO,
            "other": _ZERO,
        },
    )

    def match(self, x: Variable, a: Variable, b: Variable, fill: Variable, other: Variable) -> Any:
        inner = ops.pad(x, ops.const(a), ops.const(ops.maybe(fill)), mode="constant")
        return ops.pad(inner, ops.const(b), ops.const(ops.maybe(other)), mode="constant")

    def when(self, a: Value, b: Value, fill: Value | None, other: Value | None) -> None:
        require(bool((data(a) >= 0).all() and (data(b) >= 0).all()), "one cuts off")
        numbers = [0.0 if v is None else float(data(v).flat[0]) for v in (fill, other)]
        require(numbers[0] == numbers[1], "they fill with different numbers")

    def build(self, x: Value, a: Value, b: Value, fill: Value | None) -> Any:
        return ops.pad(x, data(a) + data(b), *([] if fill is None else [fill]))


RULES = (
    MergeSlices,
    RemoveSplitConcat,
    RemoveConcatSplit,
    RemoveConcatSlice,
    MergeConcats,
    CountIndicesFromFront,
    SqueezeSliceAsGather,
    MergePads,
)
