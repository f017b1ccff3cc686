"""Scale, shift and BatchNormalization folded into each other and into the linear operator before or
after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    attribute,
    data,
    permutation,
    require_float,
    require_same_type,
    require_shape,
    require_unread,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import (
    by_channel,
    convolution,
    old_bias,
    rebuilt,
    scale_and_shift,
)
from infuse.passes.rules.convolution.window import Window, by_group, require_explicit
from infuse.passes.rules.linear.batch_normalization import (
    RUNNING,
    STATISTICS,
    batch_normalization,
)
from infuse.passes.rules.linear.chains import require_filled
from infuse.passes.rules.linear.linear import per_column
from infuse.rewrite import Rule, require


class FuseProductNorm(Rule):
    """BatchNormalization(MatMul(x, w)) → Gemm(x, w · s, t); with columns moved to axis 1 → the same
    before Transpose
    """

    rows = ("G17", "G20")
    rounding = "weights are scaled in place of results"
    examples = (
        {"x": (3, 2), "w": (2, 4), **STATISTICS},
        {"x": (3, 5, 2), "w": (2, 4), "b": (4,), **STATISTICS, "moved": {"perm": (0, 2, 1)}},
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
        product = ops.matmul(x, ops.const(w), name="product")
        rows = [ops.transpose(part, name="moved") for part in (product, product + ops.const(b))]
        return [batch_normalization(part, scale, shift, mean, var) for part in (product, *rows)]

    def when(
        self,
        x: Value,
        w: Value,
        norm: Node,
        product: Node,
        moved: Node | None = None,
        b: Value | None = None,
    ) -> None:
        require_float(w)
        require_shape(x, product.output)
        require_filled(w)
        require_unread(norm, RUNNING)
        require(w.rank == 2, "the weights are not a matrix")
        rank = product.output.rank
        place = permutation(moved)[1] if moved is not None else 1
        require(rank >= 2 and place == rank - 1, "the channels are not the columns")
        require(moved is not None or rank == 2, "the channels are not the columns")
        if b is not None:
            require(b.rank <= rank, "the addend stretches the shape")
            per_column(b, w.shape[1])

    def build(
        self, x: Value, w: Value, norm: Node, moved: Node | None = None, b: Value | None = None
    ) -> Any:
        factor, addend = scale_and_shift(norm)
        require_factors(w.dtype, w, factor)
        if b is not None:
            own = per_column(b, w.shape[1]) * factor
            require_sum(own, addend, w.dtype, magnitude(w) * magnitude(factor))
            addend = addend + own
        weights, bias = rounded(wide(w) * factor, w), rounded(addend, w)
        if moved is None:
            return Call("Gemm", (x, weights, bias))
        return ops.transpose(ops.matmul(x, weights) + bias, perm=permutation(moved))


class FuseProductScale(Rule):
    """(MatMul(x, w) + b) · c → MatMul(x, w · c) + b · c, one number per column, which Transpose may
    move (also / c)
    """

    rows = ("G16",)
    rounding = "weights are scaled in place of results"
    examples = (
        {"x": (2, 3, 4), "w": (4, 5), "b": (5,), "c": (5,)},
        {
            "x": (2, 3, 2, 4),
            "w": (4, 5),
            "b": (5,),
            "c": (5, 1, 1),
            "moved": {"perm": (0, 3, 1, 2)},
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable, c: Variable) -> Any:
        product = ops.matmul(x, ops.const(w), name="product")
        shifted = product + ops.const(b)
        moved = ops.one_of(*(ops.transpose(part, name="moved") for part in (shifted, product)))
        return [
            scaled
            for part in (shifted, moved)
            for scaled in (part * ops.const(c), part / ops.const(c))
        ]

    def when(
        self,
        x: Value,
        w: Value,
        c: Value,
        root: Node,
        product: Node,
        moved: Node | None = None,
        b: Value | None = None,
    ) -> None:
        require_float(w)
        require_shape(x, product.output)
        require_filled(w)
        require(w.rank == 2 and x.rank >= 2, "the weights are not a matrix")
        rank = product.output.rank
        require(c.rank <= rank and (b is None or b.rank <= rank), "a constant stretches the shape")
        self._factor(c, root, moved, w)
        if b is not None:
            per_column(b, w.shape[1])

    def build(
        self,
        x: Value,
        w: Value,
        c: Value,
        root: Node,
        moved: Node | None = None,
        b: Value | None = None,
    ) -> Any:
        factor = self._factor(c, root, moved, w)
        require_factors(w.dtype, w, factor)
        result: Any = ops.matmul(x, rounded(wide(w) * factor, w))
        if b is not None:
            result = result + rounded(per_column(b, w.shape[1]) * factor, b)
        return result if moved is None else ops.transpose(result, perm=permutation(moved))

    def _factor(self, c: Value, root: Node, moved: Node | None, w: Value) -> Array:
        """One factor for each column; Refusal where the constant varies otherwise."""
        full: Array = wide(c).reshape((1,) * (root.output.rank - c.rank) + data(c).shape)
        place = full.ndim - 1 if moved is None else permutation(moved).index(full.ndim - 1)
        require(
            all(n == 1 for axis, n in enumerate(full.shape) if axis != place),
            "the constant varies over rows",
        )
        columns = data(w).shape[1]
        require(full.size in (1, columns), "the constant stretches the columns")
        require(root.kind == "Mul" or bool(np.all(full != 0)), "it divides by zero")
        each = np.broadcast_to(full.reshape(-1), (columns,))
        return each if root.kind == "Mul" else 1 / each


class FuseNormGemm(Rule):
    """Gemm(BatchNormalization(x), w, b), MatMul alike → Gemm with rows of w scaled, and their shift
    in the bias
    """

    rows = ("G17",)
    rounding = "weights are scaled in place of operands"
    examples = tuple(
        {"x": (3, 4), "w": w, "b": (1, 5), **STATISTICS, "gemm": gemm}
        for w, gemm in (((4, 5), {"alpha": 0.5, "beta": 2.0}), ((5, 4), {"transB": 1}))
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
        norm = batch_normalization(x, scale, shift, mean, var)
        gemm = ops.gemm(norm, ops.const(w), ops.const(ops.maybe(b)), name="gemm")
        return [gemm, ops.matmul(norm, ops.const(w))]

    def when(self, x: Value, w: Value, norm: Node, root: Node, b: Value | None = None) -> None:
        require_float(w)
        require_shape(x)
        require_filled(w)
        require_unread(norm, RUNNING)
        require(x.rank == 2 and w.rank == 2, "the operands are not matrices")
        require(not root.op.attributes().get("transA"), "rows become columns")
        if b is not None:
            per_column(b, root.output.shape[1])

    def build(self, x: Value, w: Value, norm: Node, root: Node, b: Value | None = None) -> Any:
        attributes = root.op.attributes()
        factor, addend = scale_and_shift(norm)
        require_factors(w.dtype, w, factor)
        require_addend(addend, w.dtype, magnitude(factor))
        matrix = (wide(w).T if attributes.get("transB") else wide(w)) * attributes.get("alpha", 1.0)
        bias = addend @ matrix
        if b is not None:
            bias = bias + per_column(b, matrix.shape[1]) * attributes["beta"]
        return Call("Gemm", (x, rounded(matrix * factor[:, None], w), rounded(bias, w)))


class FuseAffineConv(Rule):
    """Conv(x · c, w) → Conv(x, w · c); Conv(x + c, w) without padding → Conv(x, w) with c · w in
    the bias
    """

    rows = ("G13", "G17")
    rounding = "weights are scaled in place of operands"
    examples = (
        {"x": (2, 4, 5), "w": (4, 4, 2), "b": (4,), "c": (4, 1)},
        {
            "x": (2, 4, 5),
            "w": (6, 2, 2),
            "b": (6,),
            "c": (1,),
            "conv": {"group": 2, "strides": (2,)},
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable, c: Variable) -> Any:
        before = [Call(kind, (x, ops.const(c)), label="before") for kind in ("Mul", "Add")]
        return [convolution("Conv", part, w, b) for part in before]

    def when(self, x: Value, w: Value, c: Value, before: Node, conv: Node) -> None:
        require_float(w)
        require_filled(w)
        require_same_type(x, before, "the constant stretches the shape")
        by_channel(c, x)
        if before.kind == "Add":
            require_explicit(conv)
            require(not any(Window.of(conv).pads), "it pads with zeros")

    def build(self, x: Value, w: Value, b: Value | None, c: Value, before: Node, conv: Node) -> Any:
        groups = int(attribute(conv, "group"))
        filters = by_group(wide(w), groups)
        if before.kind == "Add":
            require_addend(by_channel(c, x), w.dtype)
        else:
            require_factors(w.dtype, w, by_channel(c, x))
        each = by_channel(c, x).reshape(groups, 1, -1, *(1,) * (w.rank - 2))
        product: Array = (filters * each).reshape(wide(w).shape)
        if before.kind == "Mul":
            return rebuilt(conv, x, w, product, None if b is None else wide(b))
        moved = product.reshape(len(product), -1).sum(axis=1)
        return rebuilt(conv, x, w, wide(w), old_bias(b, len(moved)) + moved)


RULES = (FuseProductNorm, FuseProductScale, FuseNormGemm, FuseAffineConv)
