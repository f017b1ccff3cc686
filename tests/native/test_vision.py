"""Operators on regions, boxes, windows and image files: sizes found at run time, bad indices,
strange numbers, other witnesses.
"""

import itertools
import struct
import zlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from infuse.errors import DataError, ShapeError, UnsupportedOperatorError
from infuse.ops.vision import ImageDecoder
from tests.native.vision_nodes import Nodes, refuses, rng, torch_only

__all__ = ["rng"]
Array = Any


# -- regions and boxes -----------------------------------------------------------------------------


def test_regions_as_onnxruntime(rng: np.random.Generator) -> None:
    nodes = Nodes()
    x = rng.standard_normal((2, 70, 12, 15), np.float32)
    corners = rng.uniform(-4, 50, (9, 2, 2)).astype(np.float32)
    inputs = {
        "x": x,
        "rois": np.concatenate([corners.min(1), corners.max(1)], axis=1),
        "i": rng.integers(0, 2, 9),
    }
    for mode, coordinates, ratio in itertools.product(
        ("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 3)
    ):
        choices = {
            "mode": mode,
            "coordinate_transformation_mode": coordinates,
            "sampling_ratio": ratio,
        }
        nodes.add("RoiAlign", inputs, output_height=3, output_width=5, spatial_scale=0.3, **choices)
    rois = [
        [0, 1, 2, 30, 22],
        [1, 4, 4, 4, 4],
        [1, 0, 0, 59, 47],
        [0, 40, 30, 10, 10],
        [1, -9, -9, 100, 99],
    ]
    nodes.add(
        "MaxRoiPool", {"x": x, "rois": np.float32(rois)}, pooled_shape=[3, 4], spatial_scale=0.25
    )
    nodes.check()


def test_of_a_huge_region_only_the_points_inside_count(rng: np.random.Generator) -> None:
    """25 million points in a bin: those outside are 0, and nobody walks over them."""
    x, long = rng.standard_normal((1, 2, 3, 4), np.float32), 5000
    nodes = Nodes()
    inputs = {"x": x, "rois": np.float32([[0, 0, long, long]]), "i": np.array([0])}
    nodes.add("RoiAlign", inputs, coordinate_transformation_mode="output_half_pixel")

    def weights(size: int) -> Any:
        """What each pixel of an axis weighs in the mean of all points."""
        made = np.zeros(size)
        for place in np.arange(long)[: size + 1] + 0.5:
            near = min(place, size - 1) if place <= size else None
            if near is not None:
                low = int(near)
                made[low] += 1 - (near - low)
                made[min(low + 1, size - 1)] += near - low
        return made / long

    exact = np.einsum("nchw,h,w->nc", x, weights(3), weights(4))[..., None, None]
    np.testing.assert_allclose(nodes.run()[0], exact, rtol=1e-5)


def test_as_many_points_as_nobody_can_mean_are_refused() -> None:
    nodes = Nodes()
    nodes.add(
        "RoiAlign",
        {
            "x": np.zeros((1, 1, 4, 4), np.float32),
            "rois": np.float32([[0, 0, 2, 2]]),
            "i": np.array([0]),
        },
        sampling_ratio=1 << 20,
    )
    with pytest.raises(ShapeError, match="at most 4096² points"):
        nodes.run()


def test_regions_of_images_that_are_not_there_are_refused() -> None:
    nodes = Nodes()
    x = np.zeros((2, 1, 4, 4), np.float32)
    nodes.add("RoiAlign", {"x": x, "rois": np.float32([[0, 0, 2, 2]]), "i": np.array([0])})
    nodes.add("MaxRoiPool", {"x": x, "rois": np.float32([[0, 0, 0, 2, 2]])}, pooled_shape=[1, 1])
    session = nodes.session()
    assert len(session.run(None, nodes.feeds)) == 2
    for image in (-1, 2):
        refuses(session, nodes.feeds, n0_i=np.array([image]))
        refuses(session, nodes.feeds, n1_rois=np.float32([[image, 0, 0, 2, 2]]))


def suppression(boxes: Array, scores: Array) -> Nodes:
    """Both formats of boxes."""
    nodes = Nodes()
    inputs = {"boxes": boxes, "scores": scores, "most": np.array([3])}
    limits = {"overlap": np.float32([0.5]), "least": np.float32([0.3])}
    for center in (0, 1):
        nodes.add("NonMaxSuppression", inputs | limits, center_point_box=center)
    nodes.add("NonMaxSuppression", inputs)
    return nodes


def test_suppression_as_onnxruntime(rng: np.random.Generator) -> None:
    changes = []
    for count, classes in ((1, 1), (17, 3), (290, 2), (3000, 2)):
        places, sizes = rng.uniform(0, 100, (1, count, 2)), rng.uniform(0, 20, (1, count, 2))
        pairs = [(places - sizes / 2, places + sizes / 2), (places, sizes)]
        corners, centers = (np.concatenate(pair, axis=-1).astype(np.float32) for pair in pairs)
        scores = rng.uniform(0, 1, (1, classes, count)).astype(np.float32)
        if count == 290:
            scores = np.round(scores, 1)  # equal scores: the first box wins
        for most, overlap, least in itertools.product(
            [0, 3, 10000], [0.0, 0.45, 1.0], [0.0, 0.7, 1.5]
        ):
            change = {f"n{i}_most": np.array([most]) for i in range(3)}
            for i, boxes in enumerate((corners, centers, corners)):
                change |= {f"n{i}_boxes": boxes, f"n{i}_scores": scores}
            for i in range(2):
                change |= {
                    f"n{i}_overlap": np.float32([overlap]),
                    f"n{i}_least": np.float32([least]),
                }
            changes.append(change)
    changes = [c for i, c in enumerate(changes) if i % 2 == 0 or c["n0_boxes"].shape[1] < 1000]
    suppression(corners, scores).check(*changes, tolerance=0)


def test_suppression_of_strange_boxes(rng: np.random.Generator) -> None:
    strange = [np.nan, np.inf, -np.inf, 0.0, -1.0, 3e38]
    boxes = np.array(list(itertools.product(strange, repeat=4)), np.float32)[None]
    scores = rng.uniform(0, 1, (1, 1, boxes.shape[1])).astype(np.float32)
    scores[0, 0, ::7] = np.nan
    nodes = suppression(boxes, scores)
    nodes.feeds |= {f"n{i}_most": np.array([2000]) for i in range(3)}
    for found in nodes.run():
        assert len(set(found[:, 2].tolist())) == len(found)
        kept = scores[0, 0, found[:, 2]]
        numbers = kept[~np.isnan(kept)]
        assert (np.diff(numbers) <= 0).all()
        assert np.isnan(kept[len(numbers) :]).all()


# -- windows ---------------------------------------------------------------------------------------


@torch_only
def test_columns_to_an_image_of_the_run(rng: np.random.Generator) -> None:
    import torch

    nodes, wanted = Nodes(), []
    variants = ({}, {"strides": [2, 1], "pads": [1, 0, 1, 0]}, {"dilations": [1, 2]})
    shapes = (([7, 8], [3, 2]), ([6, 9], [2, 3]))
    for options, (image, block), held in itertools.product(
        variants, shapes, ((), ("i",), ("i", "b"))
    ):
        step, apart = options.get("strides", [1, 1]), options.get("dilations", [1, 1])
        pad = options.get("pads", [0] * 4)[:2]
        counts = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(image, pad, apart, block, step)
        ]
        x = rng.standard_normal((2, 3 * block[0] * block[1], counts[0] * counts[1]), np.float32)
        nodes.add("Col2Im", {"x": x, "i": np.array(image), "b": np.array(block)}, held, **options)
        found = torch.nn.functional.fold(torch.from_numpy(x), image, block, apart, pad, step)
        wanted.append(found.numpy())
    for node, y, exact in zip(nodes.nodes, nodes.run(), wanted, strict=True):
        np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5, err_msg=str(node))


def test_columns_that_do_not_fit_are_refused() -> None:
    nodes = Nodes()
    x = np.zeros((1, 12, 20), np.float32)
    nodes.add("Col2Im", {"x": x, "i": np.array([6, 6]), "b": np.array([2, 3])})
    session = nodes.session()
    assert session.run(None, nodes.feeds)[0].shape == (1, 2, 6, 6)
    for image, block in (([9, 9], [2, 3]), ([2, 2], [3, 3]), ([5, 6], [5, 1]), ([5, 6], [0, 3])):
        refuses(session, nodes.feeds, n0_i=np.array(image), n0_b=np.array(block))


def test_unpooling_undoes_pooling(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 2, 6, 8), np.float32)
    values = x.reshape(1, 2, 3, 2, 4, 2).max(axis=(3, 5))
    places = np.array([int(np.flatnonzero(x == v)[0]) for v in values.reshape(-1)]).reshape(
        values.shape
    )
    nodes = Nodes()
    options = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes.add("MaxUnpool", {"v": values, "p": places}, **options)
    nodes.add("MaxUnpool", {"v": values, "p": places, "shape": np.array([1, 2, 7, 9])}, **options)
    session = nodes.session()
    plain, larger = session.run(None, nodes.feeds)
    assert larger.shape == (1, 2, 7, 9)
    for found in (plain, larger):
        part = found[:, :, :6, :8]
        np.testing.assert_array_equal(part[part != 0], x[part != 0])
        assert np.count_nonzero(found) == values.size
    for place in (-1, x.size, 2**62):
        refuses(session, nodes.feeds, n0_p=np.full(values.shape, place))
    refuses(session, nodes.feeds, n1_shape=np.array([1, 2, 5, 9]))


def deformed(x: Any, w: Any, offset: Any, b: Any, mask: Any, group: int, parts: int) -> Any:
    """Deformed convolution by PyTorch's sampling: strides (2, 1), pads (2, 1), dilations (2, 2)."""
    import torch

    _, _, kh, kw = w.shape
    (n, c, high, wide), (oh, ow) = x.shape, offset.shape[2:]
    moved = offset.reshape(n, parts, kh, kw, 2, oh, ow)
    weights = None if mask is None else mask.reshape(n, parts, kh, kw, 1, oh, ow)
    columns = torch.zeros(n, parts, c // parts, kh, kw, oh, ow)
    for g, i, j in itertools.product(range(parts), range(kh), range(kw)):
        down = torch.arange(oh)[:, None] * 2 - 2 + i * 2 + moved[:, g, i, j, 0]
        across = torch.arange(ow)[None] - 1 + j * 2 + moved[:, g, i, j, 1]
        grid = torch.stack([across / (wide - 1) * 2 - 1, down / (high - 1) * 2 - 1], dim=-1)
        part = x.reshape(n, parts, c // parts, high, wide)[:, g]
        found = torch.nn.functional.grid_sample(part, grid, "bilinear", "zeros", True)
        columns[:, g, :, i, j] = found if weights is None else found * weights[:, g, i, j]
    flat = columns.reshape(n, c * kh * kw, oh, ow)
    return torch.nn.functional.conv2d(flat, w.reshape(len(w), -1, 1, 1), b, groups=group)


@torch_only
def test_deformed_convolution_as_sampling_of_pytorch(rng: np.random.Generator) -> None:
    import torch

    nodes, wanted = Nodes(symbolic=False), []
    shapes, used = ((1, 1), (2, 1), (1, 2), (2, 4)), (("b", "m"), ("m",), ("b",))
    for number, ((group, parts), optional) in enumerate(itertools.product(shapes, used)):
        given: dict[str, Array | None] = {
            "x": rng.standard_normal((2, 8, 9, 7), np.float32),
            "w": rng.standard_normal((6, 8 // group, 3, 2), np.float32),
            "o": rng.uniform(-3, 3, (2, parts * 12, 5, 7)).astype(np.float32),
            "b": rng.standard_normal(6, np.float32) if "b" in optional else None,
            "m": rng.uniform(0, 1, (2, parts * 6, 5, 7)).astype(np.float32)
            if "m" in optional
            else None,
        }
        options = {
            "strides": [2, 1],
            "pads": [2, 1, 2, 1],
            "dilations": [2, 2],
            "group": group,
            "offset_group": parts,
        }
        nodes.add("DeformConv", given, ("w",) if number % 2 else (), **options)
        tensors = [None if v is None else torch.from_numpy(v) for v in given.values()]
        wanted.append(deformed(*tensors, group, parts).numpy())
    for node, found, exact in zip(nodes.nodes, nodes.run(), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4, err_msg=str(node))


# -- image files -----------------------------------------------------------------------------------


def test_image_files_without_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedOperatorError, match="Pillow"):
        ImageDecoder().eval(np.zeros(4, np.uint8))


@pytest.mark.skipif(
    find_spec("PIL") is None, reason="Pillow reads the files: make test installs it"
)
def test_what_is_no_image_file_has_no_pixels() -> None:
    assert ImageDecoder().eval(np.arange(50, dtype=np.uint8)).shape == (0, 0, 3)


@pytest.mark.skipif(
    find_spec("PIL") is None, reason="Pillow reads the files: make test installs it"
)
def test_a_small_file_of_a_huge_image_is_refused() -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    check = struct.pack(">I", zlib.crc32(header))
    file = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + check
    file += struct.pack(">I", 4) + b"IDAT" + bytes(8)
    with pytest.raises(DataError, match="too many pixels"):
        ImageDecoder().eval(np.frombuffer(file, np.uint8))
