"""TensorFlow Lite at special values, equal to LiteRT's kernels in every element."""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from tests.models.tflite_tools import Net, Quant, infused, litert

SPECIAL = np.array(
    [
        *(np.nan, 0.0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1, -1, 0.5, -0.5, 1.5, -2.5),
        *(127.5, 128, 255.5, 256, -128.5, -129, 300, 4e4, -4e4, 65536, 2147483520, 2**31),
        *(2**32, -(2**31), -3e9, 9.3e18, -9.3e18, 2e19),
    ],
    np.float32,
)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def equal(net: Net, *feeds: np.ndarray, native: bool = False) -> None:
    """Assert that every element is LiteRT's."""
    data = net.bytes()
    expected = litert(data, feeds)
    graph = infuse.load(data)
    found = [infused(graph, feeds)]
    if native:
        named = {value.name: feed for value, feed in zip(graph.inputs, feeds)}
        found.append(list(infuse.compile(data).run(named).values()))
    for results in found:
        for result, right in zip(results, expected, strict=True):
            assert result.dtype == right.dtype
            np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("source", ["float32", "float16", "float64"])
def test_a_cast_of_floats_to_integers_saturates(source: str) -> None:
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(source)
    net = Net()
    given = net.input(source, x.shape)
    equal(
        net.outputs(*(net.op("CAST", [given], to) for to in INTEGERS)), x, native=source[5:] == "32"
    )


def test_nan_is_past_all_boundaries() -> None:
    net = Net()
    given = net.input("float32", SPECIAL.shape)
    made = net.op("BUCKETIZE", [given], "int32", boundaries=[-1.0, 0.0, 0.5])
    equal(net.outputs(made), SPECIAL, native=True)


def test_angles_of_all_pairs() -> None:
    y, x = (side.copy() for side in np.meshgrid(SPECIAL, SPECIAL))
    net = Net()
    made = net.op("ATAN2", [net.input("float32", x.shape) for _ in range(2)], "float32")
    data = net.outputs(made).bytes()
    graph = infuse.load(data)
    (right,) = litert(data, [y, x])
    found = [infused(graph, [y, x])[0]]
    named = {value.name: feed for value, feed in zip(graph.inputs, (y, x))}
    found += infuse.compile(data).run(named).values()
    normal = (np.abs(right) >= np.finfo(np.float32).tiny) | (right == 0)
    for angles in found:
        np.testing.assert_array_equal(np.isnan(angles), np.isnan(right))
        np.testing.assert_allclose(angles[normal], right[normal], rtol=3e-7)
        np.testing.assert_array_equal(np.signbit(angles[normal]), np.signbit(right[normal]))


@pytest.mark.parametrize("kind", ["MAXIMUM", "MINIMUM"])
def test_the_second_operand_counts_where_the_first_is_nan(kind: str) -> None:
    y, x = (side.copy() for side in np.meshgrid(SPECIAL, SPECIAL))
    net = Net()
    made = net.op(kind, [net.input("float32", x.shape) for _ in range(2)], "float32")
    equal(net.outputs(made), y, x, native=True)


@pytest.mark.parametrize("activation", ["none", "relu", "relu6", "relu_n1_to_1"])
@pytest.mark.parametrize(("dtype", "zero"), [("int8", -3), ("uint8", 121), ("int16", 0)])
def test_means_of_windows_of_scaled_integers(dtype: str, zero: int, activation: str) -> None:
    """All pairs of bytes, and windows of three by two with pads."""
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1, 1 if info.bits == 8 else 509).astype(dtype)
    pairs = np.stack([side.reshape(-1) for side in np.meshgrid(every, every)], 1)
    image = np.random.default_rng(3).integers(info.min, info.max, (1, 40, 40, 4), dtype)
    scale = Quant(8 / (info.max - info.min), zero)
    for x, height, width in ((pairs[:, :, None, None], 2, 1), (image, 3, 2)):
        net = Net()
        made = net.op(
            "AVERAGE_POOL_2D",
            [net.input(dtype, x.shape, scale)],
            (dtype, scale),
            version=2,
            table="Pool2DOptions",
            padding=0,
            strideH=1,
            strideW=1,
            filterHeight=height,
            filterWidth=width,
            fusedActivationFunction=activation,
        )
        equal(net.outputs(made), x, native=activation == "none")


def test_roots_of_int8_are_cut_off() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(-127, 128).astype(np.int8)
    for _ in range(20):
        net, step = Net(), Quant(rng.uniform(0.004, 0.1), int(rng.integers(-128, 20)))
        given = net.input("int8", x.shape, Quant(rng.uniform(0.002, 0.6), -128))
        equal(net.outputs(net.op("SQRT", [given], ("int8", step), version=2)), x)


@pytest.mark.parametrize("kind", ["MAX", "MIN"])
def test_nan_is_never_the_extreme_of_a_segment(kind: str) -> None:
    x = np.array([np.nan, 1, -np.inf, 2, np.nan, np.inf, np.nan], np.float32)
    at, net = np.array([0, 0, 1, 1, 2, 3, 3], np.int32), Net()
    given = net.input("float32", x.shape)
    count = net.const(np.array(5, np.int32))
    made = net.op(f"UNSORTED_SEGMENT_{kind}", [given, net.const(at), count], "float32")
    equal(net.outputs(made), x, native=True)


def test_rounding_to_few_bits_takes_nan_for_the_lowest() -> None:
    """And multiplies by the inverse of a step, where halves lie: natively, too."""
    x = np.concatenate([SPECIAL, np.arange(-300, 500, dtype=np.float32) / np.float32(102)])
    net = Net()
    given = net.input("float32", x.shape)
    options = {"min": -2.0, "max": 3.0, "numBits": 8, "narrowRange": False}
    data = net.outputs(net.op("FAKE_QUANT", [given], "float32", **options)).bytes()
    (right,) = litert(data, [x])
    graph = infuse.load(data)
    named = {graph.inputs[0].name: x}
    for (y,) in (infused(graph, [x]), infuse.compile(data).run(named).values()):
        np.testing.assert_allclose(y, right, rtol=0, atol=3e-7)


def test_nan_is_the_last_of_the_largest() -> None:
    rng = np.random.default_rng(5)
    x = rng.permuted(np.tile(np.arange(12, dtype=np.float32), (60, 1)), axis=1)
    x[rng.random(x.shape) < 0.4] = np.nan
    x[0], x[1, :3] = np.nan, (np.nan, -np.inf, np.inf)
    net = Net()
    made = net.op("TOPK_V2", [net.input("float32", x.shape), net.ints(5)], "float32", "int32")
    equal(net.outputs(*made), x, native=True)
