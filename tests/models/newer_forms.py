"""Operators in forms that only newer opsets have."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import ModelProto, helper

from tests.models.onnx_tools import model

node = helper.make_node
X = np.random.default_rng(1).standard_normal((2, 4, 6, 8)).astype(np.float32)

VECTOR = {"s": np.float32([1, 2, 3, 4, 5, 6, 7, 8]), "b": np.linspace(-1, 1, 8, dtype=np.float32)}
CHANNELS = {"s": np.float32([1, 2, 3, 4]), "b": np.float32([0, 1, 0, -1])}
TURNS = np.arange(40, dtype=np.float32).reshape(10, 4)
ANGLES = {"c": np.cos(TURNS), "s": np.sin(TURNS), "p": np.arange(12).reshape(2, 6) % 10}
PAIRS = {"c": np.cos(TURNS[:, :2]), "s": np.sin(TURNS[:, :2]), "p": ANGLES["p"]}
AXES = {"axes": np.array([1, -1])}
KINDS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

# name: (first opset of the operator in this form, nodes from x to y, constants)
NEWER: dict[str, tuple[int, list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "gelu": (20, [node("Gelu", ["x"], ["y"])], {}),
    "gelu_tanh": (20, [node("Gelu", ["x"], ["y"], approximate="tanh")], {}),
    "swish": (24, [node("Swish", ["x"], ["y"], alpha=1.5)], {}),
    "mish": (18, [node("Mish", ["x"], ["y"])], {}),
    "hard_swish": (14, [node("HardSwish", ["x"], ["y"])], {}),
    "layer_norm": (17, [node("LayerNormalization", ["x", "s", "b"], ["y"])], VECTOR),
    "layer_norm_statistics": (
        17,
        [node("LayerNormalization", ["x", "s"], ["y", "m", "i"], axis=3)],
        VECTOR,
    ),
    "layer_norm_axes": (17, [node("LayerNormalization", ["x", "t"], ["y"], axis=1)], {"t": X[0]}),
    "rms_norm": (23, [node("RMSNormalization", ["x", "s"], ["y"])], VECTOR),
    "group_norm": (
        21,
        [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
        CHANNELS,
    ),
    "rotary": (
        23,
        [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"])],
        {**ANGLES, "p": np.arange(12).reshape(2, 6) % 10},
    ),
    "rotary_pairs": (
        *(
            23,
            [
                node(
                    "RotaryEmbedding",
                    ["x", "c", "s", "p"],
                    ["y"],
                    interleaved=1,
                    rotary_embedding_dim=4,
                )
            ],
        ),
        PAIRS,
    ),
    **{
        f"reduce_{k}": (
            18,
            [node("Abs", ["x"], ["a"]), node(f"Reduce{k}", ["a", "axes"], ["y"], keepdims=0)],
            AXES,
        )
        for k in KINDS
    },
    "reduce_all": (18, [node("ReduceMean", ["x"], ["y"])], {}),
    "split_uneven": (18, [node("Split", ["x"], ["y", "z", "w"], axis=2, num_outputs=3)], {}),
    "split_last_smaller": (18, [node("Split", ["x"], ["y", "z", "w"], axis=3, num_outputs=3)], {}),
    "pad_axes": (
        18,
        [node("Pad", ["x", "p", "", "a"], ["y"])],
        {"p": np.array([1, 0, 2, 3]), "a": np.array([3, 1])},
    ),
    "resize_axes": (
        18,
        [node("Resize", ["x", "", "r"], ["y"], axes=[3, 2], mode="linear")],
        {"r": np.float32([2, 1.5])},
    ),
    "resize_sizes": (
        18,
        [node("Resize", ["x", "", "", "r"], ["y"], axes=[2, 3])],
        {"r": np.array([5, 9])},
    ),
    "shape_part": (15, [node("Shape", ["x"], ["y"], start=1, end=-1)], {}),
    "shape_end": (15, [node("Shape", ["x"], ["y"], start=-2)], {}),
    "reshape_zero": (
        14,
        [node("Reshape", ["x", "r"], ["y"], allowzero=1)],
        {"r": np.array([2, 4, 48])},
    ),
    "cast_like": (15, [node("CastLike", ["x", "t"], ["y"])], {"t": np.array(1)}),
    "scatter": (
        18,
        [node("ScatterND", ["x", "i", "u"], ["y"])],
        {"i": np.array([[0, 1], [1, 0]]), "u": X[0, :2]},
    ),
    "fill": (
        13,
        [
            node("Shape", ["x"], ["h"]),
            node("ConstantOfShape", ["h"], ["y"], value=helper.make_tensor("v", 10, [1], [2])),
        ],
        {},
    ),
    "clip": (13, [node("Clip", ["x", "", "m"], ["y"])], {"m": np.float32(0.5)}),
    "pool_indices": (22, [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])], {}),
    "pool_unread_indices": (22, [node("MaxPool", ["x"], ["y", "unread"], kernel_shape=[2, 2])], {}),
    "topk": (24, [node("TopK", ["x", "k"], ["y", "i"])], {"k": np.array([3])}),
    "eye": (
        22,
        [node("Reshape", ["x", "r"], ["h"]), node("EyeLike", ["h"], ["y"], dtype=7, k=1)],
        {"r": np.array([16, 24])},
    ),
}


def newer_form(name: str) -> ModelProto:
    opset, nodes, constants = NEWER[name]
    read = {i for n in nodes for i in n.input}
    made = [o for n in nodes for o in n.output if o in ("y", "z", "w", "m", "i")]
    return model(
        nodes, {"x": X.shape}, made, opset, {k: v for k, v in constants.items() if k in read}
    )
