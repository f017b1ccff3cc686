"""Operators of TensorFlow Lite on all bytes: a part of `python -m benchmarks.tflite_bytes`."""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from benchmarks.tflite_bytes import cases, differences, functions, scale
from infuse.ops.core.evaluate import evaluate
from tests.models.tflite_tools import Net


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_bytes(dtype: str) -> None:
    count = 0
    for name, net, feeds in cases(dtype):
        assert not differences(net, feeds).any(), name
        count += 1
    assert count >= 30


def test_int16_is_ordered_by_what_is_stored() -> None:
    count = 0
    for name, net, feeds in cases("int16"):
        if "EQUAL" in name or name in ("LESS", "GREATER"):
            assert not differences(net, feeds).any(), name
            count += 1
    assert count == 6


def test_functions_of_int16_are_read_from_tables() -> None:
    """Of 513 places for EXP, LOG, GELU and RSQRT, of 256 for TANH and LOGISTIC; one natively."""
    for name, net, feeds in functions("int16"):
        assert not differences(net, feeds).any(), name
        if name.startswith("EXP"):
            (x,), data = feeds, net.bytes()
            graph = infuse.load(data)
            (y,) = evaluate(graph, {graph.inputs[0].name: x}).values()
            with infuse.compile(data) as model:
                np.testing.assert_array_equal(model(x), y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_one_bit_is_left_of_what_is_shifted(dtype: str) -> None:
    info = np.iinfo(dtype)
    counts = [0, 1, info.bits - 1, info.bits, info.bits + 1, 120, -1 if info.min else info.max]
    x, count = np.meshgrid([info.min, info.max, 100, 1, 0], counts)
    feeds = [x.astype(dtype), count.astype(dtype)]
    net = Net()
    given = [net.input(dtype, x.shape) for _ in feeds]
    net.outputs(net.op("RIGHT_SHIFT", given, dtype))
    assert not differences(net, feeds).any()


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_means_are_rounded_when_the_zero_point_is_there(size: int) -> None:
    rng = np.random.default_rng(size)
    rows = rng.integers(-128, 128, (500, size)).astype(np.int8)
    net = Net()
    x = net.input("int8", rows.shape, scale("int8", 4))
    result = ("int8", scale("int8", 4))
    net.outputs(net.op("MEAN", [x, net.ints(1)], result, version=2, table="ReducerOptions"))
    assert not differences(net, [rows]).any()
