"""Resizing and sampling of images: sizes found at run time, strange numbers, other witnesses."""

import itertools

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.native.vision_nodes import Nodes, refuses, rng, torch_only

__all__ = ["rng"]


# -- resizing --------------------------------------------------------------------------------------


def test_resize_by_sizes_and_scales_of_the_run(rng: np.random.Generator) -> None:
    nodes = Nodes()
    x = rng.standard_normal((1, 3, 11, 14), np.float32)
    for mode in ("nearest", "linear", "cubic"):
        nodes.add(
            "Resize",
            {"x": x, "roi": None, "scales": None, "sizes": np.array([1, 3, 22, 28])},
            mode=mode,
        )
        nodes.add("Resize", {"x": x, "roi": None, "scales": np.float32([1, 1, 2, 2])}, mode=mode)
    sizes = {n: np.array([1, 3, 5, 20]) for n in nodes.feeds if n.endswith("sizes")}
    scales = {n: np.float32([1, 1, 0.6, 1.5]) for n in nodes.feeds if n.endswith("scales")}
    nodes.check({}, sizes | scales)


def test_resize_that_keeps_the_aspect_ratio_of_any_image(rng: np.random.Generator) -> None:
    nodes = Nodes()
    inputs = {
        "x": np.zeros((1, 1, 2, 2), np.float32),
        "roi": None,
        "scales": None,
        "sizes": np.array([6, 7]),
    }
    for policy in ("not_larger", "not_smaller"):
        nodes.add("Resize", inputs, axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear")
    changes = []
    for shape, sizes in itertools.product(
        [(2, 3, 5, 9), (1, 1, 30, 4), (1, 2, 7, 7)], [(6, 7), (20, 9)]
    ):
        given = {"x": rng.standard_normal(shape, np.float32), "sizes": np.array(sizes)}
        changes.append({f"n{i}_{n}": v for i in range(2) for n, v in given.items()})
    nodes.check(*changes)


def test_resize_of_a_region_of_the_run(rng: np.random.Generator) -> None:
    nodes = Nodes()
    roi = np.float32([0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9])
    x = rng.standard_normal((1, 2, 8, 9), np.float32)
    inputs = {"x": x, "roi": roi, "scales": None, "sizes": np.array([1, 2, 5, 6])}
    coordinates = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 3.5,
    }
    nodes.add("Resize", inputs, ("sizes",), mode="linear", **coordinates)
    nodes.check({}, {"n0_roi": np.float32([0, 0, -0.5, 0.5, 1, 1, 1.5, 1.2])})


def test_resize_of_volumes(rng: np.random.Generator) -> None:
    nodes = Nodes()
    volume, scales = (
        rng.standard_normal((1, 2, 4, 5, 6), np.float32),
        np.float32([1, 1, 1.5, 2, 0.5]),
    )
    for mode in ("nearest", "linear"):
        nodes.add("Resize", {"x": volume, "roi": None, "scales": scales}, ("scales",), mode=mode)
    nodes.check()


def test_resize_of_bytes(rng: np.random.Generator) -> None:
    nodes = Nodes()
    pixels = rng.integers(0, 256, (1, 6, 8, 3)).astype(np.uint8)
    inputs = {"x": pixels, "roi": None, "scales": None, "sizes": np.array([1, 12, 16, 3])}
    for mode in ("nearest", "linear"):
        nodes.add("Resize", inputs, ("sizes",), mode=mode)
    near, between = zip(nodes.run(), nodes.onnxruntime().run(None, nodes.feeds), strict=True)
    np.testing.assert_array_equal(*near)
    # ONNX Runtime computes numbers between pixels in fixed point.
    assert np.abs(between[0].astype(int) - between[1]).max() <= 1


@torch_only
def test_resize_as_pytorch(rng: np.random.Generator) -> None:
    import torch

    nodes, wanted = Nodes(symbolic=False), []
    modes = [("bilinear", False), ("bicubic", False), ("bilinear", True), ("bicubic", True)]
    for (mode, antialias), channels, size in itertools.product(
        modes, (3, 40), [(40, 60), (10, 15), (33, 7)]
    ):
        x = rng.standard_normal((2, channels, 20, 30), np.float32)
        nodes.add(
            "Resize",
            {"x": x, "roi": None, "scales": None, "sizes": np.array([2, channels, *size])},
            ("sizes",),
            mode={"bilinear": "linear", "bicubic": "cubic"}[mode],
            coordinate_transformation_mode="pytorch_half_pixel",
            cubic_coeff_a=-0.5 if antialias else -0.75,
            antialias=int(antialias),
            exclude_outside=int(antialias),
        )
        result = torch.nn.functional.interpolate(
            torch.from_numpy(x), size, mode=mode, antialias=antialias
        )
        wanted.append(result.numpy())
    for node, found, exact in zip(nodes.nodes, nodes.run(), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=5e-5, err_msg=str(node))


@pytest.mark.parametrize("align", [True, False])
def test_resize_by_scales_that_leave_a_rest(rng: np.random.Generator, align: bool) -> None:
    """Corners are those of the whole size after, which no scale times the size before gives."""
    nodes = Nodes(symbolic=False)
    scales = [(1.5, 1.5), (2.3, 1.9), (0.7, 0.6), (0.5, 1.2)]
    shapes = [(1, 1, 3, 3), (1, 2, 5, 7), (1, 20, 4, 5)]
    coordinates = "align_corners" if align else "tf_crop_and_resize"
    roi = None if align else np.float32([0, 0, 0.1, 0.2, 1, 1, 0.83, 1.07])
    given = {"x": np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)}
    nodes.add(
        "Resize",
        {**given, "roi": None, "scales": np.float32([1, 1, 1.5, 1.5])},
        ("scales",),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    modes = ("nearest", "linear", "cubic") if align else ("linear", "cubic")
    for factors, shape, mode in itertools.product(scales, shapes, modes):
        x = rng.standard_normal(shape, np.float32)
        nodes.add(
            "Resize",
            {"x": x, "roi": roi, "scales": np.float32([1, 1, *factors])},
            ("scales", "roi"),
            mode=mode,
            coordinate_transformation_mode=coordinates,
            extrapolation_value=2.5,
        )
    graph = infuse.load(nodes.model())
    exact = nodes.onnxruntime().run(None, nodes.feeds)
    interpreted = evaluate(graph, nodes.feeds).values()
    for node, *found, right in zip(nodes.nodes, nodes.run(), interpreted, exact, strict=True):
        for y in found:
            np.testing.assert_allclose(y, right, rtol=1e-4, atol=2e-5, err_msg=str(node))
    assert exact[0][0, 0, -1, -1] == 9.0


def test_impossible_sizes_and_scales_are_refused() -> None:
    nodes = Nodes()
    x = np.zeros((1, 1, 2, 2), np.float32)
    nodes.add("Resize", {"x": x, "roi": None, "scales": np.float32([1, 1, 2, 2])})
    nodes.add("Resize", {"x": x, "roi": None, "scales": None, "sizes": np.array([1, 1, 2, 2])})
    session = nodes.session()
    for scale in (-1, 0, np.nan, np.inf, 1e30):
        refuses(session, nodes.feeds, n0_scales=np.float32([1, 1, scale, 1]))
    refuses(session, nodes.feeds, n1_sizes=np.array([1, 1, -2, 2]))
    refuses(session, nodes.feeds, n1_sizes=np.array([1, 1, 2**62, 2]))


# -- sampling --------------------------------------------------------------------------------------


@torch_only
def test_grid_sample_as_pytorch(rng: np.random.Generator) -> None:
    import torch

    nodes, wanted = Nodes(), []
    shapes = [((2, 20, 7, 9), (2, 5, 6, 2)), ((2, 3, 4, 5, 6), (2, 3, 4, 5, 3))]
    choices = itertools.product(
        shapes, ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
    )
    for (shape, places), mode, padding, align in choices:
        if mode == "cubic" and len(shape) > 4:  # torch has none
            continue
        x, grid = (
            rng.standard_normal(shape, np.float32),
            rng.uniform(-2.5, 2.5, places).astype(np.float32),
        )
        nodes.add(
            "GridSample", {"x": x, "g": grid}, mode=mode, padding_mode=padding, align_corners=align
        )
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        result = torch.nn.functional.grid_sample(
            *map(torch.from_numpy, (x, grid)), name, padding, bool(align)
        )
        wanted.append(result.numpy())
    for node, found, exact in zip(nodes.nodes, nodes.run(), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4, err_msg=str(node))


def test_places_that_are_no_numbers_read_nothing_else(rng: np.random.Generator) -> None:
    nodes = Nodes()
    x = rng.standard_normal((1, 2, 3, 3), np.float32)
    strange = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9]
    grid = np.array(list(itertools.product(strange, strange)), np.float32)[None, None]
    paddings = ("zeros", "border", "reflection")
    for padding, mode in itertools.product(paddings, ("linear", "nearest", "cubic")):
        nodes.add("GridSample", {"x": x, "g": grid}, mode=mode, padding_mode=padding)
    found = nodes.run()
    assert not any(y.any() for y in found[:3])
    assert max(np.abs(y).max() for y in found) <= 3 * np.abs(x).max()


@torch_only
@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid")
def test_affine_grid_of_a_size_of_the_run(rng: np.random.Generator) -> None:
    import torch

    nodes, wanted = Nodes(), []
    sizes = [(2, 3, 5, 6), (2, 1, 3, 4, 5), (2, 3, 1, 4)]
    for size, align, held in itertools.product(sizes, (0, 1), ((), ("size",))):
        rank = len(size) - 2
        theta = rng.standard_normal((2, rank, rank + 1), np.float32)
        nodes.add("AffineGrid", {"theta": theta, "size": np.array(size)}, held, align_corners=align)
        grid = torch.nn.functional.affine_grid(
            torch.from_numpy(theta), list(size), align_corners=bool(align)
        )
        wanted.append(grid.numpy())
    for node, found, exact in zip(nodes.nodes, nodes.run(), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5, err_msg=str(node))
