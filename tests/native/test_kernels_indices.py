"""Gathering, scattering and sequences against NumPy,
for every width of vectors that this machine has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.native.kernel_driver import (
    ELEMENTS,
    Driver,
    Rng,
    floats,
    libraries,
    long_array,
    run,
    zeros,
)
from tests.native.kernel_tools import fenced

__all__ = ["libraries", "run"]


# ---- indices


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("outer", "n", "inner", "count"),
    [
        *((1, 50, 1, 40), (3, 7, 1, 40), (1, 50, 1, 3000), (2, 9, 1, 1025), (3, 5, 1, 1)),
        *((1, 30, 77, 40), (2, 5, 16, 40), (2, 3, 0, 40), (3, 5, 1, 0), (3, 5, 2, 0)),
    ],
)
def test_gather(
    run: Driver, rng: Rng, size: int, dtype: Any, outer: int, n: int, inner: int, count: int
) -> None:
    x = fenced(rng.integers(0, 100, (outer, n, inner)).astype(ELEMENTS[size]))
    index = fenced(rng.integers(-n, n, count).astype(dtype))
    y = zeros(outer, count, inner, dtype=x.dtype)
    call = (size, dtype == np.int64, outer, n, inner, count, x, index, y)
    assert run("gather_axis", *call, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, np.take(x, index, axis=1))
    for wrong in (n, -n - 1, np.iinfo(dtype).min, np.iinfo(dtype).max):
        index[count // 2 :][:1] = wrong
        good = run("gather_axis", *call, result=ctypes.c_bool)
        assert good == (inner * count == 0)


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize(
    ("dims", "index_dims", "axis"),
    [
        ((9,), (20,), 0),
        ((4, 6), (4, 3), 1),
        ((4, 6), (7, 5), 0),
        ((3, 4, 5), (2, 9, 5), 1),
        ((3, 4, 5), (3, 4, 8), 2),
    ],
)
def test_gather_elements(
    run: Driver, rng: Rng, size: int, dims: tuple[int, ...], index_dims: tuple[int, ...], axis: int
) -> None:
    x = fenced(rng.integers(0, 100, dims).astype(ELEMENTS[size]))
    index = fenced(rng.integers(-dims[axis], dims[axis], index_dims))
    y = zeros(*index_dims, dtype=x.dtype)
    call = (size, len(dims), long_array(index_dims), long_array(dims), axis, x, index, y)
    assert run("gather_each", *call, result=ctypes.c_bool)
    part = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index_dims))]
    np.testing.assert_array_equal(y, np.take_along_axis(part, index, axis))
    index.reshape(-1)[-1] = dims[axis]
    assert not run("gather_each", *call, result=ctypes.c_bool)


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize(
    ("batch", "dims", "slice_size"),
    [(1, (5,), 1), (1, (3, 4), 1), (2, (3, 4), 6), (3, (2, 3, 2), 40)],
)
def test_gather_nd(
    run: Driver, rng: Rng, size: int, batch: int, dims: tuple[int, ...], slice_size: int
) -> None:
    x = fenced(rng.integers(0, 100, (batch, *dims, slice_size)).astype(ELEMENTS[size]))
    index = fenced(np.stack([rng.integers(-d, d, (batch, 11)) for d in dims], axis=-1))
    y = zeros(batch, 11, slice_size, dtype=x.dtype)
    call = (size, batch, 11, len(dims), long_array(dims), slice_size, x, index, y)
    assert run("gather_tuples", *call, result=ctypes.c_bool)
    for b, p in product(range(batch), range(11)):
        np.testing.assert_array_equal(y[b, p], x[b][tuple(index[b, p])])
    index[-1, -1, -1] = dims[-1]
    assert not run("gather_tuples", *call, result=ctypes.c_bool)


JOINS: list[Callable[[Any, Any], Any]] = [
    lambda _, x: x,
    np.add,
    np.multiply,
    np.minimum,
    np.maximum,
]


@pytest.mark.parametrize("join", range(5))
@pytest.mark.parametrize(("dims", "slice_size"), [((6,), 1), ((3, 4), 50), ((2, 2, 3), 7000)])
def test_scatter_nd(
    run: Driver, rng: Rng, join: int, dims: tuple[int, ...], slice_size: int
) -> None:
    x = fenced(rng.integers(0, 9, (*dims, slice_size)).astype(np.float32))
    updates = fenced(rng.integers(0, 9, (10, slice_size)).astype(np.float32))
    index = fenced(np.stack([rng.integers(-d, d, 10) for d in dims], axis=-1))
    expected, y = x.copy(), zeros(*x.shape)
    for p in range(10):
        where = tuple(index[p])
        expected[where] = JOINS[join](expected[where], updates[p])
    call = (join, 10, len(dims), long_array(dims), slice_size, x, index, updates, y)
    assert run("scatter_tuples", *call, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, expected)
    index[3, 0] = -dims[0] - 1
    assert not run("scatter_tuples", *call, result=ctypes.c_bool)


@pytest.mark.parametrize("join", range(5))
@pytest.mark.parametrize(
    ("dims", "index_dims", "axis"),
    [((9,), (20,), 0), ((4, 6), (4, 9), 1), ((4, 6), (7, 5), 0), ((3, 4, 5), (2, 9, 5), 1)],
)
def test_scatter_elements(
    run: Driver, rng: Rng, join: int, dims: tuple[int, ...], index_dims: tuple[int, ...], axis: int
) -> None:
    x = fenced(rng.integers(0, 9, dims).astype(np.int32))
    updates = fenced(rng.integers(0, 4, index_dims).astype(np.int32))
    index = fenced(rng.integers(-dims[axis], dims[axis], index_dims))
    expected, y = x.copy(), zeros(*dims, dtype=np.int32)
    for at in np.ndindex(*index_dims):
        where = (*at[:axis], index[at], *at[axis + 1 :])
        expected[where] = JOINS[join](expected[where], updates[at])
    call = (join, len(dims), long_array(index_dims), long_array(dims), axis, x, index, updates, y)
    assert run("scatter_each", *call, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, expected)
    index.reshape(-1)[0] = dims[axis]
    assert not run("scatter_each", *call, result=ctypes.c_bool)


@pytest.mark.parametrize("join", range(5))
@pytest.mark.parametrize(
    ("dims", "index_dims", "axis"),
    [((5000,), (90_000,), 0), ((40, 300), (30, 2000), 1), ((200, 300), (400, 200), 0)],
)
def test_threads_share_large_scatterings(
    run: Driver, rng: Rng, join: int, dims: tuple[int, ...], index_dims: tuple[int, ...], axis: int
) -> None:
    """By rows where they lie along the axis, else by columns: many updates meet in an element."""
    x = fenced(rng.integers(-1, 2, dims).astype(np.int32))
    updates = fenced(rng.integers(-1, 2, index_dims).astype(np.int32))
    index = fenced(rng.integers(-dims[axis], dims[axis], index_dims))
    where = list(np.indices(index_dims))
    where[axis] = index
    expected, y = x.copy(), zeros(*dims, dtype=np.int32)
    joins = (np.add.at, np.multiply.at, np.minimum.at, np.maximum.at)
    if join:
        joins[join - 1](expected, tuple(where), updates)
    else:
        for at, update in zip(zip(*(w.ravel().tolist() for w in where)), updates.ravel().tolist()):
            expected[at] = update
    call = (join, len(dims), long_array(index_dims), long_array(dims), axis, x, index, updates, y)
    assert run("scatter_each", *call, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, expected)
    index.reshape(-1)[-1] = dims[axis]
    assert not run("scatter_each", *call, result=ctypes.c_bool)


# ---- sequences


def test_range(run: Driver) -> None:
    for first, step, count in ((0, 1, 10), (5, -3, 40_000), (7, 2, 0)):
        y = zeros(count, dtype=np.int64)
        run("range_int64", first, step, count, y, result=None)
        np.testing.assert_array_equal(y, first + step * np.arange(count))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 4, 4), (2, 5, 3), (3, 2, 70)])
def test_triangle(run: Driver, rng: Rng, upper: bool, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape)
    for k in (-9, -2, -1, 0, 1, 2, 80):
        y = zeros(*shape)
        run("trilu", *shape, k, upper, x, y, result=None)
        np.testing.assert_array_equal(y, np.triu(x, k) if upper else np.tril(x, k))


@pytest.mark.parametrize("shape", [(1, 9, 1), (20, 30, 1), (2, 5, 100), (1, 300, 65)])
def test_cumsum(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    x, y = fenced(rng.integers(-9, 9, shape)), zeros(*shape, dtype=np.int64)
    for exclusive, reverse in product((False, True), (False, True)):
        run("running_sum", *shape, exclusive, reverse, x, y, result=None)
        sums = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
        np.testing.assert_array_equal(y, sums - x if exclusive else sums)


@pytest.mark.parametrize(("outer", "depth", "inner"), [(10, 5, 1), (2, 7, 33), (1, 1, 1)])
def test_one_hot(run: Driver, rng: Rng, outer: int, depth: int, inner: int) -> None:
    index = fenced(rng.integers(-2 * depth, 2 * depth, (outer, inner)))
    y = zeros(outer, depth, inner)
    run("one_hot_floats", outer, depth, inner, index, -1.0, 3.0, y, result=None)
    wrapped = np.where(index < 0, index + depth, index)
    expected = np.where(wrapped[:, None] == np.arange(depth)[None, :, None], 3, -1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 40, 1), (2, 7, 11), (1, 3000, 1)])
def test_top_k(run: Driver, rng: Rng, largest: bool, shape: tuple[int, int, int]) -> None:
    x = fenced(rng.integers(-20, 20, shape).astype(np.float32))
    x[0, shape[1] // 2, 0] = np.nan
    order = np.argsort(-x if largest else x, axis=1, kind="stable")  # NaN last
    if largest:
        nan = np.isnan(np.take_along_axis(x, order, 1))
        order = np.take_along_axis(order, np.argsort(~nan, axis=1, kind="stable"), 1)
    for k in {0, 1, min(5, shape[1]), shape[1]}:
        values, index = zeros(shape[0], k, shape[2]), zeros(shape[0], k, shape[2], dtype=np.int64)
        run("top", largest, *shape, k, x, values, index, result=None)
        np.testing.assert_array_equal(index, order[:, :k])
        np.testing.assert_array_equal(values, np.take_along_axis(x, order[:, :k], 1))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 3)])
def test_nonzero(run: Driver, rng: Rng, shape: tuple[int, ...]) -> None:
    x = fenced(rng.integers(0, 2, shape).astype(np.float32))
    expected = np.array(np.nonzero(x))
    count = run.raw("count_nonzero", x, x.size, result=ctypes.c_long)
    assert count == expected.shape[1]
    y = zeros(*expected.shape, dtype=np.int64)
    run.raw("list_nonzero", len(shape), long_array(shape), x, count, y, result=None)
    np.testing.assert_array_equal(y, expected)
