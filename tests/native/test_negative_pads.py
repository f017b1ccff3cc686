"""Padding below zero, which cuts off what lies there, in convolutions and pools."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from infuse.build.compile import compile_graph
from infuse.ir.graph import Value
from infuse.options import CompileOptions
from tests.native.builder import Builder
from tests.native.kernel_tools import targets

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


def results(
    b: Builder, target: str, turned: bool
) -> Iterator[tuple[tuple[int, ...], NDArray[np.float32], NDArray[np.float32]]]:
    """Pads, the image that they are for, channels second, and the result."""
    feeds = b.feeds()
    with compile_graph(b.graph, CompileOptions(target=target, threads=2)) as model:
        found = model.run(feeds)
    for number, pads in enumerate(PADS):
        x = feeds[f"x{number}"]
        yield pads, x.transpose(0, 3, 1, 2) if turned else x, found[f"y{number}"]


@pytest.mark.parametrize("target", targets(())[:2])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("channels", "out", "group"), [(3, 6, 1), (3, 6, 3), (32, 32, 1), (32, 32, 32)]
)
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (2, 3)])
def test_convolutions(
    kernel: int, stride: int, channels: int, out: int, group: int, turned: bool, target: str
) -> None:
    b = Builder()
    weights = b.weight(out, channels // group, kernel, kernel)
    for number, pads in enumerate(PADS):
        how = {"pads": list(pads), "strides": [stride] * 2, "group": group}
        b.output(b("Conv", image(b, channels, turned, f"x{number}"), weights, **how))
    assert weights.const is not None
    filters = np.split(weights.const.astype(np.float64), group)
    for pads, x, result in results(b, target, turned):
        parts = np.split(windows(x, pads, kernel, stride, 0.0), group, axis=1)
        each = [np.einsum("nchwij,ocij->nohw", part, own) for part, own in zip(parts, filters)]
        np.testing.assert_allclose(
            result, np.concatenate(each, axis=1), rtol=1e-5, atol=5e-5, err_msg=str(pads)
        )


@pytest.mark.parametrize("target", targets(())[:2])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride"), [(4, 1), (4, 2), (5, 3)])
def test_pools(kernel: int, stride: int, kind: str, turned: bool, target: str) -> None:
    b = Builder()
    for number, pads in enumerate(PADS):
        how = {"pads": list(pads), "strides": [stride] * 2, "kernel_shape": [kernel] * 2}
        b.output(b(kind, image(b, 5, turned, f"x{number}"), **how))
    for pads, x, result in results(b, target, turned):
        if kind == "MaxPool":
            expected = windows(x, pads, kernel, stride, -np.inf).max((4, 5))
        else:
            expected = np.nanmean(windows(x, pads, kernel, stride, np.nan), (4, 5))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6, err_msg=str(pads))
