"""Operators without effect at inference."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.contents import known_ints
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ir.types import OptionalType
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    attribute,
    axes_of,
    data,
    is_one,
    permutation,
    require_same_type,
    require_unread,
)
from infuse.rewrite import Rule, require


class RemoveIdentity(Rule):
    """Identity(x) → x"""

    rows = ("G4",)

    def match(self, x: Variable) -> Any:
        return ops.identity(x)

    def build(self, x: Value) -> Any:
        return x


class RemoveOptional(Rule):
    """OptionalGetElement(Optional(x)) → x"""

    rows = ("G4",)

    def match(self, x: Variable) -> Any:
        return [ops.optional_get_element(ops.optional(x)), ops.optional_get_element(x)]

    def when(self, x: Value) -> None:
        require(not isinstance(x.type, OptionalType), "nobody knows whether it is there")

    def build(self, x: Value) -> Any:
        return x


class RemoveDropout(Rule):
    """Dropout(x) → x, at inference"""

    rows = ("G4",)

    def match(self, x: Variable, more: Variable) -> Any:
        return ops.dropout(x, ops.rest(more))

    def when(self, root: Node, more: tuple[Value | None, ...]) -> None:
        require_unread(root, "the mask is")
        training = more[1] if len(more) > 1 else None
        require(
            training is None or (training.const is not None and not training.const.any()),
            "it may train",
        )

    def build(self, x: Value) -> Any:
        return x


class RemoveCast(Rule):
    """Cast(x) to its own type → x"""

    rows = ("G5",)

    def match(self, x: Variable, y: Variable) -> Any:
        return [ops.cast(x), ops.cast_like(x, y)]

    def when(self, x: Value, root: Node) -> None:
        require(x.dtype == root.output.dtype, f"it converts {x.dtype} to {root.output.dtype}")

    def build(self, x: Value) -> Any:
        return x


class RemoveExpand(Rule):
    """Expand(x, shape of x) → x"""

    rows = ("G5",)

    def match(self, x: Variable, shape: Variable) -> Any:
        return ops.expand(x, shape)

    def when(self, x: Value, root: Node) -> None:
        require_same_type(x, root, "it stretches")

    def build(self, x: Value) -> Any:
        return x


class RemoveReshape(Rule):
    """Reshape, Flatten or Squeeze of x to its own shape → x"""

    rows = ("G5",)

    def match(self, x: Variable, more: Variable) -> Any:
        return [Call(kind, (x, ops.rest(more))) for kind in ("Reshape", "Flatten", "Squeeze")]

    def when(self, x: Value, root: Node) -> None:
        require_same_type(x, root, "it changes the shape")

    def build(self, x: Value) -> Any:
        return x


class RemoveTile(Rule):
    """Tile(x, ones) → x"""

    rows = ("G5",)

    def match(self, x: Variable, repeats: Variable) -> Any:
        return ops.tile(x, repeats)

    def when(self, x: Value, repeats: Value) -> None:
        counts = known_ints(repeats)
        require(counts is not None and all(r == 1 for r in counts), "it repeats")

    def build(self, x: Value) -> Any:
        return x


class RemoveSlice(Rule):
    """Slice(x) of everything → x"""

    rows = ("G5",)
    examples = (
        {
            "x": (4, 4),
            "starts": int64s(0),
            "ends": int64s(9),
            "axes": int64s(1),
            "steps": int64s(1),
        },
    )

    def match(
        self, x: Variable, starts: Variable, ends: Variable, axes: Variable, steps: Variable
    ) -> Any:
        return ops.slice(x, starts, ends, ops.maybe(axes), ops.maybe(steps))

    def when(self, x: Value, steps: Value | None, root: Node) -> None:
        require_same_type(x, root, "it takes a part")
        strides = () if steps is None else known_ints(steps)
        require(
            strides is not None and all(s == 1 for s in strides), "it steps through the elements"
        )

    def build(self, x: Value) -> Any:
        return x


class RemoveTranspose(Rule):
    """Transpose(x) in the same order, axes of size one aside → x"""

    rows = ("G5",)

    def match(self, x: Variable) -> Any:
        return ops.transpose(x)

    def when(self, x: Value, root: Node) -> None:
        require_same_type(x, root, "it moves axes")
        moved = [p for p in permutation(root) if not is_one(x.shape[p])]
        require(moved == sorted(moved), "it moves axes")

    def build(self, x: Value) -> Any:
        return x


class RemovePad(Rule):
    """Pad(x) by nothing → x"""

    rows = ("G5",)
    examples = ({"x": (4, 4), "pads": int64s(0, 0, 0, 0), "more": []},)

    def match(self, x: Variable, pads: Variable, more: Variable) -> Any:
        return ops.pad(x, pads, ops.rest(more))

    def when(self, pads: Value) -> None:
        widths = known_ints(pads)
        require(widths is not None and all(p == 0 for p in widths), "it pads")

    def build(self, x: Value) -> Any:
        return x


class RemoveSingle(Rule):
    """Concat, Sum, Mean, Max, Min of one input, Split into one part → the input"""

    rows = ("G5",)

    def match(self, x: Variable, more: Variable) -> Any:
        variadic = [Call(kind, (x,)) for kind in ("Concat", "Sum", "Mean", "Max", "Min")]
        return [*variadic, ops.split(x, ops.rest(more))]

    def when(self, x: Value, root: Node) -> None:
        require(len(root.outputs) == 1, "there are several parts")
        require_same_type(x, root, "the part is not known to be the whole")

    def build(self, x: Value) -> Any:
        return x


class RemoveEmptyOperands(Rule):
    """Concat(x, empty, y) → Concat(x, y)"""

    rows = ("G5",)
    examples = ({"xs": [(4, 4), (0, 4)], "root": {"axis": 0}},)

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        require(len(self._kept(xs, root)) < len(xs), "no operand is empty")

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        return ops.concat(*self._kept(xs, root), axis=attribute(root, "axis"))

    def _kept(self, xs: tuple[Value, ...], root: Node) -> list[Value]:
        axis = attribute(root, "axis")
        operands = [x for x in xs if x.tensor.shape is None or x.shape[axis] != 0]
        return operands or list(xs[:1])


class RemovePool(Rule):
    """A pooling over one pixel with stride 1 → x"""

    rows = ("G5",)
    examples = ({"x": (1, 4, 4, 4), "root": {"kernel_shape": (1, 1)}},)

    def match(self, x: Variable) -> Any:
        return [ops.max_pool(x), ops.average_pool(x)]

    def when(self, x: Value, root: Node) -> None:
        attributes = root.op.attributes()
        require(
            all(k == 1 for k in attributes["kernel_shape"]), "the window has more than one pixel"
        )
        require(all(s == 1 for s in attributes["strides"] or ()), "it skips pixels")
        require(not any(attributes["pads"] or ()) and x.type == root.output.type, "it pads")
        require_unread(root, "the indices are")

    def build(self, x: Value) -> Any:
        return x


class RemoveNeutral(Rule):
    """x + 0, x - 0, x · 1, x / 1, x ** 1, x and true, x or false, x xor false → x (-0 + 0 stays
    -0)
    """

    rows = ("G5", "G26")
    rounding = "-0 + 0 stays -0, where it would be 0"

    def match(self, x: Variable) -> Any:
        logic = [
            Call(kind, (x, neutral))
            for kind, neutral in (("And", True), ("Or", False), ("Xor", False))
        ]
        return [x + 0.0, x - 0.0, x * 1.0, x / 1.0, x**1.0, *logic]

    def when(self, x: Value, root: Node) -> None:
        require_same_type(x, root, "the constant stretches the shape")

    def build(self, x: Value) -> Any:
        return x


class RemoveWhere(Rule):
    """Where with a constant condition that is the same everywhere, or two equal sides → that
    side
    """

    rows = ("G5",)

    def match(self, c: Variable, a: Variable, b: Variable) -> Any:
        return [ops.where(ops.const(c), a, b), ops.where(c, a, a)]

    def when(self, c: Value, a: Value, root: Node) -> None:
        choice = self._kept(c, a, root)
        require_same_type(choice, root, "the other side stretches the shape")

    def build(self, c: Value, a: Value, root: Node) -> Any:
        return self._kept(c, a, root)

    def _kept(self, c: Value, a: Value, root: Node) -> Value:
        other = root.inputs[2]
        assert other is not None
        if other is a:
            return a
        chosen = data(c)
        require(chosen.size > 0 and (chosen.all() or not chosen.any()), "the condition varies")
        return a if chosen.all() else other


class RemoveReduction(Rule):
    """ReduceMean, ReduceSum, ReduceProd, ReduceMax, ReduceMin over axes of size one → x, reshaped
    where they go
    """

    rows = ("G5", "G7")

    def match(self, x: Variable, axes: Variable) -> Any:
        kinds = ("ReduceMean", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
        return [Call(kind, (x, ops.const(axes))) for kind in kinds]

    def when(self, x: Value, axes: Value) -> None:
        numbers = axes_of(axes, x)
        require(len(numbers) > 0, "the axes are all or none")
        require(all(is_one(x.shape[a]) for a in numbers), "an axis has more than one element")

    def build(self, x: Value, axes: Value, root: Node) -> Any:
        return (
            x
            if attribute(root, "keepdims")
            else ops.squeeze(x, np.asarray(axes_of(axes, x), dtype=np.int64))
        )


class RemoveReductionOfNothing(Rule):
    """ReduceMean, ReduceSum, ReduceProd, ReduceMax, ReduceMin with noop_with_empty_axes and no axes
    → x
    """

    rows = ("G5",)
    examples = tuple(
        {"x": (3, 4), "axes": int64s(), "root": {"noop_with_empty_axes": 1, "keepdims": keep}}
        for keep in (0, 1)
    )

    def match(self, x: Variable, axes: Variable) -> Any:
        kinds = ("ReduceMean", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
        return [Call(kind, (x, ops.const(ops.maybe(axes)))) for kind in kinds]

    def when(self, axes: Value | None, root: Node) -> None:
        require(axes is None or axes.tensor.size == 0, "it reduces axes")
        require(attribute(root, "noop_with_empty_axes"), "without axes it reduces all")

    def build(self, x: Value) -> Any:
        return x


class RemoveClip(Rule):
    """Clip(x, -∞, ∞) → x; without limits infinities become finite"""

    rows = ("G5",)
    examples = ({"x": (4,), "low": np.float32(-np.inf), "high": np.float32(np.inf)},)

    def match(self, x: Variable, low: Variable, high: Variable) -> Any:
        return ops.clip(x, ops.const(low), ops.const(high))

    def when(self, low: Value, high: Value) -> None:
        for limit, far in ((low, -np.inf), (high, np.inf)):
            require(float(data(limit).flat[0]) == far, "it has a limit")

    def build(self, x: Value) -> Any:
        return x


RULES = (
    RemoveIdentity,
    RemoveOptional,
    RemoveDropout,
    RemoveCast,
    RemoveExpand,
    RemoveReshape,
    RemoveTile,
    RemoveSlice,
    RemoveTranspose,
    RemovePad,
    RemoveSingle,
    RemoveEmptyOperands,
    RemovePool,
    RemoveNeutral,
    RemoveWhere,
    RemoveReduction,
    RemoveReductionOfNothing,
    RemoveClip,
)
