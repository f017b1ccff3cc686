"""Padding below zero, which cuts off what lies there, in convolutions and pools."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from infuse.ir.graph import Value
from infuse.options import CompileOptions
from tests.native.builder import Builder
from tests.native.kernel_tools import targets
from tests.native.together import Part, Together

pytestmark = pytest.mark.row("R1")
Doubles = NDArray[np.float64]
PADS = [(-1, -1, -1, -1), (-3, -18, 0, 0), (0, -1, 0, 2), (1, 1, -2, -3), (-2, 3, 1, -9)]
"""Above, left, below, right."""


def windows(
    x: NDArray[np.float32], pads: tuple[int, ...], kernel: int, stride: int, fill: float
) -> Doubles:
    """[n, c, h, w, kernel, kernel] of an image that is cut off and padded."""
    top, left, bottom, right = pads
    height, width = x.shape[2:]
    cut = x[:, :, max(-top, 0) : height - max(-bottom, 0), max(-left, 0) : width - max(-right, 0)]
    sides = (max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))
    padded = np.pad(cut.astype(np.float64), ((0, 0), (0, 0), *sides), constant_values=fill)
    view = sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    result: Doubles = view[:, :, ::stride, ::stride]
    return result


def image(b: Builder, channels: int, turned: bool, name: str) -> Value:
    """An image of planes, or one that lies channels last."""
    if not turned:
        return b.input(2, channels, 20, 23, name=name)
    return b("Transpose", b.input(2, 20, 23, channels, name=name), perm=(0, 3, 1, 2))


TARGETS = targets(())[:2]
CONVOLUTIONS = list(
    itertools.product(
        [(1, 1), (1, 2), (3, 1), (3, 2), (2, 3)],
        [(3, 6, 1), (3, 6, 3), (32, 32, 1), (32, 32, 32)],
        [False, True],
    )
)
"""Side and step of the window; channels, filters and groups; whether the image is turned."""
POOLS = list(itertools.product([(4, 1), (4, 2), (5, 3)], ["MaxPool", "AveragePool"], [False, True]))
"""Side and step of the window, kind, and whether the image is turned."""


@dataclass(frozen=True)
class Cut:
    """A graph with a node for each of PADS, all with these weights, and what it is fed."""

    part: Part
    filters: NDArray[np.float32] | None = None

    @classmethod
    def convolution(cls, window: tuple[int, int], layer: tuple[int, int, int], turned: bool) -> Cut:
        (kernel, stride), (channels, out, group) = window, layer
        b = Builder()
        weights = b.weight(out, channels // group, kernel, kernel)
        for number, pads in enumerate(PADS):
            how = {"pads": list(pads), "strides": [stride] * 2, "group": group}
            b.output(b("Conv", image(b, channels, turned, f"x{number}"), weights, **how))
        return cls(Part(b.graph, b.feeds()), weights.const)

    @classmethod
    def pool(cls, window: tuple[int, int], kind: str, turned: bool) -> Cut:
        b, (kernel, stride) = Builder(), window
        for number, pads in enumerate(PADS):
            how = {"pads": list(pads), "strides": [stride] * 2, "kernel_shape": [kernel] * 2}
            b.output(b(kind, image(b, 5, turned, f"x{number}"), **how))
        return cls(Part(b.graph, b.feeds()))


@cache
def cut() -> dict[Any, Cut]:
    convolutions = {key: Cut.convolution(*key) for key in CONVOLUTIONS}
    return convolutions | {key: Cut.pool(*key) for key in POOLS}


@cache
def compiled(target: str) -> Together[Any]:
    parts = {key: one.part for key, one in cut().items()}
    return Together(parts, CompileOptions(target=target, threads=2))


def results(
    key: Any, target: str
) -> Iterator[tuple[tuple[int, ...], NDArray[np.float32], NDArray[np.float32]]]:
    """Pads, the image that they are for, channels second, and the result."""
    feeds, found, turned = cut()[key].part.feeds, compiled(target)[key], key[-1]
    for number, pads in enumerate(PADS):
        x = feeds[f"x{number}"]
        yield pads, x.transpose(0, 3, 1, 2) if turned else x, found[f"y{number}"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", CONVOLUTIONS, ids=str)
def test_convolutions(key: Any, target: str) -> None:
    (kernel, stride), (_, _, group), _ = key
    weights = cut()[key].filters
    assert weights is not None
    filters = np.split(weights.astype(np.float64), group)
    for pads, x, result in results(key, target):
        parts = np.split(windows(x, pads, kernel, stride, 0.0), group, axis=1)
        each = [np.einsum("nchwij,ocij->nohw", part, own) for part, own in zip(parts, filters)]
        np.testing.assert_allclose(
            result, np.concatenate(each, axis=1), rtol=1e-5, atol=5e-5, err_msg=str(pads)
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", POOLS, ids=str)
def test_pools(key: Any, target: str) -> None:
    (kernel, stride), kind, _ = key
    for pads, x, result in results(key, target):
        if kind == "MaxPool":
            expected = windows(x, pads, kernel, stride, -np.inf).max((4, 5))
        else:
            expected = np.nanmean(windows(x, pads, kernel, stride, np.nan), (4, 5))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6, err_msg=str(pads))
