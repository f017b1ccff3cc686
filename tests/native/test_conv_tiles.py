"""Networks of convolutions whose values are stored as bfloat16, and of bytes, against float64."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

import infuse
from infuse import dtypes
from infuse.testing import emulation
from tests.native.builder import Builder
from tests.native.kernel_tools import has_target

pytestmark = pytest.mark.row("R1", "R3")
Array = NDArray[Any]
Rng = np.random.Generator
BYTE_TARGETS = ("native", "x86-64-v3", emulation.NEWEST)


def convolved(x: Array, w: Array, stride: int, pad: int, dilation: int, fill: float = 0) -> Array:
    """[n, c, h, w] in float64."""
    (_, _, kh, kw), sides = w.shape, ((0, 0), (0, 0), (pad, pad), (pad, pad))
    padded = np.pad(x.astype(np.float64), sides, constant_values=fill)
    windows = sliding_window_view(
        padded, (dilation * (kh - 1) + 1, dilation * (kw - 1) + 1), axis=(2, 3)
    )[:, :, ::stride, ::stride, ::dilation, ::dilation]
    result: Array = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    return result


def rounded(x: Array) -> Array:
    return x.astype(np.float32).astype(bfloat16).astype(np.float64)


LAYERS = [(1, 1, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (1, 2, 0, 1), (3, 1, 2, 2)]
"""Sides of windows, steps, padding, dilations, one layer after another."""


@pytest.mark.parametrize("channels", [32, 24, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_between_convolutions_are_rounded_once(
    rng: Rng, channels: int, threads: int
) -> None:
    """What is stored as bfloat16 is what the next products would round: results are those of
    rounded operands and exact sums, but for ties that the order of sums decides.
    """
    if not has_target(emulation.NEWEST):
        pytest.skip(f"this processor has no AMX; {emulation.obstacle()}")
    build = Builder("chain")
    value = build.input(2, 3, 22, 26, name="x")
    image = rng.standard_normal((2, 3, 22, 26)).astype(np.float32)
    expected, before = image.astype(np.float64), 3
    for side, stride, pad, dilation in LAYERS:
        w = rng.standard_normal((channels, before, side, side)) / (before * side * side) ** 0.5
        weights = w.astype(np.float32)
        sizes = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (dilation,) * 2}
        value = build("Relu", build("Conv", value, weights, **sizes, group=1))
        filters = rounded(w.astype(np.float32))
        sums = convolved(rounded(expected), filters, stride, pad, dilation)
        expected, before = np.maximum(sums, 0), channels
    build.graph.add_output(value, "y")
    model = infuse.compile(
        build.graph,
        infuse.CompileOptions(target=emulation.NEWEST, precision="bf16", threads=threads),
    )
    result = model.run({"x": image})["y"]
    # A tie that falls the other way is 2⁻⁸ of one number among the hundreds of a sum.
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=0, atol=2**-8 * scale)
    assert np.sqrt(np.mean((result - expected) ** 2)) < 2**-10 * scale


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("channels", "out", "side", "stride", "pad", "dilation", "group"),
    [
        (64, 33, 3, 1, 1, 1, 1),
        (64, 20, 3, 2, 1, 1, 1),
        (128, 16, 3, 1, 2, 2, 1),
        (128, 70, 3, 1, 1, 1, 2),
        (3, 20, 7, 2, 3, 1, 1),
        (24, 33, 3, 1, 1, 1, 1),
        (40, 8, 5, 2, 2, 1, 1),
        (20, 8, 1, 2, 0, 1, 1),
        (8, 12, 9, 1, 0, 1, 1),
        (48, 12, 3, 1, 2, 2, 1),
        (5, 4, 3, 3, 1, 1, 1),
    ],
)
@pytest.mark.parametrize("shape", [(2, 13, 11), (1, 9, 9)])
def test_bytes(
    rng: Rng,
    target: str,
    kind: type[np.integer[Any]],
    channels: int,
    out: int,
    side: int,
    stride: int,
    pad: int,
    dilation: int,
    group: int,
    shape: Sequence[int],
) -> None:
    if not has_target(target):
        pytest.skip(f"this processor does not run {target}")
    limits = np.iinfo(kind)
    image = rng.integers(limits.min, limits.max, (shape[0], channels, *shape[1:]), kind)
    weights = rng.integers(-127, 127, (out, channels // group, side, side), np.int8)
    zero = kind(limits.min + 131)
    build = Builder("bytes")
    dtype = dtypes.uint8 if kind is np.uint8 else dtypes.int8
    x = build.input(*image.shape, dtype=dtype, name="x")
    sizes = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (dilation,) * 2}
    value = build("ConvInteger", x, weights, np.array(zero), **sizes, group=group)
    build.graph.add_output(value, "y")
    result = infuse.compile(build.graph, infuse.CompileOptions(target=target, threads=2)).run(
        {"x": image}
    )["y"]
    exact = image.astype(np.float64) - float(zero)
    parts = zip(np.split(exact, group, axis=1), np.split(weights, group), strict=True)
    expected = [convolved(part, w, stride, pad, dilation) for part, w in parts]
    np.testing.assert_array_equal(result, np.concatenate(expected, axis=1))


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("channels", [64, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_negative_padding_cuts_off(rng: Rng, target: str, channels: int, stride: int) -> None:
    if not has_target(target):
        pytest.skip(f"this processor does not run {target}")
    build = Builder("cropped")
    image = rng.integers(0, 256, (2, channels, 11, 13), np.uint8)
    weights = rng.integers(-127, 127, (20, channels, 3, 3), np.int8)
    x = build.input(*image.shape, dtype=dtypes.uint8, name="x")
    sizes = {"strides": (stride, stride), "pads": (-1, -2, 0, -1)}
    build.graph.add_output(build("ConvInteger", x, weights, **sizes), "y")
    result = infuse.compile(build.graph, infuse.CompileOptions(target=target)).run({"x": image})[
        "y"
    ]
    expected = convolved(image[:, :, 1:, 2:-1], weights, stride, 0, 1)
    np.testing.assert_array_equal(result, expected)
