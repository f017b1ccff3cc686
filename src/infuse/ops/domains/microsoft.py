"""ONNX Runtime's own operators (domain com.microsoft): fused convolutions and products,
activations.

`eval` follows the runtime's processor kernels, which the tests run as witness. What a kernel
refuses is not refused here, so that every model can be read.
"""

from __future__ import annotations

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.activations import (
    GELU_CUBIC,
    GELU_SLOPE,
    RSQRT2,
    HardSigmoid,
    LeakyRelu,
    Relu,
    Sigmoid,
)
from infuse.ops.contraction import Gemm
from infuse.ops.conversion import Clip
from infuse.ops.convolution import SUMS, Conv
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import Floating, require_kind, require_shape, rounded, widened
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, cases
from infuse.ops.core.sizes import agree
from infuse.ops.core.special import erf, sigmoid
from infuse.ops.core.traits import Trait
from infuse.ops.unary import Tanh

DOMAIN = "com.microsoft"
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
"""What FusedConv and FusedGemm can apply to their result."""
_MOMENTS = Rounding(ulp=8, abs=2e-6, why="sums round in another order")


def activate(kind: str, params: tuple[float, ...], x: Array) -> Array:
    """The activation of a fused operator; Clip takes its limits, LeakyRelu its slope, HardSigmoid
    alpha and beta.
    """
    if not kind:
        return x
    if kind == "Clip":
        return Clip().eval(x, *(np.asarray(limit, x.dtype) for limit in params))
    options = dict(zip(("alpha", "beta"), params))
    if kind == "LeakyRelu":
        return LeakyRelu(alpha=options["alpha"]).eval(x)
    if kind == "HardSigmoid":
        return HardSigmoid(**options).eval(x)
    plain: dict[str, Op] = {"Relu": Relu(), "Tanh": Tanh(), "Sigmoid": Sigmoid()}
    if kind not in plain:
        raise UnsupportedOperatorError(
            f"there is no fused activation {kind!r}", hint=f"one of: {', '.join(ACTIVATIONS)}"
        )
    return np.asarray(plain[kind].eval(x))


class FusedConv(Conv):
    """activation(Conv(x, w, b) + z): a convolution, what is added to it, and an activation with its
    parameters.
    """

    traits = Trait.FLOAT32
    activation: str = ""
    activation_params: tuple[float, ...] = ()

    domain = DOMAIN
    accuracy = Rounding(
        ulp=4, abs=4e-6, why="long sums round in another order, and the activation follows"
    )
    samples = (  # type: ignore[assignment]
        cases(
            x=[(1, 4, 6, 7)],
            w=[(6, 4, 3, 3)],
            b=[(6,)],
            activation=["", "Relu", "Sigmoid", "Tanh"],
            pads=[(1,) * 4],
        ),
        cases(
            x=[(1, 4, 6, 7)],
            w=[(4, 2, 3, 3)],
            b=[(4,)],
            activation=["LeakyRelu"],
            activation_params=[(0.1,)],
            group=[2],
        ),
        cases(
            x=[(1, 4, 6, 7)],
            w=[(4, 4, 1, 1)],
            activation=["Clip", "HardSigmoid"],
            activation_params=[(0.2, 0.5)],
        ),
        cases(
            x=[(1, 2, 6)], w=[(4, 2, 3)], activation=["Clip"], activation_params=[(-np.inf, 0.5)]
        ),
        cases(x=[(2, 4, 5, 5)], w=[(6, 4, 3, 3)], b=[(6,)], z=[(2, 6, 3, 3)], activation=["Relu"]),
    )

    def infer(self, x: Value, w: Value, b: Value | None = None, z: Value | None = None) -> Inferred:
        result = super().infer(x, w, b)
        assert isinstance(result, TensorType)
        if z is not None:
            same_dtype(self.name, x, z)
            require_shape(
                self.name, broadcast_shapes(result.shape, z.tensor.shape, exact=True), result.shape
            )
        return result

    def eval(self, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Array:
        result = super().eval(x, w, b)
        return activate(
            self.activation, self.activation_params, result if z is None else result + z
        )

    def flops(self, shapes: Shapes) -> Flops:
        convolved = super().flops(shapes)
        further = int(shapes.has(3)) + int(bool(self.activation))
        return Flops(convolved.macs, convolved.others + shapes.made * further)


class FusedGemm(Gemm):
    """activation(alpha · A · B + beta · C), with up to three parameters of the activation."""

    traits = Trait.FLOAT32
    activation: str = ""
    activation_alpha: float = 0.0
    activation_beta: float = 0.0
    activation_gamma: float = 0.0

    domain = DOMAIN
    samples = (  # type: ignore[assignment]
        cases(
            a=[(4, 7)],
            b=[(7, 5)],
            c=[(5,)],
            activation=["Relu", "Sigmoid", "Tanh"],
            alpha=[1.0, 0.5],
        ),
        cases(
            a=[(7, 4)],
            b=[(5, 7)],
            transA=[1],
            transB=[1],
            activation=["LeakyRelu"],
            activation_alpha=[0.1],
        ),
    )

    def eval(self, a: Array, b: Array, c: Array | None = None) -> Array:
        params = (self.activation_alpha, self.activation_beta)
        return activate(self.activation, params, super().eval(a, b, c))

    def flops(self, shapes: Shapes) -> Flops:
        product = super().flops(shapes)
        return Flops(product.macs, product.others + shapes.made * int(bool(self.activation)))


class FusedMatMul(Op):
    """alpha · A · B, where each may be transposed first: its last two axes, or (`transBatch`) the
    first to the last but one, behind those that are left.
    """

    traits = Trait.FLOAT32
    alpha: float = 1.0
    transA: int = 0
    transB: int = 0
    transBatchA: int = 0
    transBatchB: int = 0

    domain = DOMAIN
    accuracy = SUMS
    samples = (
        cases(a=[(4, 7), (2, 3, 4, 7)], b=[(5, 7), (2, 1, 5, 7)], transB=[1], alpha=[1.0, 0.5]),
        cases(a=[(2, 7, 4), (7,)], b=[(7, 5), (7, 5)], transA=[1]),
        cases(a=[(2, 3, 5, 4)], b=[(2, 3, 4, 6)], transBatchA=[0], alpha=[2.0]),
        cases(a=[(5, 2, 3, 4)], b=[(4, 2, 3, 6)], transBatchA=[1], transBatchB=[1]),
    )

    def infer(self, a: Value, b: Value) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, a, b), "f")
        if a.tensor.shape is None or b.tensor.shape is None:
            return TensorType(dtype, None)
        if not a.shape or not b.shape:
            raise ShapeError(
                "FusedMatMul takes vectors, matrices and stacks of them, found a scalar"
            )
        left = _arranged(a.shape, self.transA, self.transBatchA)
        right = _arranged(b.shape, self.transB, self.transBatchB)
        agree(
            left[-1],
            right[-2] if len(right) > 1 else right[0],
            "the sizes that FusedMatMul sums over",
        )
        stack = broadcast_shapes(left[:-2], right[:-2], exact=True)
        assert stack is not None
        return TensorType(dtype, (*stack, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())))

    def eval(self, a: Array, b: Array) -> Array:
        left = widened(a).transpose(product_order(a.ndim, self.transA, self.transBatchA))
        right = widened(b).transpose(product_order(b.ndim, self.transB, self.transBatchB))
        return np.asarray(np.matmul(left, right) * widened(a).dtype.type(self.alpha), dtype=a.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        left = shapes.input(0)
        transposed = self.transA and len(left) > 1
        if transposed and self.transBatchA and len(left) > 2:
            depth = left[0]
        else:
            depth = left[-2] if transposed else left[-1]
        return Flops(shapes.made * depth, shapes.made * int(self.alpha != 1))


def product_order(rank: int, trans: int, batch: int) -> tuple[int, ...]:
    """The axes of an operand of FusedMatMul as they are multiplied."""
    order = list(range(rank))
    if batch and rank > 2:
        order = [*order[1:-1], order[0], order[-1]]
    if trans and rank > 1:
        order[-2:] = order[:-3:-1]
    return tuple(order)


def _arranged(shape: Shape, trans: int, batch: int) -> tuple[Dim, ...]:
    return tuple(shape[axis] for axis in product_order(len(shape), trans, batch))


# -- activations -----------------------------------------------------------------------------------

_SHAPES = cases(x=[(), (4, 1, 17), Floats((50,), -9, 9)])


class Gelu(Floating):
    """x · Φ(x), Φ being the normal distribution function."""

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=2e-7, why="far below zero 1 + erf(x / √2) cancels")
    samples = _SHAPES

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: 0.5 * v * (1 + erf(v * RSQRT2)), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x * 0.5 * (e.erf(x * RSQRT2) + 1.0)


def _sum(x: Array, b: Array) -> Array:
    """The sum in float32, or in the type itself where that is wider: it may leave it."""
    return widened(x) + widened(b)


class BiasGelu(Floating):
    """Gelu(x + b) for a vector b over the last axis."""

    domain = DOMAIN
    accuracy = Rounding(
        ulp=8, abs=2e-6, why="the sum may cancel, and far below zero 1 + erf(x / √2) does"
    )
    samples = cases(x=[(4, 1, 17), (2, 3)], b=[(17,), (3,)])

    def eval(self, x: Array, b: Array) -> Array:
        return rounded(lambda v: 0.5 * v * (1 + erf(v * RSQRT2)), _sum(x, b)).astype(x.dtype)

    def scalar(self, e: Formulas, x: Term, b: Term) -> Term:
        return (x + b) * 0.5 * (e.erf((x + b) * RSQRT2) + 1.0)


class FastGelu(Floating):
    """Gelu(x + b) approximated by tanh; the vector b over the last axis may be absent."""

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=2e-6, why="the sum may cancel, and far below zero 1 + tanh does")
    samples = cases(x=[(4, 1, 17), (2, 3)], b=[(17,), None])

    def eval(self, x: Array, b: Array | None = None) -> Array:
        def gelu(v: Array) -> Array:
            return np.asarray(0.5 * v * (1 + np.tanh(GELU_SLOPE * (v + GELU_CUBIC * v**3))))

        return rounded(gelu, x if b is None else _sum(x, b)).astype(x.dtype)

    def scalar(self, e: Formulas, x: Term, b: Term | None = None) -> Term:
        v = x if b is None else x + b
        return v * e.sigmoid(v * (2 * GELU_SLOPE) * (v * v * GELU_CUBIC + 1.0))


class QuickGelu(Floating):
    """x · sigmoid(alpha · x)."""

    alpha: float = 1.702

    domain = DOMAIN
    accuracy = Rounding(
        ulp=4, abs=1e-7, why="far below zero the error of alpha · x grows in the exponential"
    )
    samples = cases(x=[(2, 3), Floats((50,), -30, 30)], alpha=[1.0, 1.702])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: v * sigmoid(self.alpha * v), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x * e.sigmoid(x if self.alpha == 1.0 else x * self.alpha)


class BiasSoftmax(Op):
    """Softmax(data + bias) over all axes from `axis` on, taken as one; the bias broadcasts to the
    data.
    """

    traits = Trait.FLOAT32

    is_inner_broadcast: int
    axis: int = 1

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=2e-7)
    samples = cases(data=[(2, 3, 4, 5)], bias=[(2, 1, 1, 5)], axis=[3], is_inner_broadcast=[1])

    def infer(self, data: Value, bias: Value) -> Inferred:
        require_kind(self.name, same_dtype(self.name, data, bias), "f")
        require_shape(
            self.name,
            broadcast_shapes(data.tensor.shape, bias.tensor.shape, exact=True),
            data.tensor.shape,
        )
        return data.type

    def eval(self, data: Array, bias: Array) -> Array:
        axes = tuple(range(self.axis % data.ndim, data.ndim))
        scores = widened(data) + widened(bias)
        powers = np.exp(scores - scores.max(axis=axes, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axes, keepdims=True), dtype=data.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (SOFTMAX + 1))
