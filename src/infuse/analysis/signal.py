"""How much arithmetic transforms, windows, losses and recurrences over states do."""

from __future__ import annotations

from infuse.analysis.arithmetic import SOFTMAX, Arithmetic, Call, counts
from infuse.ir import dims
from infuse.ir.dims import Dim

BUTTERFLY = 5
"""Operations on an element in each of the log₂ n passes of a fast transform."""
PASSES = 10
"""Passes where the length is not known: those of 1024 elements."""


def _passes(length: Dim) -> int:
    return max(1, (length - 1).bit_length()) if isinstance(length, int) else PASSES


@counts("DFT")
def _transform(call: Call) -> Arithmetic:
    """As a fast transform of the longest axis does."""
    whole = max((d for d in call.shape(0)[:-1] if isinstance(d, int)), default=1 << PASSES)
    return Arithmetic(0, call.size(0) * BUTTERFLY * _passes(whole))


@counts("STFT")
def _short_transforms(call: Call) -> Arithmetic:
    """A window and a transform for every frame; a result has half of the frame's places where one
    side is asked for.
    """
    places = call.outputs[0][2]
    return Arithmetic(0, call.made * (1 + BUTTERFLY * _passes(places)))


@counts("MelWeightMatrix", "HannWindow", "HammingWindow", "BlackmanWindow")
def _window(call: Call) -> Arithmetic:
    """About six operations an element."""
    return Arithmetic(0, call.made * 6)


@counts("Det")
def _determinant(call: Call) -> Arithmetic:
    """Elimination: a third of n³."""
    side = call.shape(0)[-1]
    return Arithmetic(dims.floordiv(call.size(0) * side, 3))


@counts("BitCast", "TensorScatter", "StringNormalizer", "StringSplit", "TfIdfVectorizer")
def _moves(call: Call) -> Arithmetic:
    return Arithmetic()


@counts("NegativeLogLikelihoodLoss")
def _likelihood(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(1) * 3)


@counts("SoftmaxCrossEntropyLoss")
def _cross_entropy(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) * SOFTMAX + call.size(1) * 3)


@counts("CausalConvWithState")
def _causal(call: Call) -> Arithmetic:
    return Arithmetic(call.made * call.shape(1)[-1], call.made * int(call.has(2)))


@counts("LinearAttention")
def _linear_attention(call: Call) -> Arithmetic:
    """Every step reads the state once and writes it once; decay and correction read it once more
    each.
    """
    batch, steps = call.shape(0)[:2]
    state = dims.product(call.outputs[1][1:]) if len(call.outputs) > 1 else 0
    shared = dims.floordiv(call.attributes["q_num_heads"], call.attributes["kv_num_heads"])
    further = {"linear": 1, "gated": 2, "delta": 2, "gated_delta": 3}[
        call.attributes["update_rule"]
    ]
    return Arithmetic(batch * steps * state * (shared + further))
