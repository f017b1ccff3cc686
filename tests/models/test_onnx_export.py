"""Graphs as ONNX models: names, documentation, sizes, bodies, constants, networks, inputs and
outputs to the letter.
"""

from __future__ import annotations

from collections.abc import Callable
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
from infuse.exporters.onnx import save, to_model
from infuse.frontends.onnx import load
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ir.verify import verify
from infuse.ops.core.base import REGISTRY, Op, infer_node
from infuse.ops.core.opaque import Opaque
from tests.models.newer_forms import newer_form
from tests.models.onnx_tools import assert_close, checked, model, run

NEWEST = defs.onnx_opset_version()
pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
node = helper.make_node


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


@pytest.mark.filterwarnings("ignore:the model does not state the types")
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


@pytest.mark.filterwarnings("ignore:the model does not state the types")
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
