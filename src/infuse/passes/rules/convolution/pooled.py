"""Convolutions that see one pixel beside poolings and steps: the fewest pixels are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.conversion import finite_limit
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    reach,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    FUNCTIONS,
    RESHAPES,
    attribute,
    axes_of,
    data,
    is_one,
    require_float,
    require_kernel,
    require_shape,
    require_unread,
    reshape_target,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import convolution, old_bias
from infuse.passes.rules.convolution.window import Window, conv_weights, require_explicit
from infuse.passes.rules.linear.chains import require_cheaper, require_filled, saving, wide_shape
from infuse.passes.rules.linear.linear import per_column
from infuse.rewrite import Rule, require


class PoolBeforeConv(Rule):
    """AveragePool(Conv(x, w, b)) with one pixel a window → Conv(AveragePool(x), w, b); global pools
    too
    """

    rows = ("G14", "G25")
    rounding = "means are taken before sums"
    examples = (
        {
            "x": (2, 3, 4, 6),
            "w": (5, 3, 1, 1),
            "b": (5,),
            "axes": int64s(2, 3),
            "mean": {"keepdims": 1},
            "pool": {"kernel_shape": (2, 2), "strides": (2, 2)},
        },
        {
            "x": (2, 4, 7),
            "w": (4, 2, 1),
            "b": (4,),
            "axes": int64s(-1),
            "conv": {"group": 2},
            "pool": {"kernel_shape": (3,), "strides": (2,), "pads": (1, 1)},
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable, axes: Variable) -> Any:
        conv = convolution("Conv", x, w, b)
        mean = Call("ReduceMean", (conv, ops.const(axes)), {"keepdims": 1})
        return [ops.average_pool(conv, name="pool"), ops.global_average_pool(conv), mean]

    def when(
        self,
        w: Value,
        b: Value | None,
        conv: Node,
        axes: Value | None = None,
        pool: Node | None = None,
    ) -> None:
        require_float(w)
        require_explicit(conv)
        require(Window.of(conv).is_point, "the convolution sees several pixels")
        shape = conv.output.shape
        require_filled(w)
        if axes is not None:
            require(
                sorted(axes_of(axes, conv.output)) == list(range(2, len(shape))),
                "other axes than the spatial ones",
            )
        if pool is not None:
            require_explicit(pool)
            window = Window.of(pool)
            require(math.prod(window.strides) > 1, "as many pixels remain")
            bare = attribute(pool, "count_include_pad") and (
                any(window.pads) or attribute(pool, "ceil_mode")
            )
            require(b is None or not bare, "the padding counts, and has no bias")
        else:
            require(not all(is_one(size) for size in shape[2:]), "there is one pixel")
        if b is not None:
            require_addend(wide(b), w.dtype, reach(w, wide_shape(w)[0]))
        self._require_less(conv, 4 if pool is None else math.prod(Window.of(pool).strides))

    def build(self, x: Value, w: Value, b: Value | None, conv: Node, root: Node) -> Any:
        pooled = Call(root.kind, (x, *root.inputs[1:]), root.op.attributes())
        return Call("Conv", (pooled, w, *([] if b is None else [b])), conv.op.attributes())

    def note(self, w: Value, root: Node) -> str:
        filters, depth = wide_shape(w)[:2]
        return (
            f"{filters * depth} multiplications for each pixel of {root.kind}, no longer for each "
            "before it"
        )

    def _require_less(self, conv: Node, pixels: int) -> None:
        """Refuse where pooling more channels costs more than the convolution saves, for each
        remaining pixel.
        """
        filters, depth = conv_weights(conv)[:2]
        channels = depth * int(attribute(conv, "group"))
        require(
            (pixels - 1) * filters * depth >= pixels * (channels - filters),
            "pooling first costs more",
        )


class FuseConvGemm(Rule):
    """Gemm(Conv(x, w, p) of one pixel, flat, m, q) → Conv(x, w · m, p · m + q), flat; MatMul too;
    where cheaper
    """

    rows = ("G14", "G21")
    rounding = "weights are multiplied first"
    examples = tuple(
        {
            "x": (2, 3, 2, 2),
            "w": (6, 3, 2, 2),
            "p": (6,),
            "m": m,
            "q": (1, 5),
            "gemm": gemm,
            "more": more,
        }
        for m, gemm in (((6, 5), {"alpha": 0.5, "beta": 2.0}), ((5, 6), {"transB": 1}))
        for more in ([int64s(2, 6)], [], [int64s(2, 3)])
    )

    def match(
        self, x: Variable, w: Variable, p: Variable, m: Variable, q: Variable, more: Variable
    ) -> Any:
        conv = convolution("Conv", x, w, p)
        flat = ops.one_of(
            *(Call(kind, (conv, ops.rest(more)), label="flat") for kind in RESHAPES[:3])
        )
        gemm = ops.gemm(flat, ops.const(m), ops.const(ops.maybe(q)), name="gemm")
        return [gemm, ops.matmul(flat, ops.const(m))]

    def when(
        self, w: Value, m: Value, conv: Node, flat: Node, root: Node, q: Value | None = None
    ) -> None:
        require_float(w)
        require_filled(w, m)
        shape = conv.output.tensor.shape
        require(
            shape is not None and all(is_one(size) for size in shape[2:]),
            "there are several pixels",
        )
        assert shape is not None
        require(attribute(conv, "group") == 1, "there are groups")
        require(flat.output.tensor.shape == shape[:2], "the channels are arranged anew")
        require(m.rank == 2 and not root.op.attributes().get("transA"), "pixels become columns")
        require_cheaper(*self._costs(w, m))
        if q is not None:
            per_column(q, root.output.shape[1])

    def build(
        self,
        x: Value,
        w: Value,
        p: Value | None,
        m: Value,
        conv: Node,
        root: Node,
        q: Value | None = None,
    ) -> Any:
        attributes = root.op.attributes()
        matrix = (wide(m).T if attributes.get("transB") else wide(m)) * attributes.get("alpha", 1.0)
        require_factors(w.dtype, w, m)
        args = [x, rounded(np.tensordot(matrix, wide(w), (0, 0)), w)]
        if p is not None or q is not None:
            own = old_bias(p, wide_shape(w)[0]) @ matrix
            later = (
                np.zeros_like(own)
                if q is None
                else per_column(q, matrix.shape[1]) * attributes["beta"]
            )
            if p is not None:
                require_addend(wide(p), w.dtype, reach(w, wide_shape(w)[0]))
            if p is not None and q is not None:
                require_sum(own, later, w.dtype, magnitude(w) * magnitude(m))
            args.append(rounded(own + later, w))
        wider = (*conv.output.shape[:1], matrix.shape[1], *conv.output.shape[2:])
        target = reshape_target(wider, root.output.shape)
        return ops.reshape(Call("Conv", tuple(args), conv.op.attributes()), target)

    def note(self, w: Value, m: Value) -> str:
        return saving(*self._costs(w, m), "row")

    def _costs(self, w: Value, m: Value) -> tuple[int, int]:
        filters, *taps = wide_shape(w)
        columns = math.prod(wide_shape(m)) // filters
        return filters * (math.prod(taps) + columns), columns * math.prod(taps)


class PullStride(Rule):
    """Conv(f(Conv(x, a)), b) with one pixel a window and steps → the steps in the inner
    convolution
    """

    rows = ("G25",)
    rounding = "a library may sum fewer pixels in another order"
    examples = (
        {
            "x": (1, 2, 7, 6),
            "a": (3, 2, 3, 3),
            "b": (4, 3, 1, 1),
            "more": [(3,)],
            "rest": [],
            "outer": {"strides": (2, 2)},
        },
        {
            "x": (1, 2, 9),
            "a": (3, 2, 2),
            "b": (4, 3, 1),
            "more": [],
            "rest": [(4,)],
            "outer": {"strides": (3,)},
        },
    )

    def match(self, x: Variable, a: Variable, b: Variable, more: Variable, rest: Variable) -> Any:
        inner = ops.conv(x, a, ops.rest(more), name="inner")
        between = (Call(kind, (inner,), label="f") for kind in FUNCTIONS)
        return ops.conv(ops.one_of(inner, *between), b, ops.rest(rest), name="outer")

    def when(self, b: Value, inner: Node, outer: Node) -> None:
        require_explicit(inner, outer)
        require_shape(b, inner.output)
        window = attribute(outer, "strides")
        require(math.prod(window or (1,)) > 1, "it takes every pixel")
        require(all(is_one(size) for size in b.shape[2:]), "it sees several pixels")
        require(not any(attribute(outer, "pads") or ()), "it pads")
        require(inner.output.rank == len(window) + 2, "the shape is not known")

    def build(
        self,
        x: Value,
        a: Value,
        b: Value,
        inner: Node,
        outer: Node,
        more: tuple[Value | None, ...],
        rest: tuple[Value | None, ...],
        f: Node | None = None,
    ) -> Any:
        steps = attribute(outer, "strides")
        own = attribute(inner, "strides") or (1,) * len(steps)
        attributes = {**inner.op.attributes(), "strides": tuple(s * t for s, t in zip(own, steps))}
        fewer = Call("Conv", (x, a, *more), attributes)
        between = fewer if f is None else Call(f.kind, (fewer,), f.op.attributes())
        return Call("Conv", (between, b, *rest), {**outer.op.attributes(), "strides": ()})


class PoolAsGlobalPool(Rule):
    """AveragePool or MaxPool of all pixels in one window → GlobalAveragePool, GlobalMaxPool"""

    rows = ("G31",)
    rounding = "means are summed in another order"
    examples = ({"x": (2, 3, 4, 5), "root": {"kernel_shape": (4, 5)}},)

    def match(self, x: Variable) -> Any:
        return [ops.average_pool(x), ops.max_pool(x)]

    def when(self, x: Value, root: Node) -> None:
        require_kernel(x)
        require_shape(x)
        require_explicit(root)
        require_unread(root, "the indices are")
        window = Window.of(root)
        require(
            not any(window.pads) and x.shape[2:] == window.kernel,
            "the window does not see all pixels",
        )
        require(
            all(d == 1 or k == 1 for d, k in zip(window.dilations, window.kernel)),
            "it leaves out pixels",
        )

    def build(self, x: Value, root: Node) -> Any:
        return Call(f"Global{root.kind}", (x,))


class FusePadPool(Rule):
    """AveragePool(Pad(x, 0)) that counts padding → AveragePool with larger pads; MaxPool(Pad(x,
    -∞)) → MaxPool (also with the lowest number)
    """

    rows = ("G12",)
    examples = tuple(
        {"x": x, "p": int64s(0, 0, 1, 0, 0, 0, 0, 1), "fill": fill, "root": root}
        for x, fill, root in (
            ((1, 2, 5, 5), np.float32(0), {"kernel_shape": (2, 2), "count_include_pad": 1}),
            ((1, 2, 5, 5), np.finfo(np.float32).min, {"kernel_shape": (3, 3)}),
            ((1, 2, 5, 5), np.float32(-np.inf), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
            (Call("Relu", ((1, 2, 5, 5),)), np.float32(0), {"kernel_shape": (2, 2)}),
        )
    )

    def match(self, x: Variable, p: Variable, fill: Variable) -> Any:
        padded = ops.pad(x, ops.const(p), ops.const(ops.maybe(fill)), mode="constant")
        return [ops.average_pool(padded), ops.max_pool(padded)]

    def when(self, x: Value, p: Value, fill: Value | None, root: Node) -> None:
        require_float(x)
        require_shape(x)
        require_explicit(root)
        require_unread(root, "the indices are")
        require(not attribute(root, "ceil_mode"), "the last windows may begin in the padding")
        number = 0.0 if fill is None else float(data(fill).flat[0])
        begins, ends = self._amounts(x, p)
        require(
            min(*begins, *ends) >= 0 and not any((*begins[:2], *ends[:2])),
            "other than pixels are padded",
        )
        window = Window.of(root)
        if root.kind == "AveragePool":
            counts = attribute(root, "count_include_pad") or not any(window.pads)
            require(number == 0 and counts, "the padding is not counted as zeros")
        else:
            maker = x.producer
            positive = maker is not None and maker.kind == "Relu" and number == 0
            lowest = finite_limit(x.dtype)
            least = number == -np.inf or (lowest is not None and number <= -lowest)
            require(least or positive, "the padding may be the largest")
        total = self._pads(x, p, root)
        reach = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations)]
        require(all(n < k for n, k in zip(total, reach * 2)), "a window may lie in the padding")
        require(
            root.kind == "AveragePool" or all(d == 1 for d in window.dilations),
            "a window may skip the pixels",
        )

    def build(self, x: Value, p: Value, root: Node) -> Any:
        attributes = {**root.op.attributes(), "pads": self._pads(x, p, root), "auto_pad": "NOTSET"}
        if root.kind == "AveragePool":
            attributes["count_include_pad"] = 1
        return Call(root.kind, (x,), attributes)

    def _amounts(self, x: Value, p: Value) -> tuple[list[int], list[int]]:
        numbers = [int(n) for n in data(p)]
        return numbers[: x.rank], numbers[x.rank :]

    def _pads(self, x: Value, p: Value, root: Node) -> tuple[int, ...]:
        begins, ends = self._amounts(x, p)
        return tuple(a + b for a, b in zip((*begins[2:], *ends[2:]), Window.of(root).pads))


RULES = (PoolBeforeConv, FuseConvGemm, PullStride, PoolAsGlobalPool, FusePadPool)
