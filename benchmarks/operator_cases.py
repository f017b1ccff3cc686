"""Small models of one operator each, hot ones of the long tail, with an input for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

OPSET = 18
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One operator on inputs of one shape."""

    operator: str
    label: str
    model: ModelProto
    feeds: Mapping[str, Array]


def case(
    operator: str,
    label: str,
    inputs: Sequence[tuple[str, Array] | None],
    *,
    outputs: int = 1,
    constants: Mapping[str, Array] | None = None,
    **attributes: Any,
) -> Case:
    """A model of one node: `inputs` in its order, those that `constants` names being weights, None
    absent.
    """
    constants = constants or {}
    given = dict(entry for entry in inputs if entry is not None)
    feeds = {name: x for name, x in given.items() if name not in constants}
    node = helper.make_node(
        operator,
        ["" if e is None else e[0] for e in inputs],
        [f"y{i}" for i in range(outputs)],
        **attributes,
    )
    typed = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for k, x in feeds.items()
    ]
    graph = helper.make_graph(
        [node],
        operator,
        typed,
        [ValueInfoProto(name=name) for name in node.output],
        [numpy_helper.from_array(x, k) for k, x in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return Case(operator, label, model, feeds)


def floats(*shape: int, seed: int = 0) -> Array:
    """Random numbers between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def places(high: int, *shape: int) -> Array:
    """Random indices below `high`."""
    return np.random.default_rng(1).integers(0, high, shape)


def int64(*values: int) -> Array:
    """A list of sizes or axes."""
    return np.array(values, np.int64)


# -- the operators ---------------------------------------------------------------------------------


def resize() -> Iterator[Case]:
    """Images made larger and smaller."""
    for shape, scale, attributes in (
        (
            (1, 256, 20, 20),
            2.0,
            {
                "mode": "nearest",
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            },
        ),
        ((1, 64, 64, 64), 2.0, {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
        (
            (1, 21, 65, 65),
            8.0,
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        ),
        ((1, 3, 480, 640), 0.5, {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
        ((1, 3, 224, 224), 2.0, {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}),
        ((1, 3, 448, 448), 0.5, {"mode": "linear", "antialias": 1}),
    ):
        scales = np.array([1, 1, scale, scale], np.float32)
        smooth = ", antialias" if "antialias" in attributes else ""
        label = f"{'×'.join(map(str, shape))} by {scale:g}, {attributes['mode']}{smooth}"
        inputs = [("x", floats(*shape)), None, ("scales", scales)]
        yield case("Resize", label, inputs, constants={"scales": scales}, **attributes)


def top_k() -> Iterator[Case]:
    """The largest of many: classes, tokens, boxes, router logits."""
    for shape, k in (
        ((1, 1000), 5),
        ((1, 50257), 50),
        ((8, 32000), 1),
        ((25200,), 300),
        ((64, 1000), 10),
        ((512, 64), 4),
    ):
        x = ("x", floats(*shape))
        yield case(
            "TopK",
            f"{k} of {'×'.join(map(str, shape))}",
            [x, ("k", int64(k))],
            outputs=2,
            constants={"k": int64(k)},
        )


def gather() -> Iterator[Case]:
    """Embeddings, columns, single elements, points."""
    table = floats(30522, 384)
    yield case(
        "Gather",
        "8×128 rows of 30522×384",
        [("x", table), ("i", places(30522, 8, 128))],
        constants={"x": table},
    )
    yield case(
        "Gather",
        "64 columns of 512×1024",
        [("x", floats(512, 1024)), ("i", places(1024, 64))],
        axis=1,
    )
    yield case(
        "Gather",
        "16 of axis 1 of 8×64×256",
        [("x", floats(8, 64, 256)), ("i", places(64, 16))],
        axis=1,
    )
    x = ("x", floats(512, 1024))
    yield case(
        "GatherElements", "512×256 of 512×1024, axis 1", [x, ("i", places(1024, 512, 256))], axis=1
    )
    yield case(
        "GatherElements", "256×1024 of 512×1024, axis 0", [x, ("i", places(512, 256, 1024))], axis=0
    )
    yield case(
        "GatherND", "1000 rows of 64×64×32", [("x", floats(64, 64, 32)), ("i", places(64, 1000, 2))]
    )


def scatter() -> Iterator[Case]:
    """Updates of rows, of elements, sums by index."""
    x, rows = (
        ("x", floats(1024, 256)),
        np.random.default_rng(2).permutation(1024)[:128].reshape(-1, 1),
    )
    yield case("ScatterND", "128 rows of 1024×256", [x, ("i", rows), ("u", floats(128, 256))])
    yield case(
        "ScatterND",
        "128 rows added to 1024×256",
        [x, ("i", rows), ("u", floats(128, 256))],
        reduction="add",
    )
    points = np.stack(
        np.divmod(np.random.default_rng(3).permutation(1024 * 256)[:20000], 256), axis=1
    )
    yield case("ScatterND", "20000 elements of 1024×256", [x, ("i", points), ("u", floats(20000))])
    indices = np.argsort(floats(256, 256, seed=4), axis=1)
    big = ("x", floats(256, 1024))
    yield case(
        "ScatterElements",
        "256×256 into 256×1024, axis 1",
        [big, ("i", indices), ("u", floats(256, 256))],
        axis=1,
    )
    more = [x, ("i", places(1024, 2048, 256)), ("u", floats(2048, 256))]
    yield case(
        "ScatterElements", "2048×256 added to 1024×256, axis 0", more, axis=0, reduction="add"
    )


def recurrent() -> Iterator[Case]:
    """Layers of networks for text and speech."""
    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        for time, batch, size, hidden, both in (
            (100, 1, 256, 256, 0),
            (50, 16, 512, 512, 0),
            (64, 8, 128, 128, 1),
        ):
            sizes = {"W": (1 + both, gates * hidden, size), "R": (1 + both, gates * hidden, hidden)}
            sizes["B"] = (1 + both, 2 * gates * hidden)  # type: ignore[assignment]
            weights = {name: floats(*shape) / 10 for name, shape in sizes.items()}
            direction = "bidirectional" if both else "forward"
            inputs = [("X", floats(time, batch, size)), *weights.items()]
            label = f"length {time}, batch {batch}, {size} → {hidden}, {direction}"
            yield case(
                kind,
                label,
                inputs,
                outputs=2,
                constants=weights,
                direction=direction,
                hidden_size=hidden,
            )


def suppression() -> Iterator[Case]:
    """Boxes of detectors."""
    for count, classes, batch in ((1000, 1, 1), (8400, 1, 1), (1917, 20, 1), (300, 80, 2)):
        rng = np.random.default_rng(5)
        corner = rng.uniform(0, 500, (batch, count, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(5, 80, corner.shape)], axis=-1).astype(
            np.float32
        )
        scores = rng.uniform(0, 1, (batch, classes, count)).astype(np.float32)
        limits = {
            "most": int64(100),
            "overlap": np.array([0.5], np.float32),
            "least": np.array([0.3], np.float32),
        }
        inputs = [("boxes", boxes), ("scores", scores), *limits.items()]
        yield case("NonMaxSuppression", f"{batch}×{classes}×{count}", inputs, constants=limits)


def einsum() -> Iterator[Case]:
    """Attention scores, projections, bilinear forms."""
    for equation, *shapes in (
        ("bhid,bhjd->bhij", (1, 12, 128, 64), (1, 12, 128, 64)),
        ("bhij,bhjd->bhid", (1, 12, 128, 128), (1, 12, 128, 64)),
        ("bld,df->blf", (2, 128, 256), (256, 512)),
        ("bhwc,hkc->bhwk", (2, 14, 14, 64), (14, 14, 64)),
        ("nctv,vw->nctw", (2, 64, 50, 25), (25, 25)),
        ("bi,bj->bij", (32, 128), (32, 128)),
    ):
        inputs = [(f"x{i}", floats(*shape)) for i, shape in enumerate(shapes)]
        yield case(
            "Einsum",
            f"{equation} {' '.join('×'.join(map(str, s)) for s in shapes)}",
            inputs,
            equation=equation,
        )


def cumsum() -> Iterator[Case]:
    """Running sums along every axis."""
    for shape, axis, attributes in (
        ((8, 512), 1, {}),
        ((64, 4096), 1, {}),
        ((64, 512, 16), 1, {}),
        ((256, 1024), 0, {}),
        ((64, 4096), 1, {"exclusive": 1, "reverse": 1}),
    ):
        axes = np.array(axis, np.int64)
        label = (
            f"{'×'.join(map(str, shape))}, axis "
            f"{axis}{', exclusive, reverse' if attributes else ''}"
        )
        yield case(
            "CumSum",
            label,
            [("x", floats(*shape)), ("axis", axes)],
            constants={"axis": axes},
            **attributes,
        )


def reductions() -> Iterator[Case]:
    """Reductions of rows, columns, planes and everything."""
    for kind, shape, axes in (
        ("ReduceMean", (8, 197, 768), (2,)),
        ("ReduceMean", (8, 197, 768), (1,)),
        ("ReduceMean", (1, 256, 56, 56), (2, 3)),
        ("ReduceSum", (512, 1024), (0,)),
        ("ReduceSum", (512, 1024), (0, 1)),
        ("ReduceMax", (64, 1000), (1,)),
        ("ReduceMax", (16, 21, 64, 64), (1,)),
        ("ReduceMin", (512, 1024), (1,)),
        ("ReduceProd", (1024, 64), (1,)),
        ("ReduceL2", (128, 768), (1,)),
        ("ReduceSumSquare", (8, 64, 1024), (0, 2)),
        ("ReduceLogSumExp", (64, 1000), (1,)),
    ):
        constants = {"axes": int64(*axes)}
        inputs = [("x", floats(*shape) + np.float32(1.5)), *constants.items()]
        label = f"{'×'.join(map(str, shape))}, axes {', '.join(map(str, axes))}"
        yield case(kind, label, inputs, constants=constants, keepdims=0)


GROUPS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "Resize": resize,
    "TopK": top_k,
    "Gather": gather,
    "Scatter": scatter,
    "LSTM": recurrent,
    "NMS": suppression,
    "Einsum": einsum,
    "CumSum": cumsum,
    "Reduce": reductions,
}
"""The cases by family."""
