"""Old operator forms: every opset means what it meant, against ONNX Runtime and the models that
ONNX ships.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.onnx import adapters, legacy, load
from infuse.frontends.onnx.forms import LIFTS, Form, adapt
from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.opaque import Opaque
from tests.models.onnx_tools import assert_close, model, run

NEWEST = defs.onnx_opset_version()
RUNTIME_NEWEST = 26
pytestmark = pytest.mark.row("C1")
node = helper.make_node


def outputs(graph: Graph, feeds: dict[str, Any]) -> list[Any]:
    verify(graph)
    return list(evaluate(graph, feeds).values())


X = np.linspace(-3, 3, 48, dtype=np.float32).reshape(2, 4, 2, 3)
TENSORFLOW = "tf_half_pixel_for_nn"
SLOPES = {"slope": np.float32([[[0.1]], [[0.2]], [[0.3]], [[0.4]]])}
INTS = {
    name: np.array(v, np.int64)
    for name, v in {"one": [1], "shape": [2, 24], "pads": [0, 1, 1, 2]}.items()
}

# name: (first opset, last opset, nodes from x to y, constants)
OLD_FORMS: dict[str, tuple[int, int, list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "squeeze": (
        7,
        12,
        [node("ReduceMax", ["x"], ["s"], axes=[0]), node("Squeeze", ["s"], ["y"], axes=[0])],
        {},
    ),
    "unsqueeze": (7, 12, [node("Unsqueeze", ["x"], ["y"], axes=[0, 3])], {}),
    "reduce_sum": (7, 12, [node("ReduceSum", ["x"], ["y"], axes=[1, -1], keepdims=0)], {}),
    "reduce_sum_all": (7, 12, [node("ReduceSum", ["x"], ["y"])], {}),
    **{
        f"reduce_{kind}": (7, 17, [node(f"Reduce{kind}", ["p"], ["y"], axes=[2], keepdims=1)], {})
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
    "split": (7, 12, [node("Split", ["x"], ["y", "z"], axis=1, split=[1, 3])], {}),
    "split_equal": (7, 17, [node("Split", ["x"], ["y", "z"], axis=1)], {}),
    "slice": (7, 9, [node("Slice", ["x"], ["y"], axes=[1, 3], starts=[1, -2], ends=[3, 99])], {}),
    "slice_no_axes": (7, 9, [node("Slice", ["x"], ["y"], starts=[1, 0], ends=[2, 2])], {}),
    "topk": (7, 9, [node("TopK", ["x"], ["y", "i"], k=2, axis=1)], {}),
    "topk_input": (10, NEWEST, [node("TopK", ["x", "one"], ["y", "i"], axis=1)], INTS),
    "pad": (7, 10, [node("Pad", ["x"], ["y"], pads=[0, 1, 0, 2, 0, 0, 1, 0], value=0.5)], {}),
    "pad_edge": (
        7,
        10,
        [node("Pad", ["x"], ["y"], pads=[0, 1, 0, 2, 0, 0, 1, 0], mode="edge")],
        {},
    ),
    "pad_axes": (
        18,
        NEWEST,
        [node("Pad", ["x", "pads", "", "axes"], ["y"])],
        {**INTS, "axes": np.array([1, 3])},
    ),
    "clip": (7, 10, [node("Clip", ["x"], ["y"], min=-1.0, max=2.0)], {}),
    "clip_open": (7, 10, [node("Clip", ["x"], ["y"], min=-1.0)], {}),
    "upsample": (7, 8, [node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0])], {}),
    "upsample_linear": (
        7,
        8,
        [node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0], mode="linear")],
        {},
    ),
    "upsample_input": (
        9,
        9,
        [node("Upsample", ["x", "s"], ["y"])],
        {"s": np.float32([1, 1, 2, 2])},
    ),
    "resize_up": (10, 10, [node("Resize", ["x", "s"], ["y"])], {"s": np.float32([1, 1, 2, 2])}),
    "resize_down": (
        10,
        10,
        [node("Resize", ["x", "s"], ["y"])],
        {"s": np.float32([1, 1, 0.5, 0.4])},
    ),
    "resize_both": (10, 10, [node("Resize", ["x", "s"], ["y"])], {"s": np.float32([1, 0.5, 2, 1])}),
    "resize_linear": (
        10,
        10,
        [node("Resize", ["x", "s"], ["y"], mode="linear")],
        {"s": np.float32([1, 1, 2, 1.5])},
    ),
    "resize_11": (
        *(11, 12),
        [
            node(
                "Resize",
                ["x", "roi", "s"],
                ["y"],
                coordinate_transformation_mode="tf_half_pixel_for_nn",
                nearest_mode="floor",
            )
        ],
        {"s": np.float32([1, 1, 2, 1.5]), "roi": np.float32([])},
    ),
    "resize_sizes": (
        *(11, NEWEST),
        [node("Resize", ["x", "roi", "none", "sizes"], ["y"], mode="linear")],
        {"roi": np.float32([]), "none": np.float32([]), "sizes": np.array([2, 4, 5, 4])},
    ),
    "batch_norm": (7, NEWEST, [node("BatchNormalization", ["x", "c", "c", "c", "v"], ["y"])], {}),
    "batch_norm_flat": (
        7,
        8,
        [node("BatchNormalization", ["x", *["f"] * 3, "g"], ["y"], spatial=0)],
        {},
    ),
    **{
        f"{kind.lower()}_{axis}": (7, 12, [node(kind, ["x"], ["y"], axis=axis)], {})
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for axis in (1, 2, 3)
    },
    "softmax_default": (7, NEWEST, [node("Softmax", ["x"], ["y"])], {}),
    "dropout": (7, 11, [node("Dropout", ["x"], ["y"], ratio=0.3)], {}),
    "dropout_input": (12, NEWEST, [node("Dropout", ["x", "r"], ["y"])], {"r": np.float32(0.3)}),
    "scatter": (9, 10, [node("Scatter", ["x", "i", "u"], ["y"], axis=1)], {}),
    "scatter_elements": (11, NEWEST, [node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)], {}),
    "cast": (7, NEWEST, [node("Cast", ["x"], ["y"], to=TensorProto.INT32)], {}),
    "reshape": (7, NEWEST, [node("Reshape", ["x", "shape"], ["y"])], INTS),
    "gemm": (
        7,
        NEWEST,
        [node("Flatten", ["x"], ["f2"]), node("Gemm", ["f2", "w", "b"], ["y"], alpha=0.5)],
        {},
    ),
    "group_norm": (
        18,
        20,
        [node("GroupNormalization", ["x", "g2", "b2"], ["y"], num_groups=2)],
        {},
    ),
    "fill": (
        9,
        NEWEST,
        [node("ConstantOfShape", ["shape"], ["y"], value=helper.make_tensor("v", 7, [1], [3]))],
        INTS,
    ),
    "prelu": (
        7,
        NEWEST,
        [node("PRelu", ["x", "slope"], ["y"])],
        {"slope": np.float32([[[0.1]], [[0.2]], [[0.3]], [[0.4]]])},
    ),
    "pool": (
        7,
        NEWEST,
        [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_UPPER")],
        {},
    ),
    "gelu": (20, NEWEST, [node("Gelu", ["x"], ["y"], approximate="tanh")], {}),
}
SHARED = {
    **{
        "c": np.float32([1, 2, 0.5, -1]),
        "v": np.float32([1, 2, 3, 4]),
        "f": np.full((4, 2, 3), 0.5, np.float32),
    },
    **{
        "g": np.full((4, 2, 3), 2, np.float32),
        "w": np.ones((24, 3), np.float32),
        "b": np.float32([1, 2, 3]),
    },
    **{
        "i": np.array([[[[0, 1, 2]], [[3, 0, 1]]]] * 2).reshape(2, 2, 1, 3),
        "g2": np.float32([2, 3]),
    },
    **{"u": np.ones((2, 2, 1, 3), np.float32), "b2": np.float32([1, -1])},
}


def old_form(name: str, opset: int) -> onnx.ModelProto:
    _, _, nodes, own = OLD_FORMS[name]
    constants = {**SHARED, **own}
    read = {i for n in nodes for i in n.input}
    produced = [o for n in nodes for o in n.output if o in ("y", "z", "i")]
    first = [node("Exp", ["x"], ["p"])] if "p" in read else []
    named = {k: v for k, v in constants.items() if k in read and k not in produced}
    return model([*first, *nodes], {"x": X.shape}, produced, opset, named)


def pick(first: int, last: int) -> list[int]:
    """Opsets to try: the first and last, those before a change, and a few between."""
    return [
        o for o in (7, 8, 9, 10, 11, 12, 13, 17, 18, 20, 21, 24, 26, NEWEST) if first <= o <= last
    ] or [first]


CASES = [
    (name, opset) for name, (first, last, *_) in OLD_FORMS.items() for opset in pick(first, last)
]


@pytest.mark.parametrize(("name", "opset"), CASES)
def test_old_forms_mean_what_they_meant(name: str, opset: int) -> None:
    proto = old_form(name, opset)
    graph = load(proto)
    assert graph.opsets == {"": opset}
    assert not any(isinstance(n.op, Opaque) for n in graph.nodes)
    reference = proto if opset <= RUNTIME_NEWEST else old_form(name, RUNTIME_NEWEST)
    assert_close(outputs(graph, {"x": X}), run(reference, {"x": X}), 2e-6)


def changes() -> list[tuple[str, int, str]]:
    """(operator, opset, what) for every change between versions of an operator that a caller must
    act on.
    """
    history: dict[str, list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, []).append(schema)
    found = []
    for name, schemas in history.items():
        schemas.sort(key=lambda s: s.since_version)
        for old, new in pairwise(schemas):
            for attribute, value in old.attributes.items():
                now = new.attributes.get(attribute)
                if now is None or now.type != value.type or _default(now) != _default(value):
                    found.append((name, new.since_version, attribute))
            if new.deprecated:
                found.append((name, new.since_version, "deprecated"))
    return found


def _default(attribute: Any) -> Any:
    return (
        helper.get_attribute_value(attribute.default_value)
        if attribute.default_value.type
        else None
    )


# Where the newest form's default, or its lack of an attribute, means the same.
HARMLESS = {
    ("Clip", 6, "max"),
    ("Clip", 6, "min"),
    ("Constant", 11, "value"),
    ("GRU", 3, "direction"),
    ("GroupNormalization", 21, "num_groups"),
    ("LpPool", 2, "kernel_shape"),
    ("Split", 2, "axis"),
}


def test_every_change_of_an_operator_has_a_lift() -> None:
    assert adapters.REDUCTIONS
    assert legacy.__doc__
    lifted = {(kind, opset) for kind, lifts in LIFTS.items() for opset, _ in lifts}
    missing = [c for c in changes() if c[:2] not in lifted and c not in HARMLESS]
    assert missing == []
    assert {c[:2] for c in changes()} > {("Squeeze", 13), ("Pad", 11), ("Softmax", 13)}


UNCOVERED = ("sequence", "strnorm", "gradient")  # files of lists, operators on text, training


@pytest.mark.parametrize("kind", ["pytorch-operator", "pytorch-converted", "simple"])
def test_opset_6_models_of_onnx_compute_what_they_should(kind: str) -> None:
    """Models that ONNX ships with their inputs and outputs, most of opset 6."""
    checked = 0
    for case in load_model_tests(kind=kind):
        if case.model_dir is None or any(word in case.name for word in UNCOVERED):
            continue
        folder = Path(case.model_dir)
        proto = onnx.load(folder / "model.onnx")
        graph = load(folder / "model.onnx")
        for data in sorted(folder.glob("test_data_set_*")):
            given = [_tensor(p) for p in sorted(data.glob("input_*.pb"), key=_number)]
            wanted = [_tensor(p) for p in sorted(data.glob("output_*.pb"), key=_number)]
            feeds = {
                v.name: a
                for v, a in zip(proto.graph.input, given)
                if v.name in {i.name for i in graph.inputs}
            }
            assert_close(outputs(graph, feeds), wanted, max(case.rtol, 1e-4))
            checked += 1
    assert checked >= {"pytorch-operator": 35, "pytorch-converted": 80, "simple": 7}[kind]


def _tensor(path: Path) -> np.ndarray:
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


def _number(path: Path) -> int:
    return int(path.stem.split("_")[1])


@pytest.mark.parametrize(
    ("kind", "opset", "attributes", "expected"),
    [
        ("GridSample", 16, {}, {"mode": "linear"}),
        ("GridSample", 16, {"mode": "bicubic"}, {"mode": "cubic"}),
        ("GridSample", 20, {"mode": "cubic"}, {"mode": "cubic"}),
        ("RoiAlign", 10, {}, {"coordinate_transformation_mode": "output_half_pixel"}),
        ("RoiAlign", 16, {}, {}),
        ("LSTM", 1, {"output_sequence": 1, "hidden_size": 2}, {"hidden_size": 2}),
    ],
)
def test_attributes_are_lifted(
    kind: str, opset: int, attributes: dict[str, Any], expected: dict[str, Any]
) -> None:
    form = Form(
        kind, [], dict(attributes), [True], "n", lambda *_: pytest.fail("nothing runs before it")
    )
    adapt(form, opset)
    assert (form.kind, form.attributes) == (kind, expected)


def test_unread_statistics_are_dropped() -> None:
    """Exporters in training mode asked for five outputs; ONNX Runtime dies of them."""
    five = node("BatchNormalization", ["x", "c", "c", "c", "v"], ["y", "", "m", "", ""])
    constants = {k: SHARED[k] for k in "cv"}
    graph = load(model([five], {"x": X.shape}, ["y"], 9, constants))
    assert len(graph.nodes[0].outputs) == 1
    one = model(
        [node("BatchNormalization", five.input, ["y"])], {"x": X.shape}, ["y"], 9, constants
    )
    assert_close(outputs(graph, {"x": X}), run(one, {"x": X}))
    trained = load(model([five], {"x": X.shape}, ["y", "m"], 9, constants))
    y, variance = outputs(trained, {"x": X})
    center, spread = X.mean((0, 2, 3), keepdims=True), X.var((0, 2, 3), keepdims=True)
    shift = SHARED["c"].reshape(1, -1, 1, 1)
    assert_close([y], [(X - center) / np.sqrt(spread + 1e-5) * shift + shift])
    assert_close([variance], [SHARED["v"] * 0.9 + spread.reshape(-1) * 0.1])


def test_broadcasting_by_axis() -> None:
    b = np.float32([1, 2, 3, 4])
    proto = model(
        [node("Mul", ["x", "b"], ["y"], broadcast=1, axis=1)],
        {"x": X.shape},
        ["y"],
        6,
        {"b": b},
        ir_version=3,
    )
    assert_close(outputs(load(proto), {"x": X}), [X * b.reshape(4, 1, 1)])


def test_scan_of_opset_8_runs_over_batches() -> None:
    body = helper.make_graph(
        [node("Add", ["sum", "next"], ["sum_out"]), node("Identity", ["sum_out"], ["row"])],
        "body",
        [helper.make_tensor_value_info(n, 1, [2]) for n in ("sum", "next")],
        [helper.make_tensor_value_info(n, 1, [2]) for n in ("sum_out", "row")],
    )
    scan = node("Scan", ["", "start", "x"], ["final", "rows"], num_scan_inputs=1, body=body)
    proto = model([scan], {"start": [3, 2], "x": [3, 4, 2]}, ["final", "rows"], 8, ir_version=3)
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    start = np.ones((3, 2), np.float32)
    rows = start[:, None] + x.cumsum(1)
    assert_close(outputs(load(proto), {"start": start, "x": x}), [rows[:, -1], rows])


def test_an_opset_that_is_too_new_is_refused() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], NEWEST + 1)
    with pytest.raises(
        UnsupportedOperatorError, match=rf"opset {NEWEST + 1} of ONNX, known are 1 to {NEWEST}"
    ):
        load(proto)
