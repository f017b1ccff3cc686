"""What rules about activations must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call
from tests.pure.refused_operands import X, f32

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "FuseErfGelu": (
        (X * (ops.erf(X * 0.70710678) + 1.0)) * 0.25,
        "the constant 0.5 is needed as input of Mul",
    ),
    "FuseTanhGelu": (
        (X * (ops.tanh(X) + 1.0)) * 0.5,
        "is needed as input of Tanh, found an input of the graph",
    ),
    "FuseSwish": ({"x": (2,), "a": f32(1, 2)}, "the constant varies"),
    "FuseHardSwish": (
        (X * ops.clip(X + 3.0, 0.0, 6.0)) * 0.5,
        "the constant 0.16666666666666666 is needed",
    ),
    "FuseHardSwishOfSum": (
        {"x": (3, 4), "b": f32(0.5)[0], "c": f32(3.4)[0]},
        "the sums are not 3 apart",
    ),
    "FuseHardSigmoid": (
        ops.clip(X + 3.0, 0.0, 1.0) / 6.0,
        "the constant 6.0 is needed as input of Clip",
    ),
    "FuseMish": (X * ops.tanh(ops.softplus(-X)), "x must be the same value in both places"),
    "PReluAsLeakyRelu": ({"x": (2,), "s": f32(0.1, 0.2)}, "the slopes differ"),
    "RemoveRepeated": (
        ops.relu(ops.abs(X)),
        "Abs is needed as input of Abs, found an input of the graph",
    ),
    "RemoveInverse": (-ops.abs(X), "Neg is needed, Abs found"),
    "MergeClips": (
        {"x": (4,), "a": f32(3)[0], "b": f32(2)[0], "c": f32(0)[0], "d": f32(6)[0]},
        "the lower limit is above the upper one",
    ),
    "LimitAsClip": ({"x": (2,), "c": f32(1, 2)}, "the limit varies"),
    "ClipAsRelu": ({"x": (4,), "high": f32(6)[0]}, "there is an upper limit"),
    "NegateAfterOdd": (ops.tanh(ops.abs(X)), "Neg is needed, Abs found"),
    "FuseTanhSigmoid": (
        (ops.tanh(X * 0.25) + 1.0) * 0.5,
        "the constant 0.5 is needed as input of Mul",
    ),
    "FuseSoftplus": (ops.log(ops.exp(X) + 2.0), "the constant 1.0 is needed as input of Add"),
    "FuseElu": (
        {"x": (3, 4), "a": f32(-1.5)[0], "low": f32(-np.inf)[0]},
        "the factor is not a positive number",
    ),
    "FuseSelu": (ops.elu(X, alpha=1.0) * 1.0507009873554805, "attribute alpha is 1.0"),
    "ComparisonAsLimit": (
        {"x": (3, 4), "c": f32(1)[0], "d": f32(2)[0]},
        "it takes another number than it compares with",
    ),
    "MaskAsRelu": (
        X * ops.cast(Call("Greater", (X, 1.0)), to=dtypes.float32),
        "the constant 0.0 is needed as input of Greater",
    ),
}
