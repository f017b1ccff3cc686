"""Networks of convolutions whose values are stored as bfloat16, and of bytes, against float64."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

import infuse
from infuse import dtypes
from infuse.build.compile import Compilation
from infuse.build.staged import generate
from infuse.lowering.choice import Chooser, Key
from infuse.runtime import CompiledModel
from tests.native.builder import Builder
from tests.native.kernel_tools import has_target
from tests.native.together import Part, Together
from tests.support import emulation

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


def _rounding(key: Key) -> str | None:
    return next((name for name in key.names if name in ("bf16", "taps_bf16")), None)


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
    graph, target = infuse.optimize(build.graph, "all"), emulation.resolve(emulation.NEWEST)
    chooser = Chooser(target.machine, threads, forced=_rounding)
    generated = generate(graph, target, threads, "bf16", chooser)
    options = infuse.CompileOptions(target=emulation.NEWEST, precision="bf16", threads=threads)
    with CompiledModel.load(Compilation(graph, options).build(generated), threads) as model:
        result = model.run({"x": image})["y"]
    # A tie that falls the other way is 2⁻⁸ of one number among the hundreds of a sum.
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=0, atol=2**-8 * scale)
    assert np.sqrt(np.mean((result - expected) ** 2)) < 2**-10 * scale


KINDS = (np.uint8, np.int8)
BYTE_LAYERS = [
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
]
"""Channels, filters, side of the window, step, padding, dilation, groups."""
BYTE_SHAPES = [(2, 13, 11), (1, 9, 9)]
CROPPED = list(itertools.product((64, 5), (1, 2)))
"""Channels and step."""


@dataclass(frozen=True)
class Bytes:
    """A convolution of bytes, what it is fed, and what it must give."""

    part: Part
    expected: Array

    @classmethod
    def of(
        cls, kind: type[np.integer[Any]], layer: tuple[int, ...], shape: tuple[int, int, int]
    ) -> Bytes:
        channels, out, side, stride, pad, dilation, group = layer
        limits, rng = np.iinfo(kind), np.random.default_rng(0)
        image = rng.integers(limits.min, limits.max, (shape[0], channels, *shape[1:]), kind)
        weights = rng.integers(-127, 127, (out, channels // group, side, side), np.int8)
        zero = kind(limits.min + 131)
        sizes = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (dilation,) * 2}
        exact = image.astype(np.float64) - float(zero)
        parts = zip(np.split(exact, group, axis=1), np.split(weights, group), strict=True)
        expected = [convolved(part, w, stride, pad, dilation) for part, w in parts]
        operands = (weights, np.array(zero))
        return cls(_layer(image, operands, sizes | {"group": group}), np.concatenate(expected, 1))

    @classmethod
    def cropped(cls, channels: int, stride: int) -> Bytes:
        rng = np.random.default_rng(0)
        image = rng.integers(0, 256, (2, channels, 11, 13), np.uint8)
        weights = rng.integers(-127, 127, (20, channels, 3, 3), np.int8)
        sizes = {"strides": (stride, stride), "pads": (-1, -2, 0, -1)}
        expected = convolved(image[:, :, 1:, 2:-1], weights, stride, 0, 1)
        return cls(_layer(image, (weights,), sizes), expected)


def _layer(image: Array, operands: Sequence[Array], sizes: Mapping[str, Any]) -> Part:
    build = Builder("bytes")
    x = build.input(*image.shape, dtype=dtypes.by_numpy(image.dtype), name="x")
    build.graph.add_output(build("ConvInteger", x, *operands, **sizes), "y")
    return Part(build.graph, {"x": image})


@cache
def byte_convolutions() -> dict[Any, Bytes]:
    layers = itertools.product(KINDS, BYTE_LAYERS, BYTE_SHAPES)
    return {key: Bytes.of(*key) for key in layers} | {key: Bytes.cropped(*key) for key in CROPPED}


@cache
def byte_results(target: str) -> Together[Any]:
    if not has_target(target):
        pytest.skip(f"this processor does not run {target}")
    parts = {key: one.part for key, one in byte_convolutions().items()}
    return Together(parts, infuse.CompileOptions(target=target, threads=2))


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", BYTE_LAYERS, ids=lambda layer: "-".join(map(str, layer)))
@pytest.mark.parametrize("shape", BYTE_SHAPES)
def test_bytes(
    target: str,
    kind: type[np.integer[Any]],
    layer: tuple[int, ...],
    shape: tuple[int, int, int],
) -> None:
    key = (kind, layer, shape)
    np.testing.assert_array_equal(byte_results(target)[key]["y"], byte_convolutions()[key].expected)


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("channels", [64, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_negative_padding_cuts_off(target: str, channels: int, stride: int) -> None:
    key = (channels, stride)
    np.testing.assert_array_equal(byte_results(target)[key]["y"], byte_convolutions()[key].expected)
