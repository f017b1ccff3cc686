"""Depthwise convolutions, pools and resizing against NumPy and ONNX,
for every width of vectors that this machine has.
"""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from infuse.targets.cpu.families.depthwise import pack_depthwise
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
from tests.native.kernel_tools import apart, fenced

__all__ = ["libraries", "run"]


# ---- images


def out_size(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int, ceil: bool = False
) -> int:
    span = size + before + after - dilation * (kernel - 1) - 1
    return (-(-span // stride) if ceil else span // stride) + 1


def windows(
    x: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    out: tuple[int, int],
) -> Array:
    """The windows [n, oh, ow, kh, kw, c] of a padded image [n, h, w, c]."""
    n, _, _, c = x.shape
    sn, sh, sw, sc = x.strides
    strides = (sn, sh * stride[0], sw * stride[1], sh * dilation[0], sw * dilation[1], sc)
    return as_strided(x, (n, *out, *kernel, c), strides)


def padded(x: Array, shape: Any, value: float) -> Array:
    """x with enough of `value` around it for the windows of `shape`, in float64."""
    high = max(
        0,
        (shape["oh"] - 1) * shape["sh"]
        + (shape["kh"] - 1) * shape["dh"]
        + 1
        - shape["top"]
        - x.shape[1],
    )
    wide = max(
        0,
        (shape["ow"] - 1) * shape["sw"]
        + (shape["kw"] - 1) * shape["dw"]
        + 1
        - shape["left"]
        - x.shape[2],
    )
    pads = ((0, 0), (shape["top"], high), (shape["left"], wide), (0, 0))
    return np.pad(x.astype(np.float64), pads, constant_values=value)


DEPTHWISE = [  # h, w, kh, kw, sh, sw, dh, pads (top, left, bottom, right)
    (7, 7, 3, 3, 1, 1, 1, (1, 1, 1, 1)), (14, 15, 3, 3, 2, 2, 1, (1, 1, 1, 1)), (5, 30, 3, 3, 1, 1,
        1, (0, 0, 0, 0)),
    (9, 20, 5, 5, 1, 1, 1, (2, 2, 2, 2)), (9, 21, 5, 5, 2, 2, 1, (1, 1, 2, 2)), (6, 26, 7, 7, 1, 1,
        1, (3, 3, 3, 3)),
    (15, 17, 7, 7, 2, 2, 1, (3, 3, 3, 3)), (1, 40, 1, 3, 1, 1, 1, (0, 1, 0, 1)), (2, 2, 3, 3, 1, 1,
        1, (1, 1, 1, 1)),
    (12, 9, 3, 3, 2, 1, 2, (2, 1, 2, 1)), (3, 3, 7, 7, 1, 1, 1, (3, 3, 3, 3)), (1, 1, 5, 5, 2, 2,
        1, (2, 2, 2, 2)),
]  # fmt: skip


def depthwise_case(n: int, c: int, case: tuple[Any, ...]) -> dict[str, int]:
    h, w, kh, kw, sh, sw, dh, (top, left, bottom, right) = case
    oh, ow = out_size(h, kh, sh, dh, top, bottom), out_size(w, kw, sw, 1, left, right)
    names = ("n", "h", "w", "c", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw", "top", "left")
    return dict(zip(names, (n, h, w, c, oh, ow, kh, kw, sh, sw, dh, 1, top, left)))


def depthwise_expected(
    x: Array, w: Array, s: dict[str, int], multiplier: int = 1
) -> tuple[Array, Array]:
    """The convolution and the sum of its terms' magnitudes."""
    views = windows(
        np.repeat(padded(x, s, 0), multiplier, axis=3), (s["kh"], s["kw"]), (s["sh"], s["sw"]),
        (s["dh"], s["dw"]),
        (s["oh"], s["ow"]),
    )  # fmt: skip
    return np.einsum("nyxklc,klc->nyxc", views, w), np.einsum(
        "nyxklc,klc->nyxc", np.abs(views), np.abs(w)
    )


@pytest.mark.parametrize("channels", [1, 3, 16, 37, 130])
@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise(run: Driver, rng: Rng, channels: int, case: tuple[Any, ...]) -> None:
    s = depthwise_case(2, channels, case)
    x, w = floats(rng, 2, s["h"], s["w"], channels), floats(rng, s["kh"], s["kw"], channels)
    expected, magnitude = depthwise_expected(x, w, s)
    bound = (s["kh"] * s["kw"] + 1) * EPS * magnitude + 1e-30
    y = zeros(2, s["oh"], s["ow"], channels)
    assert run("depthwise_conv", long_array(*s.values()), x, w, y) == 0
    close(y, expected, bound)
    y[...] = 0
    run("depthwise_generic", long_array(*s.values()), 1, x, w, y, result=None)
    close(y, expected, bound)


@pytest.mark.parametrize(
    ("channels", "multiplier"), [(1, 5), (3, 2), (4, 16), (7, 3), (40, 2), (37, 4), (9, 17)]
)
def test_depthwise_with_a_multiplier(run: Driver, rng: Rng, channels: int, multiplier: int) -> None:
    s = depthwise_case(1, channels, (8, 9, 3, 4, 2, 1, 2, (1, 2, 1, 0)))
    s |= {"dw": 2, "ow": out_size(9, 4, 1, 2, 2, 0)}
    x, w = floats(rng, 1, 8, 9, channels), floats(rng, 3, 4, channels * multiplier)
    expected, magnitude = depthwise_expected(x, w, s, multiplier)
    y = zeros(*expected.shape)
    packed = pack_depthwise(np.moveaxis(w, -1, 0)[:, None], multiplier)
    run("depthwise_generic", long_array(*s.values()), multiplier, x, packed, y, result=None)
    close(y, expected, 13 * EPS * magnitude + 1e-30)


POOLS = [  # h, w, kh, kw, sh, sw, dh, dw, pads, ceil
    (8, 8, 2, 2, 2, 2, 1, 1, (0, 0, 0, 0), False), (11, 12, 3, 3, 2, 2, 1, 1, (1, 1, 1, 1), False),
    (11, 12, 3, 3, 2, 2, 1, 1, (1, 1, 1, 1), True), (7, 9, 3, 2, 1, 3, 2, 1, (2, 0, 1, 1), False),
    (20, 17, 13, 13, 1, 1, 1, 1, (6, 6, 6, 6), False),
    (9, 40, 3, 5, 1, 2, 1, 1, (1, 2, 0, 1), True), (14, 9, 7, 3, 2, 1, 1, 1, (3, 0, 3, 2), False),
    (5, 5, 5, 5, 1, 1, 1, 1, (2, 2, 2, 2), False), (1, 30, 1, 4, 1, 3, 1, 2, (0, 0, 0, 0), True),
    (6, 83, 2, 3, 1, 6, 1, 1, (0, 1, 0, 1), False),
    (150, 30, 3, 3, 1, 1, 1, 1, (1, 1, 1, 1), False),
]  # fmt: skip


def pool_case(n: int, c: int, case: tuple[Any, ...], counts: bool, gap: int = 0) -> dict[str, int]:
    h, w, kh, kw, sh, sw, dh, dw, (top, left, bottom, right), ceil = case
    sizes = [out_size(h, kh, sh, dh, top, bottom, ceil), out_size(w, kw, sw, dw, left, right, ceil)]
    for i, (size, stride, before) in enumerate(((h, sh, top), (w, sw, left))):
        sizes[i] -= ceil and (sizes[i] - 1) * stride >= size + before  # a window must start inside
    names = (
        "n",
        "h",
        "w",
        "c",
        "oh",
        "ow",
        "kh",
        "kw",
        "sh",
        "sw",
        "dh",
        "dw",
        "top",
        "left",
        "bottom",
        "right",
        "count",
        "pitch",
    )
    window = (kh, kw, sh, sw, dh, dw, top, left, bottom, right)
    return dict(zip(names, (n, h, w, c, *sizes, *window, counts, c + gap)))


def pool_windows(x: Array, s: dict[str, int], value: float) -> Array:
    return windows(
        padded(x, s, value), (s["kh"], s["kw"]), (s["sh"], s["sw"]), (s["dh"], s["dw"]), (s["oh"],
            s["ow"])
    )  # fmt: skip


def pool_planes(run: Driver, kind: int, p: float, s: dict[str, int], x: Array) -> Array:
    """The result with its channels last, of planes."""
    planes = fenced(np.ascontiguousarray(np.moveaxis(x, 3, 1)))
    y = zeros(s["n"], s["c"], s["oh"], s["ow"])
    run("pool_of_planes", kind, p, long_array(*s.values()), planes, y, result=None)
    return np.moveaxis(y, 1, 3)


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("channels", [1, 5, 16, 70])
@pytest.mark.parametrize("case", POOLS)
def test_max_pool(run: Driver, rng: Rng, channels: int, gap: int, case: tuple[Any, ...]) -> None:
    s = pool_case(2, channels, case, False, gap)
    x = apart(floats(rng, 2, s["h"], s["w"], channels), gap)
    x[0, 0, 0, 0] = np.nan
    x[1, :2] = -INF
    expected = pool_windows(x, s, -INF).max(axis=(3, 4))
    y = zeros(*expected.shape)
    run("pool_image", 0, 0.0, long_array(*s.values()), x, y, result=None)
    np.testing.assert_array_equal(y, expected.astype(np.float32))
    planes = pool_planes(run, 0, 0.0, s, x)
    np.testing.assert_array_equal(planes, expected.astype(np.float32))


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("channels", [1, 17, 64])
@pytest.mark.parametrize("case", POOLS)
def test_mean_pool(
    run: Driver, rng: Rng, counts: bool, channels: int, case: tuple[Any, ...]
) -> None:
    s = pool_case(2, channels, case, counts)
    x = floats(rng, 2, s["h"], s["w"], channels)
    ones = np.ones_like(x)
    if counts:  # padding counts, what a rounded-up output reads beyond it does not
        ones = np.pad(
            ones,
            ((0, 0), (s["top"], s["bottom"]), (s["left"], s["right"]), (0, 0)),
            constant_values=1,
        )
        divisor = pool_windows(ones, s | {"top": 0, "left": 0}, 0).sum(axis=(3, 4))
    else:
        divisor = pool_windows(ones, s, 0).sum(axis=(3, 4))
    expected = pool_windows(x, s, 0).sum(axis=(3, 4)) / divisor
    y = zeros(*expected.shape)
    run("pool_image", 1, 0.0, long_array(*s.values()), x, y, result=None)
    close(y, expected, (s["kh"] * s["kw"] + 2) * EPS)
    close(pool_planes(run, 1, 0.0, s, x), expected, (s["kh"] * s["kw"] + 2) * EPS)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_power_pool(run: Driver, rng: Rng, p: float) -> None:
    s = pool_case(1, 19, POOLS[1], False)
    x = floats(rng, 1, s["h"], s["w"], 19)
    expected = (np.abs(pool_windows(x, s, 0)) ** p).sum(axis=(3, 4)) ** (1 / p)
    y = zeros(*expected.shape)
    run("pool_image", 2, p, long_array(*s.values()), x, y, result=None)
    close(y, expected, 20 * EPS * expected)
    close(pool_planes(run, 2, p, s, x), expected, 20 * EPS * expected)


@pytest.mark.parametrize("columns_lead", [False, True])
@pytest.mark.parametrize("case", POOLS)
def test_max_pool_tells_where(
    run: Driver, rng: Rng, case: tuple[Any, ...], columns_lead: bool
) -> None:
    s = pool_case(2, 3, case, False, gap=1)
    x = apart(
        rng.permutation(2 * s["h"] * s["w"] * 3).astype(np.float32).reshape(2, s["h"], s["w"], 3), 1
    )
    y = zeros(2, s["oh"], s["ow"], 3)
    index = zeros(*y.shape, dtype=np.int64)
    run("pool_index", long_array(*s.values()), x, y, index, columns_lead, result=None)
    np.testing.assert_array_equal(y, pool_windows(x, s, -INF).max(axis=(3, 4)).astype(np.float32))
    planar = x.transpose(0, 3, 2, 1) if columns_lead else x.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(planar.reshape(-1)[index], y)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 49, 40), (1, 1000, 3), (3, 7, 130), (1, 3136, 24)]
)
def test_global_pools(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape)
    y = zeros(shape[0], shape[2])
    run("pool_global", 1, *shape, x, y, result=None)
    close(y, x.astype(np.float64).mean(axis=1), 30 * EPS)
    y[...] = 0
    run("pool_global", 0, *shape, x, y, result=None)
    np.testing.assert_array_equal(y, x.max(axis=1))


# ---- resize

COORDINATES = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
]  # fmt: skip
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
RESIZES = [
    ((4, 5), (8, 10)),
    ((7, 6), (3, 4)),
    ((3, 8), (5, 20)),
    ((5, 5), (5, 1)),
    ((1, 9), (4, 3)),
    ((20, 13), (4, 5)),
    ((3, 70), (4, 45)),
    ((4, 40), (2, 90)),
]
CROP = np.array([[0.125, 0.75], [0.25, 1.25]], np.float32)


def onnx_resize(x: Array, out: tuple[int, int], **attributes: Any) -> Array:
    """What ONNX's own implementation makes of x [n, c, h, w]."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    roi = np.array([0, 0, *CROP[:, 0], 1, 1, *CROP[:, 1]], np.float32)
    sizes = np.array([*x.shape[:2], *out], np.int64)
    crops = attributes["coordinate_transformation_mode"] == "tf_crop_and_resize"
    node = helper.make_node(
        "Resize", ["x", "roi" if crops else "", "", "sizes"], ["y"], **attributes
    )
    info = helper.make_tensor_value_info
    inputs = [info("x", 1, x.shape), info("roi", 1, [8]), info("sizes", TensorProto.INT64, [4])]
    graph = helper.make_graph([node], "resize", inputs, [info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return np.asarray(ReferenceEvaluator(model).run(None, {"x": x, "roi": roi, "sizes": sizes})[0])


def resize(
    run: Driver, x: Array, out: tuple[int, int], attributes: dict[str, Any], planes: bool
) -> Array:
    """What the kernel for planes, or that for channels last, makes of x [n, c, h, w]."""
    n, c, h, w = x.shape
    mode = attributes["coordinate_transformation_mode"]
    (top, bottom), (left, right) = CROP.tolist()
    numbers = (ctypes.c_double * 8)(out[0] / h, top, bottom, out[1] / w, left, right, -0.75, 9.0)
    y = zeros(n, c, *out) if planes else zeros(n, *out, c)
    kinds = ["nearest", "linear", "cubic"].index(attributes["mode"]), COORDINATES.index(mode)
    choices = (
        ROUNDINGS.index(attributes.get("nearest_mode", "floor")),
        attributes.get("exclude_outside", 0),
        attributes.get("antialias", 0),
    )
    pixels = fenced(x if planes else np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    run(
        "resize_plane" if planes else "resize_image",
        long_array(n, c, h, out[0], w, out[1], kinds, choices),
        numbers,
        pixels,
        y,
        result=None,
    )
    return y if planes else y.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_resize(run: Driver, rng: Rng, kind: str, coordinates: str) -> None:
    choices: list[dict[str, Any]] = [{"nearest_mode": mode} for mode in ROUNDINGS]
    if kind != "nearest":
        choices = [{}, {"exclude_outside": 1}, {"antialias": 1}]
    if kind != "nearest" and coordinates == "tf_crop_and_resize":
        choices = [{}]  # outside of the image the constant is due, and a crop has no scale
    for (size, out), channels, choice in product(RESIZES, (1, 19), choices):
        if coordinates == "pytorch_half_pixel" and 1 in out:
            continue  # ONNX's text says 0 for the place of a single output, its implementation -0.5
        x = rng.uniform(-1, 1, (2, channels, *size)).astype(np.float32)
        attributes = {
            "mode": kind,
            "coordinate_transformation_mode": coordinates,
            "extrapolation_value": 9.0,
            **choice,
        }
        expected = onnx_resize(x, out, **attributes)
        for planes in (False, True):
            close(resize(run, x, out, attributes, planes), expected, 2e-5)
