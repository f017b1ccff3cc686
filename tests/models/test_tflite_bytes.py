"""Operators of TensorFlow Lite on all bytes: a part of `python -m benchmarks.tflite_bytes`."""

from __future__ import annotations

import pytest

from benchmarks.tflite_bytes import cases, differences

ONE_UNIT = {
    "LEAKY_RELU": 0.12, "RSQRT": 0.01, "MUL": 0.03, "MEAN": 0.26, "EQUAL": 0.001,
    "NOT_EQUAL": 0.001, "LESS": 0.001, "LESS_EQUAL": 0.001, "GREATER": 0.001,
    "GREATER_EQUAL": 0.001,
}  # fmt: skip
"""Which part of all results may be one unit off (docs/frontends.md); of all others, none."""


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_bytes(dtype: str) -> None:
    count = 0
    for name, net, feeds in cases(dtype):
        apart = differences(net, feeds)
        assert apart.max() <= 1, name
        assert apart.mean() <= ONE_UNIT.get(name.partition(" ")[0], 0.0), name
        count += 1
    assert count >= 30


def test_int16_is_ordered_by_what_is_stored() -> None:
    for name, net, feeds in cases("int16"):
        if name in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
            assert not differences(net, feeds).any(), name
