"""The instructions of AVX512-BF16 that kernels name, each against NumPy: emulated, or a
processor's own.
"""

import ctypes
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from tests.native.wide_vectors import SPECIAL, agree, call, couples, library, whole

__all__ = ["library"]

pytestmark = pytest.mark.row("R1", "R3")
Array = NDArray[Any]
Rng = np.random.Generator


def flushed(x: Array) -> Array:
    """Zeros in place of denormal numbers."""
    small = np.abs(x) < np.finfo(np.float32).smallest_normal
    return np.where(small, np.copysign(np.float32(0), x), x).astype(np.float32)


def patterns() -> Array:
    """Floats around every bfloat16."""
    high = np.arange(2**16, dtype=np.uint32)[:, None] << 16
    return whole(
        (high | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).view(np.float32)
    )


def test_rounding_to_bfloat16(library: ctypes.CDLL) -> None:
    x = patterns()
    with np.errstate(all="ignore"):
        expected = flushed(x).astype(bfloat16).view(np.uint16)
    quiet = np.isnan(x)
    expected[quiet] = (x.view(np.uint32)[quiet] >> 16).astype(np.uint16) | 0x40
    one = call(library, "to_bfloat", x, other=np.empty((len(x), 16), np.uint16), mask=0)
    np.testing.assert_array_equal(one, expected)
    high = x[::-1].copy()
    two = call(library, "to_bfloats", high, x, other=np.empty((len(x), 32), np.uint16), mask=0)
    np.testing.assert_array_equal(two, np.concatenate([expected, expected[::-1]], axis=1))


def dot(start: Array, a: Array, b: Array) -> Array:
    """Intel's description of VDPBF16PS: the upper product is added and rounded, then the lower
    one.
    """
    total = flushed(start).astype(np.float64)
    for half in (1, 0):
        x, y = (flushed(v[..., half].astype(np.float32)).astype(np.float64) for v in (a, b))
        total = flushed((x * y + total).astype(np.float32)).astype(np.float64)
    return total.astype(np.float32)


@pytest.mark.parametrize("name", ["add_bfloats", "add_bfloats_of_floats"])
@pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")
def test_products_of_bfloat16(library: ctypes.CDLL, name: str, rng: Rng) -> None:
    a, b = (
        (rng.standard_normal((300, 16, 2)) * 2.0 ** rng.integers(-3, 4, (300, 16, 2)))
        for _ in range(2)
    )
    a, b, start = (
        a.astype(bfloat16),
        b.astype(bfloat16),
        rng.standard_normal((300, 16)).astype(np.float32),
    )
    agree(call(library, name, a, b, other=start, mask=0), dot(start, a, b))
    x, y = (v.astype(bfloat16).reshape(-1, 16, 2) for v in couples())
    assert len(x) * 2 == len(couples()[0])
    start = np.resize(SPECIAL[:-1], x.shape[:2])
    agree(call(library, name, x, y, other=start, mask=0), dot(start, x, y))


def test_the_upper_product_is_added_first(library: ctypes.CDLL) -> None:
    """Rounding tells: -2²⁵ + 2²⁵ + 1 is 1, and -2²⁵ + 1 + 2²⁵ is 0."""
    start, ones = np.full((1, 16), -(2.0**25), np.float32), np.ones((1, 16, 2), bfloat16)
    for pair, expected in (([1, 2**25], 1), ([2**25, 1], 0)):
        a = np.broadcast_to(np.array(pair, bfloat16), ones.shape).copy()
        agree(
            call(library, "add_bfloats", a, ones, other=start, mask=0),
            np.full((1, 16), expected, np.float32),
        )


@pytest.mark.filterwarnings("ignore:(invalid value|overflow|underflow):RuntimeWarning")
def test_products_of_bfloat16_know_no_denormal_numbers(library: ctypes.CDLL) -> None:
    small, zero = np.float32(1e-39), np.zeros((1, 16), np.float32)

    def run(start: Any, a: list[float], b: list[float]) -> float:
        operands = [
            np.broadcast_to(np.array(v, np.float32).astype(bfloat16), (1, 16, 2)).copy()
            for v in (a, b)
        ]
        found = call(library, "add_bfloats", *operands, other=zero + np.float32(start), mask=0)
        assert len(set(found.view(np.uint32).flat)) == 1
        return float(found[0, 0])

    assert run(small, [0, 0], [0, 0]) == 0
    assert run(0, [0, small], [0, 2.0**100]) == 0
    assert run(0, [2.0**-70, 0], [2.0**-60, 0]) == 0
    assert run(0, [2.0**-60, 0], [2.0**-60, 0]) == 2.0**-120
    assert np.signbit(run(-small, [-0.0, -small], [1, 1]))
