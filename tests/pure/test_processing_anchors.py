"""Anchors, priors and decoders beside torchvision's Python code and NumPy in float64."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from infuse.errors import InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.processing import (
    convert_boxes,
    decode_deltas,
    decode_dfl,
    decode_distances,
    decode_yolo_anchors,
    decode_yolo_distances,
    grid_anchors,
    grid_points,
    prior_boxes,
)
from tests.pure.block_runs import boxes, run

pytestmark = pytest.mark.row("C10")

MAPS = [(4, 5), (1, 1), (3, 8), (0, 2)]


@pytest.fixture
def detection() -> Any:
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is the witness")
    from benchmarks.torchvision_schemas import make_importable

    make_importable()
    return pytest.importorskip("torchvision.models.detection")


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def on_grid(function: Any, rows: int, columns: int) -> Any:
    """What a function gives for rows and columns, whether they are known or sizes of an input."""
    empty = np.zeros((rows, columns), np.float32)
    result = run(lambda x: function(x.shape[0], x.shape[1]), {"x": ("rows", "columns")}, x=empty)
    np.testing.assert_allclose(function(rows, columns), result, rtol=1e-6, atol=1e-5)
    return result


# -- where boxes start from ------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), MAPS)
def test_points(rows: int, columns: int) -> None:
    result = on_grid(lambda rows, columns: grid_points(rows, columns, 8), rows, columns)
    grid = np.mgrid[:rows, :columns].reshape(2, -1).T[:, ::-1]
    np.testing.assert_array_equal(result, (grid + 0.5) * 8)
    corners = grid_points(rows, columns, 4, offset=0.0)
    np.testing.assert_array_equal(corners, grid * 4)


@pytest.mark.parametrize(("rows", "columns"), MAPS)
def test_anchors(detection: Any, rows: int, columns: int) -> None:
    import torch

    sizes, ratios = (32, 64.5), (0.5, 1.0, 2.0)
    generator = detection.anchor_utils.AnchorGenerator((sizes,), (ratios,))
    expected = generator.grid_anchors([[rows, columns]], [[torch.tensor(16), torch.tensor(16)]])[0]
    result = on_grid(
        lambda rows, columns: grid_anchors(rows, columns, 16, sizes, ratios), rows, columns
    )
    np.testing.assert_array_equal(result, expected.numpy())
    exact = grid_anchors(1, 1, 16, (10,), (2.0,), offset=0.5, rounded=False)
    half = 5 * np.sqrt([0.5, 2])
    np.testing.assert_allclose(exact[0], [*(8 - half), *(8 + half)], rtol=1e-6)


@pytest.mark.parametrize("steps", [None, [30, 60]])
@pytest.mark.parametrize("clip", [True, False])
def test_priors(detection: Any, steps: Any, clip: bool) -> None:
    import torch

    scales = [0.3, 0.8, 1.05]
    maker = detection.anchor_utils.DefaultBoxGenerator(
        [[2, 3], [2]], scales=scales, steps=steps, clip=clip
    )
    image = torch.zeros(1, 3, 90, 120)
    images = detection.image_list.ImageList(image, [(90, 120)])
    maps = [torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 2, 2)]
    expected = maker(images, maps)[0].numpy()
    parts = [
        on_grid(
            lambda rows, columns, i=i: prior_boxes(
                rows,
                columns,
                scales[i],
                scales[i + 1],
                [(2, 3), (2,)][i],
                image=(90, 120),
                step=None if steps is None else steps[i],
                clip=clip,
            ),
            *shape,
        )
        for i, shape in enumerate([(3, 4), (2, 2)])
    ]
    result = np.concatenate(parts)
    if steps is None:
        np.testing.assert_allclose(result, expected, atol=2e-5)
        return
    # torchvision divides the image's height and width by one step each, rounded: ours is in pixels.
    half = (result[:, 2:] - result[:, :2]) / 2
    np.testing.assert_allclose(half, (expected[:, 2:] - expected[:, :2]) / 2, atol=2e-5)
    middles = (result[: 12 * 6 : 6, :2] + result[: 12 * 6 : 6, 2:]) / 2
    np.testing.assert_allclose(middles, grid_points(3, 4, 30), atol=1e-5)


# -- what networks' numbers mean -------------------------------------------------------------------


@pytest.mark.parametrize("count", [7, 1, 0])
@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (10, 10, 5, 5)])
def test_deltas(detection: Any, count: int, weights: tuple[int, ...]) -> None:
    import torch

    deltas, anchors = normal(count, 4) * 9, boxes(count)
    result = run(
        lambda deltas, anchors: decode_deltas(deltas, anchors, weights=weights),
        {"deltas": ("n", 4), "anchors": ("n", 4)},
        deltas=deltas,
        anchors=anchors,
    )
    coder = detection._utils.BoxCoder(tuple(map(float, weights)))
    expected = coder.decode_single(torch.from_numpy(deltas), torch.from_numpy(anchors)).numpy()
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-4)


def test_deltas_of_every_class() -> None:
    deltas, anchors = normal(6, 3, 4), boxes(6)
    result = decode_deltas(deltas, anchors[:, None])
    for kind in range(3):
        np.testing.assert_array_equal(result[:, kind], decode_deltas(deltas[:, kind], anchors))


def test_distances(detection: Any) -> None:
    import torch

    distances, points = np.abs(normal(20, 4)), grid_points(4, 5, 8)
    result = run(
        lambda distances, points: decode_distances(distances, points, 8),
        {"distances": ("n", 4), "points": ("n", 2)},
        distances=distances,
        points=points,
    )
    # torchvision's FCOS decodes by anchors of the stride's size.
    anchors = np.concatenate([points - 4, points + 4], axis=1)
    coder = detection._utils.BoxLinearCoder(normalize_by_size=True)
    expected = coder.decode(torch.from_numpy(distances), torch.from_numpy(anchors)).numpy()
    np.testing.assert_allclose(result, expected, atol=1e-5)
    strides = np.float32([8] * 20)[:, None]
    np.testing.assert_allclose(decode_distances(distances, points, strides), result)


def test_distributions_of_distances() -> None:
    logits = normal(6, 32) * 3
    result = run(lambda logits: decode_dfl(logits, 8), {"logits": ("n", 32)}, logits=logits)
    wide = np.exp(logits.astype(np.float64).reshape(6, 4, 8))
    expected = (wide / wide.sum(-1, keepdims=True)) @ np.arange(8.0)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize(("rows", "columns"), MAPS)
@pytest.mark.parametrize("version", [3, 5])
def test_yolo_with_anchors(version: int, rows: int, columns: int) -> None:
    anchors, stride, classes = np.array([[10, 13], [30, 23]]), 16, 3
    raw = normal(2 * (5 + classes), rows, columns)
    place, values = run(
        lambda raw: decode_yolo_anchors(raw, anchors, stride, version=version),
        {"raw": (len(raw), "rows", "columns")},
        raw=raw,
    )
    expected: list[tuple[Any, Any]] = []
    for number, anchor in enumerate(anchors):
        for row in range(rows):
            for column in range(columns):
                cell = raw[number * 8 : number * 8 + 8, row, column]
                share = _sigmoid(cell)
                if version == 5:
                    middle = (share[:2] * 2 - 0.5 + [column, row]) * stride
                    sides = (share[2:4] * 2) ** 2 * anchor
                else:
                    middle = (share[:2] + np.array([column, row])) * stride
                    sides = np.exp(cell[2:4].astype(np.float64)) * anchor
                expected.append(([*middle, *sides], share[4] * share[5:]))
    assert place.shape == (2 * rows * columns, 4)
    assert values.shape == (2 * rows * columns, 3)
    if expected:
        wide = convert_boxes(np.array([e[0] for e in expected]), "cxcywh", "xyxy")
        np.testing.assert_allclose(place, wide, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(values, [e[1] for e in expected], rtol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), MAPS)
def test_yolo_without_anchors(rows: int, columns: int) -> None:
    bins, stride, classes = 8, 16, 3
    raw = normal(4 * bins + classes, rows, columns)
    place, values = run(
        lambda raw: decode_yolo_distances(raw, stride, bins=bins),
        {"raw": (len(raw), "rows", "columns")},
        raw=raw,
    )
    cells = raw.reshape(len(raw), -1).T.astype(np.float64)
    shares = np.exp(cells[:, : 4 * bins].reshape(-1, 4, bins))
    far = (shares / shares.sum(-1, keepdims=True)) @ np.arange(bins) * stride
    middle = (np.mgrid[:rows, :columns].reshape(2, -1).T[:, ::-1] + 0.5) * stride
    expected = np.concatenate([middle - far[:, :2], middle + far[:, 2:]], axis=1)
    np.testing.assert_allclose(place, expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(values, _sigmoid(cells[:, 4 * bins :]), rtol=1e-5)


# -- bad arguments ---------------------------------------------------------------------------------

RAW = normal(16, 3, 4)
BAD: list[tuple[Any, type[InfuseError], str]] = [
    (lambda: grid_points(-1, 3), OptionError, "rows is -1"),
    (lambda: grid_anchors(2, 3, 8, ()), OptionError, "positive"),
    (lambda: grid_anchors(2, 3, 8, (4,), (0.0,)), OptionError, "positive"),
    (lambda: prior_boxes(2, 3, 0.2, 0.4, (-1.0,), image=9), OptionError, "positive"),
    (lambda: decode_deltas(normal(3, 4), boxes(3), weights=(1, 1)), OptionError, "4 weights"),
    (lambda: decode_deltas(normal(3, 5), boxes(3)), ShapeError, "deltas"),
    (lambda: decode_distances(normal(3, 4), normal(3, 3)), ShapeError, "points"),
    (lambda: decode_dfl(normal(3, 60)), ShapeError, "16 logits"),
    (lambda: decode_yolo_anchors(RAW[None], [[1, 2]], 8), ShapeError, "raw\\[0\\]"),
    (lambda: decode_yolo_anchors(RAW, [[1, 2]] * 3, 8), ShapeError, "3 anchors"),
    (lambda: decode_yolo_anchors(RAW, [1, 2], 8), ShapeError, "2 anchors"),
    (lambda: decode_yolo_anchors(RAW, [[1, 2]], 8, version=8), OptionError, "version"),
    (lambda: decode_yolo_anchors(RAW > 0, [[1, 2]], 8), TypeMismatchError, "floats"),
    (lambda: decode_yolo_distances(RAW, 8), ShapeError, "16 channels"),
]


@pytest.mark.parametrize(("call", "error", "what"), BAD)
def test_bad_arguments_are_refused(call: Any, error: type[InfuseError], what: str) -> None:
    with pytest.raises(error, match=what):
        call()
