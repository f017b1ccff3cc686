"""The functions of kernels_rest.cpp, called from Python: all kernels but the matrix ones."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.native.kernel_tools import build, fenced, targets

Array = NDArray[Any]
Rng = np.random.Generator
EPS = float(np.finfo(np.float32).eps)
INF = math.inf
ELEMENTS = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.int64, 16: np.complex128}
SOURCE = Path(__file__).with_name("kernels_rest.cpp")


def long_array(*values: Any) -> Any:
    """A C array of long from numbers and sequences of numbers."""
    flat = [
        int(v) for value in values for v in (value if isinstance(value, list | tuple) else [value])
    ]
    return (ctypes.c_long * max(len(flat), 1))(*flat)


def argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p()
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_long(value) if isinstance(value, int) else value


class Driver:
    """The compiled functions, called with the context of one pool of threads."""

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self.library = library
        self.threads = threads
        self.context = ctypes.c_void_p(self.raw("start", threads, result=ctypes.c_void_p))

    def raw(self, name: str, *arguments: Any, result: Any = ctypes.c_int) -> Any:
        function = self.library[name]
        function.restype = result
        return function(*(argument(value) for value in arguments))

    def __call__(self, name: str, *arguments: Any, result: Any = ctypes.c_int) -> Any:
        return self.raw(name, self.context, *arguments, result=result)

    def close(self) -> None:
        self("stop", result=None)


@pytest.fixture(scope="session")
def libraries() -> Callable[[str], ctypes.CDLL]:
    return cache(lambda target: build(SOURCE, target))


@pytest.fixture(scope="module", params=targets())
def library(libraries: Callable[[str], ctypes.CDLL], request: pytest.FixtureRequest) -> ctypes.CDLL:
    return libraries(request.param)


@pytest.fixture(
    scope="module",
    params=[("native", 1), ("native", 2), *((name, 3) for name in targets())],
    ids="{0[0]}-{0[1]}".format,
)
def run(
    libraries: Callable[[str], ctypes.CDLL], request: pytest.FixtureRequest
) -> Iterator[Driver]:
    target, threads = request.param
    driver = Driver(libraries(target), threads)
    yield driver
    driver.close()


def floats(rng: Rng, *shape: int, low: float = -1, high: float = 1) -> Array:
    """Random numbers that end at a forbidden page."""
    return fenced(rng.uniform(low, high, shape).astype(np.float32))


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return fenced(np.zeros(shape, dtype))


def close(actual: Array, expected: Array, bound: float | Array) -> None:
    """Equal within `bound`, NaN and infinities in the same places."""
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    odd = ~np.isfinite(expected)
    np.testing.assert_array_equal(actual[odd], expected[odd].astype(actual.dtype))
    error = np.abs(actual[~odd].astype(np.float64) - expected[~odd])
    limit = np.broadcast_to(bound, expected.shape)[~odd]
    assert (error <= limit).all(), (
        f"off by {error.max():.3g}, {(error / limit).max():.3g} times the bound"
    )
