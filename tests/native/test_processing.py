"""Building blocks compiled: graphs of symbolic sizes beside the interpreter, none of whose nodes is
left to it.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

import infuse
import infuse.processing as p
from infuse.errors import DataError
from infuse.ops.core.evaluate import evaluate
from tests.pure.block_runs import boxes, picture, scores, traced

pytestmark = pytest.mark.row("C10")

IMAGE = {"image": ("height", "width", 3)}
IMAGES = [{"image": picture(*size)} for size in ((48, 64), (33, 101), (1, 1), (2, 300), (90, 61))]
ANY = {"boxes": ("n", 4), "scores": ("n", 3)}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def compiled(
    function: Callable[..., Any], sizes: Mapping[str, Sequence[Any]], feeds: Sequence[Any]
) -> tuple[infuse.Graph, Any]:
    graph = traced(function, sizes, feeds[0])
    return graph, infuse.compile(infuse.optimize(graph))


def check(
    function: Callable[..., Any],
    sizes: Mapping[str, Sequence[Any]],
    feeds: Sequence[Mapping[str, Any]],
    atol: float = 1e-5,
    steps: Sequence[str] = (),
) -> None:
    """The compiled graph gives what the interpreter gives, also for sizes fixed to the first
    feed's; bytes may be rounded the other way.
    """
    graph, model = compiled(function, sizes, feeds)
    assert [step.split()[0] for step in model.host_steps] == list(steps)
    runs = [(graph, model, feed) for feed in feeds]
    if sizes:
        runs.append((*compiled(function, {}, feeds), feeds[0]))
    for source, program, feed in runs:
        expected, results = evaluate(source, feed), program.run(feed)
        for name, right in expected.items():
            result = results[name]
            assert (result.shape, result.dtype) == (right.shape, right.dtype)
            if result.dtype == np.uint8:
                difference = np.abs(result.astype(int) - right)
                assert difference.max(initial=0) <= 1
                assert (difference > 0).sum() <= 0.01 * difference.size + 1
            else:
                np.testing.assert_allclose(result, right, rtol=1e-5, atol=atol)


# -- images ----------------------------------------------------------------------------------------

PREPARED: list[dict[str, Any]] = [
    {"size": 32, "mean": MEAN, "std": STD},
    {"size": (24, 33), "shortest": 41, "colour": "bgr", "scale": 1.0, "mean": 100.0},
    {"size": (33, 24), "resize": "stretch", "interpolation": "bicubic", "colour": "gray"},
    {"size": (24, 33), "resize": "letterbox", "fill": 77, "layout": "NHWC"},
    {"size": 17, "interpolation": "nearest", "dtype": "uint8"},
    {"size": 17, "interpolation": "lanczos", "dtype": "float16"},
    {"size": 40, "interpolation": "box"},
    {"size": 40, "interpolation": "hamming", "dtype": "uint8"},
    {"mean": MEAN},
]


@pytest.mark.parametrize("options", PREPARED, ids=str)
def test_images_are_prepared(options: dict[str, Any]) -> None:
    # A value that is rounded the other way is one of 255.
    level = 1.01 * options.get("scale", 1 / 255) / np.min(options.get("std", 1.0))
    check(lambda image: p.prepare_image(image, **options), IMAGE, IMAGES, atol=level)


@pytest.mark.parametrize("options", [{}, {"align": "corner", "enlarge": False, "antialias": True}])
def test_letterboxes(options: dict[str, Any]) -> None:
    check(lambda image: p.letterbox(image, (64, 48), **options), IMAGE, IMAGES)


def test_images_in_other_sizes() -> None:
    def program(image: Any) -> Any:
        floats = p.normalize(image)
        return (
            p.resize(image, shortest=20, longest=31),
            p.resize(floats, longest=30, antialias=False, interpolation="bicubic"),
            p.resize(p.to_planes(floats), (9, 7), layout="CHW"),
            p.placement_of(image, p.resize(image, (image.shape[1], 5), interpolation="nearest")),
        )

    check(program, IMAGE, IMAGES)


def test_parts_and_borders() -> None:
    def program(image: Any) -> Any:
        return (
            p.crop(image, 0, 0, 1, 1),
            p.center_crop(image, (20, 70), fill=5),
            p.pad_to_multiple(image, 32),
            p.pad(image, top=1, right=2, mode="edge"),
            p.flip(image, "both"),
        )

    check(program, IMAGE, IMAGES)
    _, model = compiled(lambda image: p.crop(image, 0, 0, 5, 5), IMAGE, IMAGES)
    # Sizes are checked before the program's own conditions.
    with pytest.raises(DataError, match="needs 75"):
        model.run(IMAGES[3])


def test_colours() -> None:
    def program(image: Any) -> Any:
        x = p.normalize(image)
        hsv, lab, yuv = p.rgb_to_hsv(x), p.rgb_to_lab(x), p.rgb_to_yuv(x)
        return (
            *(p.rgb_to_gray(image), p.rgb_to_ycbcr(image), p.ycbcr_to_rgb(image)),
            *(hsv, p.hsv_to_rgb(hsv), p.lab_to_rgb(lab), yuv, p.yuv_to_rgb(yuv)),
            p.bgr_to_rgb(image),
            lab / 100,
        )

    check(program, IMAGE, IMAGES)


def test_frames_of_cameras() -> None:
    frames = [{"frame": picture(*size, 1)[..., 0]} for size in ((12, 6), (3, 2), (48, 50))]

    def program(frame: Any) -> Any:
        return p.nv12_to_rgb(frame), p.i420_to_rgb(frame, standard="bt709", full_range=True)

    check(program, {"frame": ("rows", "columns")}, frames)


def test_files() -> None:
    def program(file: Any) -> Any:
        return p.prepare_image(p.decode_image(file), 24)

    feeds = []
    for format, size in (("PNG", (30, 41)), ("JPEG", (50, 20))):
        file = io.BytesIO()
        Image.fromarray(picture(*size)).save(file, format)
        feeds.append({"file": np.frombuffer(file.getvalue(), np.uint8)})
    check(program, {"file": ("bytes",)}, feeds, atol=0.004, steps=["ImageDecoder"])
    _, model = compiled(program, {"file": ("bytes",)}, feeds)
    with pytest.raises(DataError, match="not an image that can be decoded"):
        model.run({"file": np.arange(50, dtype=np.uint8)})


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest", "box"])
def test_images_without_pixels_are_refused(interpolation: str) -> None:
    def program(image: Any) -> Any:
        return p.prepare_image(image, 8, interpolation=interpolation)

    _, model = compiled(program, IMAGE, IMAGES)
    with pytest.raises(DataError):
        model.run({"image": np.zeros((0, 0, 3), np.uint8)})
    with pytest.raises(DataError):
        model.run({"image": np.zeros((4, 0, 3), np.uint8)})


# -- boxes -----------------------------------------------------------------------------------------


def _strange() -> Any:
    x = boxes(9)
    x[3], x[4, 2], x[5], x[6] = np.nan, np.inf, [5, 5, 5, 5], [9, 9, 2, 2]
    return x


def _lost() -> Any:
    values = scores(9, 3)
    values[::2, 1], values[1] = np.nan, np.nan
    return values


BOXES = [
    {"boxes": x, "scores": values}
    for x, values in (
        (boxes(60), scores(60, 3)),
        (boxes(0), scores(0, 3)),
        (boxes(1), scores(1, 3)),
        (np.tile(boxes(1), (8, 1)), scores(8, 3)),
        (np.tile(boxes(1), (8, 1)), np.full((8, 3), 0.5, np.float32)),
        (_strange(), scores(9, 3)),
        (boxes(9), _lost()),
        (boxes(4), np.full((4, 3), np.nan, np.float32)),
    )
]


@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize("best", [True, False])
def test_detections(by_class: bool, best: bool) -> None:
    check(
        lambda boxes, scores: p.detections(
            boxes, scores, iou=0.3, score=0.2, count=7, by_class=by_class, best_class=best
        ),
        ANY,
        BOXES,
    )


def test_detections_of_every_class() -> None:
    feeds = [{**f, "boxes": f["boxes"][:, None] + np.float32([[0], [7], [1]])} for f in BOXES]
    check(
        lambda boxes, scores: p.detections(boxes, scores, iou=0.3, score=0.2),
        {"boxes": ("n", 3, 4), "scores": ("n", 3)},
        feeds,
    )


def test_suppression() -> None:
    def program(boxes: Any, scores: Any) -> Any:
        xp = boxes.__array_namespace__()
        kinds = xp.astype(xp.where(scores[:, 1] > 0.5, 1.0, -7.0), xp.int64)
        return (
            p.nms(boxes, scores[:, 0]),
            p.nms(boxes, scores[:, 0], 0.2, score=0.4, count=3),
            p.batched_nms(boxes, scores[:, 0], kinds),
        )

    check(program, ANY, BOXES)


def test_overlaps_and_formats() -> None:
    def program(a: Any, b: Any) -> Any:
        overlaps = (
            p.box_iou(a, b),
            p.generalized_box_iou(a, b),
            p.distance_box_iou(a, b),
            p.complete_box_iou(a, b),
        )
        placement = np.float32([0.5, 0.25, 3, -2])
        return (
            *overlaps,
            p.box_area(a),
            *(p.convert_boxes(a, s, "xyxy") for s in ("xywh", "cxcywh")),
            *(p.convert_boxes(a, "xyxy", t) for t in ("xywh", "cxcywh")),
            p.scale_boxes(a, placement, (50, 60)),
        )

    feeds = [{"a": boxes(n), "b": boxes(m, seed=1)} for n, m in ((7, 5), (0, 3), (70, 1))]
    check(program, {"a": ("n", 4), "b": ("m", 4)}, feeds, atol=1e-4)


def _maps(channels: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(channels)
    shapes = ((4, 5), (1, 1), (3, 40), (0, 2))
    return [{"raw": rng.normal(size=(channels, *shape)).astype(np.float32)} for shape in shapes]


DECODERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "YOLOv3": (16, lambda raw: p.decode_yolo_anchors(raw, [[10, 13], [16, 30]], 8, version=3)),
    "YOLOv5": (16, lambda raw: p.decode_yolo_anchors(raw, [[10, 13], [16, 30]], 8)),
    "YOLOv8": (67, lambda raw: p.decode_yolo_distances(raw, 8)),
    "Faster R-CNN": (12, lambda raw: _deltas(raw, p.grid_anchors, 8, (16, 32, 50))),
    "SSD": (16, lambda raw: _deltas(raw, p.prior_boxes, 0.2, 0.5, image=(90, 120))),
    "FCOS": (4, lambda raw: _distances(raw)),
}


def _deltas(raw: Any, anchors: Any, *arguments: Any, **options: Any) -> Any:
    xp = raw.__array_namespace__()
    start = anchors(raw.shape[1], raw.shape[2], *arguments, **options)
    deltas = xp.reshape(xp.permute_dims(raw, (1, 2, 0)), (raw.shape[1] * raw.shape[2], -1, 4))
    flat = xp.reshape(deltas, start.shape)
    return p.decode_deltas(flat, start, weights=(10, 10, 5, 5))


def _distances(raw: Any) -> Any:
    xp = raw.__array_namespace__()
    points = p.grid_points(raw.shape[1], raw.shape[2], 8)
    far = xp.reshape(xp.permute_dims(raw, (1, 2, 0)), (points.shape[0], 4))
    return p.decode_distances(xp.exp(far), points, 8)


@pytest.mark.parametrize("name", DECODERS)
def test_decoders(name: str) -> None:
    channels, function = DECODERS[name]
    # SSD divides by rows and columns, and -1 does not tell how many of no deltas there are.
    feeds = _maps(channels)[: 3 if name in ("SSD", "Faster R-CNN") else 4]
    check(function, {"raw": (channels, "rows", "columns")}, feeds, atol=1e-3)


def test_from_pixels_to_boxes_around_a_network() -> None:
    def network(x: Any) -> Any:
        xp = x.__array_namespace__()
        pooled = xp.mean(xp.reshape(x[0], (3, 8, 8, 8, 8)), axis=(2, 4))
        weights = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
        return xp.tensordot(xp.asarray(weights), pooled, axes=1)

    model = infuse.trace(network, {"x": infuse.Spec("float32", (1, 3, 64, 64))})

    def before(image: Any) -> Any:
        pixels, placement = p.prepare_image(image, 64, resize="letterbox", mean=MEAN, std=STD)
        return {"x": pixels, "placement": placement}

    def after(raw: Any, placement: Any, image: Any) -> Any:
        raw_boxes, values = p.decode_yolo_anchors(raw, [[20, 20], [40, 9]], 8)
        places, best, kinds = p.detections(raw_boxes, values, score=0.2)
        return p.scale_boxes(places, placement, image.shape[:2]), best, kinds

    specs = {"image": infuse.Spec("uint8", IMAGE["image"])}
    graph = p.attach(model, before=before, specs=specs, after=after)
    program = infuse.compile(infuse.optimize(graph))
    assert not program.host_steps
    for feed in IMAGES:
        expected, results = evaluate(graph, feed), program.run(feed)
        assert len(expected["output_1"]) > 0
        for name, right in expected.items():
            np.testing.assert_allclose(results[name], right, rtol=1e-3, atol=0.05)
