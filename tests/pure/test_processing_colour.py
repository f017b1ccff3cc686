"""Colour spaces and cameras' formats beside Pillow, colorsys and published numbers."""

import colorsys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from infuse.errors import InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.processing import (
    bgr_to_rgb,
    hsv_to_rgb,
    i420_to_rgb,
    lab_to_rgb,
    nv12_to_rgb,
    rgb_to_bgr,
    rgb_to_gray,
    rgb_to_hsv,
    rgb_to_lab,
    rgb_to_ycbcr,
    rgb_to_yuv,
    to_planes,
    ycbcr_to_rgb,
    yuv_to_rgb,
)
from tests.pure.block_runs import picture, run

pytestmark = pytest.mark.row("C10")

OPEN = {"image": ("height", "width", 3)}
BYTES = picture(31, 17)
CORNERS = np.array(np.meshgrid([0, 255], [0, 255], [0, 255])).reshape(3, 8).T.reshape(2, 4, 3)
FLOATS = np.concatenate([BYTES.reshape(-1, 3), CORNERS.reshape(-1, 3), [[9, 9, 9]]])[None] / 255.0
PRIMARY = np.array([[[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]]], np.float64)


def test_channels_in_reverse() -> None:
    np.testing.assert_array_equal(run(rgb_to_bgr, OPEN, image=BYTES), BYTES[..., ::-1])
    planes = to_planes(BYTES)
    np.testing.assert_array_equal(bgr_to_rgb(planes, layout="CHW"), planes[::-1])


def test_brightness_is_exactly_that_of_pillow() -> None:
    values = np.arange(0, 256, 3, dtype=np.uint8)
    image = np.stack(np.meshgrid(values, values, values), axis=-1).reshape(86, 86 * 86, 3)
    expected = np.asarray(Image.fromarray(image).convert("L"))[..., None]
    np.testing.assert_array_equal(run(rgb_to_gray, OPEN, image=image), expected)
    np.testing.assert_array_equal(
        rgb_to_gray(to_planes(image), layout="CHW"), expected.transpose(2, 0, 1)
    )
    np.testing.assert_allclose(rgb_to_gray(FLOATS)[..., 0], FLOATS @ (0.299, 0.587, 0.114))


def test_differences_of_colour_are_those_of_jpeg() -> None:
    result = run(rgb_to_ycbcr, OPEN, image=BYTES)
    expected = np.asarray(Image.fromarray(BYTES).convert("YCbCr")).astype(int)
    # Pillow adds numbers of 6 binary places.
    assert np.abs(result - expected).max() <= 1
    back = run(ycbcr_to_rgb, OPEN, image=result)
    assert np.abs(back.astype(int) - BYTES).max() <= 2
    pillow = Image.merge("YCbCr", [Image.fromarray(result[..., i]) for i in range(3)])
    assert np.abs(back - np.asarray(pillow.convert("RGB")).astype(int)).max() <= 1
    floats = run(rgb_to_ycbcr, {"image": (1, "n", 3)}, image=FLOATS.astype(np.float32))
    np.testing.assert_allclose(floats[0, : BYTES.size // 3] * 255, result.reshape(-1, 3), atol=1.01)
    np.testing.assert_allclose(ycbcr_to_rgb(rgb_to_ycbcr(FLOATS)), FLOATS, atol=1e-12)


def test_analog_differences_of_colour() -> None:
    # ITU-R BT.470: U = 0.492 (B - Y), V = 0.877 (R - Y), rounded to three places.
    light = FLOATS @ (0.299, 0.587, 0.114)
    expected = np.stack(
        [light, 0.492 * (FLOATS[..., 2] - light), 0.877 * (FLOATS[..., 0] - light)], axis=-1
    )
    np.testing.assert_allclose(rgb_to_yuv(FLOATS), expected, atol=5e-4)
    np.testing.assert_allclose(yuv_to_rgb(rgb_to_yuv(FLOATS)), FLOATS, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hues_are_those_of_python(dtype: Any) -> None:
    image = FLOATS.astype(dtype)
    result = run(rgb_to_hsv, {"image": (1, "n", 3)}, image=image)
    expected = np.array([colorsys.rgb_to_hsv(*map(float, rgb)) for rgb in image[0]])
    limit = 1e-12 if dtype == np.float64 else 1e-5
    apart = np.abs(result[0] - expected)
    apart[:, 0] = np.minimum(apart[:, 0], 1 - apart[:, 0])  # hues lie on a circle
    assert apart.max() <= limit
    back = np.array([colorsys.hsv_to_rgb(*map(float, hsv)) for hsv in result[0]])
    np.testing.assert_allclose(hsv_to_rgb(result)[0], back, atol=limit)
    np.testing.assert_allclose(back, FLOATS[0], atol=10 * limit)


def test_lab_of_well_known_colours() -> None:
    result = run(rgb_to_lab, {"image": ("h", "w", 3)}, image=PRIMARY)
    published = [
        [53.2408, 80.0925, 67.2032],
        [87.7347, -86.1827, 83.1793],
        [32.2970, 79.1875, -107.8602],
        [100, 0, 0],
        [0, 0, 0],
    ]
    # Their matrix has seven places, this one six.
    np.testing.assert_allclose(result[0], published, atol=0.02)
    np.testing.assert_allclose(lab_to_rgb(rgb_to_lab(FLOATS)), FLOATS, atol=1e-4)
    outside = lab_to_rgb(np.array([[[50.0, 200.0, 0.0], [120.0, 0.0, 0.0]]]))
    assert outside.min() == 0
    assert outside.max() == 1


# -- cameras ---------------------------------------------------------------------------------------


def _rgb(frame: Any, planar: bool, red: float, blue: float, full: bool) -> Any:
    """Pixel by pixel, in float64."""
    height, width = frame.shape[0] * 2 // 3, frame.shape[1]
    colours = frame[height:].reshape(-1)
    result = np.zeros((height, width, 3))
    low, light, wide = (0, 255, 255) if full else (16, 219, 224)
    for row in range(height):
        for column in range(width):
            place = (row // 2) * (width // 2) + column // 2
            at = (place, height * width // 4 + place) if planar else (2 * place, 2 * place + 1)
            y = (float(frame[row, column]) - low) / light
            u, v = ((float(colours[i]) - 128) / wide for i in at)
            r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
            result[row, column] = r, (y - red * r - blue * b) / (1 - red - blue), b
    return np.clip(result * 255, 0, 255)


@pytest.mark.parametrize(
    ("standard", "red", "blue"),
    [("bt601", 0.299, 0.114), ("bt709", 0.2126, 0.0722), ("bt2020", 0.2627, 0.0593)],
)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(12, 10), (3, 2), (9, 6)])
def test_frames_of_cameras(
    standard: str, red: float, blue: float, full: bool, shape: tuple[int, int]
) -> None:
    frame = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    for planar, function in ((False, nv12_to_rgb), (True, i420_to_rgb)):
        result = run(
            lambda frame, f=function: f(frame, standard=standard, full_range=full),
            {"frame": ("rows", "columns")},
            frame=frame,
        )
        assert result.dtype == np.uint8
        exact = _rgb(frame, planar, red, blue, full)
        assert np.abs(result - exact).max() <= 0.5 + 1e-4


def test_a_camera_sees_red() -> None:
    frame = np.array([[81, 81], [81, 81], [90, 240]], np.uint8)
    assert np.abs(nv12_to_rgb(frame).reshape(-1, 3) - [254.0, 0, 0]).max() <= 1


# -- bad arguments ---------------------------------------------------------------------------------

BAD: list[tuple[Any, type[InfuseError], str]] = [
    (lambda: rgb_to_bgr(BYTES[..., :2]), ShapeError, "3 channels"),
    (lambda: rgb_to_gray(BYTES, layout="CHW"), ShapeError, "3 channels"),
    (lambda: rgb_to_gray(BYTES.astype(np.int32)), TypeMismatchError, "bytes"),
    (lambda: rgb_to_hsv(BYTES), TypeMismatchError, "normalize"),
    (lambda: rgb_to_lab(BYTES), TypeMismatchError, "floats"),
    (lambda: nv12_to_rgb(BYTES), ShapeError, "two axes"),
    (lambda: nv12_to_rgb(np.zeros((4, 4), np.uint8)), ShapeError, "3/2 rows"),
    (lambda: i420_to_rgb(np.zeros((6, 3), np.uint8)), ShapeError, "even sides"),
    (lambda: i420_to_rgb(np.zeros((6, 4))), TypeMismatchError, "bytes"),
    (lambda: nv12_to_rgb(np.zeros((6, 4), np.uint8), standard="pal"), OptionError, "bt709"),
]


@pytest.mark.parametrize(("call", "error", "what"), BAD)
def test_bad_arguments_are_refused(call: Any, error: type[InfuseError], what: str) -> None:
    with pytest.raises(error, match=what):
        call()
