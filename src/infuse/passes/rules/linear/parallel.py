"""Linear operators whose results are added: one with the sum of the weights does, or one that adds
by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.passes.rules.cleanup.merging import magnitude, reach, require_addend, require_sum
from infuse.passes.rules.common import (
    attribute,
    data,
    require_float,
    require_shape,
    require_unread,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import convolution, old_bias, scale_and_shift
from infuse.passes.rules.convolution.window import Window, require_explicit
from infuse.passes.rules.linear.chains import require_filled
from infuse.rewrite import Rule, require

_ADDED = "weights are added first"


class AddMatMuls(Rule):
    """MatMul(x, a) + MatMul(x, b) → MatMul(x, a + b) (also - )"""

    level = "extended"
    rows = ("G26",)
    rounding = _ADDED
    examples = ({"x": (2, 3, 4), "a": (4, 5), "b": (4, 5)},)

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        pair = (ops.matmul(x, ops.const(a), name="one"), ops.matmul(x, ops.const(b), name="two"))
        return [Call(kind, pair) for kind in ("Add", "Sub")]

    def when(self, x: Value, a: Value, b: Value) -> None:
        require_float(x)
        require_shape(x)
        require_filled(a, b)
        require(a.type == b.type, "the products have different shapes")

    def build(self, x: Value, a: Value, b: Value, one: Node, root: Node) -> Any:
        first, second = (a, b) if root.inputs[0] is one.output else (b, a)
        other = -wide(second) if root.kind == "Sub" else wide(second)
        _require_weights(wide(first), other, a)
        return ops.matmul(x, rounded(wide(first) + other, a))


def _require_weights(first: Array, second: Array, like: Value) -> None:
    """Refuse to add weights that cancel each other where others are small beside them."""
    require_sum(first, second, like.dtype, magnitude(first + second))


class AddConvs(Rule):
    """Conv(x, a, p) + Conv(x, b, q) with windows around one centre → Conv(x, a + b, p + q), the
    smaller filled up
    """

    level = "extended"
    rows = ("G26",)
    rounding = _ADDED
    examples = tuple(
        {"x": (1, 4, 6, 5), "a": (4, 2, 3, 3), "p": (4,), "b": b, "q": (4,), "one": one, "two": two}
        for one in ({"pads": (1, 1, 1, 1), "group": 2},)
        for b, two in (
            ((4, 2, 1, 1), {"group": 2}),
            ((4, 2, 3, 1), {"group": 2, "pads": (1, 0, 1, 0)}),
        )
    )

    def match(self, x: Variable, a: Variable, p: Variable, b: Variable, q: Variable) -> Any:
        return convolution("Conv", x, a, p, "one") + convolution("Conv", x, b, q, "two")

    def when(self, x: Value, a: Value, b: Value, one: Node, two: Node) -> None:
        require_float(x)
        require_filled(a, b)
        require_explicit(one, two)
        require(one.output.type == two.output.type, "the results have different shapes")
        require(attribute(one, "group") == attribute(two, "group"), "the groups differ")
        large, small = self._ordered(one, two)
        require(large.strides == small.strides, "they step differently")
        wider = any(k > 1 for k in small.kernel)
        require(not wider or large.dilations == small.dilations, "they spread differently")
        self._margins(large, small)

    def build(
        self, x: Value, a: Value, p: Value | None, b: Value, q: Value | None, one: Node, two: Node
    ) -> Any:
        large, small = self._ordered(one, two)
        node, weights, others = (one, a, b) if large == Window.of(one) else (two, b, a)
        margins = [(0, 0), (0, 0), *self._margins(large, small)]
        filled = np.pad(wide(others), margins)
        total = wide(weights) + filled
        _require_weights(wide(weights), filled, a)
        args = [x, rounded(total, a)]
        if p is not None or q is not None:
            first, second = old_bias(p, len(total)), old_bias(q, len(total))
            if p is not None and q is not None:
                require_sum(first, second, a.dtype, magnitude(a))
            args.append(rounded(first + second, a))
        return Call("Conv", tuple(args), node.op.attributes())

    def _ordered(self, one: Node, two: Node) -> tuple[Window, Window]:
        """The window that holds the other first."""
        pair = Window.of(one), Window.of(two)
        return pair if sum(pair[0].kernel) >= sum(pair[1].kernel) else pair[::-1]

    def _margins(self, large: Window, small: Window) -> list[tuple[int, int]]:
        """Taps to add before and after the smaller window along each axis; Refusal where it does
        not lie inside.
        """
        rank = len(large.kernel)
        margins = []
        for k, m, step, begin, other in zip(
            large.kernel, small.kernel, large.dilations, large.pads[:rank], small.pads[:rank]
        ):
            before, left = divmod(begin - other, step)
            require(
                left == 0 and before >= 0 and k - m - before >= 0,
                "one window does not lie inside of the other",
            )
            margins.append((before, k - m - before))
        return margins


class AddInputToConv(Rule):
    """Conv(x, w, b) + x, Conv(x, w, b) + BatchNormalization(x) → Conv(x, w + s at the centre, b +
    t)
    """

    level = "extended"
    rows = ("G12", "G26")
    rounding = _ADDED
    examples = (
        {
            "x": (1, 4, 6, 5),
            "w": (4, 2, 3, 3),
            "b": (4,),
            "conv": {"pads": (1, 1, 1, 1), "group": 2},
            "scale": (4,),
            "shift": (4,),
            "mean": (4,),
            "var": (4,),
        },
    )

    def match(
        self,
        x: Variable,
        w: Variable,
        b: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
    ) -> Any:
        statistics = [ops.const(v) for v in (scale, shift, mean, var)]
        conv = convolution("Conv", x, w, b)
        return [conv + x, conv + ops.batch_normalization(x, *statistics, name="norm")]

    def when(self, x: Value, w: Value, conv: Node, norm: Node | None = None) -> None:
        require_float(x)
        require_shape(x)
        require_filled(w)
        require_explicit(conv)
        require(x.type == conv.output.type, "the result has another shape than x")
        window = Window.of(conv)
        require(all(s == 1 for s in window.strides), "it steps")
        self._centre(window)
        if norm is not None:
            require_unread(norm, "the running statistics are")

    def build(
        self, x: Value, w: Value, b: Value | None, conv: Node, norm: Node | None = None
    ) -> Any:
        weights = wide(w).copy()
        filters, depth = weights.shape[:2]
        scale, shift = (
            (np.ones(filters), np.zeros(filters)) if norm is None else scale_and_shift(norm)
        )
        each, taps = np.arange(filters), self._centre(Window.of(conv))
        weights.reshape(filters, depth, -1)[
            each, each % depth, np.ravel_multi_index(taps, weights.shape[2:])
        ] += scale
        bias: list[Array] = (
            [] if b is None and norm is None else [rounded(old_bias(b, filters) + shift, w)]
        )
        return Call("Conv", (x, rounded(weights, w), *bias), conv.op.attributes())

    def _centre(self, window: Window) -> tuple[int, ...]:
        """The tap that meets the pixel itself; Refusal where there is none."""
        centre = []
        for kernel, step, begin in zip(window.kernel, window.dilations, window.pads):
            tap, left = divmod(begin, step)
            require(left == 0 and 0 <= tap < kernel, "no tap meets the pixel itself")
            centre.append(tap)
        return tuple(centre)


class FuseGemmSum(Rule):
    """Gemm(x, w) + y, MatMul(x, w) + y for matrices → Gemm(x, w, y), y not stretching the result"""

    rows = ("G15",)
    rounding = "the addend may come first"
    examples = tuple(
        {"x": (3, 4), "w": (4, 5), "y": y, "gemm": {"alpha": 0.5}} for y in ((3, 5), (3, 1), (5,))
    )

    def match(self, x: Variable, w: Variable, y: Variable) -> Any:
        return [ops.gemm(x, w, name="gemm") + y, ops.matmul(x, w, name="product") + y]

    def when(self, x: Value, w: Value, y: Value, root: Node, product: Node | None = None) -> None:
        require_float(x)
        require_shape(x, w, y)
        require(x.rank == w.rank == 2, "the operands are not matrices")
        made = root.inputs[0 if root.inputs[1] is y else 1]
        require(
            made is not None and made.type == root.output.type and y.rank <= 2,
            "the addend stretches the result",
        )
        other = y.producer
        beside = other is not None and other.kind in ("MatMul", "Gemm") and other.inputs[0] is x
        require(not beside, "the addend may be computed at once with the product")
        if y.is_const:
            require_addend(wide(y), y.dtype, reach(w, data(w).shape[-1]) if w.is_const else 1.0)

    def build(self, x: Value, w: Value, y: Value, gemm: Node | None = None) -> Any:
        attributes = {} if gemm is None else {**gemm.op.attributes(), "beta": 1.0}
        return Call("Gemm", (x, w, y), attributes)


RULES = (AddMatMuls, AddConvs, AddInputToConv, FuseGemmSum)
