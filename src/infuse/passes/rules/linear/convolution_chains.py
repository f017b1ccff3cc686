"""Chains of convolutions, and of convolutions and products, as one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    reach,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    attribute,
    permutation,
    require_float,
    require_shape,
    reshape_target,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import convolution, old_bias
from infuse.passes.rules.convolution.window import Window, by_group, conv_weights, require_explicit
from infuse.passes.rules.linear.chains import (
    MULTIPLIED,
    require_cheaper,
    require_filled,
    saving,
    wide_shape,
)
from infuse.rewrite import Rule, require

# -- convolutions ----------------------------------------------------------------------------------


class MergeConvs(Rule):
    """Conv(Conv(x, a, p), b, q) → Conv(x, a ∗ b, p · b + q), where that multiplies no more.

    What the outer one pads must be zero after the inner one too: then that has one pixel, no bias
    and no steps.
    """

    rows = ("G21",)
    rounding = MULTIPLIED
    examples = (
        {
            "x": (1, 3, 7, 6),
            "a": (8, 3, 3, 3),
            "p": (8,),
            "b": (2, 8, 1, 1),
            "q": (2,),
            "first": {"strides": (2, 1)},
        },
        {
            "x": (1, 2, 7, 6),
            "a": (9, 2, 3, 1),
            "p": (9,),
            "b": (1, 9, 1, 3),
            "q": (1,),
            "first": {"pads": (1, 0, 2, 0)},
        },
        {
            "x": (1, 2, 9, 9),
            "a": (9, 2, 1, 1),
            "p": (9,),
            "b": (2, 9, 3, 3),
            "q": (2,),
            "second": {"strides": (2, 2)},
        },
        {
            "x": (1, 2, 9),
            "a": (9, 2, 2),
            "p": (9,),
            "b": (1, 9, 2),
            "q": (1,),
            "first": {"strides": (2,)},
        },
        {
            "x": (1, 4, 7),
            "a": (8, 2, 1),
            "b": (4, 4, 3),
            "first": {"group": 2},
            "second": {"group": 2, "pads": (1, 1)},
        },
    )

    def match(self, x: Variable, a: Variable, p: Variable, b: Variable, q: Variable) -> Any:
        return convolution("Conv", convolution("Conv", x, a, p, "first"), b, q, "second")

    def when(
        self, x: Value, a: Value, b: Value, p: Value | None, first: Node, second: Node
    ) -> None:
        require_float(x)
        require_shape(x)
        require_filled(a, b)
        require_explicit(first, second)
        require(attribute(first, "group") == attribute(second, "group"), "the groups differ")
        inner, outer = Window.of(first), Window.of(second)
        if any(outer.pads):
            require(p is None, "it pads with zeros, and the inner bias is none")
            require(inner.is_point, "it pads with zeros what the inner one would compute otherwise")
        require_cheaper(*self._costs(first, second))

    def build(
        self,
        x: Value,
        a: Value,
        b: Value,
        p: Value | None,
        q: Value | None,
        first: Node,
        second: Node,
    ) -> Any:
        groups = attribute(first, "group")
        require_factors(a.dtype, a, b)
        if p is not None:
            require_addend(wide(p), a.dtype, reach(a, wide_shape(a)[0]))
        inner, outer = by_group(wide(a), groups), by_group(wide(b), groups)
        args: list[Any] = [x, rounded(_composed(inner, outer, first, second), a)]
        if p is not None or q is not None:
            sums = outer.sum(axis=tuple(range(3, outer.ndim)))
            own = old_bias(p, wide_shape(a)[0]).reshape(groups, -1)
            moved = np.einsum("goc,gc->go", sums, own).reshape(-1)
            if p is not None and q is not None:
                require_sum(moved, wide(q), a.dtype, magnitude(a) * magnitude(b))
            args.append(rounded(moved + old_bias(q, len(moved)), a))
        merged = Window.of(first).then(Window.of(second))
        return Call("Conv", tuple(args), {"group": groups, **merged.attributes()})

    def note(self, first: Node, second: Node) -> str:
        return saving(*self._costs(first, second), "pixel")

    def _costs(self, first: Node, second: Node) -> tuple[int, int]:
        """Multiplications before and after for each pixel of the result."""
        inner, outer = (conv_weights(node) for node in (first, second))
        merged = Window.of(first).then(Window.of(second))
        pixels = math.prod(Window.of(second).strides)
        before = math.prod(inner) * pixels + math.prod(outer)
        return before, outer[0] * inner[1] * math.prod(merged.kernel)


def _composed(inner: Array, outer: Array, first: Node, second: Node) -> Array:
    """The filters of two convolutions in a row; all are (group, filters, channels, …)."""
    one, two = Window.of(first), Window.of(second)
    merged = one.then(two)
    result = np.zeros((*outer.shape[:2], inner.shape[2], *merged.kernel))
    for i in np.ndindex(one.kernel):
        for j in np.ndindex(two.kernel):
            place = one.offset(i), two.offset(j)
            spot = ((a + b * s) // d for a, b, s, d in zip(*place, one.strides, merged.dilations))
            target = (slice(None),) * 3 + tuple(spot)
            result[target] += outer[target[:3] + j] @ inner[target[:3] + i]
    return result.reshape(-1, *result.shape[2:])


class FuseConvMatMul(Rule):
    """MatMul(Conv(x, w, b) as rows of pixels, m) → the rows of Conv(x, w · m, b · m), where that
    multiplies no more
    """

    rows = ("G14", "G21")
    rounding = MULTIPLIED
    examples = (
        {
            "x": (2, 3, 4, 4),
            "w": (6, 3, 2, 2),
            "b": (6,),
            "m": (6, 5),
            "conv": {"strides": (2, 2)},
            "s": int64s(2, 6, -1),
            "rows": {"perm": (0, 2, 1)},
            "last": {"perm": (0, 2, 3, 1)},
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable, s: Variable, m: Variable) -> Any:
        conv = convolution("Conv", x, w, b)
        rows, last = (
            ops.transpose(ops.reshape(conv, s), name="rows"),
            ops.transpose(conv, name="last"),
        )
        return [ops.matmul(rows, ops.const(m)), ops.matmul(last, ops.const(m))]

    def when(
        self,
        x: Value,
        w: Value,
        m: Value,
        conv: Node,
        rows: Node | None = None,
        last: Node | None = None,
    ) -> None:
        require_float(x)
        require_filled(w, m)
        require(
            m.rank == 2 and attribute(conv, "group") == 1, "it is not a matrix, or there are groups"
        )
        moved = rows or last
        assert moved is not None
        source = moved.inputs[0]
        assert source is not None
        require_shape(source, conv.output)
        order = (0, *range(2, source.rank), 1)
        require(permutation(moved) == order, "it does not move the channels last")
        same = source.shape[:2] == conv.output.shape[:2]
        require(same, "the channels are arranged anew")
        require_cheaper(*self._costs(w, m))
        self._flat(conv, source, m)

    def build(
        self,
        x: Value,
        w: Value,
        b: Value | None,
        m: Value,
        conv: Node,
        rows: Node | None = None,
        last: Node | None = None,
    ) -> Any:
        moved = rows or last
        assert moved is not None
        require_factors(w.dtype, w, m)
        if b is not None:
            require_addend(wide(b), w.dtype, reach(w, wide_shape(w)[0]))
        weights = np.tensordot(wide(m), wide(w), (0, 0))
        bias = [] if b is None else [rounded(wide(b) @ wide(m), w)]
        result: Any = Call("Conv", (x, rounded(weights, w), *bias), conv.op.attributes())
        if rows is not None:
            assert rows.inputs[0] is not None
            result = ops.reshape(result, self._flat(conv, rows.inputs[0], m))
        return ops.transpose(result, perm=permutation(moved))

    def note(self, w: Value, m: Value) -> str:
        return saving(*self._costs(w, m), "pixel")

    def _costs(self, w: Value, m: Value) -> tuple[int, int]:
        filters, channels, *kernel = wide_shape(w)
        columns = wide_shape(m)[1]
        taps = channels * math.prod(kernel)
        return filters * (taps + columns), columns * taps

    def _flat(self, conv: Node, flat: Value, m: Value) -> Array:
        """The target of the Reshape when the convolution has as many channels as the product has
        columns.
        """

        def wider(shape: Shape) -> Shape:
            return (shape[0], wide_shape(m)[1], *shape[2:])

        return reshape_target(wider(conv.output.shape), wider(flat.shape))


RULES = (MergeConvs, FuseConvMatMul)
