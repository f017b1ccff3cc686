"""Convolutions of few channels that round the lines of an image once, on every width of vectors."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from infuse.targets.cpu.families.convolution import pack_conv_bf16
from tests.native.bf16_fixtures import DRIVER
from tests.native.kernel_tools import (
    Floats,
    apart,
    assert_close,
    build,
    empty,
    fenced,
    longs,
    pointer,
    rounded,
    targets,
)
from tests.native.matrix_calls import Rng, Windows, numbers
from tests.support.emulation import NARROW_DOTS, resolve

pytestmark = pytest.mark.row("R3")
LOW = -0.25
CALLS = [
    # n, h, w, c, out, kernel, strides, dilations, pads
    (1, 9, 11, 3, 20, (7, 7), (2, 2), (1, 1), (3, 3)),
    (2, 30, 61, 3, 64, (3, 3), (2, 2), (1, 1), (1, 1)),
    (1, 7, 27, 1, 33, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 6, 5, 8, 33, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 7, 8, 5, 4, (3, 3), (2, 2), (1, 1), (0, 1)),
    (1, 9, 30, 31, 40, (5, 2), (1, 3), (2, 1), (3, 0)),
    (1, 3, 2, 4, 5, (5, 9), (1, 1), (1, 1), (4, 8)),
    (1, 1, 1, 1, 1, (1, 3), (1, 1), (1, 1), (0, 1)),
    (1, 1, 70, 16, 16, (1, 4), (1, 1), (1, 1), (0, 0)),
    # more lines than are held at a time
    (2, 150, 200, 6, 8, (3, 3), (1, 1), (1, 1), (1, 1)),
]


@pytest.fixture(scope="module", params=targets((NARROW_DOTS,)))
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The kernels for vectors that weights for vectors belong to."""
    if resolve(request.param).machine.has_bf16_tiles:
        pytest.skip("tile registers multiply")
    return build(DRIVER, request.param)


def result(
    library: ctypes.CDLL,
    call: Windows,
    x: Floats,
    filters: Floats,
    bias: Floats,
    gap: int | None,
    threads: int,
) -> Floats:
    """What the kernel makes of an image, which lies as planes where `gap` is None."""
    sizes = longs(*call.sizes(gap or 0)[:-1], int(gap is None))
    image = fenced(x.transpose(0, 3, 1, 2)) if gap is None else apart(x, gap)
    packed = fenced(pack_conv_bf16(filters, 1, True, library.lanes()))
    out, low = empty(x.shape[0], *call.size, call.out), ctypes.c_float(LOW)
    arrays = [pointer(image), pointer(packed), pointer(bias)]
    library.run_conv_lines_bf16(threads, sizes, *arrays, low, pointer(out))
    return out


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "oc", "kernel", "strides", "dilations", "pads"), CALLS
)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("gap", [0, 3, None])
def test_rounded_lines(
    library: ctypes.CDLL,
    rng: Rng,
    n: int,
    h: int,
    w: int,
    c: int,
    oc: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, int],
    gap: int | None,
    threads: int,
) -> None:
    call = Windows((n, h, w, c), oc, kernel, strides, dilations, pads, 1)
    x, bias = numbers(rng, n, h, w, c), numbers(rng, oc)
    filters = rng.uniform(-1, 1, (oc, c, *kernel)).astype(np.float32)
    out = result(library, call, x, filters, bias, gap, threads)
    image, weights = rounded(x), rounded(filters)
    magnitude = call.convolved(np.abs(image), np.abs(weights)) + np.abs(bias)
    sums = np.maximum(call.convolved(image, weights) + bias, LOW)
    assert_close(out, sums, magnitude, kernel[0] * kernel[1] * c)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_special_values_stay_in_the_windows_that_read_them(
    library: ctypes.CDLL, rng: Rng, value: float
) -> None:
    """The number beside a line of an odd count is not multiplied, not even by zero."""
    call = Windows((1, 8, 40, 3), 40, (3, 3), (1, 1), (1, 1), (1, 1), 1)
    x, bias = numbers(rng, 1, 8, 40, 3), numbers(rng, 40)
    filters = rng.uniform(0.5, 1, (40, 3, 3, 3)).astype(np.float32)
    plain = result(library, call, x, filters, bias, 0, 1)
    x[0, 4, 20, 1] = value
    out = result(library, call, x, filters, bias, 0, 1)
    read = np.zeros((1, 8, 40), bool)
    read[0, 3:6, 19:22] = True
    np.testing.assert_array_equal(out[~read], plain[~read])
    assert np.all(np.isnan(out[read]) | (out[read] == np.maximum(value, LOW)))
