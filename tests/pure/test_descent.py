"""Rounding by coordinate descent: better than GPTQ's, and never outside of its types."""

from __future__ import annotations

import numpy as np
import pytest

from infuse.compression.descent import descended
from infuse.compression.gptq import gptq
from infuse.compression.moments import products_error
from infuse.compression.weights import BlockWeights, blocks

pytestmark = pytest.mark.row("Z1")
DEPTH, COLUMNS, BLOCK = 128, 24, 32


def layer(rng: np.random.Generator, columns: int = COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """A matrix, and second moments of operands that go together, as those of networks do."""
    mixing = rng.standard_normal((DEPTH // 4, DEPTH)) * np.geomspace(1, 0.1, DEPTH // 4)[:, None]
    rows = rng.standard_normal((1000, DEPTH // 4)) @ mixing + 0.1 * rng.random((1000, DEPTH))
    matrix = rng.standard_normal((DEPTH, columns)).astype(np.float32)
    return matrix, (rows.T @ rows).astype(np.float32)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_products_err_less_than_by_gptq(bits: int, rng: np.random.Generator) -> None:
    matrix, moments = layer(rng)
    first = gptq(matrix, moments, bits, BLOCK)
    better = descended(first, matrix, moments)
    errors = [products_error(each.numbers, matrix, moments) for each in (first, better)]
    assert errors[1] < 0.9 * errors[0]
    codes = better.integers.astype(np.int64)
    assert 0 <= codes.min() <= codes.max() < 1 << bits
    assert better.integers.dtype == first.integers.dtype
    assert better.scales.dtype == np.float16
    assert (better.scales.astype(np.float32) > 0).all()


def test_one_weight_at_a_time_finds_the_best_of_two_columns() -> None:
    """Of two operands that are always equal, errors of opposite signs cancel: 0.5 and 0.5 become 0
    and 1, which rounding to nearest and scales alone do not find.
    """
    moments = np.ones((2, 2), np.float32)
    matrix = np.full((2, 1), 0.5, np.float32)
    nearest = BlockWeights(
        np.array([[2], [2]], np.uint8), np.ones((1, 1), np.float16), np.ones((1, 1), np.uint8), 2, 4
    )
    better = descended(nearest, matrix, moments)
    assert abs(better.numbers.sum() - 1) < 0.02


def test_operands_that_are_always_zero_and_columns_of_zeros(rng: np.random.Generator) -> None:
    matrix, moments = layer(rng)
    moments[5], moments[:, 5] = 0, 0
    matrix[:, 3] = 0
    better = descended(gptq(matrix, moments, 4, BLOCK), matrix, moments)
    assert np.isfinite(better.numbers).all()
    assert not better.numbers[:, 3].any()


def test_scales_without_zero_points(rng: np.random.Generator) -> None:
    """Codes of weights that are never negative."""
    matrix, moments = layer(rng)
    matrix = np.abs(matrix)
    first = blocks(matrix, 4, BLOCK)
    assert first.zeros is not None
    plain = BlockWeights(first.integers, first.scales, None, BLOCK, 4)
    better = descended(plain, matrix, moments)
    assert better.zeros is None
    assert products_error(better.numbers, matrix, moments) < products_error(
        plain.numbers, matrix, moments
    )
