"""More operators without effect, and cheaper names for what others do."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.contraction import parse_equation
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import attribute, data, is_one, require_narrow_float, require_shape
from infuse.rewrite import Rule, require

_NONE = np.zeros(0, dtype=np.float32)


class RemoveResize(Rule):
    """Resize(x) by factors of one, or to its own sizes → x"""

    rows = ("G5",)
    examples = (
        {"x": (1, 2, 4, 3), "roi": _NONE, "scales": np.ones(4, np.float32)},
        {
            "x": (1, 2, 4, 3),
            "roi": _NONE,
            "none": _NONE,
            "sizes": int64s(4, 3),
            "root": {"axes": (2, 3)},
        },
    )

    def match(
        self, x: Variable, roi: Variable, scales: Variable, none: Variable, sizes: Variable
    ) -> Any:
        whole = ops.maybe(roi)
        return [
            ops.resize(x, whole, ops.const(scales)),
            ops.resize(x, whole, ops.maybe(none), ops.const(sizes)),
        ]

    def when(
        self, x: Value, root: Node, scales: Value | None = None, sizes: Value | None = None
    ) -> None:
        require_shape(x)
        require(
            attribute(root, "coordinate_transformation_mode") != "tf_crop_and_resize", "it crops"
        )
        require(root.output.type == x.type, "it resizes")
        require(scales is None or bool(np.all(data(scales) == 1)), "a factor is not one")
        require(sizes is None or x.tensor.is_static, "the sizes are not known")

    def build(self, x: Value) -> Any:
        return x


class RemoveGlobalPool(Rule):
    """GlobalAveragePool or GlobalMaxPool of one pixel → x"""

    rows = ("G5", "G31")
    examples = ({"x": (2, 3, 1, 1)},)

    def match(self, x: Variable) -> Any:
        return [ops.global_average_pool(x), ops.global_max_pool(x)]

    def when(self, x: Value) -> None:
        require_shape(x)
        require(all(is_one(size) for size in x.shape[2:]), "there are several pixels")

    def build(self, x: Value) -> Any:
        return x


class RemoveZeroBias(Rule):
    """Conv(x, w, zeros), ConvTranspose, Gemm alike → the same without a bias"""

    rows = ("G5", "G12")
    examples = (
        {"x": (1, 3, 4), "w": (3, 3, 2), "b": np.zeros(3, np.float32)},
        {"x": (2, 3), "w": (3, 4), "b": np.zeros((1, 4), np.float32)},
    )

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return [Call(kind, (x, w, ops.const(b))) for kind in ("Conv", "ConvTranspose", "Gemm")]

    def when(self, b: Value, root: Node) -> None:
        bias = data(b)  # the first element, which mostly decides it, is read faster than all
        require(bias.size and not bias.flat[0] and not bias.any(), "the bias is not zero")
        factor = root.op.attributes().get("beta", 1.0)
        require(np.isfinite(factor), "the bias is not a number")

    def build(self, x: Value, w: Value, root: Node) -> Any:
        return Call(root.kind, (x, w), root.op.attributes())


class RemoveTwin(Rule):
    """Max(x, x), Min(x, x), x and x, x or x → x"""

    rows = ("G5", "G26")

    def match(self, x: Variable) -> Any:
        return [Call(kind, (x, x)) for kind in ("Max", "Min", "And", "Or")]

    def build(self, x: Value) -> Any:
        return x


class GatherAsSlice(Rule):
    """Gather(x, constant neighbouring indices upwards) → Slice(x)"""

    rows = ("G8", "G24")
    examples = ({"x": (3, 9), "i": int64s(2, 3, 4), "root": {"axis": 1}},)

    def match(self, x: Variable, i: Variable) -> Any:
        return ops.gather(x, ops.const(i))

    def when(self, x: Value, i: Value, root: Node) -> None:
        require_shape(x)
        size = x.shape[attribute(root, "axis")]
        require(isinstance(size, int), "the size is not known")
        require(i.rank == 1 and data(i).size > 1, "there is one index")
        steps = np.diff(data(i).astype(np.int64))
        require(bool(np.all(steps == 1)), "the indices are not neighbours")
        require(data(i)[0] >= 0 and data(i)[-1] < size, "it counts from the end")

    def build(self, x: Value, i: Value, root: Node) -> Any:
        places = data(i).astype(np.int64)
        axis = attribute(root, "axis") % x.rank
        return ops.slice(x, int64s(places[0]), int64s(places[-1] + 1), int64s(axis))


class RemoveScatter(Rule):
    """ScatterND(x, every place in order, updates) → updates"""

    rows = ("G5",)
    examples = ({"x": (3, 4), "i": np.arange(3).reshape(3, 1), "u": (3, 4)},)

    def match(self, x: Variable, i: Variable, u: Variable) -> Any:
        return ops.scatter_nd(x, ops.const(i), u)

    def when(self, x: Value, i: Value, u: Value, root: Node) -> None:
        require(attribute(root, "reduction") == "none", "it adds to what is there")
        require_shape(x, u)
        require(u.type == x.type, "it does not write everything")
        places = data(i)
        require(places.ndim > 0 and places.shape[-1] > 0, "it writes everything at once")
        depth = places.shape[-1]
        require(
            depth <= x.rank and all(isinstance(n, int) for n in x.shape[:depth]),
            "the size is not known",
        )
        sizes = [int(n) for n in x.shape[:depth] if isinstance(n, int)]
        expected = np.indices(sizes).reshape(depth, -1).T
        flat = places.reshape(-1, depth)
        require(
            places.ndim == 2 or places.shape[:-1] == tuple(sizes),
            "the places are arranged otherwise",
        )
        require(
            flat.shape == expected.shape and bool(np.all(flat == expected)),
            "it leaves places out, or in another order",
        )

    def build(self, u: Value) -> Any:
        return u


class FuseUpsample(Rule):
    """Reshape(Expand(Reshape(x))) that repeats each pixel along rows and columns → Resize(x,
    nearest)
    """

    rows = ("G23", "G27")
    examples = tuple(
        {"x": (2, 3, 4, 5), "s": s, "r": r, "t": int64s(2, 3, 8, 15)}
        for s in (int64s(2, 3, 4, 1, 5, 1), int64s(3, 5))
        for r in (int64s(2, 3, 4, 2, 5, 3), int64s(1, 1, 1, 2, 1, 3))
    )

    def match(self, x: Variable, s: Variable, r: Variable, t: Variable) -> Any:
        cut = [Call(kind, (x, s), label="cut") for kind in ("Reshape", "Unsqueeze")]
        repeated = [Call(kind, (ops.one_of(*cut), r), label="wide") for kind in ("Expand", "Tile")]
        return [ops.reshape(part, t) for part in repeated]

    def when(self, x: Value, cut: Node, wide: Node, root: Node) -> None:
        require_narrow_float(x)
        require_shape(x, cut.output, wide.output, root.output)
        require(
            x.rank == root.output.rank == 4 and wide.output.rank == 6, "it does not repeat pixels"
        )
        n, c, h, w = x.shape
        require(cut.output.shape == (n, c, h, 1, w, 1), "it does not cut the pixels apart")
        rows, columns = wide.output.shape[3], wide.output.shape[5]
        require(isinstance(rows, int) and isinstance(columns, int), "the factors are not known")
        require(wide.output.shape == (n, c, h, rows, w, columns), "it repeats more than pixels")
        require(root.output.shape == (n, c, h * rows, w * columns), "it joins other axes")

    def build(self, x: Value, wide: Node) -> Any:
        factors = [
            n for n in (1, 1, wide.output.shape[3], wide.output.shape[5]) if isinstance(n, int)
        ]
        attributes = {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        return Call("Resize", (x, None, np.asarray(factors, dtype=np.float32)), attributes)


class EinsumOfOne(Rule):
    """Einsum of one operand → ReduceSum over the labels that go, Transpose of those that stay"""

    rows = ("G24",)
    rounding = "sums run in another order"
    examples = tuple(
        {"x": (2, 3, 4), "root": {"equation": equation}}
        for equation in ("abc->cab", "abc->ca", "abc->ab")
    )

    def match(self, x: Variable) -> Any:
        return ops.einsum(x)

    def when(self, x: Value, root: Node) -> None:
        require_shape(x)
        labels, remaining = self._labels(root)
        require(
            "." not in labels + remaining and len(set(labels)) == len(labels),
            "a label comes twice, or is not written out",
        )

    def build(self, x: Value, root: Node) -> Any:
        labels, remaining = self._labels(root)
        gone = [axis for axis, label in enumerate(labels) if label not in remaining]
        total = ops.reduce_sum(x, int64s(*gone), keepdims=0) if gone else x
        left = [label for label in labels if label in remaining]
        order = tuple(left.index(label) for label in remaining)
        return total if order == tuple(range(len(order))) else ops.transpose(total, perm=order)

    def _labels(self, root: Node) -> tuple[str, str]:
        terms, remaining = parse_equation(attribute(root, "equation"), 1)
        return terms[0], remaining


class CastConstantOfShape(Rule):
    """Cast(ConstantOfShape(s, number)) → ConstantOfShape(s, number in that type)"""

    rows = ("G8",)
    shares = True
    examples = (
        {
            "s": int64s(2, 3),
            "made": {"value": np.asarray([2.0], np.float32)},
            "root": {"to": dtypes.int64},
        },
    )

    def match(self, s: Variable) -> Any:
        return ops.cast(ops.constant_of_shape(s, name="made"))

    def when(self, made: Node, root: Node) -> None:
        source, target = made.output.dtype, root.output.dtype
        plain = all(
            d.kind in "fiub" and (d.bits >= 32 or not d.is_float) and d.bits >= 8
            for d in (source, target)
        )
        require(plain, f"{source} to {target} needs rules of its own")
        number = float(attribute(made, "value"))
        whole = (
            np.isfinite(number)
            and number == int(number)
            and abs(number) < 100
            and (number >= 0 or target.is_signed)
        )
        require(target.is_float or target.is_bool or whole, "it is rounded")

    def build(self, s: Value, made: Node, root: Node) -> Any:
        value = np.full(1, attribute(made, "value")).astype(root.output.dtype.numpy)
        return ops.constant_of_shape(s, value=value)


RULES = (
    RemoveResize,
    RemoveGlobalPool,
    RemoveZeroBias,
    RemoveTwin,
    GatherAsSlice,
    RemoveScatter,
    FuseUpsample,
    EinsumOfOne,
    CastConstantOfShape,
)
