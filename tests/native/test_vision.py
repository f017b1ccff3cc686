"""Operators on images, regions and boxes: sizes found at run time, bad indices, strange numbers,
other witnesses.

Many nodes share a model, for compiling takes the time.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import infuse
from infuse.errors import RuntimeFailure, ShapeError, UnsupportedOperatorError
from infuse.ops.vision import ImageDecoder

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
Array = Any
Inputs = Mapping[str, Array | None]
torch_only = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is the witness: make test installs it"
)


@dataclass
class Nodes:
    """A model of nodes that do not depend on each other; what is not held is fed, its sizes symbols
    or numbers.
    """

    symbolic: bool = True
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    held: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        inputs: Inputs,
        held: tuple[str, ...] = (),
        outputs: int = 1,
        **attributes: Any,
    ) -> int:
        """Append a node; the number of its first output."""
        prefix, first = f"n{len(self.nodes)}_", len(self.outputs)
        for name, x in inputs.items():
            if x is None:
                continue
            if name in held:
                self.held.append(numpy_helper.from_array(np.asarray(x), prefix + name))
                continue
            shape = (
                [f"{prefix}{name}{i}" for i in range(x.ndim)]
                if self.symbolic and x.ndim > 1
                else x.shape
            )
            dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
            self.inputs.append(helper.make_tensor_value_info(prefix + name, dtype, shape))
            self.feeds[prefix + name] = x
        names = ["" if x is None else prefix + n for n, x in inputs.items()]
        self.outputs += [f"{prefix}y{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, self.outputs[first:], **attributes))
        return first

    def model(self) -> bytes:
        results = [onnx.ValueInfoProto(name=n) for n in self.outputs]
        graph = helper.make_graph(self.nodes, "nodes", self.inputs, results, self.held)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made).SerializeToString()

    def session(self) -> infuse.InferenceSession:
        """A session that leaves nothing to the interpreter."""
        found = infuse.InferenceSession(self.model())
        assert not found.host_steps
        return found

    def run(self) -> list[Array]:
        return self.session().run(None, self.feeds)

    def onnxruntime(self) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(self.model(), providers=["CPUExecutionProvider"])

    def check(self, *changes: Mapping[str, Array], tolerance: float = 1e-4) -> None:
        """ONNX Runtime gives the same, for the feeds and for those with some changed."""
        ours, theirs = self.session(), self.onnxruntime()
        for change in changes or ({},):
            feeds = {**self.feeds, **change}
            for node, found, wanted in zip(
                self.outputs, ours.run(None, feeds), theirs.run(None, feeds), strict=True
            ):
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(
                    found, wanted, rtol=tolerance, atol=tolerance, err_msg=node
                )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def refuses(session: infuse.InferenceSession, feeds: Mapping[str, Array], **changes: Array) -> None:
    with pytest.raises(RuntimeFailure):
        session.run(None, {**feeds, **changes})


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
        shapes, ("linear", "nearest"), ("zeros", "border", "reflection"), (0, 1)
    )
    for (shape, places), mode, padding, align in choices:
        x, grid = (
            rng.standard_normal(shape, np.float32),
            rng.uniform(-2.5, 2.5, places).astype(np.float32),
        )
        nodes.add(
            "GridSample", {"x": x, "g": grid}, mode=mode, padding_mode=padding, align_corners=align
        )
        name = "bilinear" if mode == "linear" else mode
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
