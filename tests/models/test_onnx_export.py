"""Graphs as ONNX models: every opset from 13 on, against ONNX Runtime on the original; files,
names, networks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, defs, helper, numpy_helper

import infuse
from benchmarks.architectures import NAMES, files
from benchmarks.inputs import make_inputs
from infuse import dtypes
from infuse.errors import OptionError, UnsupportedOperatorError
from infuse.exporters.onnx import save, to_model
from infuse.exporters.onnx.decompose import DECOMPOSITIONS
from infuse.exporters.onnx.lowering import LOWEST
from infuse.frontends.onnx import load
from infuse.ir.dims import symbol
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ir.verify import verify
from infuse.ops.core.base import REGISTRY, Op, Rounding, infer_node
from infuse.ops.core.opaque import Opaque
from infuse.testing.compare import assert_agrees
from infuse.testing.samples import Row, is_constant, results, rows, type_of
from tests.models.onnx_tools import assert_close, model, run

NEWEST = defs.onnx_opset_version()
RUNTIME_NEWEST = 26
pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
node = helper.make_node
X = np.random.default_rng(1).standard_normal((2, 4, 6, 8)).astype(np.float32)
Q, K, V = (
    np.random.default_rng(i).standard_normal(s).astype(np.float32)
    for i, s in enumerate([(2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)])
)


def checked(proto: ModelProto) -> ModelProto:
    onnx.checker.check_model(proto, full_check=True)
    return proto


# -- operators -------------------------------------------------------------------------------------

VECTOR = {"s": np.float32([1, 2, 3, 4, 5, 6, 7, 8]), "b": np.linspace(-1, 1, 8, dtype=np.float32)}
CHANNELS = {"s": np.float32([1, 2, 3, 4]), "b": np.float32([0, 1, 0, -1])}
TURNS = np.arange(40, dtype=np.float32).reshape(10, 4)
ANGLES = {"c": np.cos(TURNS), "s": np.sin(TURNS), "p": np.arange(12).reshape(2, 6) % 10}
PAIRS = {"c": np.cos(TURNS[:, :2]), "s": np.sin(TURNS[:, :2]), "p": ANGLES["p"]}
AXES = {"axes": np.array([1, -1])}
KINDS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

# name: (first opset of the operator in this form, nodes from x to y, constants)
NEWER: dict[str, tuple[int, list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "gelu": (20, [node("Gelu", ["x"], ["y"])], {}),
    "gelu_tanh": (20, [node("Gelu", ["x"], ["y"], approximate="tanh")], {}),
    "swish": (24, [node("Swish", ["x"], ["y"], alpha=1.5)], {}),
    "mish": (18, [node("Mish", ["x"], ["y"])], {}),
    "hard_swish": (14, [node("HardSwish", ["x"], ["y"])], {}),
    "layer_norm": (17, [node("LayerNormalization", ["x", "s", "b"], ["y"])], VECTOR),
    "layer_norm_statistics": (
        17,
        [node("LayerNormalization", ["x", "s"], ["y", "m", "i"], axis=3)],
        VECTOR,
    ),
    "layer_norm_axes": (17, [node("LayerNormalization", ["x", "t"], ["y"], axis=1)], {"t": X[0]}),
    "rms_norm": (23, [node("RMSNormalization", ["x", "s"], ["y"])], VECTOR),
    "group_norm": (
        21,
        [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
        CHANNELS,
    ),
    "rotary": (
        23,
        [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"])],
        {**ANGLES, "p": np.arange(12).reshape(2, 6) % 10},
    ),
    "rotary_pairs": (
        *(
            23,
            [
                node(
                    "RotaryEmbedding",
                    ["x", "c", "s", "p"],
                    ["y"],
                    interleaved=1,
                    rotary_embedding_dim=4,
                )
            ],
        ),
        PAIRS,
    ),
    **{
        f"reduce_{k}": (
            18,
            [node("Abs", ["x"], ["a"]), node(f"Reduce{k}", ["a", "axes"], ["y"], keepdims=0)],
            AXES,
        )
        for k in KINDS
    },
    "reduce_all": (18, [node("ReduceMean", ["x"], ["y"])], {}),
    "split_uneven": (18, [node("Split", ["x"], ["y", "z", "w"], axis=2, num_outputs=3)], {}),
    "split_last_smaller": (18, [node("Split", ["x"], ["y", "z", "w"], axis=3, num_outputs=3)], {}),
    "pad_axes": (
        18,
        [node("Pad", ["x", "p", "", "a"], ["y"])],
        {"p": np.array([1, 0, 2, 3]), "a": np.array([3, 1])},
    ),
    "resize_axes": (
        18,
        [node("Resize", ["x", "", "r"], ["y"], axes=[3, 2], mode="linear")],
        {"r": np.float32([2, 1.5])},
    ),
    "resize_sizes": (
        18,
        [node("Resize", ["x", "", "", "r"], ["y"], axes=[2, 3])],
        {"r": np.array([5, 9])},
    ),
    "shape_part": (15, [node("Shape", ["x"], ["y"], start=1, end=-1)], {}),
    "shape_end": (15, [node("Shape", ["x"], ["y"], start=-2)], {}),
    "reshape_zero": (
        14,
        [node("Reshape", ["x", "r"], ["y"], allowzero=1)],
        {"r": np.array([2, 4, 48])},
    ),
    "cast_like": (15, [node("CastLike", ["x", "t"], ["y"])], {"t": np.array(1)}),
    "scatter": (
        18,
        [node("ScatterND", ["x", "i", "u"], ["y"])],
        {"i": np.array([[0, 1], [1, 0]]), "u": X[0, :2]},
    ),
    "fill": (
        13,
        [
            node("Shape", ["x"], ["h"]),
            node("ConstantOfShape", ["h"], ["y"], value=helper.make_tensor("v", 10, [1], [2])),
        ],
        {},
    ),
    "clip": (13, [node("Clip", ["x", "", "m"], ["y"])], {"m": np.float32(0.5)}),
    "pool_indices": (22, [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])], {}),
    "pool_unread_indices": (22, [node("MaxPool", ["x"], ["y", "unread"], kernel_shape=[2, 2])], {}),
    "topk": (24, [node("TopK", ["x", "k"], ["y", "i"])], {"k": np.array([3])}),
    "eye": (
        22,
        [node("Reshape", ["x", "r"], ["h"]), node("EyeLike", ["h"], ["y"], dtype=7, k=1)],
        {"r": np.array([16, 24])},
    ),
}


def newer_form(name: str) -> ModelProto:
    opset, nodes, constants = NEWER[name]
    read = {i for n in nodes for i in n.input}
    made = [o for n in nodes for o in n.output if o in ("y", "z", "w", "m", "i")]
    return model(
        nodes, {"x": X.shape}, made, opset, {k: v for k, v in constants.items() if k in read}
    )


OPSETS = (13, 14, 15, 16, 17, 18, 20, 21, 23, 26)
UNRUNNABLE = ("swish", 26)  # ONNX Runtime has no kernel, and expands the operator in opset 24 only


@pytest.mark.parametrize(
    ("name", "opset"), [(n, o) for n in NEWER for o in OPSETS if (n, o) != UNRUNNABLE]
)
def test_newer_forms_are_written_in_older_opsets(name: str, opset: int) -> None:
    original = newer_form(name)
    written = checked(to_model(load(original), opset))
    assert {entry.domain: entry.version for entry in written.opset_import} == {"": opset}
    assert_close(run(written, {"x": X}), run(original, {"x": X}), 2e-6)


MASK = np.random.default_rng(5).random((3, 5)) > 0.4
ATTENTIONS: dict[str, tuple[list[str], dict[str, Any], dict[str, np.ndarray]]] = {
    "plain": (["q", "k", "v"], {}, {}),
    "causal": (["q", "k", "v"], {"is_causal": 1}, {}),
    "scaled": (["q", "k", "v"], {"scale": 0.7, "softcap": 2.0}, {}),
    "added mask": (
        ["q", "k", "v", "m"],
        {},
        {"m": np.random.default_rng(4).standard_normal((3, 5)).astype(np.float32)},
    ),
    "true mask": (["q", "k", "v", "m"], {"is_causal": 1}, {"m": MASK | np.eye(3, 5, dtype=bool)}),
    "past": (
        ["q", "k", "v", "", "pk", "pv"],
        {"is_causal": 1},
        {"pk": K[:, :, :2] + 1, "pv": V[:, :, :2] + 1},
    ),
}


@pytest.mark.parametrize("opset", [13, 18, 22])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_decomposed(name: str, rank: int, opset: int) -> None:
    inputs, options, constants = ATTENTIONS[name]
    feeds = {"q": Q, "k": K, "v": V}
    if rank == 3:
        feeds = {
            k: np.ascontiguousarray(a.transpose(0, 2, 1, 3)).reshape(2, a.shape[2], -1)
            for k, a in feeds.items()
        }
        options = {**options, "q_num_heads": 4, "kv_num_heads": 2}
    results = ["y"] + (["", "present_v"] if "pk" in inputs else [])
    if len(results) > 1:
        results[1] = "present_k"
    shapes = {k: ["batch", *a.shape[1:]] for k, a in feeds.items()}
    original = model(
        [node("Attention", inputs, results, **options)],
        shapes,
        results,
        23,
        constants,
        ir_version=10,
    )
    written = checked(to_model(load(original), opset))
    assert all(n.op_type != "Attention" for n in written.graph.node)
    assert_close(run(written, feeds), run(original, feeds), 2e-6)


@pytest.mark.parametrize("opset", [13, 18])
def test_attention_over_parts_of_one_tensor_is_decomposed_at_once(opset: int) -> None:
    packed = np.random.default_rng(7).standard_normal((2, 5, 24)).astype(np.float32)
    parts = node("Split", ["x"], ["q", "k", "v"], axis=2, num_outputs=3)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    nodes = [parts, node("Attention", ["q", "k", "v"], ["y"], **heads, is_causal=1)]
    original = model(nodes, {"x": ["batch", "length", 24]}, ["y"], 23, ir_version=10)
    proto = checked(to_model(load(original), opset))
    kinds = [n.op_type for n in proto.graph.node]
    assert (kinds.count("Split"), kinds.count("Reshape"), kinds.count("Transpose")) == (1, 2, 3)
    assert_close(run(proto, {"x": packed}), run(original, {"x": packed}), 2e-6)


def test_halves_are_summed_in_floats() -> None:
    half = {"s": np.ones(8, np.float16), "x": X.astype(np.float16)}
    nodes = [
        node("LayerNormalization", ["x", "s"], ["y"]),
        node("RMSNormalization", ["x", "s"], ["z"]),
    ]
    original = model(nodes, {}, ["y", "z"], 23, half, ir_version=10)
    written = checked(to_model(load(original), 13))
    assert_close(run(written, {}), run(original, {}), 2e-3)
    assert [n.op_type for n in written.graph.node].count("Cast") == 4


def test_floating_remainders_are_decomposed() -> None:
    a = np.float32([5.5, -5.5, 5.5, -5.5, 0, 3, -3, np.inf])
    b = np.float32([2, 2, -2, -2, 3, np.inf, np.inf, 1])
    graph = load(
        model([node("Mod", ["a", "b"], ["y"])], {"a": [8], "b": [8]}, ["y"], 28, ir_version=13)
    )
    written = checked(to_model(graph, 13))
    with np.errstate(invalid="ignore"):
        assert_close(run(written, {"a": a, "b": b}), [np.mod(a, b)])


REFUSED = {
    "axes at run time": (
        model(
            [node("ReduceMax", ["x", "a"], ["y"])], {"x": [2, 3], "a": ("int64", [1])}, ["y"], 18
        ),
        17,
        18,
    ),
    "wrap": (
        model(
            [node("Pad", ["x", "p"], ["y"], mode="wrap")],
            {"x": [4]},
            ["y"],
            19,
            {"p": np.array([1, 1])},
        ),
        18,
        19,
    ),
    "antialias": (
        *(
            model(
                [node("Resize", ["x", "", "s"], ["y"], antialias=1, mode="linear")],
                {"x": [4]},
                ["y"],
                18,
                {"s": np.float32([0.5])},
            ),
        ),
        *(17, 18),
    ),
    "maximum": (
        *(
            model(
                [node("ScatterND", ["x", "i", "x"], ["y"], reduction="max")],
                {"x": [1]},
                ["y"],
                18,
                {"i": np.array([[0]])},
            ),
        ),
        *(17, 18),
    ),
    "uint8 sums": (
        model([node("Add", ["c", "c"], ["y"])], {}, ["y"], 14, {"c": np.array([1], np.uint8)}),
        13,
        14,
    ),
    "eight bits": (
        model([node("Cast", ["x"], ["y"], to=17, saturate=0)], {"x": [2]}, ["y"], 19),
        18,
        19,
    ),
    "zero": (
        model(
            [node("Reshape", ["x", "s"], ["y"], allowzero=1)],
            {"x": [0, 2]},
            ["y"],
            14,
            {"s": np.array([2, 0])},
        ),
        13,
        14,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_opset_lacks_is_refused_or_raises_the_opset(name: str) -> None:
    original, opset, needed = REFUSED[name]
    graph = load(original)
    with pytest.raises(
        UnsupportedOperatorError, match=f"cannot be written in opset {opset}"
    ) as caught:
        to_model(graph, opset)
    kind = original.graph.node[0].op_type
    assert f"{kind} node 'y'" in str(caught.value)
    assert f"opset {needed} may have it" in str(caught.value)
    graph.opsets[""] = opset
    assert checked(to_model(graph)).opset_import[0].version == needed
    verify(graph)


@pytest.mark.parametrize("opset", [12, NEWEST + 1, 0])
def test_opsets_that_are_not_written(opset: int) -> None:
    with pytest.raises(OptionError, match=f"{LOWEST} to {NEWEST}, not {opset}"):
        to_model(load(newer_form("gelu")), opset)


@pytest.mark.parametrize(("own", "expected"), [(7, 13), (13, 13), (17, 17), (21, 21), (None, 17)])
def test_the_models_own_opset_is_the_default(own: int | None, expected: int) -> None:
    graph = load(model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], own or 9))
    if own is None:
        graph.opsets.clear()
    written = to_model(graph)
    assert written.opset_import[0].version == expected
    assert written.ir_version == {13: 7, 17: 8, 21: 10}[expected]


def test_every_decomposition_belongs_to_an_operator() -> None:
    assert {("", kind) for kind in DECOMPOSITIONS} <= set(REGISTRY)


def test_exporting_changes_nothing() -> None:
    graph = load(newer_form("layer_norm_statistics"))
    before = [(n.kind, [v.uses for v in n.outputs]) for n in graph.nodes]
    to_model(graph, 13)
    assert [(n.kind, [v.uses for v in n.outputs]) for n in graph.nodes] == before
    verify(graph)


# -- graphs ----------------------------------------------------------------------------------------


def added(
    graph: Graph, kind: str, *inputs: Value, name: str = "", output: str = "", **options: Any
) -> Value:
    op: Op = REGISTRY["", kind](**options)
    new = graph.add_node(Node(op, inputs, [Value(UNKNOWN, output)], name=name))
    infer_node(new)
    return new.output


def test_names_are_made_unique() -> None:
    graph = Graph("names")
    x = graph.add_input("x", TensorType(dtypes.float32, (2,)))
    first = added(graph, "Relu", x, name="n", output="x")
    second = added(graph, "Neg", first, name="n")
    third = added(graph, "Add", second, constant(np.float32([1, 2]), "x"))
    graph.add_output(third, "y")
    graph.add_output(second, "x_2")
    graph.add_output(third, "again")
    graph.add_output(x, "input")
    graph.add_output(constant(np.float32([5, 6]), "x"), "fixed")
    written = checked(to_model(graph))
    names = [name for n in written.graph.node for name in n.output] + [
        t.name for t in written.graph.initializer
    ]
    assert len(set(names)) == len(names)
    assert "x" not in names
    assert len({n.name for n in written.graph.node}) == len(written.graph.node)
    assert [v.name for v in written.graph.output] == ["y", "x_2", "again", "input", "fixed"]
    data = np.float32([-1, 3])
    two = -np.maximum(data, 0)
    more = two + np.float32([1, 2])
    expected = [more, two, more, data, np.float32([5, 6])]
    assert_close(run(written, {"x": data}), expected)


def test_an_input_may_be_an_output() -> None:
    original = model([node("Relu", ["x"], ["y"])], {"x": [2]}, ["x", "y"])
    written = checked(to_model(load(original)))
    assert [n.op_type for n in written.graph.node] == ["Relu"]
    assert [v.name for v in written.graph.output] == ["x", "y"]


def test_documentation_and_metadata_are_kept() -> None:
    proto = model(
        [node("Relu", ["x"], ["y"], "first"), node("Neg", ["y"], ["z"], "second")],
        {"x": [1]},
        ["z"],
    )
    proto.graph.node[0].doc_string = "about the node"
    proto.graph.node[0].metadata_props.add(key="source", value="line 3")
    proto.graph.doc_string, proto.doc_string = "about the graph", "about the model"
    proto.producer_name, proto.producer_version, proto.model_version, proto.domain = (
        "someone",
        "1.2",
        7,
        "there",
    )
    proto.metadata_props.add(key="license", value="free")
    written = to_model(load(proto))
    for field in (
        "doc_string",
        "producer_name",
        "producer_version",
        "model_version",
        "domain",
        "metadata_props",
    ):
        assert getattr(written, field) == getattr(proto, field), field
    assert written.graph.doc_string == "about the graph"
    assert list(written.graph.node) == list(proto.graph.node)


def test_sizes_are_written_as_they_are_known() -> None:
    nodes = [
        node("Concat", ["x", "x"], ["y"], axis=1),
        node("Flatten", ["x"], ["z"]),
        node("Magic", ["x"], ["u"], domain="own"),
    ]
    original = model(
        nodes, {"x": ["batch", "seq", 3]}, ["y", "z", "u"], imports=[helper.make_opsetid("own", 3)]
    )
    written = to_model(load(original))
    outputs = {v.name: v.type.tensor_type for v in written.graph.output}
    assert [d.dim_param or d.dim_value for d in outputs["y"].shape.dim] == ["batch", "2*seq", 3]
    assert [d.dim_param or d.dim_value for d in outputs["z"].shape.dim] == ["batch", "3*seq"]
    assert not outputs["u"].HasField("shape")
    assert {entry.domain: entry.version for entry in written.opset_import} == {"": 17, "own": 3}


def test_bodies_are_written_and_share_constants() -> None:
    branches = {
        name: helper.make_graph(
            [node(kind, ["x", "w"], ["r"])], name, [], [onnx.ValueInfoProto(name="r")]
        )
        for name, kind in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    body = helper.make_graph(
        [node("If", ["c"], ["s2"], **branches), node("Identity", ["c"], ["c2"])],
        "body",
        [
            *(helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("c", 9))),
            helper.make_tensor_value_info("s", 1, [2]),
        ],
        [onnx.ValueInfoProto(name=n) for n in ("c2", "s2")],
    )
    loop = node("Loop", ["n", "t", "x"], ["y"], body=body)
    constants = {"w": np.float32([2, 3]), "n": np.array(3)}
    original = model([loop], {"x": [2], "t": ("bool", [])}, ["y"], constants=constants)
    for opset in (13, 17, 21):
        written = checked(to_model(load(original), opset))
        assert [t.name for t in written.graph.initializer].count("w") == 1
        feeds = {"x": np.float32([1, 5]), "t": np.array(True)}
        assert_close(run(written, feeds), run(original, feeds))


def test_unknown_operators_are_written_as_they_came() -> None:
    table = numpy_helper.from_array(np.float32([1, 2]))
    body = helper.make_graph(
        [node("Relu", ["x"], ["r"])], "inner", [], [helper.make_tensor_value_info("r", 1, [2])]
    )
    options: dict[str, Any] = {
        "level": 3,
        "rate": 0.5,
        "mode": "fast",
        "sizes": [1, 2],
        "rates": [0.5],
        "modes": ["a"],
    }
    magic = node(
        "Magic",
        ["x", "", "w"],
        ["h", "", "k"],
        "m",
        domain="own",
        table=table,
        body=body,
        **options,
    )
    original = model(
        [magic, node("Relu", ["h"], ["y"])],
        {"x": [2]},
        ["y", "k"],
        constants={"w": np.float32([1])},
    )
    original.opset_import.append(helper.make_opsetid("own", 4))
    original.graph.value_info.append(helper.make_tensor_value_info("h", 1, [2]))
    graph = load(original)
    assert isinstance(graph.nodes[0].op, Opaque)
    written = to_model(graph)
    again = written.graph.node[0]
    assert (again.op_type, again.domain, list(again.input)) == ("Magic", "own", ["x", "", "w"])
    assert [a.name for a in again.attribute] == sorted([*options, "table", "body"])
    values = {a.name: helper.get_attribute_value(a) for a in again.attribute}
    assert {k: v for k, v in values.items() if k in options} == {
        **options,
        "mode": b"fast",
        "modes": [b"a"],
    }
    assert load(written).nodes[0].op == graph.nodes[0].op
    assert written.graph.value_info[0] == original.graph.value_info[0]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_constants_of_every_type_come_back(dtype: dtypes.DType) -> None:
    numbers = (
        np.array(["a", "ü", ""], object)
        if dtype.kind == "s"
        else np.array([0, 1, 1]).astype(dtype.numpy)
    )
    graph = Graph("constants")
    only_cast = dtype.bits == 6  # no other operator takes these
    kind, options = ("Cast", {"to": dtypes.float32}) if only_cast else ("Identity", {})
    graph.add_output(added(graph, kind, constant(numbers, "c", dtype), **options), "y")
    written = to_model(graph, NEWEST)
    (back,) = load(written).constants()
    assert back.dtype == dtype
    assert back.const is not None
    theirs = numpy_helper.to_array(written.graph.initializer[0])
    for found in (back.const, theirs):
        same = (
            found.tolist() == numbers.tolist()
            if dtype.kind == "s"
            else found.tobytes() == numbers.tobytes()
        )
        assert same


# -- networks --------------------------------------------------------------------------------------

SMALL = {"squeezenet1_1", "shufflenet_v2", "mobilenet_v3_large", "minilm_l6"}
MARKS = {name: () if name in SMALL else pytest.mark.zoo for name in NAMES}
ZOO = [pytest.param(file, marks=MARKS[name], id=file) for name in NAMES for file in files(name)]


@pytest.mark.parametrize("name", ZOO)
def test_a_written_network_computes_the_same(
    name: str, zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    path = zoo_model(name)
    feeds = make_inputs(path, {"batch": 2, "seq": 9})
    expected = run(path, feeds)
    graph = load(path)
    for opset, tolerance in ((None, 0.0), (13, 1e-5)):
        save(graph, tmp_path / "m.onnx", opset)
        onnx.checker.check_model(tmp_path / "m.onnx")
        assert_close(run(tmp_path / "m.onnx", feeds), expected, tolerance)


# -- the interface ---------------------------------------------------------------------------------


def interface(proto: ModelProto) -> list[bytes]:
    """Inputs and outputs to the letter."""
    return [
        info.SerializeToString(deterministic=True)
        for info in (*proto.graph.input, *proto.graph.output)
    ]


def outputs_stated(proto: ModelProto, **outputs: list[Any]) -> ModelProto:
    """The model with declared output sizes."""
    del proto.graph.output[:]
    proto.graph.output.extend(helper.make_tensor_value_info(n, 1, s) for n, s in outputs.items())
    return proto


def odd_sizes() -> ModelProto:
    """Sizes with names that are no identifiers, without names, and outputs that state less or other
    than is known.
    """
    nodes = [
        node("Concat", ["x", "x"], ["y"], axis=1),
        node("Flatten", ["x"], ["z"]),
        node("Relu", ["v"], ["w"]),
        node("NonZero", ["v"], ["i"]),
        node("Cast", ["i"], ["n"], to=1),
    ]
    inputs = {"x": ["batch-size", "seq len", 3], "v": [None, "past + seq len"]}
    stated: dict[str, list[Any]] = {
        "y": ["batch-size", "twice", None],
        "z": ["batch-size", None],
        "w": [None, None],
    }
    proto = outputs_stated(model(nodes, inputs, ["y"], ir_version=10), **stated, n=[2, "found"])
    proto.graph.input[0].doc_string = "about the input"
    proto.graph.output[3].metadata_props.add(key="unit", value="pixels")
    return proto


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
@pytest.mark.parametrize("through_file", [False, True])
def test_inputs_and_outputs_stay_to_the_letter(
    level: str, through_file: bool, tmp_path: Path
) -> None:
    original = odd_sizes()
    graph = infuse.optimize(load(original), level)
    if through_file:
        infuse.save(graph, tmp_path / "g.infuse")
        graph = infuse.load(tmp_path / "g.infuse")
    assert interface(to_model(graph)) == interface(original)


def test_sizes_that_are_fixed_are_written() -> None:
    graph = infuse.optimize(load(odd_sizes()), "basic", set_dims={"batch_size": 2, "seq_len": 5})
    outputs = {v.name: v.type.tensor_type.shape.dim for v in checked(to_model(graph)).graph.output}
    assert [d.dim_param or d.dim_value for d in outputs["y"]] == [2, 10, 0], (
        "the last is as it was, unknown"
    )
    assert [d.dim_param or d.dim_value for d in outputs["z"]] == [2, 15]
    assert [d.WhichOneof("value") for d in outputs["w"]] == [None, None]


def test_metadata_that_only_looks_like_ours_is_kept_apart() -> None:
    proto = odd_sizes()
    proto.metadata_props.add(key="onnx.outputs", value="[")
    proto.metadata_props.add(key="onnx.author", value="me")
    written = to_model(load(proto))
    assert interface(written) == interface(odd_sizes())
    assert {p.key: p.value for p in written.metadata_props} == {"onnx.author": "me"}


def test_metadata_of_graphs_and_bodies_is_kept() -> None:
    bodies = {
        n: helper.make_graph([node("Neg", ["x"], [n], n)], n, [], [onnx.ValueInfoProto(name=n)])
        for n in "ab"
    }
    for body in bodies.values():
        body.metadata_props.add(key="body", value=body.name)
        body.node[0].metadata_props.add(key="line", value="1")
    nodes = [node("If", ["c"], ["y"], "choose", then_branch=bodies["a"], else_branch=bodies["b"])]
    original = model(nodes, {"x": [2], "c": ("bool", [])}, ["y"])
    original.graph.metadata_props.add(key="whole", value="yes")
    original.metadata_props.add(key="whole", value="model")
    written = to_model(load(original))
    assert written.graph.metadata_props == original.graph.metadata_props
    assert written.metadata_props == original.metadata_props
    assert written.ir_version >= 10, "the first format with metadata of nodes and graphs"
    for attribute in written.graph.node[0].attribute:
        assert [p.key for p in attribute.g.metadata_props] == ["body"]
        assert [p.key for p in attribute.g.node[0].metadata_props] == ["line"]


def test_a_raised_opset_is_said(caplog: pytest.LogCaptureFixture) -> None:
    to_model(load(model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], 9)))
    assert "opset 13 in place of 9" in caplog.text
    caplog.clear()
    graph = load(REFUSED["wrap"][0])
    graph.opsets[""] = 18
    to_model(graph)
    assert "opset 19 in place of 18: Pad node 'y'" in caplog.text
    caplog.clear()
    to_model(load(newer_form("gelu")), 13)
    assert not caplog.text, "an opset that was asked for"


@pytest.mark.parametrize("opset", range(LOWEST, NEWEST + 1))
def test_the_runtime_reads_the_format(opset: int) -> None:
    proto = to_model(load(model([node("Abs", ["x"], ["y"])], {"x": [1]}, ["y"])), opset)
    if opset <= RUNTIME_NEWEST:
        assert_close(run(proto, {"x": np.float32([-1])}), [np.float32([1])])
    assert proto.ir_version <= 14


# -- meaning ---------------------------------------------------------------------------------------


def rows_of(kind: str) -> Iterator[tuple[Row, tuple[Any, ...]]]:
    """Samples of an operator that ONNX Runtime can run once they are decomposed, and what they
    mean.
    """
    for row in rows(REGISTRY["", kind], np.random.default_rng(1)):
        numbers = {
            k: float(np.float32(v)) for k, v in row.op.attributes().items() if isinstance(v, float)
        }
        row = dataclasses.replace(row, op=row.op.replace(**numbers))
        yield row, results(row)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("kind", sorted(DECOMPOSITIONS))
def test_a_decomposition_means_what_the_operator_means(kind: str, symbolic: bool) -> None:
    """Its samples, written in the oldest opset and run; batch and length (axes 0 and the last but
    one) may be open.
    """
    for row, wanted in rows_of(kind):
        graph = Graph(kind)
        values: list[Value | None] = []
        feeds = {}
        for index, x in enumerate(row.inputs):
            if x is None or is_constant(row, index):
                values.append(None if x is None else constant(x))
                continue
            type = type_of(x)
            assert isinstance(type, TensorType)
            open_axes = (
                {0, x.ndim - 2} if symbolic and kind in ("Attention", "RotaryEmbedding") else {0}
            )
            shape = tuple(
                symbol(f"n{d}") if symbolic and a in open_axes else d for a, d in enumerate(x.shape)
            )
            feeds[f"x{index}"] = x
            values.append(graph.add_input(f"x{index}", TensorType(type.dtype, shape)))
        new = graph.add_node(
            Node(row.op, values, [Value(UNKNOWN, f"y{i}") for i in range(len(wanted))])
        )
        infer_node(new)
        told = kind == "Attention" and len(row.inputs) == 7
        kept = [i for i in range(len(wanted)) if not (told and i in (1, 2))]
        for index in kept:
            graph.add_output(new.outputs[index], f"y{index}")
        written = checked(to_model(graph, LOWEST))
        for index, found in zip(kept, run(written, feeds), strict=True):
            assert_agrees(found, wanted[index], Rounding(8, 1e-5), f"{row} output {index}")
