"""Images from bytes, held against NumPy and the plain use of Pillow."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from infuse.errors import ConfigurationError, RequestError, TooLargeError
from infuse.serving.engine.pipelines.builtins import create
from infuse.serving.engine.pipelines.steps import Builtin

pytestmark = pytest.mark.row("S1")

LOSSLESS = ["PNG", "BMP", "WEBP"]


def built(**options: Any) -> Builtin:
    return create("decode_image", options, (), "step 1")


def decode(*files: bytes, **options: Any) -> dict[str, Any]:
    data = np.empty(len(files), object)
    data[:] = files
    return built(**options).run({"image": data}, {"pixels", "size", "placement"})


def encoded(picture: Any, format: str = "PNG", **options: Any) -> bytes:
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    file = io.BytesIO()
    if format == "WEBP":
        options = {"lossless": True, "exact": True, **options}
    image.save(file, format, **options)
    return file.getvalue()


@pytest.fixture
def picture(rng: np.random.Generator) -> Any:
    return rng.integers(0, 256, (7, 11, 3), np.uint8)


@pytest.mark.parametrize("format", LOSSLESS)
def test_pixels_are_those_of_the_file(format: str, picture: Any) -> None:
    found = decode(
        encoded(picture, format), encoded(picture[::-1], format), layout="NHWC", dtype="UINT8"
    )
    np.testing.assert_array_equal(found["pixels"], [picture, picture[::-1]])
    assert found["size"].tolist() == [[7, 11]] * 2
    assert found["placement"].tolist() == [[1, 1, 0, 0]] * 2


def test_jpeg_and_gif_are_read(picture: Any) -> None:
    smooth = np.add.outer(np.arange(64), np.arange(48)).astype(np.uint8)[:, :, None].repeat(3, 2)
    found = decode(encoded(smooth, "JPEG", quality=95), layout="NHWC", dtype="UINT8")["pixels"][0]
    assert np.abs(found.astype(int) - smooth).max() <= 4
    frames = [Image.fromarray(np.full((4, 4), shade, np.uint8)) for shade in (10, 200)]
    gif = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode(gif, colour="gray", dtype="UINT8")["pixels"].tolist() == [[[[10] * 4] * 4]]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("colour", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("FP32", 1e-6), ("FP16", 2e-3)])
def test_values_follow_the_formula(
    layout: str, colour: str, dtype: str, tolerance: float, picture: Any
) -> None:
    mean, std = (
        ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if colour != "gray" else ((0.45,), (0.22,))
    )
    found = decode(encoded(picture), layout=layout, colour=colour, dtype=dtype, mean=mean, std=std)[
        "pixels"
    ]
    wide = picture.astype(np.float64)
    if colour == "gray":
        # The integers that ITU-R 601 is computed with.
        wide = ((wide @ [19595, 38470, 7471] + 0x8000) // 65536)[:, :, None]
    elif colour == "bgr":
        wide = wide[:, :, ::-1]
    expected = (wide / 255 - mean) / std
    expected = expected.transpose(2, 0, 1) if layout == "NCHW" else expected
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance)
    assert found.dtype == {"FP32": np.float32, "FP16": np.float16}[dtype]


def test_one_mean_serves_all_channels(picture: Any) -> None:
    found = decode(encoded(picture), layout="NHWC", mean=127.5, std=127.5, scale=1)["pixels"][0]
    np.testing.assert_allclose(found, picture / 127.5 - 1, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (33, 33), (20, 200), (7, 5)])
@pytest.mark.parametrize("size", [(16, 16), (10, 24), (31, 9)])
def test_the_middle_is_cut_out(
    shape: tuple[int, int], size: tuple[int, int], rng: np.random.Generator
) -> None:
    image = Image.fromarray(rng.integers(0, 256, (*shape, 3), np.uint8))
    (height, width), (rows, columns) = size, shape
    if columns / rows >= width / height:
        whole = (int(columns * height / rows), height)
    else:
        whole = (width, int(rows * width / columns))
    resized = np.asarray(image.resize(whole, Image.Resampling.BILINEAR))
    top, left = round((whole[1] - height) / 2), round((whole[0] - width) / 2)
    found = decode(encoded(image), size=size, dtype="UINT8", layout="NHWC")
    np.testing.assert_array_equal(
        found["pixels"][0], resized[top : top + height, left : left + width]
    )
    assert found["placement"][0, 2:].tolist() == [-top, -left]


@pytest.mark.parametrize(
    "interpolation", ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
)
def test_the_shorter_side_may_be_longer_than_the_cut(
    interpolation: str, rng: np.random.Generator
) -> None:
    image = Image.fromarray(rng.integers(0, 256, (50, 83, 3), np.uint8))
    method = Image.Resampling[interpolation.upper()]
    resized = np.asarray(image.resize((int(32 * 83 / 50), 32), method))
    found = decode(
        encoded(image),
        size=28,
        shortest=32,
        interpolation=interpolation,
        dtype="UINT8",
        layout="NHWC",
    )["pixels"][0]
    left = round((resized.shape[1] - 28) / 2)
    np.testing.assert_array_equal(found, resized[2:30, left : left + 28])


def test_stretch_ignores_proportions(rng: np.random.Generator) -> None:
    image = Image.fromarray(rng.integers(0, 256, (50, 83, 3), np.uint8))
    found = decode(encoded(image), size=(20, 10), resize="stretch", dtype="UINT8", layout="NHWC")
    np.testing.assert_array_equal(
        found["pixels"][0], image.resize((10, 20), Image.Resampling.BILINEAR)
    )
    np.testing.assert_allclose(found["placement"][0], [20 / 50, 10 / 83, 0, 0])


@pytest.mark.parametrize("shape", [(30, 60), (60, 30), (31, 31), (1, 500)])
def test_a_letterbox_keeps_all(shape: tuple[int, int], rng: np.random.Generator) -> None:
    image = Image.fromarray(rng.integers(0, 256, (*shape, 3), np.uint8))
    found = decode(
        encoded(image), size=(20, 24), resize="letterbox", fill=114, dtype="UINT8", layout="NHWC"
    )
    factor = min(20 / shape[0], 24 / shape[1])
    rows, columns = max(1, round(shape[0] * factor)), max(1, round(shape[1] * factor))
    top, left = round((20 - rows) / 2), round((24 - columns) / 2)
    expected = np.full((20, 24, 3), 114, np.uint8)
    expected[top : top + rows, left : left + columns] = image.resize(
        (columns, rows), Image.Resampling.BILINEAR
    )
    np.testing.assert_array_equal(found["pixels"][0], expected)
    np.testing.assert_allclose(
        found["placement"][0], [rows / shape[0], columns / shape[1], top, left], rtol=1e-6
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(orientation: int) -> None:
    upright = np.arange(6 * 8, dtype=np.uint8).reshape(6, 8)
    # What a camera stores so that the orientation of EXIF 2.3, table 4.6.4, shows `upright`.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = encoded(np.ascontiguousarray(stored), "PNG", exif=exif)
    found = decode(file, colour="gray", dtype="UINT8")
    np.testing.assert_array_equal(found["pixels"][0, 0], upright)
    assert found["size"].tolist() == [[6, 8]]
    as_stored = decode(file, colour="gray", dtype="UINT8", orient=False)
    np.testing.assert_array_equal(as_stored["pixels"][0, 0], stored)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_exif_is_no_reason_to_refuse() -> None:
    picture = np.full((8, 8, 3), 90, np.uint8)
    file = encoded(picture, "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode(file, dtype="UINT8")["pixels"].shape == (1, 3, 8, 8)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_pixel_is_read(mode: str) -> None:
    shade = 255 if mode == "1" else 102  # which the palette has
    if mode == "I;16":
        image = Image.fromarray(np.full((3, 5), shade * 257, np.uint16))
    else:
        image = Image.fromarray(np.full((3, 5, 3), shade, np.uint8)).convert(mode)
    found = decode(encoded(image, "JPEG" if mode == "CMYK" else "PNG"), dtype="UINT8")["pixels"]
    assert found.shape == (1, 3, 3, 5)
    assert np.abs(found.astype(int) - shade).max() <= 2


def test_a_column_of_elements_and_none_at_all(picture: Any) -> None:
    data = np.array([[encoded(picture)], [encoded(picture)]], object)
    found = built().run({"image": data}, {"pixels"})
    assert found["pixels"].shape == (2, 3, 7, 11)
    assert decode(size=(4, 5))["pixels"].shape == (0, 3, 4, 5)
    assert decode()["pixels"].shape == (0, 3, 0, 0)
    with pytest.raises(RequestError, match=r"shape \[n\] or \[n, 1\], not \[1, 2\]"):
        built().run({"image": data.T}, {"pixels"})
    with pytest.raises(RequestError, match=r"element 0 of input 'image': it is not bytes but int"):
        built().run({"image": np.array([5], object)}, {"pixels"})


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def huge(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be of this size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


BROKEN = {
    "nothing": (b"", "none of the formats"),
    "text": (b"hello", "none of the formats"),
    "tiff": (encoded(np.zeros((2, 2), np.uint8), "TIFF"), "none of the formats"),
    "cut off": (
        encoded(np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8), "JPEG")[:900],
        "truncated",
    ),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "none of the formats"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_bytes_that_are_no_image_are_named(case: str, picture: Any) -> None:
    file, text = BROKEN[case]
    with pytest.raises(
        RequestError,
        match=rf"element 1 of input 'image': its {len(file)} bytes are not an image.*{text}",
    ):
        decode(encoded(picture), file)


@pytest.mark.parametrize(("width", "height"), [(10_000, 10_000), (20_000, 20_000), (2**31 - 1, 1)])
def test_bombs_are_refused_before_they_are_decoded(width: int, height: int) -> None:
    with pytest.raises(TooLargeError, match=r"element 0 of input 'image'.*pixels"):
        decode(huge(width, height))


def test_the_limit_of_pixels_is_exact(picture: Any) -> None:
    assert decode(encoded(picture), max_pixels=77)["pixels"].shape == (1, 3, 7, 11)
    with pytest.raises(TooLargeError, match="it has 77 pixels, 76 are allowed"):
        decode(encoded(picture), max_pixels=76)
    with pytest.raises(TooLargeError, match="made as large as asked for"):
        decode(encoded(np.zeros((1, 1000), np.uint8)), size=100, max_pixels=1000)


def test_hostile_bytes_are_answered_with_our_errors(rng: np.random.Generator, picture: Any) -> None:
    """Every format with bytes flipped and ends cut off: an image or one of our errors, and nothing
    else.
    """
    refused = 0
    for format in ("JPEG", "PNG", "WEBP", "BMP", "GIF"):
        good = encoded(picture, format)
        for _ in range(120):
            bad = bytearray(good)
            for place in rng.integers(0, len(bad), 1 + rng.integers(6)):
                bad[place] = rng.integers(256)
            if rng.integers(2):
                del bad[rng.integers(len(bad)) :]
            try:
                decode(bytes(bad), max_pixels=10_000)
            except (RequestError, TooLargeError):
                refused += 1
    assert refused > 100


def test_sizes_that_differ_are_named(picture: Any) -> None:
    with pytest.raises(
        RequestError, match=r"element 1 of input 'image'.*first has \[7, 11\], this one \[7, 10\]"
    ):
        decode(encoded(picture), encoded(picture[:, 1:]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"size": 0}, "size"),
        ({"size": [1, 2, 3]}, "size"),
        ({"sise": 3}, "sise"),
        ({"resize": "pad"}, "pad"),
        ({"resize": "stretch"}, "need a `size`"),
        ({"shortest": 256}, "need a `size`"),
        ({"size": 224, "shortest": 200}, "at least as large"),
        ({"size": 224, "shortest": 256, "resize": "letterbox"}, "belongs to `resize: crop`"),
        ({"mean": [1, 2]}, "`mean` has 2 numbers for 3 channels"),
        ({"std": [1, 2, 3], "colour": "gray"}, "`std` has 3 numbers for 1 channels"),
        ({"std": 0}, "`std` is zero"),
        ({"mean": float("nan")}, "no finite values"),
        ({"dtype": "UINT8", "mean": 1}, "make no UINT8"),
        ({"dtype": "INT8"}, "INT8"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        built(**options)
    assert str(caught.value).startswith("[INF-701] step 1")


def test_the_ports_follow_from_the_options() -> None:
    (pixels, size, placement) = built(
        size=(4, 5), layout="NHWC", colour="gray", dtype="FP16"
    ).outputs
    assert (pixels.shape, pixels.datatypes) == ((-1, 4, 5, 1), {"FP16"})
    assert (size.shape, placement.shape) == ((-1, 2), (-1, 4))
    assert built().outputs[0].shape == (-1, 3, -1, -1)


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(
        ConfigurationError,
        match=r"'PIL.Image' is not installed.*pip install pillow",
    ):
        built()
