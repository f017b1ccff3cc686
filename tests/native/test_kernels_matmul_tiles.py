"""Kernels of products of two computed operands by tile registers, or what stands for them: rounded
to bfloat16, or split into two each.
"""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from tests.native.kernel_tools import (
    Doubles,
    assert_close,
    build,
    empty,
    longs,
    pointer,
    targets,
)
from tests.native.matrix_calls import Rng, numbers
from tests.native.test_kernels_gemm import laid_out
from tests.native.test_kernels_split import halves
from tests.support.emulation import NEWEST, resolve

pytestmark = pytest.mark.row("R3")
LOW = ctypes.c_float(-0.25)
THREADS = (1, 3)
ORDERS = ("rows", "columns", "heads", "head columns", "strided", "one")
FORMS = ("bf16", "bf16x2")
TILED = [name for name in targets((NEWEST,)) if resolve(name).machine.has_bf16_tiles]


@pytest.fixture(scope="module", params=TILED)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return build(Path(__file__).with_name("matmul_tiles_driver.cpp"), request.param)


def exact(form: str, few: bool, left: Doubles, right: Doubles) -> Doubles:
    """What the kernel sums up; few rows and single columns stay in float32."""
    if few:
        return np.asarray(left @ right)
    if form == "bf16":
        a, b = (x.astype(bfloat16).astype(np.float64) for x in (left, right))
        return np.asarray(a @ b)
    (high, low), (above, below) = (halves(x.astype(np.float32)) for x in (left, right))
    return np.asarray((high + low) @ above + high @ below)


def check(
    form: str, out: NDArray[np.float32], left: Doubles, right: Doubles, bias: NDArray[np.float32]
) -> None:
    """Against NumPy in float64, of float32 products where the kernel may take those."""
    magnitude = np.abs(left) @ np.abs(right) + np.abs(bias)
    steps = 3 * left.shape[-1]
    rows, columns = left.shape[-2], right.shape[-1]
    expected = np.maximum(exact(form, False, left, right) + bias, LOW.value)
    if columns > 1 and rows >= 5 * max(THREADS):
        assert_close(out, expected, 2 * magnitude, steps)
        return
    plain = np.maximum(exact(form, True, left, right) + bias, LOW.value)
    bound = (steps + 2) * 2.0**-23 * 2 * magnitude
    assert np.all((np.abs(out - expected) <= bound) | (np.abs(out - plain) <= bound))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("orders", list(product(ORDERS, repeat=2)))
def test_orders(library: ctypes.CDLL, rng: Rng, orders: tuple[str, str], form: str) -> None:
    shapes = [
        *((1, 1, 1, 1), (3, 5, 7, 4), (2, 13, 33, 17), (5, 37, 18, 31), (2, 24, 64, 32)),
        *((4, 1, 40, 9), (2, 2, 75, 40), (2, 4, 70, 33), (3, 23, 1, 37), (2, 70, 90, 150)),
    ]
    run = getattr(library, f"run_matmul_{form}")
    for (batch, m, n, k), threads in product(shapes, THREADS):
        a, a_strides, left = laid_out(rng, batch, m, k, orders[0])
        b, b_strides, right = laid_out(rng, batch, k, n, orders[1])
        bias, out = numbers(rng, n), empty(batch, m, n)
        shape = longs(batch, m, n, k, *a_strides, *b_strides)
        run(threads, shape, pointer(a), pointer(b), pointer(bias), LOW, pointer(out))
        check(form, out, left, right, bias)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("m", "n", "k"), [(40, 70, 1024), (600, 40, 900), (70, 1500, 800)])
@pytest.mark.parametrize("orders", [("rows", "columns"), ("columns", "rows"), ("heads", "heads")])
def test_large_operands(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, orders: tuple[str, str], form: str
) -> None:
    a, a_strides, left = laid_out(rng, 2, m, k, orders[0])
    b, b_strides, right = laid_out(rng, 2, k, n, orders[1])
    bias, out = numbers(rng, n), empty(2, m, n)
    shape = longs(2, m, n, k, *a_strides, *b_strides)
    run = getattr(library, f"run_matmul_{form}")
    run(2, shape, pointer(a), pointer(b), pointer(bias), LOW, pointer(out))
    check(form, out, left, right, bias)


@pytest.mark.parametrize("threads", THREADS)
def test_batches_that_lie_anywhere(library: ctypes.CDLL, rng: Rng, threads: int) -> None:
    """Matrices of the second operand that overlap share no packed panels."""
    a, b = numbers(rng, 3, 1, 9, 6), numbers(rng, 6, 21 + 32)
    bias, out = numbers(rng, 21), empty(3, 2, 9, 21)
    a_at, b_at = np.repeat(np.arange(3) * 54, 2), np.tile((0, 32), 3)
    shape = longs(6, 9, 21, 6, 0, 6, 1, 0, 53, 1)
    at = longs(*a_at), longs(*b_at)
    operands = pointer(a), pointer(b), *at, pointer(bias)
    library.run_matmul_bf16_at(threads, shape, *operands, LOW, pointer(out))
    right = np.stack([b[:, :21], b[:, 32:]]).astype(np.float64)
    check("bf16", out, a.astype(np.float64), right, bias)


@pytest.mark.parametrize("form", FORMS)
def test_products_of_nothing(library: ctypes.CDLL, rng: Rng, form: str) -> None:
    bias, out = numbers(rng, 40), empty(2, 20, 40)
    nothing = np.zeros(1, np.float32)
    shape = longs(2, 20, 40, 0, 0, 0, 1, 0, 40, 1)
    run = getattr(library, f"run_matmul_{form}")
    run(1, shape, pointer(nothing), pointer(nothing), pointer(bias), LOW, pointer(out))
    expected = np.broadcast_to(np.maximum(bias, LOW.value), (2, 20, 40))
    np.testing.assert_array_equal(out, expected)
