"""Convolutions of planes to planes against NumPy in float64, for every width of vectors that this
machine has, and models that take them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.build.staged import generate
from infuse.ir.graph import Node
from infuse.lowering.lowering import Lowering
from infuse.ops.core.evaluate import evaluate
from infuse.targets.cpu.lower import convolution
from infuse.testing.compare import is_near
from tests.native.builder import Builder
from tests.native.kernel_driver import (
    EPS,
    Array,
    Driver,
    Rng,
    close,
    floats,
    long_array,
    run,
    zeros,
)
from tests.native.kernel_tools import build, targets
from tests.support.emulation import resolve

__all__ = ["run"]
pytestmark = pytest.mark.row("R1", "R3")


@pytest.fixture(scope="session")
def libraries() -> Callable[[str], ctypes.CDLL]:
    return cache(lambda target: build(Path(__file__).with_name("planes_driver.cpp"), target))


@dataclass(frozen=True)
class Case:
    """Images, windows and filters; `pads`: top, left, bottom, right."""

    size: tuple[int, int]
    channels: int
    out: int
    kernel: tuple[int, int] = (3, 3)
    steps: tuple[int, int] = (1, 1)
    spread: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    groups: int = 1
    batch: int = 1

    @property
    def out_size(self) -> list[int]:
        """Height and width of the result."""
        rows = zip(self.size, self.kernel, self.steps, self.spread, self.pads[:2], self.pads[2:])
        return [(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in rows]

    @property
    def sizes(self) -> Any:
        """The fields of `ConvSizes` without the last one."""
        window = (*self.kernel, *self.steps, *self.spread, *self.pads[:2], self.groups)
        return long_array(self.batch, *self.size, self.channels, *self.out_size, self.out, *window)

    def expected(self, x: Array, w: Array) -> Array:
        """The convolution in float64: [batch, out, height, width]."""
        (top, left, bottom, right), (height, width) = self.pads, self.out_size
        sides = ((0, 0), (0, 0), (top, bottom), (left, right))
        image = np.pad(x.astype(np.float64), sides)
        total = np.zeros((self.batch, self.groups, self.out // self.groups, height, width))
        parts = w.reshape(self.groups, self.out // self.groups, -1, *self.kernel)
        for i, j in np.ndindex(*self.kernel):
            y0, x0 = i * self.spread[0], j * self.spread[1]
            seen = image[:, :, y0 : y0 + (height - 1) * self.steps[0] + 1 : self.steps[0]]
            seen = seen[..., x0 : x0 + (width - 1) * self.steps[1] + 1 : self.steps[1]]
            apart = seen.reshape(self.batch, self.groups, -1, height, width)
            taps = parts[..., i, j].astype(np.float64)
            total += np.einsum("ngchw,goc->ngohw", apart, taps, optimize=True)
        return total.reshape(self.batch, self.out, height, width)


POINT: dict[str, Any] = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
CASES = {
    "points": Case((7, 9), 17, 65, **POINT),
    "one point": Case((1, 1), 5, 7, **POINT),
    "points of batches": Case((5, 13), 33, 12, batch=3, **POINT),
    "points of groups": Case((6, 6), 12, 30, groups=3, **POINT),
    "points left out": Case((7, 9), 6, 8, steps=(2, 2), **POINT),
    "padded points": Case((4, 5), 3, 9, kernel=(1, 1)),
    "windows": Case((20, 20), 1, 65),
    "a line": Case((1, 400), 1, 20, (1, 15), pads=(0, 7, 0, 7)),
    "wide windows": Case((9, 40), 3, 13, (2, 5), pads=(0, 2, 1, 2)),
    "steps": Case((13, 29), 4, 11, steps=(2, 2)),
    "long steps": Case((14, 37), 3, 9, (3, 5), (2, 3), pads=(0, 2, 1, 2)),
    "steps longer than windows": Case((16, 19), 2, 10, (2, 2), (3, 4), pads=(0, 0, 0, 0)),
    "dilations": Case((15, 21), 5, 18, spread=(2, 3), pads=(2, 3, 2, 3)),
    "dilations and steps": Case((15, 21), 5, 18, (3, 4), (1, 2), (3, 3), (1, 5, 4, 3)),
    "more padding than image": Case((2, 3), 3, 6, (5, 5), pads=(4, 4, 4, 4)),
    "windows that see no pixel": Case((1, 1), 2, 5, (3, 3), (2, 2), pads=(5, 6, 7, 40)),
    "narrow results": Case((30, 3), 4, 7, pads=(0, 0, 0, 0)),
    "groups": Case((11, 30), 12, 28, groups=4, batch=2),
    "a filter a channel": Case((12, 37), 9, 9, groups=9, batch=2),
    "a filter a channel, steps": Case((13, 45), 5, 5, (5, 5), (2, 2), (1, 1), (2, 2, 2, 2), 5),
    "two a channel": Case((9, 33), 6, 12, groups=6),
    "three a channel": Case((9, 65), 3, 9, (4, 2), groups=3, pads=(1, 0, 1, 1)),
    "four of three channels": Case((10, 50), 6, 8, groups=2),
    "four, long steps": Case((10, 50), 6, 8, (3, 3), (3, 3), (2, 1), (1, 1, 1, 1), 2),
    "lines in blocks": Case((90, 150), 64, 6, (3, 3), (1, 1)),
    "points in blocks": Case((100, 90), 80, 5, **POINT),
    "filters that no cache holds": Case((6, 7), 96, 720),
}


@pytest.mark.parametrize("filters", [None, 1, 2, 3, 4])
@pytest.mark.parametrize("name", CASES)
def test_planes(run: Driver, rng: Rng, name: str, filters: int | None) -> None:
    case = CASES[name]
    if filters is not None:
        case = replace(case, out=filters * case.groups)
    x = floats(rng, case.batch, case.channels, *case.size)
    w = floats(rng, case.out, case.channels // case.groups, *case.kernel)
    y = zeros(case.batch, case.out, *case.out_size)
    run("convolve_planes", case.sizes, x, w, y, result=None)
    magnitude = case.expected(np.abs(x), np.abs(w))
    close(y, case.expected(x, w), (w[0].size + 1) * EPS * magnitude + 1e-30)


def test_numbers_that_are_not_finite_stay_in_their_windows(run: Driver, rng: Rng) -> None:
    case = Case((9, 35), 2, 5)
    x, w = floats(rng, 1, 2, 9, 35), floats(rng, 5, 2, 3, 3)
    x[0, 1, 4, 30], x[0, 0, 8, 34] = np.nan, np.inf
    y = zeros(1, 5, 9, 35)
    run("convolve_planes", case.sizes, x, w, y, result=None)
    close(y, case.expected(x, w), 20 * EPS * case.expected(np.abs(x), np.abs(w)) + 1e-30)


# ---- models


def takes_planes(_low: Lowering, _node: Node) -> bool:
    return True


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "filters", "how", "is_fused"),
    [
        ((2, 17, 6, 7), (9, 17, 1, 1), {}, False),
        ((2, 17, 6, 7), (9, 17, 1, 1), {}, True),
        ((1, 3, 40), (5, 3, 7), {"pads": (3, 3), "strides": (2,)}, True),
        ((2, 6, 9, 11), (12, 1, 3, 3), {"group": 6, "pads": (1, 1, 1, 1)}, True),
        ((1, 4, 3, 5, 6), (7, 4, 1, 1, 1), {}, False),
    ],
)
def test_models_of_planes(
    monkeypatch: pytest.MonkeyPatch,
    rng: Rng,
    target: str,
    threads: int,
    shape: tuple[int, ...],
    filters: tuple[int, ...],
    how: dict[str, Any],
    is_fused: bool,
) -> None:
    """Whatever is fused with the convolution reads and writes planes as well."""
    monkeypatch.setattr(convolution, "planes_are_faster", takes_planes)
    b = Builder("planes")
    x = b.input(*shape, name="x")
    made = b("Conv", x, b.weight(*filters), b.weight(filters[0]), **how)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    if is_fused:
        added = b.input(*made.shape, name="added")
        feeds["added"] = rng.standard_normal(added.shape).astype(np.float32)
        made = b("Relu", b("Add", made, added))
    b.output(made)
    program, _ = generate(b.graph, resolve(target), threads)
    assert any("conv_planes.hpp" in step.function.includes for step in program.steps)
    model = infuse.compile(b.graph, infuse.CompileOptions(threads=threads, target=target))
    expected = evaluate(b.graph, feeds)
    for name, value in model.run(feeds).items():
        assert is_near(value, expected[name], 1e-4)


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("how", [{}, {"strides": (2, 3), "pads": (1, 2, 2, 1)}])
def test_planes_of_any_size(
    monkeypatch: pytest.MonkeyPatch, rng: Rng, target: str, how: dict[str, Any]
) -> None:
    monkeypatch.setattr(convolution, "planes_are_faster", takes_planes)
    b = Builder("planes")
    kernel = (3, 4) if how else (1, 1)
    image = b.input("n", 6, "h", "w", name="x")
    b.output(b("Relu", b("Conv", image, b.weight(10, 3, *kernel), b.weight(10), group=2, **how)))
    model = infuse.compile(b.graph, infuse.CompileOptions(target=target, threads=2))
    for shape in ((1, 6, 3, 4), (3, 6, 30, 41), (0, 6, 5, 5), (1, 6, 1, 200)):
        feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
        expected = evaluate(b.graph, feeds)
        for name, value in model.run(feeds).items():
            assert is_near(value, expected[name], 1e-4)
