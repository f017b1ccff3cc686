"""Images in other sizes beside Pillow and PyTorch, and in pictures of a size."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from infuse.errors import InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.processing import letterbox, placement_of, resize, to_pixels, to_planes
from tests.pure.block_runs import picture, run, traced

pytestmark = pytest.mark.row("C10")

OPEN = {"image": ("height", "width", 3)}
INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
SIZES = [(7, 9), (1, 1), (33, 50), (200, 3), (2, 1)]
IMAGES = [(48, 64), (37, 53), (1, 1), (3, 301), (90, 61)]


def by_pillow(image: Any, size: tuple[int, int], interpolation: str) -> Any:
    """Resized along the rows, then along the columns: from release 13 on, Pillow chooses which
    comes first, and what lies beyond the range of bytes is cut off in between.
    """
    method = Image.Resampling[interpolation.upper()]
    wide = Image.fromarray(image).resize((size[1], image.shape[0]), method)
    return np.asarray(wide.resize(size[::-1], method))


def unambiguous(before: int, after: int) -> Any:
    """Where the middle of a new pixel does not lie between two old ones."""
    return (2 * np.arange(after) + 1) * before % (2 * after) != 0


# -- resizing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_resized_as_by_pillow(
    interpolation: str, image: tuple[int, int], size: tuple[int, int]
) -> None:
    x = picture(*image)
    result = run(lambda image: resize(image, size, interpolation=interpolation), OPEN, image=x)
    difference = np.abs(result.astype(int) - by_pillow(x, size, interpolation))
    if interpolation == "nearest":
        rows, columns = (unambiguous(*pair) for pair in zip(image, size))
        difference = difference[rows][:, columns]
    # Pillow's weights are rounded to multiples of 2^-22, and its results between two passes, which
    # the graph does only where sums may leave the range of bytes.
    assert difference.max(initial=0) <= (0 if interpolation == "nearest" else 1)
    if interpolation in ("bicubic", "lanczos"):
        assert (difference > 0).mean() < 0.05 or difference.size < 100


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("size", [(7, 9), (50, 80), (1, 3), (37, 5)])
def test_floats_are_resized_as_by_pytorch(
    layout: str, antialias: bool, interpolation: str, size: tuple[int, int]
) -> None:
    torch = pytest.importorskip("torch")
    planes = np.random.default_rng(0).normal(size=(2, 37, 53)).astype(np.float32)
    image = planes if layout == "CHW" else planes.transpose(1, 2, 0)
    sizes = {"image": (2, "height", "width") if layout == "CHW" else ("height", "width", 2)}
    result = run(
        lambda image: resize(
            image, size, interpolation=interpolation, antialias=antialias, layout=layout
        ),
        sizes,
        image=image,
    )
    mode = "nearest-exact" if interpolation == "nearest" else interpolation
    options = {} if interpolation == "nearest" else {"antialias": antialias}
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(planes)[None], size, mode=mode, **options
    )[0].numpy()
    result = result if layout == "CHW" else result.transpose(2, 0, 1)
    # PyTorch computes in float32: some 30 additions of numbers up to 4.
    np.testing.assert_allclose(result, expected, atol=2e-5)


def test_batches_and_other_types_are_resized() -> None:
    batch = np.stack([picture(9, 14), picture(9, 15)[:, 1:]])
    result = resize(batch, (5, 6))
    for one, other in zip(batch, result):
        np.testing.assert_array_equal(resize(one, (5, 6)), other)
    wide = batch.astype(np.int16) * 100 - 9000
    small = resize(wide, (5, 6))
    assert small.dtype == np.int16
    exact = resize(wide.astype(np.float64), (5, 6))
    assert exact.dtype == np.float64
    assert np.abs(small - exact).max() <= 0.51
    assert resize(batch.astype(np.float16), (5, 6)).dtype == np.float16
    assert resize(batch, (9, 14)).dtype == np.uint8
    np.testing.assert_array_equal(resize(batch, (9, 14)), batch)


def _by_rule(height: int, width: int, shortest: int | None, longest: int | None) -> tuple[int, int]:
    """torchvision's `Resize(shortest, max_size=longest)`, and the same for the longest side."""
    short, long = min(height, width), max(height, width)
    if shortest is None:
        assert longest is not None
        pair = max(1, int(longest * short / long)), longest
    else:
        pair = shortest, int(shortest * long / short)
        if longest is not None and pair[1] > longest:
            pair = max(1, int(longest * pair[0] / pair[1])), longest
    return (pair[1], pair[0]) if height > width else pair


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize(
    ("shortest", "longest"), [(32, None), (None, 40), (32, 40), (5, 1000), (1, None), (None, 1)]
)
def test_sides_follow_the_proportions(
    image: tuple[int, int], shortest: int | None, longest: int | None
) -> None:
    x = picture(*image)
    result = run(
        lambda image: resize(image, shortest=shortest, longest=longest, interpolation="nearest"),
        OPEN,
        image=x,
    )
    size = result.shape[:2]
    assert size == _by_rule(*image, shortest, longest)
    np.testing.assert_array_equal(result, resize(x, size, interpolation="nearest"))


def test_sizes_may_come_from_the_run() -> None:
    x = picture(10, 14)
    result = run(lambda image: resize(image, (image.shape[1] // 2, 3)), OPEN, image=x)
    np.testing.assert_array_equal(result, resize(x, (7, 3)))
    for interpolation in INTERPOLATIONS:
        rows = np.array(7)
        result = run(
            lambda image, rows, i=interpolation: resize(image, (rows, 14), interpolation=i),
            OPEN,
            image=x,
            rows=rows,
        )
        expected = resize(x, (7, 14), interpolation=interpolation)
        np.testing.assert_array_equal(result, expected)


def test_channels_stay_known_where_sizes_are_not() -> None:
    graph = traced(lambda image: resize(image, shortest=9), OPEN, {"image": picture(10, 14)})
    made = [node.output.shape for node in graph.nodes if node.kind == "Resize"]
    assert [shape[:2] for shape in made] == [(1, 3)]


# -- the whole image in a picture ------------------------------------------------------------------


def _letterbox(image: Any, size: tuple[int, int], align: str, enlarge: bool, fill: int) -> Any:
    """As Ultralytics' LetterBox: rounding by Python, and what is odd goes below and right."""
    ratio = min(size[0] / image.shape[0], size[1] / image.shape[1])
    ratio = ratio if enlarge else min(ratio, 1.0)
    height, width = (max(1, round(side * ratio)) for side in image.shape[:2])
    small = resize(image, (height, width), antialias=False)
    top, left = (size[0] - height) / 2, (size[1] - width) / 2
    row, column = (round(top - 0.1), round(left - 0.1)) if align == "center" else (0, 0)
    result = np.full((*size, 3), fill, np.uint8)
    result[row : row + height, column : column + width] = small
    scales = height / image.shape[0], width / image.shape[1]
    return result, np.float32([*scales, row, column])


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("size", [(64, 64), (31, 50), (50, 31), (1, 7)])
@pytest.mark.parametrize(
    ("align", "enlarge", "fill"), [("center", True, 114), ("corner", False, 7)]
)
def test_letterboxes(
    image: tuple[int, int], size: tuple[int, int], align: str, enlarge: bool, fill: int
) -> None:
    x = picture(*image)
    result, placement = run(
        lambda image: letterbox(image, size, align=align, enlarge=enlarge, fill=fill), OPEN, image=x
    )
    expected, place = _letterbox(x, size, align, enlarge, fill)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_allclose(placement, place, rtol=1e-7)


def test_floats_and_planes_have_letterboxes() -> None:
    x = picture(20, 33)
    expected, place = letterbox(x, 48)
    planes, same = letterbox(to_planes(x).astype(np.float32) / 255, 48, layout="CHW")
    # The bytes are rounded.
    np.testing.assert_allclose(to_pixels(planes) * 255, expected, atol=0.501)
    np.testing.assert_array_equal(place, same)


def test_placement_of_a_resized_image() -> None:
    x = picture(20, 33)
    place = run(lambda image: placement_of(image, resize(image, shortest=40)), OPEN, image=x)
    np.testing.assert_allclose(place, [2, 2, 0, 0])


# -- bad arguments ---------------------------------------------------------------------------------

X = picture(8, 9)
BAD: list[tuple[Any, type[InfuseError], str]] = [
    (lambda: resize(X), OptionError, "a size, or shortest"),
    (lambda: resize(X, 3, shortest=3), OptionError, "a size, or shortest"),
    (lambda: resize(X, -3), OptionError, "at least 1"),
    (lambda: resize(X, 0), OptionError, "at least 1"),
    (lambda: resize(X, 2.5), OptionError, "whole number"),
    (lambda: resize(X, (1, 2, 3)), OptionError, "not 3 numbers"),
    (lambda: resize(X, 3, interpolation="area"), OptionError, "lanczos"),
    (lambda: resize(X, 3, interpolation="box", antialias=False), OptionError, "antialiased"),
    (lambda: resize(X, 3, layout="NCHW"), OptionError, "layout 'NCHW'"),
    (lambda: resize(X[:, :0], 3), ShapeError, "without pixels"),
    (lambda: letterbox(X[:0], 3), ShapeError, "without pixels"),
    (lambda: resize(X[0], 3), ShapeError, "three axes"),
    (lambda: resize(X.astype(np.int64), 3), TypeMismatchError, "nearest"),
    (lambda: letterbox(X, 3, align="top"), OptionError, "align 'top'"),
    (lambda: letterbox(X, 30, fill=300), OptionError, "no uint8"),
]


@pytest.mark.parametrize(("call", "error", "what"), BAD)
def test_bad_arguments_are_refused(call: Any, error: type[InfuseError], what: str) -> None:
    with pytest.raises(error, match=what):
        call()
