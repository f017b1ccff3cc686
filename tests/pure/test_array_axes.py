"""Functions over axes and functions that move elements, traced, beside array_api_strict: all types,
shapes without axes and without elements, every axis, sizes that are known and symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.array_programs import TYPES, difference, run, witness

pytestmark = pytest.mark.row("C9")

SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 4)]
ROUNDINGS = 400
"""Sums and products of up to 24 elements, in another order."""
REDUCTIONS = ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "count_nonzero")
FLAT_TOO = ("concat", "roll", "repeat", "flip", "argmax", "argmin")
Case = tuple[str, Callable[..., Any]]


def elements(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(3).integers(0, 100, shape)
    if dtype == "bool":
        return np.asarray(x > 50)
    if np.dtype(dtype).kind in "iu":
        return np.asarray(x - (50 if np.dtype(dtype).kind == "i" else 0)).astype(dtype)
    return np.asarray(x / 7 - 5 + (1j * (x % 5) if np.dtype(dtype).kind == "c" else 0), dtype)


def check(function: Callable[..., Any], *arrays: np.ndarray, symbolic: bool | None = None) -> bool:
    """Whether the standard defines this; then it is held against what comes of it."""
    try:
        right = witness(function, *arrays)
    except (TypeError, ValueError, IndexError):
        return False
    for sizes in (False, True) if symbolic is None else (symbolic,):
        results = run(function, *arrays, symbolic=sizes)
        assert len(results) == len(right)
        for result, exact in zip(results, right):
            scale = None
            if exact.dtype.kind in "fc" and exact.size:
                finite = np.abs(exact[np.isfinite(exact)])
                scale = finite.max(initial=1)
            assert difference(result, exact, ROUNDINGS, scale) is None
    return True


def axes_of(name: str, shape: tuple[int, ...]) -> list[Any]:
    """The axes that a function takes of an array of this shape."""
    plain = name.split(maxsplit=1)[0]
    several = len(shape) > 1 and plain in (*REDUCTIONS, "flip")
    return [
        *([None] if plain in (*REDUCTIONS, *FLAT_TOO) else []),
        *range(-len(shape), len(shape)),
        *([(0, 1), (-1, 0), ()] if several else []),
    ]


def over_axes() -> Iterator[tuple[str, Callable[[Any], Callable[..., Any]]]]:
    """Functions of an array for an axis."""

    def of(name: str, **more: Any) -> Callable[[Any], Callable[..., Any]]:
        return lambda axis: lambda xp, x: getattr(xp, name)(x, axis=axis, **more)

    for name in (*REDUCTIONS, "argmax", "argmin"):
        yield name, of(name)
        yield f"{name} keepdims", of(name, keepdims=True)
    for name in ("cumulative_sum", "cumulative_prod"):
        yield name, of(name)
        yield f"{name} from the start", of(name, include_initial=True)
    for name in ("sort", "argsort"):
        yield name, of(name)
        yield f"{name} descending", of(name, descending=True)
    yield "diff", of("diff")
    yield "diff twice", of("diff", n=2)
    yield "diff of more", lambda axis: lambda xp, x: xp.diff(x, axis=axis, prepend=x, append=x)
    for name in ("expand_dims", "flip", "unstack"):
        yield name, of(name)
    yield "stack", lambda axis: lambda xp, x: xp.stack([x, x], axis=axis)
    yield "concat", lambda axis: lambda xp, x: xp.concat([x, x], axis=axis)
    yield "roll", lambda axis: lambda xp, x: xp.roll(x, 2, axis=axis)
    yield "repeat", lambda axis: lambda xp, x: xp.repeat(x, 2, axis=axis)
    yield "take", lambda axis: lambda xp, x: xp.take(x, xp.asarray([0, 0]), axis=axis)
    yield (
        "take_along_axis",
        lambda axis: lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=axis), axis=axis),
    )


def without_axes() -> list[Case]:
    return [
        *(
            (name, lambda xp, x, name=name: getattr(xp, name)(x))
            for name in ("nonzero", "unique_values", "unique_counts", "unique_inverse")
        ),
        *(
            (name, lambda xp, x, name=name: getattr(xp, name)(x))
            for name in ("unique_all", "zeros_like", "ones_like", "matrix_transpose")
        ),
        ("sum in another type", lambda xp, x: xp.sum(xp.abs(x), dtype=xp.float64)),
        ("reshape", lambda xp, x: xp.reshape(x, (-1,))),
        ("permute_dims", lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1])),
        ("squeeze", lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=0), axis=0)),
        ("broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, *x.shape))),
        ("tile", lambda xp, x: xp.tile(x, (2, 1))),
        ("tril", lambda xp, x: xp.tril(x, k=1)),
        ("triu", lambda xp, x: xp.triu(x, k=-1)),
        ("T", lambda xp, x: x.T),
        ("mT", lambda xp, x: x.mT),
        ("moveaxis", lambda xp, x: xp.moveaxis(x, 0, -1)),
        ("full_like", lambda xp, x: xp.full_like(x, True if x.dtype == xp.bool else 1)),
        ("where", lambda xp, x: xp.where(xp.zeros_like(x) == x, x, xp.ones_like(x))),
        ("clip", lambda xp, x: xp.clip(x, 2, 9)),
        ("clip below", lambda xp, x: xp.clip(x, min=2)),
        ("clip by arrays", lambda xp, x: xp.clip(x, xp.zeros_like(x), xp.ones_like(x))),
    ]


OVER = dict(over_axes())
WITHOUT = dict(without_axes())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", OVER)
def test_functions_over_axes(name: str, dtype: str) -> None:
    for shape in SHAPES:
        for axis in axes_of(name, shape):
            # The parts along an axis are as many as the trace knows it to have.
            symbolic = False if name == "unstack" else None
            check(OVER[name](axis), elements(dtype, shape), symbolic=symbolic)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WITHOUT)
def test_functions_of_whole_arrays(name: str, dtype: str) -> None:
    tried = [check(WITHOUT[name], elements(dtype, shape)) for shape in SHAPES]
    assert any(tried) or name.startswith("clip") or (dtype == "bool" and name.startswith("sum"))


def test_every_function_over_axes_is_tried() -> None:
    for name, of_axis in OVER.items():
        dtype = "float64" if name not in ("any", "all") else "bool"
        symbolic = False if name == "unstack" else None
        assert check(of_axis(0), elements(dtype, (3, 4)), symbolic=symbolic), name
        if name.split()[0] in (*REDUCTIONS, *FLAT_TOO):
            assert check(of_axis(None), elements(dtype, (3, 4))), name


KEYS = [
    *(0, -1, (1, 2), slice(1, 3), (slice(None), slice(None, None, -2)), (Ellipsis, 0)),
    *((None, Ellipsis), (slice(-3, None), 1), slice(3, 1), Ellipsis),
    *((slice(None, None, -1), None, 2),),
]


@pytest.mark.parametrize("dtype", TYPES)
def test_indices(dtype: str) -> None:
    x, i = elements(dtype, (4, 5)), np.array([0, 1, -1])
    value = True if dtype == "bool" else 1
    for key in KEYS:
        full = key if isinstance(key, tuple) or key is Ellipsis else (key, Ellipsis)

        def put(xp: Any, x: Any, key: Any = full, value: Any = value) -> Any:
            y = xp.asarray(x, copy=True)
            y[key] = value
            return y

        def put_parts(xp: Any, x: Any, key: Any = full) -> Any:
            y = xp.asarray(x, copy=True)
            y[key] = xp.flip(x)[key]
            return y

        assert check(lambda xp, x, key=full: x[key], x)
        if not (isinstance(key, tuple) and None in key):  # places, without new axes
            assert check(put, x)
            assert check(put_parts, x)
    assert check(lambda xp, x, i: x[i, i], x, i)
    assert check(lambda xp, x, i: x[i, 0], x, i)
    assert check(lambda xp, x: x[x == x[0, 1]], x)
    assert check(lambda xp, x, n: xp.repeat(x, n, axis=0), x[:3], np.array([1, 0, 2]))
    assert check(lambda xp, x, i: xp.take(x, i, axis=1), x, np.array([4, 0]))


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_that_make_arrays(dtype: str) -> None:
    x = elements(dtype, (2,))
    for function in (
        lambda xp, x: xp.zeros((2, 3), dtype=x.dtype),
        lambda xp, x: xp.ones(2, dtype=x.dtype),
        lambda xp, x: xp.full((2,), True if x.dtype == xp.bool else 1, dtype=x.dtype),
        lambda xp, x: xp.eye(3, 4, k=-1, dtype=x.dtype),
        lambda xp, x: xp.asarray([1, 0], dtype=x.dtype),
        lambda xp, x: xp.asarray(x, dtype=x.dtype, copy=True),
    ):
        assert check(function, x)
    check(lambda xp, x: xp.arange(0, 7, 2, dtype=x.dtype), x)
    check(lambda xp, x: xp.linspace(0, 3, 7, dtype=x.dtype), x)
    check(lambda xp, x: xp.linspace(0, 3, 7, dtype=x.dtype, endpoint=False), x)


@pytest.mark.parametrize("pair", [*itertools.product(TYPES, ("float64", "int64", "uint8"))])
def test_functions_of_several_types(pair: tuple[str, str]) -> None:
    x, y = (elements(dtype, (2, 3)) for dtype in pair)
    for function in (
        lambda xp, x, y: xp.concat([x, y]),
        lambda xp, x, y: xp.stack([x, y], axis=1),
        lambda xp, x, y: xp.where(x == x[0, 0], x, y),
        lambda xp, x, y: xp.broadcast_arrays(x[:1, :], y[:, :1]),
        lambda xp, x, y: xp.meshgrid(x[0, :], y[:, 0]),
        lambda xp, x, y: xp.meshgrid(x[0, :], y[:, 0], indexing="ij"),
    ):
        check(function, x, y)


@pytest.mark.parametrize("dtype", TYPES[1:-2])
def test_places_in_order(dtype: str) -> None:
    x = np.sort(elements(dtype, (6,)))
    for shape, side in itertools.product(SHAPES, ("left", "right")):
        y = elements(dtype, shape)
        assert check(lambda xp, x, y, side=side: xp.searchsorted(x, y, side=side), x, y)
    assert check(
        lambda xp, x, y: xp.searchsorted(x, y, sorter=xp.argsort(x)), elements(dtype, (6,)), y
    )


def test_what_the_next_edition_has() -> None:
    x, y = elements("int32", (3, 4)), np.array([7, 8, -3, 20], np.int32)
    (result,) = run(lambda xp, x, y: xp.isin(x, y), x, y)
    assert difference(result, np.isin(x, y), 0) is None
    (result,) = run(lambda xp, x, y: xp.isin(x, y, invert=True), x, y)
    assert difference(result, ~np.isin(x, y), 0) is None
    for symbolic in (False, True):
        (result,) = run(
            lambda xp, x, y: xp.ones(xp.broadcast_shapes(x.shape, (2, 1, 4), y.shape)),
            *(x, y),
            symbolic=symbolic,
        )
        assert result.shape == (2, 3, 4)
