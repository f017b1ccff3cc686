"""Operators that ONNX Runtime's quantizer writes, read as what they stand for, against ONNX Runtime
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import infuse
from infuse.frontends.onnx import load
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("C1")
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    """Signed weights of 7 bits: with more, ONNX Runtime's sums of pairs overflow on processors
    without VNNI.
    """
    return RNG.integers(-64, 64, shape).astype(np.int8)


S, Z = np.float32, np.uint8
Inputs = list[np.ndarray | None]


def lstm(
    directions: int, signed: bool, columns: bool, **extra: Any
) -> tuple[str, Inputs, dict[str, Any], int]:
    """Layers of 5 inputs and 4 units, one scale for each matrix or for each column."""
    made = i8 if signed else u8
    zero = np.int8(0) if signed else np.uint8(128)
    scales = [np.full((directions, 16) if columns else (directions,), n, S) for n in (0.004, 0.005)]
    zeros = [np.full(s.shape, zero) for s in scales]
    given = extra.pop("given", {})
    state = [given.get(name) for name in ("lengths", "h", "c", "p")]
    inputs = [
        floats(3, 2, 5),
        made(directions, 5, 16),
        made(directions, 4, 16),
        floats(directions, 32),
        *state,
    ]
    direction = "bidirectional" if directions == 2 else "forward"
    both = [x for pair in zip(scales, zeros) for x in pair]
    return (
        "DynamicQuantizeLSTM",
        [*inputs, *both],
        {"hidden_size": 4, "direction": direction, **extra},
        3,
    )


STATES = {
    "lengths": np.array([3, 2], np.int32),
    "h": floats(1, 2, 4),
    "c": floats(1, 2, 4),
    "p": floats(1, 12),
}
MASK = np.array([3, 2], np.int32)
CONV = [S(0.02), Z(100), i8(6, 2, 3, 3), np.full(6, 0.01, S), np.zeros(6, np.int8), S(0.5), Z(120)]
TABLES = [u8(9, 8), u8(5, 8), u8(2, 8), u8(8), u8(8)]
EMBED = [
    np.array([[1, 2, 3]], np.int32),
    np.array([[0, 1, 1]], np.int32),
    *TABLES,
    np.ones((1, 3), np.int32),
]

# name: (operator, inputs, attributes, outputs), tolerance
CASES: dict[str, tuple[tuple[str, Inputs, Mapping[str, Any], int], float]] = {
    "lstm of bytes": (lstm(1, False, False), 0.05),
    "lstm of signed bytes": (lstm(1, True, False), 0.05),
    "lstm, a scale for each column": (lstm(1, True, True), 0.05),
    "lstm in both directions": (lstm(2, True, True), 0.05),
    "lstm with states": (lstm(1, False, False, given=STATES), 0.05),
    "attention": (
        (
            "QAttention",
            [u8(2, 3, 8), i8(8, 24), floats(24), S(0.02), S(0.01), None, Z(120)],
            {"num_heads": 2},
            1,
        ),
        1e-4,
    ),
    "attention without zero points, with a mask": (
        (
            "QAttention",
            [u8(2, 3, 8), i8(8, 24), floats(24), S(0.02), S(0.01), MASK],
            {"num_heads": 2},
            1,
        ),
        1e-4,
    ),
    "attention, a scale for each column": (
        (
            "QAttention",
            [
                u8(2, 3, 8),
                i8(8, 24),
                floats(24),
                S(0.02),
                np.full(24, 0.01, S),
                None,
                Z(120),
                np.zeros(24, np.int8),
            ],
            {"num_heads": 2, "unidirectional": 1},
            1,
        ),
        1e-4,
    ),
    "where": (
        (
            "QLinearWhere",
            [
                np.array([[True], [False]]),
                u8(2, 5),
                S(0.1),
                Z(3),
                u8(2, 5),
                S(0.2),
                Z(9),
                S(0.15),
                Z(128),
            ],
            {},
            1,
        ),
        0,
    ),
    "pooling, channels last": (
        ("NhwcMaxPool", [u8(1, 6, 7, 3)], {"kernel_shape": [2, 3], "strides": [2, 1]}, 1),
        0,
    ),
    "convolution": (
        ("QLinearConv", [u8(1, 4, 5, 5), *CONV], {"group": 2, "kernel_shape": [3, 3]}, 1),
        1,
    ),
    "convolution, channels last": (
        (
            "QLinearConv",
            [u8(1, 5, 5, 2), *CONV],
            {"kernel_shape": [3, 3], "channels_last": 1, "pads": [1, 1, 1, 1]},
            1,
        ),
        1,
    ),
    "embedding": (
        (
            "QEmbedLayerNormalization",
            [*EMBED, *(S(0.01) for _ in TABLES), *(Z(n) for n in (120, 128, 100, 0, 128))],
            {},
            1,
        ),
        1e-4,
    ),
}


def model_of(kind: str, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> ModelProto:
    """One node; x is an input, everything else a constant."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    made = [f"y{i}" for i in range(max(outputs, 2 if kind.startswith("QEmbed") else 1))]
    node = helper.make_node(kind, names, made, domain="com.microsoft", **attributes)
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(x), n)
        for n, x in zip(names, inputs)
        if x is not None
    ]
    first = helper.make_tensor_value_info("x0", tensors[0].data_type, tensors[0].dims)
    graph = helper.make_graph(
        [node], "one", [first], [onnx.ValueInfoProto(name=n) for n in made[:outputs]], tensors[1:]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("name", CASES)
def test_bytes_mean_what_they_mean_to_the_runtime(name: str) -> None:
    call, tolerance = CASES[name]
    proto = model_of(*call)
    first = call[1][0]
    assert first is not None
    expected = run(proto, {"x0": first})
    graph = load(proto)
    results = [list(evaluate(graph, {"x0": first}).values())]
    with infuse.compile(graph) as model:
        assert not getattr(model, "host_steps", ())
        found = model(first)
        results.append(list(found) if isinstance(found, tuple) else [found])
    for result in results:
        for one, wanted in zip(result, expected, strict=True):
            assert (one.shape, one.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(
                one.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=tolerance
            )
