"""Products whose operands or results are scaled, negated, transposed, or flattened after an affine
step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import magnitude, require_addend, require_factors
from infuse.passes.rules.common import (
    attribute,
    data,
    number,
    permutation,
    require_attribute,
    require_float,
    require_own,
    require_same_type,
    require_shape,
    require_unread,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import scale_and_shift
from infuse.passes.rules.linear.batch_normalization import (
    RUNNING,
    STATISTICS,
    batch_normalization,
)
from infuse.passes.rules.linear.chains import require_filled
from infuse.passes.rules.linear.linear import per_column
from infuse.rewrite import Rule, require


class NegateWeights(Rule):
    """-Conv(x, w, b) → Conv(x, -w, -b), c - Conv(x, w, b) → Conv(x, -w, -b) + c for constants
    (ConvTranspose, Gemm, MatMul too)
    """

    rows = ("G13", "G16")
    examples = (
        {"x": (2, 4, 5), "w": (4, 4, 3), "b": (4,), "c": (4, 1)},
        {"x": (3, 4), "w": (4, 5), "b": (5,), "c": (5,)},
    )

    def match(self, x: Variable, w: Variable, b: Variable, c: Variable) -> Any:
        weights, bias = ops.const(w), ops.const(ops.maybe(b))
        products = [
            *(
                Call(kind, (x, weights, bias), label="product")
                for kind in ("Conv", "ConvTranspose", "Gemm")
            ),
            Call("MatMul", (x, weights), label="product"),
        ]
        return [*(-part for part in products), *(ops.const(c) - part for part in products)]

    def when(self, w: Value) -> None:
        require_float(w)
        require_own(w)

    def build(
        self,
        x: Value,
        w: Value,
        product: Node,
        b: Value | None = None,
        c: Value | None = None,
    ) -> Any:
        bias = [] if b is None else [np.negative(data(b))]
        call = Call(product.kind, (x, np.negative(data(w)), *bias), product.op.attributes())
        return call if c is None else call + c


class MatMulOfTranspose(Rule):
    """MatMul(Transpose(x), y), MatMul(x, Transpose(y)) of matrices → Gemm that transposes"""

    rows = ("G29",)
    shares = True
    examples = ({"x": (4, 3), "y": (4, 5)}, {"x": (3, 5), "y": (4, 5)})

    def match(self, x: Variable, y: Variable) -> Any:
        moved = ops.transpose(x, name="moved")
        return [ops.matmul(moved, y), ops.matmul(y, moved)]

    def when(self, x: Value, y: Value, moved: Node) -> None:
        require_float(x)
        require_shape(x, y)
        require(x.rank == 2 and y.rank == 2, "the operands are not matrices")
        require(permutation(moved) == (1, 0), "the order of the axes stays")

    def build(self, x: Value, y: Value, moved: Node, root: Node) -> Any:
        first = root.inputs[0] is moved.output
        pair = (x, y) if first else (y, x)
        return Call("Gemm", pair, {"transA" if first else "transB": 1})


class TransposeOfProduct(Rule):
    """Transpose(x · y) of matrices → Gemm(y, x) that transposes both (Gemm without a bias too)"""

    rows = ("G24", "G29")
    rounding = "sums run in another order"
    examples = ({"x": (3, 4), "y": (4, 5)}, {"x": (4, 3), "y": (4, 5), "product": {"transA": 1}})

    def match(self, x: Variable, y: Variable) -> Any:
        products = [Call(kind, (x, y), label="product") for kind in ("MatMul", "Gemm")]
        return [ops.transpose(part, name="moved") for part in products]

    def when(self, x: Value, y: Value, moved: Node) -> None:
        require_float(x)
        require_shape(x, y)
        require(x.rank == 2 and y.rank == 2, "the operands are not matrices")
        require(permutation(moved) == (1, 0), "the order of the axes stays")
        require(not y.is_const, "rows meet constant weights, which are packed on the right only")

    def build(self, x: Value, y: Value, product: Node) -> Any:
        attributes = product.op.attributes()
        turned = {
            "transA": 1 - attributes.get("transB", 0),
            "transB": 1 - attributes.get("transA", 0),
        }
        return Call("Gemm", (y, x), {"alpha": attributes.get("alpha", 1.0), **turned})


class FuseGemmFactor(Rule):
    """Gemm(x, y) · c → Gemm(x, y) with alpha for a number c, where both operands are computed (also
    / c)
    """

    rows = ("G16",)
    rounding = "a factor is rounded in another place"
    examples = ({"x": (3, 4), "y": (4, 5), "c": np.float32(2.5), "product": {"alpha": 0.5}},)

    def match(self, x: Variable, y: Variable, c: Variable) -> Any:
        product = Call("Gemm", (x, y), label="product")
        return [product * ops.const(c), product / ops.const(c)]

    def when(self, x: Value, y: Value, c: Value, product: Node, root: Node) -> None:
        require_float(x)
        require(not x.is_const and not y.is_const, "an operand is constant, and takes the factor")
        require_same_type(product.output, root, "the constant stretches the shape")
        require(0 < abs(number(c)) < np.inf, "the factor is zero, infinite or no number")
        require_factors(c.dtype, np.asarray(self._factor(c, root)))
        require_attribute(attribute(product, "alpha") * self._factor(c, root), x)

    def build(self, x: Value, y: Value, c: Value, product: Node, root: Node) -> Any:
        alpha = attribute(product, "alpha") * self._factor(c, root)
        return Call("Gemm", (x, y), {**product.op.attributes(), "alpha": alpha})

    def _factor(self, c: Value, root: Node) -> float:
        return 1 / number(c) if root.kind == "Div" else number(c)


class FoldGemmFactors(Rule):
    """Gemm(x, w, b) with alpha and beta → Gemm(x, α · w, β · b), where those are constants"""

    rows = ("G13", "G16")
    rounding = "weights are scaled in place of results"
    examples = tuple(
        {"x": (3, 4), "w": (4, 5), "b": b, "gemm": {"alpha": alpha, "beta": beta}}
        for b, alpha, beta in (((5,), 0.3, 3.0), ((3, 5), 1.5, -0.5), ((), 2.0, 3.0))
    )

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        operands = [(ops.const(w), ops.const(ops.maybe(b))), (ops.const(w), b), (w, ops.const(b))]
        return [ops.gemm(x, *each, name="gemm") for each in operands]

    def when(self, w: Value, b: Value | None, gemm: Node) -> dict[str, tuple[Value, float]]:
        """The constants, each with its factor, by the attribute that this is."""
        require_float(w)
        met = {"alpha": w, "beta": b}
        folded = {
            name: (value, attribute(gemm, name))
            for name, value in met.items()
            if value is not None and value.is_const and attribute(gemm, name) != 1
        }
        require(bool(folded), "no factor meets a constant")
        for constant, factor in folded.values():
            require(0 < abs(factor) < np.inf, "the factor is zero, infinite or no number")
            require_own(constant)
            require_factors(w.dtype, constant, np.asarray(factor))
        return folded

    def build(
        self,
        x: Value,
        w: Value,
        b: Value | None,
        gemm: Node,
        analysis: dict[str, tuple[Value, float]],
    ) -> Any:
        scaled = {name: rounded(wide(c) * f, c) for name, (c, f) in analysis.items()}
        operands = (x, scaled.get("alpha", w), *([] if b is None else [scaled.get("beta", b)]))
        return Call("Gemm", operands, {**gemm.op.attributes(), **dict.fromkeys(analysis, 1.0)})


_ROWS = {"x": (2, 3, 2), "t": int64s(2, 6), "c": (3, 1), **STATISTICS}
_CHANNELS = dict.fromkeys(STATISTICS, (3,))


class FuseFlattenedAffine(Rule):
    """Gemm(Flatten(BatchNormalization(x)), w, b) → Gemm(Flatten(x), w · s, b + t · w) (x · c and x
    + c too, and MatMul)
    """

    rows = ("G17",)
    rounding = "weights are scaled in place of operands"
    examples = (
        {**_ROWS, **_CHANNELS, "w": (6, 5), "b": (1, 5), "gemm": {"alpha": 0.5, "beta": 2.0}},
        {**_ROWS, **_CHANNELS, "w": (5, 6), "b": (5,), "gemm": {"transB": 1}},
    )

    def match(
        self,
        x: Variable,
        t: Variable,
        c: Variable,
        w: Variable,
        b: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
    ) -> Any:
        parts = [
            batch_normalization(x, scale, shift, mean, var),
            *(Call(kind, (x, ops.const(c)), label="affine") for kind in ("Mul", "Add")),
        ]
        flat = [
            Call(kind, (part, *more), label="flat")
            for part in parts
            for kind, more in (("Reshape", (t,)), ("Flatten", ()))
        ]
        weights, bias = ops.const(w), ops.const(ops.maybe(b))
        return [
            pattern
            for rows in flat
            for pattern in (
                ops.gemm(rows, weights, bias, transA=0, name="gemm"),
                ops.matmul(rows, weights),
            )
        ]

    def when(
        self,
        x: Value,
        w: Value,
        flat: Node,
        root: Node,
        norm: Node | None = None,
        affine: Node | None = None,
        c: Value | None = None,
        b: Value | None = None,
    ) -> None:
        require_float(w)
        require_shape(x, flat.output)
        require_filled(w)
        require_own(w)
        require(w.rank == 2 and flat.output.rank == 2, "the operands are not matrices")
        known = all(isinstance(n, int) for n in x.shape[1:])
        require(known and x.rank > 2, "the sizes are not known")
        columns = math.prod(int(n) for n in x.shape[1:] if isinstance(n, int))
        require(flat.output.shape == (x.shape[0], columns), "it does not flatten each row")
        if norm is not None:
            require_unread(norm, RUNNING)
        if affine is not None:
            require_same_type(x, affine, "the constant stretches the shape")
        if b is not None:
            per_column(b, root.output.shape[1])
        self._constants(x, norm, affine, c)

    def build(
        self,
        x: Value,
        w: Value,
        flat: Node,
        root: Node,
        norm: Node | None = None,
        affine: Node | None = None,
        c: Value | None = None,
        b: Value | None = None,
    ) -> Any:
        factor, addend = self._constants(x, norm, affine, c)
        attributes = root.op.attributes()
        require_factors(w.dtype, w, factor)
        require_addend(addend, w.dtype, magnitude(factor))
        matrix = (wide(w).T if attributes.get("transB") else wide(w)) * attributes.get("alpha", 1.0)
        rows = Call(flat.kind, (x, *flat.inputs[1:]), flat.op.attributes())
        weights = rounded(matrix * factor[:, None], w)
        bias = addend @ matrix
        if b is not None:
            bias = bias + per_column(b, matrix.shape[1]) * attributes["beta"]
        if b is None and not addend.any():
            return ops.matmul(rows, weights)
        return ops.gemm(rows, weights, rounded(bias, w))

    def _constants(
        self, x: Value, norm: Node | None, affine: Node | None, c: Value | None
    ) -> tuple[Array, Array]:
        """Factor and addend of each column."""
        if norm is not None:
            spread = (-1, *(1,) * (x.rank - 2))
            factor, addend = (part.reshape(spread) for part in scale_and_shift(norm))
        else:
            assert affine is not None
            assert c is not None
            own = wide(c)
            factor = own if affine.kind == "Mul" else np.ones(())
            addend = own if affine.kind == "Add" else np.zeros(())
        return self._by_column(factor, x), self._by_column(addend, x)

    def _by_column(self, constant: Array, x: Value) -> Array:
        shape = (1,) * (x.rank - constant.ndim) + constant.shape
        require(len(shape) == x.rank and shape[0] == 1, "the constant varies over rows")
        sizes = [int(n) for n in x.shape[1:] if isinstance(n, int)]
        return np.broadcast_to(constant.reshape(shape[1:]), sizes).reshape(-1).astype(np.float64)


RULES = (
    NegateWeights,
    MatMulOfTranspose,
    TransposeOfProduct,
    FuseGemmFactor,
    FoldGemmFactors,
    FuseFlattenedAffine,
)
