"""What rules for ONNX Runtime must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ops.core.samples import Floats, Ints
from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import f32

HALF, DOUBLE = Floats((2, 4, 5, 5), dtype=dtypes.float16), Floats((3, 4), dtype=dtypes.float64)

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "FuseConvActivation": (
        {
            "x": HALF,
            "w": Floats((4, 4, 3, 3), dtype=dtypes.float16),
            "b": Floats((4,), dtype=dtypes.float16),
        },
        "ONNX Runtime has it for float32 only",
    ),
    "FuseGemmActivation": (
        {
            "a": DOUBLE,
            "b": Floats((4, 5), dtype=dtypes.float64),
            "c": Floats((5,), dtype=dtypes.float64),
        },
        "ONNX Runtime has it for float32 only",
    ),
    "SwishAsQuickGelu": ({"x": DOUBLE}, "ONNX Runtime has it for float32 only"),
    "UseOwnGelu": ({"x": DOUBLE}, "ONNX Runtime has it for float32 only"),
    "ScaleInsideMatMul": ({"a": (2, 3), "b": (3, 4), "c": f32(1, 2, 3, 4)}, "the constant varies"),
    "TransposeInsideMatMul": (
        {"a": (2, 3, 4), "b": (4, 2, 5), "right": {"perm": (1, 0, 2)}},
        "other axes move",
    ),
    "FuseSkipNormalization": (
        {"x": (2, 3, 4), "skip": (3, 4), "bias": f32(1, 2, 3, 4), "gamma": (4,), "beta": (4,)},
        "the operands of the sum are broadcast",
    ),
    "UseSimplifiedNormalization": (
        {"x": DOUBLE, "scale": Floats((4,), dtype=dtypes.float64)},
        "ONNX Runtime has it for float32 only",
    ),
    "UseMultiHeadAttention": (
        {"q": (2, 5, 16), "k": (2, 5, 8), "v": (2, 5, 8), "mask": (5, 5)}
        | {
            "past_key": (2, 1, 3, 8),
            "past_value": (2, 1, 3, 8),
            "attention": {"q_num_heads": 2, "kv_num_heads": 1},
        },
        "several heads share keys",
    ),
    "FusePackedAttention": (
        {
            "x": (2, 5, 6),
            "w": np.ones((6, 24), np.float32),
            "b": np.ones(24, np.float32),
            "bias": (1, 2, 5, 5),
        }
        | {"more": [int64s(8, 8, 8)], "split": {"axis": 2}, "attention": {"num_heads": 2}}
        | {"padding": np.ones((2, 5), np.int32)},
        "heads have odd sizes",
    ),
    "TransposeOfFusedMatMul": (
        {"a": (2, 3, 4), "b": (2, 4, 5), "moved": {"perm": (1, 0, 2)}},
        "other axes move",
    ),
    "FuseEmbedNormalization": (
        {
            **{"w": (9, 4), "ids": Ints((2, 3), 0, 9), "t": (2, 4), "kinds": Ints((3,), 0, 2)},
            **{"p": (7, 4), "cut": [int64s(0), int64s(3), int64s(0)]},
            **{"gamma": np.ones(4, np.float32), "beta": (4,)},
        },
        "segments are repeated",
    ),
}
