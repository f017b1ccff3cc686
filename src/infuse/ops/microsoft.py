"""ONNX Runtime's own operators (domain com.microsoft): fused convolutions, products, activations and normalizations.

`eval` follows the runtime's processor kernels, which the tests run as witness. What a kernel refuses is not refused
here, so that every model can be read.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.activations import GELU_CUBIC, GELU_SLOPE, RSQRT2
from infuse.ops.base import Array, Floats, Inferred, Ints, Op, Rounding, broadcast_shapes, cases, same_dtype
from infuse.ops.contraction import Gemm
from infuse.ops.convolution import SUMS, Conv
from infuse.ops.elementwise import Floating, require_kind, require_shape, rounded, widened
from infuse.ops.formula import Formulas, Term
from infuse.ops.normalization import LayerNormalization, RMSNormalization
from infuse.ops.sizes import agree
from infuse.ops.special import erf, sigmoid

DOMAIN = "com.microsoft"
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
"""What FusedConv and FusedGemm can apply to their result."""
_MOMENTS = Rounding(ulp=8, abs=2e-6, why="sums round in another order")


def activate(kind: str, params: tuple[float, ...], x: Array) -> Array:
    """The activation of a fused operator; Clip takes its limits, LeakyRelu its slope, HardSigmoid alpha and beta."""
    if not kind:
        return x
    if kind == "Relu":
        return np.maximum(x, 0)
    if kind == "Tanh":
        return np.tanh(x)
    if kind == "Sigmoid":
        return sigmoid(x.astype(np.float64)).astype(x.dtype)
    if kind == "LeakyRelu":
        return np.where(x < 0, x * params[0], x).astype(x.dtype)
    if kind == "Clip":
        return np.clip(x, params[0], params[1]).astype(x.dtype)
    if kind == "HardSigmoid":
        return np.clip(x * params[0] + params[1], 0, 1).astype(x.dtype)
    raise UnsupportedOperatorError(f"there is no fused activation {kind!r}", hint=f"one of: {', '.join(ACTIVATIONS)}")


class FusedConv(Conv):
    """activation(Conv(x, w, b) + z): a convolution, what is added to it, and an activation with its parameters."""

    activation: str = ""
    activation_params: tuple[float, ...] = ()

    domain = DOMAIN
    accuracy = Rounding(ulp=4, abs=4e-6, why="long sums round in another order, and the activation follows")
    samples = (  # type: ignore[assignment]
        cases(
            x=[(1, 4, 6, 7)], w=[(6, 4, 3, 3)], b=[(6,)], activation=["", "Relu", "Sigmoid", "Tanh"], pads=[(1,) * 4]
        ),
        cases(
            x=[(1, 4, 6, 7)],
            w=[(4, 2, 3, 3)],
            b=[(4,)],
            activation=["LeakyRelu"],
            activation_params=[(0.1,)],
            group=[2],
        ),
        cases(x=[(1, 4, 6, 7)], w=[(4, 4, 1, 1)], activation=["Clip", "HardSigmoid"], activation_params=[(0.2, 0.5)]),
        cases(x=[(2, 4, 5, 5)], w=[(6, 4, 3, 3)], b=[(6,)], z=[(2, 6, 3, 3)], activation=["Relu"]),
    )

    def infer(self, x: Value, w: Value, b: Value | None = None, z: Value | None = None) -> Inferred:
        result = super().infer(x, w, b)
        assert isinstance(result, TensorType)
        if z is not None:
            same_dtype(self.name, x, z)
            require_shape(self.name, broadcast_shapes(result.shape, z.tensor.shape), result.shape)
        return result

    def eval(self, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Array:
        result = super().eval(x, w, b)
        return activate(self.activation, self.activation_params, result if z is None else result + z)


class FusedGemm(Gemm):
    """activation(alpha · A · B + beta · C), with up to three parameters of the activation."""

    activation: str = ""
    activation_alpha: float = 0.0
    activation_beta: float = 0.0
    activation_gamma: float = 0.0

    domain = DOMAIN
    samples = (  # type: ignore[assignment]
        cases(a=[(4, 7)], b=[(7, 5)], c=[(5,)], activation=["Relu", "Sigmoid", "Tanh"], alpha=[1.0, 0.5]),
        cases(a=[(7, 4)], b=[(5, 7)], transA=[1], transB=[1], activation=["LeakyRelu"], activation_alpha=[0.1]),
    )

    def eval(self, a: Array, b: Array, c: Array | None = None) -> Array:
        params = (self.activation_alpha, self.activation_beta, self.activation_gamma)
        return activate(self.activation, params, super().eval(a, b, c))


class FusedMatMul(Op):
    """alpha · A · B, where each may be transposed first: its last two axes, or (`transBatch`) the first to the last
    but one, behind those that are left.
    """

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
            raise ShapeError("FusedMatMul takes vectors, matrices and stacks of them, found a scalar")
        left = _arranged(a.shape, self.transA, self.transBatchA)
        right = _arranged(b.shape, self.transB, self.transBatchB)
        agree(left[-1], right[-2] if len(right) > 1 else right[0], "the sizes that FusedMatMul sums over")
        stack = broadcast_shapes(left[:-2], right[:-2])
        assert stack is not None
        return TensorType(dtype, (*stack, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())))

    def eval(self, a: Array, b: Array) -> Array:
        left = widened(a).transpose(_order(a.ndim, self.transA, self.transBatchA))
        right = widened(b).transpose(_order(b.ndim, self.transB, self.transBatchB))
        return np.asarray(np.matmul(left, right) * widened(a).dtype.type(self.alpha), dtype=a.dtype)


def _order(rank: int, trans: int, batch: int) -> tuple[int, ...]:
    """The axes of an operand of FusedMatMul as they are multiplied."""
    order = list(range(rank))
    if batch and rank > 2:
        order = [*order[1:-1], order[0], order[-1]]
    if trans and rank > 1:
        order[-2:] = order[:-3:-1]
    return tuple(order)


def _arranged(shape: Shape, trans: int, batch: int) -> tuple[Dim, ...]:
    return tuple(shape[axis] for axis in _order(len(shape), trans, batch))


# -- activations -------------------------------------------------------------------------------------------------

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


class BiasGelu(Floating):
    """Gelu(x + b) for a vector b over the last axis."""

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=2e-6, why="the sum may cancel, and far below zero 1 + erf(x / √2) does")
    samples = cases(x=[(4, 1, 17), (2, 3)], b=[(17,), (3,)])

    def eval(self, x: Array, b: Array) -> Array:
        return rounded(lambda v, w: 0.5 * (v + w) * (1 + erf((v + w) * RSQRT2)), x, b)

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

        return rounded(gelu, x) if b is None else rounded(lambda v, w: gelu(v + w), x, b)

    def scalar(self, e: Formulas, x: Term, b: Term | None = None) -> Term:
        v = x if b is None else x + b
        return v * e.sigmoid(v * (2 * GELU_SLOPE) * (v * v * GELU_CUBIC + 1.0))


class QuickGelu(Floating):
    """x · sigmoid(alpha · x)."""

    alpha: float = 1.702

    domain = DOMAIN
    accuracy = Rounding(ulp=4, abs=1e-7, why="far below zero the error of alpha · x grows in the exponential")
    samples = cases(x=[(2, 3), Floats((50,), -30, 30)], alpha=[1.0, 1.702])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: v * sigmoid(self.alpha * v), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x * e.sigmoid(x if self.alpha == 1.0 else x * self.alpha)


class BiasSoftmax(Op):
    """Softmax(data + bias) over all axes from `axis` on, taken as one; the bias broadcasts to the data."""

    is_inner_broadcast: int
    axis: int = 1

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=2e-7)
    samples = cases(data=[(2, 3, 4, 5)], bias=[(2, 1, 1, 5)], axis=[3], is_inner_broadcast=[1])

    def infer(self, data: Value, bias: Value) -> Inferred:
        require_kind(self.name, same_dtype(self.name, data, bias), "f")
        require_shape(self.name, broadcast_shapes(data.tensor.shape, bias.tensor.shape), data.tensor.shape)
        return data.type

    def eval(self, data: Array, bias: Array) -> Array:
        axes = tuple(range(self.axis % data.ndim, data.ndim))
        scores = widened(data) + widened(bias)
        powers = np.exp(scores - scores.max(axis=axes, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axes, keepdims=True), dtype=data.dtype)


# -- normalizations ----------------------------------------------------------------------------------------------


class SimplifiedLayerNormalization(RMSNormalization):
    """x / √(mean of x² over all axes from `axis` on + epsilon) · scale: ONNX Runtime's name, in ONNX's own domain."""

    samples = cases(x=[(2, 3, 8)], scale=[(8,)], epsilon=[1e-5, 1e-2])  # type: ignore[assignment]


class SkipLayerNormalization(Op):
    """LayerNormalization of x + skip + bias over the last axis; gives also mean, 1 / deviation, and the sum.

    `skip` may lack the batch or have one of size 1.
    """

    epsilon: float = 1e-12

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=4e-6, why="sums round in another order")
    samples = cases(
        x=[(2, 3, 8), (2, 3, 8), (2, 3, 8)],
        skip=[(2, 3, 8), (3, 8), (1, 3, 8)],
        gamma=[(8,)] * 3,
        beta=[(8,), None, (8,)],
        bias=[(8,), None, None],
        epsilon=[1e-5],
    )

    def infer(
        self, x: Value, skip: Value, gamma: Value, beta: Value | None = None, bias: Value | None = None
    ) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, skip, gamma, beta, bias), "f")
        return _skipped(self.name, x, skip, gamma, beta, bias)

    def eval(
        self, x: Array, skip: Array, gamma: Array, beta: Array | None = None, bias: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        total = _total(x, skip, bias)
        norm, mean, inverse = LayerNormalization(epsilon=self.epsilon).eval(total, widened(gamma), _wide(beta))
        return norm.astype(x.dtype), mean, inverse, total.astype(x.dtype)


class SkipSimplifiedLayerNormalization(Op):
    """RMSNormalization of x + skip + bias over the last axis; gives also zeros, 1 / deviation, and the sum."""

    epsilon: float = 1e-12

    domain = DOMAIN
    accuracy = _MOMENTS
    samples = cases(x=[(2, 3, 8)] * 2, skip=[(2, 3, 8)] * 2, gamma=[(8,)] * 2, bias=[(8,), None], epsilon=[1e-5])

    def infer(self, x: Value, skip: Value, gamma: Value, bias: Value | None = None) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, skip, gamma, bias), "f")
        return _skipped(self.name, x, skip, gamma, bias)

    def eval(self, x: Array, skip: Array, gamma: Array, bias: Array | None = None) -> tuple[Array, Array, Array, Array]:
        total = _total(x, skip, bias)
        inverse = 1 / np.sqrt(np.mean(total * total, axis=-1, keepdims=True) + total.dtype.type(self.epsilon))
        norm = total * inverse * widened(gamma)
        return (
            norm.astype(x.dtype),
            np.zeros_like(inverse, np.float32),
            inverse.astype(np.float32),
            total.astype(x.dtype),
        )


def _total(x: Array, skip: Array, bias: Array | None) -> Array:
    total = widened(x) + widened(skip)
    return total if bias is None else total + widened(bias)


def _wide(x: Array | None) -> Array | None:
    return None if x is None else widened(x)


def _skipped(op: str, x: Value, *others: Value | None) -> Inferred:
    """Types of the four results; the others must broadcast to x."""
    for other in others:
        if other is not None:
            require_shape(op, broadcast_shapes(x.tensor.shape, other.tensor.shape), x.tensor.shape)
    shape = None if x.tensor.shape is None else (*x.shape[:-1], 1)
    statistics = TensorType(dtypes.float32, shape)
    return x.type, statistics, statistics, x.type


class EmbedLayerNormalization(Op):
    """LayerNormalization of the embeddings of words, positions and segments; also how many words of each row count
    (zeros unless a mask is given and `mask_index_type` is 1), and the sum before it is normalized.
    """

    epsilon: float = 1e-12
    mask_index_type: int | None = None

    domain = DOMAIN
    accuracy = _MOMENTS
    samples = cases(
        input_ids=[Ints((2, 3), 0, 9, dtypes.int32)] * 2,
        segment_ids=[Ints((2, 3), 0, 2, dtypes.int32), None],
        word_embedding=[(9, 8)] * 2,
        position_embedding=[(5, 8)] * 2,
        segment_embedding=[(2, 8), None],
        gamma=[(8,)] * 2,
        beta=[(8,)] * 2,
        mask=[Ints((2, 3), 0, 2, dtypes.int32), None],
        position_ids=[None, Ints((2, 3), 0, 5, dtypes.int32)],
        epsilon=[1e-5],
    )

    def infer(
        self,
        input_ids: Value,
        segment_ids: Value | None,
        word_embedding: Value,
        position_embedding: Value,
        segment_embedding: Value | None,
        gamma: Value,
        beta: Value,
        mask: Value | None = None,
        position_ids: Value | None = None,
    ) -> Inferred:
        dtype = same_dtype(self.name, word_embedding, position_embedding, segment_embedding, gamma, beta)
        rows, width = input_ids.tensor.shape, word_embedding.tensor.shape
        shape = None if rows is None or width is None else (*rows, width[-1])
        counts = TensorType(dtypes.int32, None if rows is None else rows[:1])
        result = TensorType(require_kind(self.name, dtype, "f"), shape)
        return result, counts, result

    def eval(
        self,
        input_ids: Array,
        segment_ids: Array | None,
        word_embedding: Array,
        position_embedding: Array,
        segment_embedding: Array | None,
        gamma: Array,
        beta: Array,
        mask: Array | None = None,
        position_ids: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        places = np.arange(input_ids.shape[1]) if position_ids is None else position_ids
        total = widened(word_embedding)[input_ids] + widened(position_embedding)[places]
        if segment_ids is not None and segment_embedding is not None:
            total = total + widened(segment_embedding)[segment_ids]
        norm = LayerNormalization(epsilon=self.epsilon).eval(total, widened(gamma), widened(beta))[0]
        counts = np.zeros(len(input_ids), np.int32) if mask is None else mask.sum(axis=1, dtype=np.int32)
        return norm.astype(word_embedding.dtype), counts, total.astype(word_embedding.dtype)
