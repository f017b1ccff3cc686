"""Matrix products with constants: bias, scale and normalization folded in, reshapes moved out."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
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
    data,
    is_one,
    number,
    permutation,
    require_float,
    require_own,
    require_shape,
    require_unread,
    reshape_target,
    rounded,
    target_shape,
    wide,
)
from infuse.passes.rules.convolution.convolution import scale_and_shift
from infuse.rewrite import Rule, require

_SCALED = "weights are scaled in place of operands or results"


def per_column(c: Value, columns: Dim) -> Array:
    """A constant that meets the last axis as one number per column; Refusal when it varies over
    other axes.
    """
    require(isinstance(columns, int), "the number of columns is not known")
    assert isinstance(columns, int)
    require(all(is_one(n) for n in c.shape[:-1]), "the constant varies over rows")
    require(c.tensor.size in (1, columns), "the constant stretches the columns")
    return np.broadcast_to(data(c).reshape(-1), (columns,)).astype(np.float64)


class FuseMatMulAdd(Rule):
    """MatMul(x, w) + b → Gemm(x, w, b) for matrices"""

    rows = ("G15",)
    rounding = "the bias may be added first"
    examples = ({"x": (3, 4), "w": (4, 5), "b": (5,)}, {"x": (3, 4), "w": (4, 5), "b": (1, 5)})

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return ops.matmul(x, ops.const(w)) + ops.const(b)

    def when(self, x: Value, w: Value, b: Value, root: Node) -> None:
        require_float(w)
        require_shape(x)
        require(x.rank == 2 and w.rank == 2, "the operands are not matrices")
        require(b.rank <= 2, "the addend is not a bias")
        require_addend(per_column(b, w.shape[1]), b.dtype, reach(w, data(w).shape[1]))

    def build(self, x: Value, w: Value, b: Value) -> Any:
        return ops.gemm(x, w, rounded(per_column(b, w.shape[1]), b))


class FuseGemmAdd(Rule):
    """Gemm(x, w) + b, Gemm(x, w, c) + b → Gemm(x, w, c + b)"""

    rows = ("G15",)
    rounding = "constants are added first"

    def match(self, x: Variable, w: Variable, c: Variable, b: Variable) -> Any:
        return ops.gemm(x, w, ops.const(ops.maybe(c)), name="gemm") + ops.const(b)

    def when(self, gemm: Node, b: Value, c: Value | None) -> None:
        require_float(b)
        require(b.rank <= 2, "the addend is not a bias")
        columns = gemm.output.shape[1]
        require_addend(per_column(b, columns), b.dtype)
        if c is not None:
            require_sum(
                attribute(gemm, "beta") * per_column(c, columns), per_column(b, columns), b.dtype
            )

    def build(self, gemm: Node, x: Value, w: Value, c: Value | None, b: Value) -> Any:
        attributes, columns = dict(gemm.op.attributes()), gemm.output.shape[1]
        total = per_column(b, columns)
        if c is not None:
            total = total + attributes["beta"] * per_column(c, columns)
        attributes["beta"] = 1.0
        return ops.gemm(x, w, rounded(total, b), **attributes)


class FuseGemmScale(Rule):
    """Gemm(x, w, b) · c → Gemm(x, w · c, b · c), one number per column (also / c)"""

    rows = ("G13", "G16")
    rounding = _SCALED

    def match(self, x: Variable, w: Variable, b: Variable, c: Variable) -> Any:
        gemm = ops.gemm(x, ops.const(w), ops.const(ops.maybe(b)), name="gemm")
        return [gemm * ops.const(c), gemm / ops.const(c)]

    def when(self, gemm: Node, w: Value, b: Value | None, c: Value, root: Node) -> None:
        require_float(c)
        require_own(w)
        require(c.rank <= 2, "the constant stretches the shape")
        factor = per_column(c, gemm.output.shape[1])
        require(root.kind == "Mul" or bool(np.all(factor != 0)), "it divides by zero")
        if b is not None:
            per_column(b, gemm.output.shape[1])

    def build(self, gemm: Node, x: Value, w: Value, b: Value | None, c: Value, root: Node) -> Any:
        factor = per_column(c, gemm.output.shape[1])
        factor = 1 / factor if root.kind == "Div" else factor
        bias = None if b is None else per_column(b, gemm.output.shape[1]) * factor
        return scaled_gemm(gemm, x, w, factor, bias)


def scaled_gemm(gemm: Node, x: Value, w: Value, factor: Array, bias: Array | None) -> Call:
    """The Gemm with its columns scaled and another bias, which is still multiplied by beta."""
    attributes = gemm.op.attributes()
    require_factors(w.dtype, w, factor)
    weights = wide(w) * (factor.reshape(-1, 1) if attributes["transB"] else factor)
    args = [x, rounded(weights, w), *([] if bias is None else [rounded(bias, w)])]
    return Call("Gemm", tuple(args), attributes)


class FuseGemmBatchNormalization(Rule):
    """BatchNormalization(Gemm(x, w, b)) → Gemm with scaled weights"""

    rows = ("G17",)
    rounding = _SCALED
    examples = tuple(
        {
            "x": (3, 4),
            "w": w,
            "b": (5,),
            "scale": (5,),
            "shift": (5,),
            "mean": (5,),
            "var": (5,),
            "gemm": {"transB": t},
        }
        for t, w in enumerate([(4, 5), (5, 4)])
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
        gemm = ops.gemm(x, ops.const(w), ops.const(ops.maybe(b)), name="gemm")
        return ops.batch_normalization(gemm, *statistics, name="norm")

    def when(self, gemm: Node, b: Value | None, norm: Node) -> None:
        require_float(gemm.output)
        require_unread(norm, "the running statistics are")
        require(b is None or attribute(gemm, "beta") == 1, "the bias is scaled")
        if b is not None:
            per_column(b, gemm.output.shape[1])

    def build(self, gemm: Node, x: Value, w: Value, b: Value | None, norm: Node) -> Any:
        factor, addend = scale_and_shift(norm)
        own = np.zeros(len(factor)) if b is None else per_column(b, gemm.output.shape[1])
        require_sum(own * factor, addend, gemm.output.dtype, magnitude(w) * magnitude(factor))
        call = scaled_gemm(gemm, x, w, factor, own * factor + addend)
        call.attributes["beta"] = 1.0
        return call


class FuseMatMulScale(Rule):
    """MatMul(x, w) · c → MatMul(x, w · c), one number or one per column (also / c)"""

    rows = ("G16",)
    rounding = _SCALED

    def match(self, x: Variable, w: Variable, c: Variable) -> Any:
        product = ops.matmul(x, ops.const(w))
        return [product * ops.const(c), product / ops.const(c)]

    def when(self, x: Value, w: Value, c: Value, root: Node) -> None:
        _require_matrix(x, w, c)
        factor = per_column(c, w.shape[1])
        require(root.kind == "Mul" or bool(np.all(factor != 0)), "it divides by zero")

    def build(self, x: Value, w: Value, c: Value, root: Node) -> Any:
        factor = per_column(c, w.shape[1])
        factor = 1 / factor if root.kind == "Div" else factor
        require_factors(w.dtype, w, factor)
        return ops.matmul(x, rounded(wide(w) * factor, w))


class FuseScaleMatMul(Rule):
    """MatMul(x · c, w) → MatMul(x, w · c), one number or one per row of w (also / c); after
    activations
    """

    level = "all"
    rows = ("G16",)
    rounding = _SCALED

    def match(self, x: Variable, w: Variable, c: Variable) -> Any:
        scaled = [x * ops.const(c), x / ops.const(c)]
        return [
            ops.matmul(part, ops.const(w), name=name)
            for part, name in zip(scaled, ("times", "over"))
        ]

    def when(self, x: Value, w: Value, c: Value, over: Node | None = None) -> None:
        _require_matrix(x, w, c)
        require(x.shape[-1] == w.shape[0], "the constant stretches the rows")
        factor = per_column(c, w.shape[0])
        require(over is None or bool(np.all(factor != 0)), "it divides by zero")

    def build(self, x: Value, w: Value, c: Value, over: Node | None = None) -> Any:
        factor = per_column(c, w.shape[0]).reshape(-1, 1)
        factor = factor if over is None else 1 / factor
        require_factors(w.dtype, w, factor)
        return ops.matmul(x, rounded(wide(w) * factor, w))


def _require_matrix(x: Value, w: Value, c: Value) -> None:
    """Refuse unless w is a matrix of floats, and c does not stretch x."""
    require_float(w, c)
    require_own(w)
    require_shape(x)
    require(w.rank == 2 and x.rank >= 2, "the weights are not a matrix")
    require(c.rank <= x.rank, "the constant stretches the shape")


class ScaleOneOperand(Rule):
    """MatMul(x · a, y · b) → MatMul(x · (a · b), y) for numbers a and b (also / )"""

    rows = ("G16",)
    rounding = "the numbers are multiplied first"
    examples = tuple(
        {
            "x": (2, 3, 4),
            "a": np.full(a, 0.5, np.float32),
            "y": (4, 5),
            "b": np.full(b, 3, np.float32),
        }
        for a, b in (((), ()), ((1, 1), (1,)))
    )

    def match(self, x: Variable, a: Variable, y: Variable, b: Variable) -> Any:
        left = [("times", x * ops.const(a)), ("over", x / ops.const(a))]
        right = [("", y * ops.const(b)), ("under", y / ops.const(b))]
        return [Call("MatMul", (_named(p, m), _named(q, n))) for m, p in left for n, q in right]

    def when(
        self,
        x: Value,
        a: Value,
        y: Value,
        b: Value,
        over: Node | None = None,
        under: Node | None = None,
    ) -> None:
        require_float(x)
        require_shape(x, y)
        require(a.rank <= x.rank and b.rank <= y.rank, "a constant stretches the shape")
        self._factor(a, b, over, under)

    def build(
        self,
        x: Value,
        a: Value,
        y: Value,
        b: Value,
        over: Node | None = None,
        under: Node | None = None,
    ) -> Any:
        return ops.matmul(x * rounded(np.asarray(self._factor(a, b, over, under)), a), y)

    def _factor(self, a: Value, b: Value, over: Node | None, under: Node | None) -> float:
        """The product of both numbers; Refusal where the type might not hold what is multiplied by
        it.
        """
        first, second = number(a), number(b)
        require(first != 0 and second != 0, "a factor is zero")
        parts = (1 / first if over else first), (1 / second if under else second)
        product = parts[0] * parts[1]
        low, high = (1e-4, 1e4) if a.dtype.bits < 32 else (1e-30, 1e30)
        require(low < abs(product) < high, "the product of the factors is too large or too small")
        require_factors(a.dtype, *map(np.asarray, parts))
        return product


def _named(call: Call, name: str) -> Call:
    return Call(call.kind, call.args, label=name)


class FuseTransposeGemm(Rule):
    """Gemm(Transpose(x), w), Gemm(x, Transpose(w)) → Gemm that transposes"""

    rows = ("G29",)
    shares = True
    examples = ({"x": (4, 3), "y": (4, 5), "rest": []}, {"x": (3, 5), "y": (4, 5), "rest": [(3,)]})

    def match(self, x: Variable, y: Variable, rest: Variable) -> Any:
        left = ops.gemm(ops.transpose(x, name="moved"), y, ops.rest(rest), name="gemm")
        right = ops.gemm(y, ops.transpose(x, name="moved"), ops.rest(rest), name="gemm")
        return [left, right]

    def when(self, moved: Node) -> None:
        require(permutation(moved) == (1, 0), "the order of the axes stays")

    def build(self, x: Value, y: Value, rest: tuple[Value, ...], moved: Node, gemm: Node) -> Any:
        first = gemm.inputs[0] is moved.output
        attributes = dict(gemm.op.attributes())
        name = "transA" if first else "transB"
        attributes[name] = 1 - attributes[name]
        return Call("Gemm", ((x, y) if first else (y, x)) + tuple(rest), attributes)


class UnflattenGemm(Rule):
    """Reshape(Gemm(Reshape(x), w, b)) that only arranges rows → MatMul(Reshape(x), w) + b; what
    follows can fuse
    """

    level = "extended"
    rows = ("G7", "G19")
    rounding = "the bias may be added later"
    examples = tuple(
        {
            "x": (2, 3, 4),
            "s": int64s(6, 4),
            "w": w,
            "b": (5,),
            "t": int64s(2, 3, 5),
            "gemm": {"transB": t},
        }
        for t, w in enumerate([(4, 5), (5, 4)])
    )

    def match(self, x: Variable, s: Variable, w: Variable, b: Variable, t: Variable) -> Any:
        weights, bias = ops.const(w), ops.const(ops.maybe(b))
        gemm = ops.gemm(
            ops.reshape(x, s), weights, bias, transA=0, alpha=1.0, beta=1.0, name="gemm"
        )
        return ops.reshape(gemm, t)

    def when(self, x: Value, w: Value, b: Value | None, gemm: Node, root: Node) -> None:
        require_shape(x, root.output)
        require(root.output.rank >= 3, "the result is a matrix")
        same = dims.compare("==", root.output.shape[-1], gemm.output.shape[1])
        require(same is True, "the columns are arranged anew")
        require(
            target_shape(x.shape, self._rows(w, gemm, root)) is not None,
            "two sizes change symbolically",
        )
        require(b is None or b.rank <= 1, "the Gemm adds a matrix")

    def build(self, x: Value, w: Value, b: Value | None, gemm: Node, root: Node) -> Any:
        shape = self._rows(w, gemm, root)
        rows = x if x.shape == shape else ops.reshape(x, reshape_target(x.shape, shape))
        product = ops.matmul(rows, data(w).T if attribute(gemm, "transB") else w)
        return product if b is None else product + b

    def _rows(self, w: Value, gemm: Node, root: Node) -> tuple[Dim, ...]:
        depth = w.shape[1 if attribute(gemm, "transB") else 0]
        return (*root.output.shape[:-1], depth)


RULES = (
    FuseMatMulAdd,
    FuseGemmAdd,
    FuseGemmScale,
    FuseGemmBatchNormalization,
    FuseMatMulScale,
    FuseScaleMatMul,
    ScaleOneOperand,
    FuseTransposeGemm,
    UnflattenGemm,
)
