"""TensorFlow Lite beside XNNPACK, LiteRT's default delegate, where that takes the operator: floats
with NaN, infinities, zeros of both signs; scaled integers in every element.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import infuse
from tests.models.tflite_tools import Net, Quant, infused, litert_runs, taken

Built = Callable[[Net, int], int]
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)
WINDOW = {"padding": 0, "strideH": 1, "strideW": 1}
DILATED = {**WINDOW, "dilationHFactor": 1, "dilationWFactor": 1}
POOL = {
    **WINDOW, "table": "Pool2DOptions", "filterHeight": 3, "filterWidth": 3,
    "fusedActivationFunction": "none",
}  # fmt: skip


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def among(special: float) -> np.ndarray:
    """Numbers with some of these."""
    x = normal(2, 6, 6, 8)
    x[np.random.default_rng(3).random(x.shape) < 0.03] = special
    return x


def conv(n: Net, x: int, activation: str = "none") -> int:
    given = [x, n.const(normal(5, 3, 3, 8)), n.const(normal(5))]
    return n.op("CONV_2D", given, "float32", table="Conv2DOptions", **DILATED,
                fusedActivationFunction=activation)  # fmt: skip


def depthwise(n: Net, x: int) -> int:
    given = [x, n.const(normal(1, 3, 3, 16)), n.const(normal(16))]
    return n.op("DEPTHWISE_CONV_2D", given, "float32", table="DepthwiseConv2DOptions", **DILATED,
                depthMultiplier=2, fusedActivationFunction="relu")  # fmt: skip


FLOATS: dict[str, Built] = {
    "CONV_2D": conv,
    "CONV_2D, relu6": lambda n, x: conv(n, x, "relu6"),
    "DEPTHWISE_CONV_2D, relu": depthwise,
    "FULLY_CONNECTED": lambda n, x: n.op(
        "FULLY_CONNECTED", [x, n.const(normal(5, 8)), n.const(normal(5))], "float32",
        fusedActivationFunction="none", keepNumDims=True),
    "SOFTMAX": lambda n, x: n.op("SOFTMAX", [x], "float32", beta=1.0),
    "PRELU": lambda n, x: n.op("PRELU", [x, n.const(normal(1, 1, 8))], "float32"),
    "MEAN": lambda n, x: n.op("MEAN", [x, n.ints(1, 2)], "float32", table="ReducerOptions"),
    "TRANSPOSE_CONV": lambda n, x: n.op(
        "TRANSPOSE_CONV", [n.ints(2, 6, 6, 3), n.const(normal(3, 3, 3, 8)), x], "float32",
        **WINDOW),
    "ADD": lambda n, x: n.op("ADD", [x, n.const(normal(8))], "float32"),
    "MUL": lambda n, x: n.op("MUL", [x, n.const(normal(8))], "float32"),
    "DIV": lambda n, x: n.op("DIV", [n.const(normal(8)), x], "float32"),
}  # fmt: skip
POOLS: dict[str, Built] = {
    name: lambda n, x, kind=name: n.op(kind, [x], "float32", **POOL)
    for name in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
}


def beside(build: Built, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What Infuse gives, and what XNNPACK does."""
    net = Net()
    data = net.outputs(build(net, net.input("float32", x.shape))).shaped([x]).bytes()
    assert taken(data, [x])
    ((right,),) = litert_runs(data, [[x]], delegated=True)
    return infused(infuse.load(data), [x])[0], right


def assert_same(found: np.ndarray, right: np.ndarray) -> None:
    known = np.isfinite(right)
    np.testing.assert_array_equal(found[~known], right[~known])
    scale = np.abs(right[known]).max(initial=1e-6)
    np.testing.assert_allclose(found[known], right[known], rtol=0, atol=2e-6 * scale)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("special", SPECIAL)
def test_floats_are_as_in_the_delegate(name: str, special: float) -> None:
    x = among(special)
    assert_same(*beside(FLOATS[name], x))


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("special", [np.inf, -np.inf, 0.0])
def test_pools_are_as_in_the_delegate(name: str, special: float) -> None:
    """Infinities stay, where LiteRT's kernels end at the largest float."""
    x = among(special)
    assert_same(*beside(POOLS[name], x))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_scaled_integers_are_as_in_the_delegate(kind: str, several: bool) -> None:
    """One scale and several."""
    channels, rng = 8, np.random.default_rng(7)
    x = rng.integers(-128, 128, (4, 16, 16, 8)).astype(np.int8)
    steps = rng.uniform(0.001, 0.01, channels if several else 1)
    shape, axis, options = {
        "CONV_2D": ((8, 3, 3, 8), 0, {"table": "Conv2DOptions", **DILATED}),
        "DEPTHWISE_CONV_2D": (
            (1, 3, 3, 8), 3, {"table": "DepthwiseConv2DOptions", **DILATED, "depthMultiplier": 1}),
        "FULLY_CONNECTED": ((8, 8), 0, {"keepNumDims": True}),
    }[kind]  # fmt: skip
    w = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-2000, 2000, channels).astype(np.int32)
    net = Net()
    given = [
        net.input("int8", x.shape, Quant(0.031, -3)),
        net.const(w, Quant(steps, 0, axis)),
        net.const(bias, Quant(steps * 0.031)),
    ]
    made = net.op(kind, given, ("int8", Quant(0.12, 5)), version=5, fusedActivationFunction="none",
                  **options)  # fmt: skip
    data = net.outputs(made).shaped([x]).bytes()
    assert taken(data, [x])
    ((right,),) = litert_runs(data, [[x]], delegated=True)
    graph = infuse.load(data)
    np.testing.assert_array_equal(infused(graph, [x])[0], right)
    with infuse.compile(graph) as model:
        np.testing.assert_array_equal(model(x), right)
