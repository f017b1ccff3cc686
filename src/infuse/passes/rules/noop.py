"""Operators without effect at inference."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.graph import Node, Value, known_ints
from infuse.rewrite import Rule, require


class RemoveIdentity(Rule):
    """Identity(x) → x"""

    rows = ("G4",)

    def match(self, x: Any) -> Any:
        return ops.identity(x)

    def build(self, x: Value) -> Any:
        return x


class RemoveDropout(Rule):
    """Dropout(x) → x, at inference"""

    rows = ("G4",)

    def match(self, x: Any, more: Any) -> Any:
        return ops.dropout(x, ops.rest(more))

    def when(self, root: Node, more: tuple[Value | None, ...]) -> None:
        require(not any(v.uses for v in root.outputs[1:]), "the mask is read")
        training = more[1] if len(more) > 1 else None
        require(training is None or (training.const is not None and not training.const.any()), "it may train")

    def build(self, x: Value) -> Any:
        return x


class RemoveCast(Rule):
    """Cast(x) to its own type → x"""

    rows = ("G5",)

    def match(self, x: Any) -> Any:
        return ops.cast(x)

    def when(self, x: Value, root: Node) -> None:
        require(x.dtype == root.output.dtype, f"it converts {x.dtype} to {root.output.dtype}")

    def build(self, x: Value) -> Any:
        return x


class _SameShape(Rule):
    """A movement that leaves the shape as it is moves nothing."""

    rows = ("G5",)

    def when(self, x: Value, root: Node) -> None:
        require(x.tensor.shape is not None, "the shape is not known")
        require(x.type == root.output.type, f"it changes {x.type} to {root.output.type}")

    def build(self, x: Value) -> Any:
        return x


class RemoveExpand(_SameShape):
    """Expand(x, shape of x) → x"""

    def match(self, x: Any, shape: Any) -> Any:
        return ops.expand(x, shape)


class RemoveReshape(_SameShape):
    """Reshape(x, shape of x) → x"""

    def match(self, x: Any, shape: Any) -> Any:
        return [ops.reshape(x, shape), ops.flatten(x)]

    def build(self, x: Value) -> Any:
        return x


class RemoveTile(_SameShape):
    """Tile(x, ones) → x"""

    def match(self, x: Any, repeats: Any) -> Any:
        return ops.tile(x, repeats)

    def when(self, x: Value, repeats: Value, root: Node) -> None:
        known = known_ints(repeats)
        require(known is not None and all(r == 1 for r in known), "it repeats")


class RemoveSlice(Rule):
    """Slice(x) of everything → x"""

    rows = ("G5",)

    def match(self, x: Any, more: Any) -> Any:
        return ops.slice(x, ops.rest(more))

    def when(self, x: Value, more: tuple[Value | None, ...], root: Node) -> None:
        require(x.tensor.shape is not None and x.type == root.output.type, "it takes a part")
        steps = known_ints(more[3]) if len(more) > 3 else ()
        require(steps is not None and all(s == 1 for s in steps), "it steps through the elements")

    def build(self, x: Value) -> Any:
        return x


class RemoveTranspose(Rule):
    """Transpose(x) in the same order → x"""

    rows = ("G5",)

    def match(self, x: Any) -> Any:
        return ops.transpose(x)

    def when(self, x: Value, root: Node) -> None:
        perm = root.op.attributes()["perm"]
        require(x.tensor.shape is not None, "the rank is not known")
        moved = [p for p in (perm or range(x.rank)[::-1]) if x.shape[p] != 1]
        require(perm is not None or x.rank < 2, "it reverses the axes")
        require(moved == sorted(moved) and x.type == root.output.type, "it moves axes")

    def build(self, x: Value) -> Any:
        return x


class RemovePad(Rule):
    """Pad(x) by nothing → x"""

    rows = ("G5",)

    def match(self, x: Any, pads: Any, more: Any) -> Any:
        return ops.pad(x, pads, ops.rest(more))

    def when(self, pads: Value) -> None:
        known = known_ints(pads)
        require(known is not None and all(p == 0 for p in known), "it pads")

    def build(self, x: Value) -> Any:
        return x


class RemoveConcat(Rule):
    """Concat of one input → the input; empty operands of a Concat left out"""

    rows = ("G5",)

    def match(self, xs: Any) -> Any:
        return ops.concat(ops.rest(xs), name="concat")

    def when(self, xs: tuple[Value, ...], concat: Node) -> None:
        require(len(self._kept(xs, concat)) < len(xs) or len(xs) == 1, "no operand is empty")

    def build(self, xs: tuple[Value, ...], concat: Node) -> Any:
        kept = self._kept(xs, concat)
        return kept[0] if len(kept) == 1 else ops.concat(*kept, axis=concat.op.attributes()["axis"])

    def _kept(self, xs: tuple[Value, ...], concat: Node) -> list[Value]:
        axis = concat.op.attributes()["axis"]
        return [x for x in xs if x.tensor.shape is None or x.shape[axis] != 0] or list(xs[:1])


class RemovePool(Rule):
    """A pooling over one pixel with stride 1 → x"""

    rows = ("G5",)

    def match(self, x: Any) -> Any:
        return [ops.max_pool(x), ops.average_pool(x)]

    def when(self, x: Value, root: Node) -> None:
        given = root.op.attributes()
        require(all(k == 1 for k in given["kernel_shape"]), "the window has more than one pixel")
        require(all(s == 1 for s in given["strides"] or ()), "it skips pixels")
        require(not any(given["pads"] or ()) and x.type == root.output.type, "it pads")
        require(not any(v.uses for v in root.outputs[1:]), "the indices are read")

    def build(self, x: Value) -> Any:
        return x


class RemoveNeutral(Rule):
    """x + 0, x - 0, x · 1, x / 1, x ** 1 → x"""

    rows = ("G5", "G26")

    def match(self, x: Any) -> Any:
        return [x + 0.0, x - 0.0, x * 1.0, x / 1.0, x**1.0]

    def when(self, x: Value, root: Node) -> None:
        require(x.tensor.shape is not None and x.type == root.output.type, "the constant stretches the shape")

    def build(self, x: Value) -> Any:
        return x


class RemoveWhere(Rule):
    """Where with a constant condition that is the same everywhere → that side"""

    rows = ("G5",)

    def match(self, c: Any, a: Any, b: Any) -> Any:
        return ops.where(ops.const(c), a, b)

    def when(self, c: Value, a: Value, b: Value, root: Node) -> None:
        assert c.const is not None
        require(c.const.size > 0 and (c.const.all() or not c.const.any()), "the condition varies")
        kept = a if c.const.all() else b
        require(kept.type == root.output.type, "the other side stretches the shape")

    def build(self, c: Value, a: Value, b: Value) -> Any:
        assert c.const is not None
        return a if bool(np.all(c.const)) else b


class RemoveReduction(Rule):
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin over axes of size one, sizes kept → x"""

    rows = ("G5",)

    def match(self, x: Any, axes: Any) -> Any:
        kinds = (ops.reduce_mean, ops.reduce_sum, ops.reduce_max, ops.reduce_min)
        return [kind(x, ops.const(axes), keepdims=1) for kind in kinds]

    def when(self, x: Value, axes: Value, root: Node) -> None:
        known = known_ints(axes)
        require(known is not None and len(known) > 0 and x.tensor.shape is not None, "the axes are not known")
        assert known is not None
        sizes = [x.shape[a] for a in known if isinstance(a, int)]
        require(all(dims.compare("==", s, 1) for s in sizes), "an axis has more than one element")

    def build(self, x: Value) -> Any:
        return x


RULES = (
    *(RemoveIdentity, RemoveDropout, RemoveCast, RemoveExpand, RemoveReshape, RemoveTile, RemoveSlice),
    *(RemoveTranspose, RemovePad, RemoveConcat, RemovePool, RemoveNeutral, RemoveWhere, RemoveReduction),
)
