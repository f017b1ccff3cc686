"""What rules about linear operators, pixels and arithmetic must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse.ops.sizes import int64s

IMAGE = (1, 4, 5, 5)


def f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal says.
REFUSED: dict[str, tuple[Any, str]] = {
    "MergeMatMuls": ({"x": (2, 8), "a": (8, 2), "p": (2,), "b": (2, 8)}, "one operator would multiply more often"),
    "MergeGemms": (
        {"x": (4, 4), "a": (4, 4), "p": (4,), "b": (4, 4), "q": (4,), "second": {"transA": 1}},
        "rows become columns in between",
    ),
    "MergeConvs": (
        {"x": IMAGE, "a": (9, 4, 1, 1), "p": (9,), "b": (2, 9, 3, 3), "q": (2,), "second": {"pads": (1, 1, 1, 1)}},
        "it pads with zeros, and the inner bias is none",
    ),
    "FuseConvMatMul": (
        {"x": IMAGE, "w": (6, 4, 1, 1), "b": (6,), "s": int64s(1, 6, 25), "m": (25, 2), "rows": {"perm": (0, 1, 2)}},
        "it does not move the channels last",
    ),
    "PoolBeforeConv": (
        {"x": IMAGE, "w": (4, 4, 3, 3), "b": (4,), "pool": {"kernel_shape": (2, 2)}},
        "the convolution sees several pixels",
    ),
    "FuseConvGemm": (
        {"x": (2, 3, 2, 2), "w": (3, 3, 2, 1), "p": (3,), "m": (6, 5), "q": (5,), "more": [int64s(2, 6)]},
        "there are several pixels",
    ),
    "PullStride": (
        {"x": IMAGE, "a": (3, 4, 3, 3), "b": (4, 3, 1, 1), "more": [], "rest": [], "outer": {"strides": (1, 1)}},
        "it takes every pixel",
    ),
    "PoolAsGlobalPool": ({"x": IMAGE, "root": {"kernel_shape": (5, 4)}}, "the window does not see all pixels"),
    "FusePadPool": (
        {
            **{"x": IMAGE, "p": int64s(0, 0, 1, 1, 0, 0, 1, 1), "fill": f32(0)[0]},
            "root": {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)},
        },
        "the padding is not counted as zeros",
    ),
}
