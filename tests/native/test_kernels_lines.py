"""Softmax, normalizations and reductions against NumPy,
for every width of vectors that this machine has.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.native.kernel_driver import (
    EPS,
    INF,
    Array,
    Driver,
    Rng,
    close,
    floats,
    libraries,
    long_array,
    run,
    zeros,
)
from tests.native.kernel_tools import fenced

__all__ = ["libraries", "run"]


# ---- softmax and normalisation


def softmax(x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)  # type: ignore[no-any-return]


def log_softmax(x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore"):
        d = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
        return d - np.log(np.exp(d).sum(axis=axis, keepdims=True))  # type: ignore[no-any-return]


def with_odd_rows(x: Array) -> Array:
    """x [rows, cols] with rows that hold infinities and NaN, where there are enough."""
    for row, value in ((1, -INF), (3, np.nan), (4, INF)):
        if row < len(x):
            x[row, -1] = value
    if len(x) > 2:
        x[2] = -INF
    return x


@pytest.mark.parametrize("rows", [1, 2, 7, 300])
@pytest.mark.parametrize("cols", [1, 2, 7, 16, 33, 197, 1000])
def test_softmax(run: Driver, rng: Rng, rows: int, cols: int) -> None:
    x = with_odd_rows(floats(rng, rows, cols, low=-30, high=30))
    y = zeros(rows, cols)
    run("softmax_rows", 0, rows, cols, x, y, result=None)
    close(y, softmax(x, 1), 1e-6)
    y[...] = 0
    run("softmax_rows", 1, rows, cols, x, y, result=None)
    close(y, log_softmax(x, 1), 1e-5)


@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 5, 40), (3, 21, 7), (1, 100, 129)])
def test_softmax_over_an_inner_axis(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape, low=-30, high=30)
    x[0, :, 0] = -INF
    x[-1, 0, -1] = np.nan
    y = zeros(*shape)
    run("softmax_columns", 0, *shape, x, y, result=None)
    close(y, softmax(x, 1), 1e-6)
    y[...] = 0
    run("softmax_columns", 1, *shape, x, y, result=None)
    close(y, log_softmax(x, 1), 1e-5)


def scaled(x: Array, scale: Array | None, bias: Array | None) -> Array:
    return x * (1.0 if scale is None else scale) + (0.0 if bias is None else bias)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 200])
@pytest.mark.parametrize("cols", [1, 5, 16, 31, 100, 768])
def test_norms_of_rows(run: Driver, rng: Rng, rows: int, cols: int, affine: bool) -> None:
    x = floats(rng, rows, cols, low=3, high=5)
    scale, bias = (floats(rng, cols), floats(rng, cols)) if affine else (None, None)
    wide, y = x.astype(np.float64), zeros(rows, cols)
    run("normalise", 0, rows, cols, x, scale, bias, 1e-5, y, result=None)
    centred = wide - wide.mean(1, keepdims=True)
    factor = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    close(y, scaled(centred * factor, scale, bias), 4 * EPS + 10 * EPS * factor)
    y[...] = 0
    run("normalise", 1, rows, cols, x, scale, bias, 1e-5, y, result=None)
    close(y, scaled(wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5), scale, None), 4e-6)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(
    "shape",
    [
        *((1, 1, 1), (70, 1, 1), (7, 5, 1), (100, 2, 1), (133, 3, 1), (40, 17, 1), (40, 64, 1)),
        *((20, 70, 1), (2, 3, 5), (3, 300, 6), (4, 17, 64), (2, 9, 200), (0, 4, 3)),
    ],
)
def test_norms_along_an_axis(run: Driver, rng: Rng, p: int, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape)
    x[-1:, :, -1:] = 0
    wide = x.astype(np.float64)
    lengths = np.linalg.norm(wide, p, 1, keepdims=True)
    expected = wide / np.where(lengths == 0, 1, lengths)
    outer, size, inner = shape
    line = size if inner == 1 else inner
    for cols in {line, line * outer, inner if inner < 6 else inner // 2, 1 if inner > 1 else line}:
        y = zeros(*shape)
        run("lp_normalise", p, long_array(shape, max(cols, 1)), x, y, result=None)
        close(y, expected, 1e-6)


@pytest.mark.parametrize("shape", [(40, 3, 1), (3, 40, 1), (3, 5, 20)])
def test_norms_of_odd_values(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    cols = shape[1] if shape[2] == 1 else shape[2]
    for p, value in product((1, 2), (np.nan, INF, -INF, 1e30)):
        x = floats(rng, *shape)
        x[1, 2, 0] = value
        y = zeros(*shape)
        run("lp_normalise", p, long_array(shape, cols), x, y, result=None)
        with np.errstate(over="ignore", invalid="ignore"):
            length = (np.abs(x) ** p).sum(1, keepdims=True) ** np.float32(1 / p)
            close(y, x / length, 1e-6)


@pytest.mark.parametrize("width", range(1, 36))
def test_short_rows(run: Driver, rng: Rng, width: int) -> None:
    for rows in (3, 64, 131):
        x, y = floats(rng, rows, width, 1), zeros(rows, 1)
        run("reduce_floats", 3, long_array(x.shape, 1), x, y, result=None)
        close(y, x.max(1), 0.0)


def test_norm_of_a_fused_sum(run: Driver, rng: Rng) -> None:
    a, b, y = floats(rng, 9, 70), floats(rng, 9, 70), zeros(9, 70)
    run("normalise_sum", 9, 70, a, b, y, result=None)
    x = a.astype(np.float64) + b
    close(y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), 3e-6)


@pytest.mark.parametrize("offset", [0, 100])
@pytest.mark.parametrize(
    "shape", [(1, 1, 4, 2), (2, 9, 32, 8), (1, 400, 6, 6), (3, 50, 40, 1), (2, 130, 37, 37)]
)
def test_group_norm(run: Driver, rng: Rng, shape: tuple[int, int, int, int], offset: float) -> None:
    n, pixels, c, groups = shape
    x, scale, bias = (
        floats(rng, n, pixels, c, low=offset - 1, high=offset + 1),
        floats(rng, c),
        floats(rng, c),
    )
    wide = x.astype(np.float64).reshape(n, pixels, groups, c // groups)
    mean, variance = wide.mean((1, 3), keepdims=True), wide.var((1, 3), keepdims=True)
    expected = ((wide - mean) / np.sqrt(variance + 1e-3)).reshape(x.shape)
    y = zeros(n, pixels, c)
    run("normalise_groups", long_array(shape), x, scale, bias, 1e-3, y, result=None)
    bound = 1e-5 * (1 + offset / 10) * (30 if pixels == 1 else 1)
    close(y, expected * scale + bias, bound)
    y[...] = 0
    run("normalise_groups", long_array(shape), x, None, None, 1e-3, y, result=None)
    close(y, expected, bound)
    planes, y = np.ascontiguousarray(x.transpose(0, 2, 1)), zeros(n, c, pixels)
    run("normalise_planes", long_array(shape), planes, scale, bias, 1e-3, y, result=None)
    close(y.transpose(0, 2, 1), expected * scale + bias, bound)
    y[...] = 0
    run("normalise_planes", long_array(shape), planes, None, None, 1e-3, y, result=None)
    close(y.transpose(0, 2, 1), expected, bound)


# ---- reductions

REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "product": lambda x: x.prod(1),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "sum_square": lambda x: (x**2).sum(1),
    "l1": lambda x: np.abs(x).sum(1),
    "l2": lambda x: np.sqrt((x**2).sum(1)),
    "log_sum": lambda x: np.log(x.sum(1)),
    "log_sum_exp": lambda x: np.log(np.exp(x).sum(1)),
}
SHAPES = [
    (1, 1, 1),
    (7, 5, 1),
    (40, 64, 1),
    (3, 1000, 1),
    (1, 5000, 1),
    (2, 3, 5),
    (1, 300, 33),
    (4, 17, 64),
    (2, 9, 200),
    (3, 301, 4),
    (1, 139, 2),
    (5, 33, 8),
]


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_reduce_floats(run: Driver, rng: Rng, kind: str, shape: tuple[int, int, int]) -> None:
    outer, size, inner = shape
    x = floats(rng, *shape, low=0.5 if kind == "log_sum" else -1, high=1.5)
    if kind == "product":
        x = fenced(np.exp(x / size).astype(np.float32))
    expected = REDUCTIONS[kind](x.astype(np.float64))
    total = np.abs(x.astype(np.float64)).sum(1)
    bound = {"max": 0.0, "min": 0.0}.get(kind, 12 * EPS * (1 + np.maximum(total, np.abs(expected))))
    bound = (
        60 * EPS * (1 + np.abs(expected)) + EPS * size
        if kind in ("product", "log_sum_exp")
        else bound
    )
    for cols in {inner, 1} if inner > 1 else {d for d in (1, 2, outer) if outer % d == 0}:
        y = zeros(outer, inner)
        index = list(REDUCTIONS).index(kind)
        run("reduce_floats", index, long_array(shape, cols), x, y, result=None)
        close(y, expected, bound)


@pytest.mark.parametrize("shape", [(3, 40, 1), (3, 5, 20), (3, 133, 2), (3, 67, 4)])
def test_reduce_odd_values(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    cols = shape[2] if shape[2] > 1 else shape[0]
    for kind, value in product(("max", "min", "sum", "log_sum_exp"), (np.nan, INF, -INF)):
        x = floats(rng, *shape)
        x[1, 2, 0] = value
        x[2, :, -1] = -INF
        y = zeros(shape[0], shape[2])
        run(
            "reduce_floats",
            list(REDUCTIONS).index(kind),
            long_array(shape, cols),
            x,
            y,
            result=None,
        )
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            close(y, REDUCTIONS[kind](x.astype(np.float64)), 1e-5)


TYPES = [np.int32, np.int64, np.float64, np.uint8, np.int8]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reduce_other_types(run: Driver, rng: Rng, dtype: Any, shape: tuple[int, int, int]) -> None:
    x = rng.integers(1 if dtype == np.uint8 else -9, 10, shape).astype(dtype)
    if dtype == np.float64:
        x = x / 16
    x, y = fenced(x), zeros(shape[0], shape[2], dtype=dtype)
    for kind in ("sum", "mean", "product", "max", "min", "sum_square", "l1", "l2"):
        run(
            "reduce_others",
            TYPES.index(dtype),
            list(REDUCTIONS).index(kind),
            long_array(shape, 1),
            x,
            y,
            result=None,
        )
        if dtype == np.float64:
            np.testing.assert_allclose(y, REDUCTIONS[kind](x), rtol=1e-12, atol=1e-12)
            continue
        wide = x.astype(np.int64)
        exact = {"mean": wide.sum(1) / shape[1], "l2": np.sqrt((wide**2).sum(1))}
        expected = (
            np.trunc(exact[kind]).astype(np.int64) if kind in exact else REDUCTIONS[kind](wide)
        )
        np.testing.assert_array_equal(y, expected.astype(dtype))


def test_reduce_bools(run: Driver, rng: Rng) -> None:
    for shape in SHAPES:
        x, y = fenced(rng.random(shape) < 0.5), zeros(shape[0], shape[2], dtype=bool)
        for kind, expected in ((3, x.any(1)), (4, x.all(1))):
            run("reduce_bools", kind, long_array(shape, 1), x, y, result=None)
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("type_index", [0, 2, 5])
@pytest.mark.parametrize("shape", [(5, 1, 1), (40, 9, 1), (2, 700, 1), (3, 8, 30)])
def test_places_of_extremes(
    run: Driver, rng: Rng, type_index: int, shape: tuple[int, int, int]
) -> None:
    dtype = {0: np.int32, 2: np.float64, 5: np.float32}[type_index]
    x = fenced(rng.integers(-4, 5, shape).astype(dtype))
    if type_index != 0 and shape[1] > 4:
        x[1, 3:5, 0] = np.nan
        x[0, :, -1] = -INF
    y = zeros(shape[0], shape[2], dtype=np.int64)
    for largest, last in product((True, False), (True, False)):
        run("place", type_index, largest, last, *shape, x, y, result=None)
        find = np.argmax if largest else np.argmin
        expected = shape[1] - 1 - find(x[:, ::-1], axis=1) if last else find(x, axis=1)
        np.testing.assert_array_equal(y, expected)
