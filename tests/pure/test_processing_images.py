"""Building blocks for images beside Pillow, PyTorch and NumPy."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

import infuse
from infuse.errors import DataError, InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.ops.core.evaluate import evaluate
from infuse.processing import (
    center_crop,
    crop,
    decode_image,
    flip,
    normalize,
    pad,
    pad_to_multiple,
    prepare_image,
    resize,
    to_pixels,
    to_planes,
)
from infuse.serving.engine.pipelines.builtins import create
from tests.pure.block_runs import picture, run

pytestmark = pytest.mark.row("C10")

OPEN = {"image": ("height", "width", 3)}
IMAGES = [(48, 64), (37, 53), (1, 1), (3, 301), (90, 61)]


def encoded(image: Any, format: str = "PNG") -> Any:
    file = io.BytesIO()
    Image.fromarray(image).save(file, format)
    return np.frombuffer(file.getvalue(), np.uint8)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["PNG", "BMP"])
def test_files_are_decoded(format: str) -> None:
    image = picture(7, 11)
    file = encoded(image, format)
    np.testing.assert_array_equal(run(decode_image, {"file": ("n",)}, file=file), image)
    np.testing.assert_array_equal(decode_image(file, colour="bgr"), image[..., ::-1])
    gray = np.asarray(Image.fromarray(image).convert("L"))[..., None]
    np.testing.assert_array_equal(decode_image(file, colour="gray"), gray)


def test_what_is_no_image_is_refused_by_the_run() -> None:
    with pytest.raises(DataError, match="not an image that can be decoded"):
        decode_image(np.arange(50, dtype=np.uint8))


# -- parts and borders -----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_parts_are_cut_out(layout: str) -> None:
    x = picture(20, 33)
    image = x if layout == "HWC" else to_planes(x)
    sizes = {"image": ("h", "w", 3) if layout == "HWC" else (3, "h", "w")}
    part = run(lambda image: crop(image, 2, 5, 9, 28, layout=layout), sizes, image=image)
    part = part if layout == "HWC" else to_pixels(part)
    np.testing.assert_array_equal(part, x[2:11, 5:])
    corner = {"top": np.array(3), "left": np.array(0)}
    part = run(lambda image, top, left: crop(image, top, left, 4, 5), OPEN, image=x, **corner)
    np.testing.assert_array_equal(part, x[3:7, :5])


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("size", [(1, 1), (20, 70), (47, 63), (91, 62)])
def test_middles_are_those_of_torchvision(image: tuple[int, int], size: tuple[int, int]) -> None:
    x = picture(*image)
    result = run(lambda image: center_crop(image, size, fill=9), OPEN, image=x)
    pads = [max(side - old, 0) for side, old in zip(size, image)]
    whole = np.pad(x, [*((p // 2, (p + 1) // 2) for p in pads), (0, 0)], constant_values=9)
    top, left = (max(0, round((old - side) / 2.0)) for side, old in zip(size, whole.shape[:2]))
    np.testing.assert_array_equal(result, whole[top : top + size[0], left : left + size[1]])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_borders(mode: str) -> None:
    x = picture(5, 6)
    sides = {"top": 1, "bottom": 0, "left": 2, "right": 3}
    result = run(lambda image: pad(image, mode=mode, **sides), OPEN, image=x)
    np.testing.assert_array_equal(result, np.pad(x, [(1, 0), (2, 3), (0, 0)], mode))
    filled = pad(x, bottom=2, fill=200)
    assert (filled[5:] == 200).all()
    assert filled.shape == (7, 6, 3)


@pytest.mark.parametrize("image", [(32, 64), (33, 1), (1, 31)])
def test_sides_become_multiples(image: tuple[int, int]) -> None:
    x = picture(*image)
    result = run(lambda image: pad_to_multiple(image, 32, fill=3), OPEN, image=x)
    rest = [(0, -side % 32) for side in image]
    np.testing.assert_array_equal(result, np.pad(x, [*rest, (0, 0)], constant_values=3))


def test_flips_and_layouts() -> None:
    x = picture(5, 6)
    for direction, axes in (("horizontal", 1), ("vertical", 0), ("both", (0, 1))):
        result = run(lambda image, d=direction: flip(image, d), OPEN, image=x)
        np.testing.assert_array_equal(result, np.flip(x, axes))
        planes = flip(to_planes(x), direction, layout="CHW")
        np.testing.assert_array_equal(to_pixels(planes), result)
    np.testing.assert_array_equal(run(to_planes, OPEN, image=x), x.transpose(2, 0, 1))
    batch = np.stack([x, x[::-1]])
    np.testing.assert_array_equal(to_pixels(to_planes(batch)), batch)


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_values_are_normalized(layout: str) -> None:
    x = picture(5, 6)
    mean, std = np.array([0.485, 0.456, 0.406]), (0.229, 0.224, 0.225)
    image = x if layout == "HWC" else to_planes(x)
    sizes = {"image": ("h", "w", 3) if layout == "HWC" else (3, "h", "w")}
    result = run(
        lambda image: normalize(image, mean=mean, std=std, layout=layout), sizes, image=image
    )
    assert result.dtype == np.float32
    exact = (x.astype(np.float64) / 255 - mean) / std
    # Products and sums of float32 numbers up to 5.
    np.testing.assert_allclose(result if layout == "HWC" else to_pixels(result), exact, atol=1e-6)
    np.testing.assert_array_equal(normalize(image, mean=mean, std=std, layout=layout), result)
    wide = normalize(x.astype(np.float64), 2.0, 1.0, 4.0)
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, (x * 2.0 - 1) / 4, rtol=1e-15)
    assert normalize(x, dtype="float16").dtype == np.float16


# -- all of it -------------------------------------------------------------------------------------


def by_server(image: Any, **options: Any) -> dict[str, Any]:
    """The model server's step on a file of the image."""
    data = np.empty(1, object)
    data[0] = encoded(image).tobytes()
    step = create("decode_image", options, (), "step 1")
    return step.run({"image": data}, {"pixels", "placement"})


PREPARED: list[dict[str, Any]] = [
    {"size": 32},
    {"size": (24, 33), "shortest": 41},
    {"size": (33, 24), "resize": "stretch", "interpolation": "bicubic"},
    {"size": (24, 33), "resize": "letterbox", "fill": 77},
    {"size": (33, 24), "resize": "letterbox", "interpolation": "lanczos", "layout": "NHWC"},
    # No middle of a pixel lies between two others.
    {"size": 128, "resize": "stretch", "interpolation": "nearest", "colour": "bgr"},
    {"size": 17, "interpolation": "hamming", "colour": "gray", "mean": 0.5, "std": 0.25},
    {"size": 64, "interpolation": "box", "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.25)},
    {"size": 20, "scale": 1.0, "mean": (104.0, 117.0, 123.0), "colour": "bgr"},
    {"layout": "NHWC", "mean": (0.1, 0.2, 0.3)},
]


@pytest.mark.parametrize("options", PREPARED, ids=str)
@pytest.mark.parametrize("image", IMAGES)
def test_images_are_prepared_as_by_the_server(
    options: dict[str, Any], image: tuple[int, int]
) -> None:
    # In the middle of the range, no sum leaves it: Pillow's two passes may come in either order.
    x = picture(*image) // 2 + 64
    pixels, placement = run(lambda image: prepare_image(image, **options), OPEN, image=x)
    expected = by_server(x, **options)
    assert pixels.shape == expected["pixels"].shape
    level = options.get("scale", 1 / 255) / np.min(options.get("std", 1.0))
    np.testing.assert_allclose(pixels, expected["pixels"], atol=level * 1.01)
    np.testing.assert_array_equal(placement[None], expected["placement"])


@pytest.mark.parametrize(("dtype", "name"), [("uint8", "UINT8"), ("float16", "FP16")])
@pytest.mark.parametrize("colour", ["rgb", "gray"])
def test_types_and_gray_images(dtype: str, name: str, colour: str) -> None:
    gray = picture(21, 33, 1)
    options: dict[str, Any] = {"size": 17, "interpolation": "nearest", "colour": colour}
    pixels, _ = run(
        lambda image: prepare_image(image, **options, dtype=dtype),
        {"image": ("height", "width", 1)},
        image=gray,
    )
    assert pixels.dtype == dtype
    expected = by_server(gray[..., 0], **options, dtype=name)["pixels"]
    np.testing.assert_allclose(pixels.astype(float), expected.astype(float), rtol=1e-3)


def test_sizes_of_results_are_known_before_the_run() -> None:
    for options in PREPARED[:-1]:
        graph = infuse.trace(
            lambda image, o=options: prepare_image(image, **o),
            {"image": infuse.Spec("uint8", OPEN["image"])},
        )
        assert graph.outputs[0].type.is_static


# -- bad arguments ---------------------------------------------------------------------------------

X = picture(8, 9)
BAD: list[tuple[Any, type[InfuseError], str]] = [
    (lambda: decode_image(X), ShapeError, "one axis"),
    (lambda: decode_image(np.zeros(3)), TypeMismatchError, "uint8"),
    (lambda: decode_image(np.zeros(3, np.uint8), colour="hsv"), OptionError, "colour 'hsv'"),
    (lambda: crop(X, 2, 0, 7, 3), ShapeError, "outside"),
    (lambda: crop(X, -1, 0, 3, 3), OptionError, "top is -1"),
    (lambda: center_crop(X, (0, 3)), OptionError, "at least 1"),
    (lambda: pad(X, top=-1), OptionError, "top is -1"),
    (lambda: pad(X, top=1, mode="mirror"), OptionError, "mode 'mirror'"),
    (lambda: pad_to_multiple(X, 0), OptionError, "at least 1"),
    (lambda: flip(X, "left"), OptionError, "direction 'left'"),
    (lambda: normalize(X, mean=(1.0, 2.0)), ShapeError, "2 numbers for 3 channels"),
    (lambda: normalize(X, std=(1.0, 0.0, 1.0)), OptionError, "not zero"),
    (lambda: normalize(X, mean=float("nan")), OptionError, "finite"),
    (lambda: normalize(X, dtype="uint8"), OptionError, "floats"),
    (lambda: prepare_image(X.astype(np.float32), 3), TypeMismatchError, "uint8"),
    (lambda: prepare_image(X[:0], 3), ShapeError, "without pixels"),
    (lambda: prepare_image(X[..., :2], 3), TypeMismatchError, "uint8"),
    (lambda: prepare_image(X, resize="stretch"), OptionError, "need a size"),
    (lambda: prepare_image(X, 8, shortest=4), OptionError, "shortest"),
    (lambda: prepare_image(X, 8, shortest=9, resize="stretch"), OptionError, "shortest"),
    (lambda: prepare_image(X, 8, dtype="uint8", mean=0.5), OptionError, "no uint8"),
    (lambda: prepare_image(X, 8, layout="HWC"), OptionError, "layout 'HWC'"),
    (lambda: prepare_image(X, 8, resize="cover"), OptionError, "resize 'cover'"),
]


@pytest.mark.parametrize(("call", "error", "what"), BAD)
def test_bad_arguments_are_refused(call: Any, error: type[InfuseError], what: str) -> None:
    with pytest.raises(error, match=what):
        call()


def test_what_only_a_run_knows_is_refused_there() -> None:
    spec = infuse.Spec("uint8", OPEN["image"])
    graph = infuse.trace(lambda image: crop(image, 2, 5, 9, 28), {"image": spec})
    with pytest.raises(DataError, match="outside of its image"):
        evaluate(graph, {"image": picture(10, 33)})
    numbers = {"image": spec, "top": infuse.Spec("int64", ())}
    graph = infuse.trace(lambda image, top: crop(image, top, 0, 1, 1), numbers)
    with pytest.raises(DataError, match="negative"):
        evaluate(graph, {"image": X, "top": np.array(-1)})


def test_errors_name_the_line_of_the_program() -> None:
    def program(image: Any) -> Any:
        return resize(image, -3)

    with pytest.raises(OptionError, match=r"test_processing_images\.py:"):
        infuse.trace(program, {"image": X})
