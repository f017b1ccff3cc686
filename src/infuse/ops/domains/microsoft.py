"""ONNX Runtime's own operators (domain com.microsoft): fused convolutions and products,
activations.

`eval` follows the runtime's processor kernels, which the tests run as witness. What a kernel
refuses is not refused here, so that every model can be read.
"""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.graph import Value
from infuse.ops.activations import (
    GELU_CUBIC,
    GELU_SLOPE,
    RSQRT2,
)
from infuse.ops.contraction import Gemm
from infuse.ops.convolution import SUMS, Conv
from infuse.ops.core.base import Array, Rounding, normalize_axis, same_dtype
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite
from infuse.ops.core.elementwise import Floating, require_kind, require_shape, rounded, widened
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, cases
from infuse.ops.core.special import erf, sigmoid
from infuse.ops.core.traits import Trait

DOMAIN = "com.microsoft"
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
"""What FusedConv and FusedGemm can apply to their result."""


_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}


def activated(make: GraphBuilder, x: Value, kind: str, params: tuple[float, ...]) -> Value:
    """The activation of a fused operator; Clip takes its limits, LeakyRelu its slope, HardSigmoid
    alpha and beta.
    """
    if not kind:
        return x
    if kind not in ACTIVATIONS:
        raise UnsupportedOperatorError(
            f"there is no fused activation {kind!r}", hint=f"one of: {', '.join(ACTIVATIONS)}"
        )
    if kind == "Clip":
        return make(kind, x, *params)
    return make(kind, x, **dict(zip(_PARAMETERS.get(kind, ()), params)))


class FusedConv(Composite, Conv):  # type: ignore[misc]
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

    def body(
        self,
        make: GraphBuilder,
        x: Value,
        w: Value,
        b: Value | None = None,
        z: Value | None = None,
    ) -> Value:
        attributes = dict(self.attributes())
        kind, params = attributes.pop("activation"), attributes.pop("activation_params")
        result = make("Conv", x, w, b, **attributes)
        if z is not None:
            require_extent(self.name, result, z)
            result = make(result + z)
        return activated(make, result, kind, params)


class FusedGemm(Composite, Gemm):  # type: ignore[misc]
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

    def body(self, make: GraphBuilder, a: Value, b: Value, c: Value | None = None) -> Value:
        attributes = dict(self.attributes())
        kind = attributes.pop("activation")
        alpha, beta, _ = (
            attributes.pop(f"activation_{name}") for name in ("alpha", "beta", "gamma")
        )
        return activated(make, make("Gemm", a, b, c, **attributes), kind, (alpha, beta))


class FusedMatMul(Composite):
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

    def body(self, make: GraphBuilder, a: Value, b: Value) -> Value:
        require_kind(self.name, same_dtype(self.name, a, b), "f")
        left = make.permute(a, *product_order(a.rank, self.transA, self.transBatchA))
        right = make.permute(b, *product_order(b.rank, self.transB, self.transBatchB))
        result = make("MatMul", left, right)
        return result if self.alpha == 1.0 else make(result * self.alpha)


def product_order(rank: int, trans: int, batch: int) -> tuple[int, ...]:
    """The axes of an operand of FusedMatMul as they are multiplied."""
    order = list(range(rank))
    if batch and rank > 2:
        order = [*order[1:-1], order[0], order[-1]]
    if trans and rank > 1:
        order[-2:] = order[:-3:-1]
    return tuple(order)


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


class BiasSoftmax(Composite):
    """Softmax(data + bias) over all axes from `axis` on, taken as one; the bias broadcasts to the
    data.
    """

    traits = Trait.FLOAT32

    is_inner_broadcast: int
    axis: int = 1

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=2e-7)
    samples = cases(data=[(2, 3, 4, 5)], bias=[(2, 1, 1, 5)], axis=[3], is_inner_broadcast=[1])

    def body(self, make: GraphBuilder, data: Value, bias: Value) -> Value:
        require_kind(self.name, same_dtype(self.name, data, bias), "f")
        require_extent(self.name, data, bias)
        axis = normalize_axis(self.axis, data.rank, self.name)
        total = make(data + bias)
        flat = make.reshape(total, *data.shape[:axis], dims.product(data.shape[axis:]))
        return make.reshape(make("Softmax", flat, axis=-1), *data.shape)


def require_extent(op: str, x: Value, *others: Value | None) -> None:
    """ShapeError unless the others broadcast to x."""
    for other in others:
        if other is not None:
            wide = broadcast_shapes(x.tensor.shape, other.tensor.shape, exact=True)
            require_shape(op, wide, x.tensor.shape)
