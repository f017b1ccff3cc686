"""ONNX files as graphs: control flow, names, sizes, whole networks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import infuse
from benchmarks.architectures import NAMES, files
from infuse.errors import ShapeError
from infuse.exporters.onnx import to_model
from infuse.frontends.onnx import load
from infuse.frontends.onnx.wire import split
from infuse.ir import dims
from infuse.ir.types import TensorType
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import assert_close, model, outputs, run
from tests.native.builder import Builder

pytestmark = pytest.mark.row("C1")
node = helper.make_node
X = np.linspace(-3, 3, 48, dtype=np.float32).reshape(2, 4, 2, 3)


# -- graphs ----------------------------------------------------------------------------------------


def branches(nodes: dict[str, list[onnx.NodeProto]]) -> dict[str, onnx.GraphProto]:
    empty = onnx.ValueInfoProto(name="r")
    return {name: helper.make_graph(body, name, [], [empty]) for name, body in nodes.items()}


def test_bodies_read_values_around_them() -> None:
    inner = branches(
        {
            "then_branch": [node("Add", ["x", "h"], ["r"])],
            "else_branch": [node("Sub", ["x", "h"], ["r"])],
        }
    )
    outer = branches(
        {
            "then_branch": [node("If", ["c"], ["r"], **inner)],
            "else_branch": [node("Neg", ["h"], ["r"])],
        }
    )
    proto = model(
        [node("Exp", ["x"], ["h"]), node("If", ["d"], ["y"], **outer)],
        {"x": X.shape, "c": ("bool", []), "d": ("bool", [])},
        ["y"],
    )
    graph = load(proto)
    for c in (True, False):
        for d in (True, False):
            feeds = {"x": X, "c": np.array(c), "d": np.array(d)}
            assert_close(outputs(graph, feeds), run(proto, feeds))


def test_loops_with_and_without_declared_types() -> None:
    body = helper.make_graph(
        [
            node("Add", ["s", "x"], ["s2"]),
            node("Identity", ["c"], ["c2"]),
            node("ReduceSum", ["s2"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("c", 9, []),
            onnx.ValueInfoProto(name="s"),
        ],
        [onnx.ValueInfoProto(name=n) for n in ("c2", "s2", "row")],
    )
    loop = node("Loop", ["n", "", "x"], ["final", "rows"], body=body)
    proto = model([loop], {"n": ("int64", []), "x": [2, 3]}, ["final", "rows"])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows = np.float32([x.sum() * k for k in range(2, 6)]).reshape(4, 1, 1)
    assert_close(outputs(load(proto), {"n": np.array(4), "x": x}), [x * 5, rows])


def test_nodes_may_stand_in_any_order() -> None:
    body = branches(
        {"then_branch": [node("Neg", ["b"], ["r"])], "else_branch": [node("Abs", ["b"], ["r"])]}
    )
    nodes = [
        node("If", ["c"], ["y"], **body),
        node("Mul", ["a", "a"], ["b"]),
        node("Exp", ["x"], ["a"]),
    ]
    graph = load(model(nodes, {"x": [2], "c": ("bool", [])}, ["y"]))
    assert [n.kind for n in graph.nodes] == ["Exp", "Mul", "If"]
    x = np.float32([1, 2])
    assert_close(outputs(graph, {"x": x, "c": np.array(True)}), [-(np.exp(x) ** 2)])


def test_names_documentation_and_metadata_are_kept() -> None:
    proto = model(
        [node("Relu", ["x"], ["y"], "same"), node("Neg", ["y"], ["z"], "same")],
        {"x": [1]},
        ["z", "x"],
    )
    proto.graph.node[0].doc_string = "about the node"
    proto.graph.node[0].metadata_props.add(key="source", value="line 3")
    proto.graph.doc_string, proto.doc_string = "about the graph", "about the model"
    proto.producer_name, proto.producer_version, proto.model_version = "someone", "1.2", 7
    proto.metadata_props.add(key="license", value="free")
    graph = load(proto)
    assert [n.name for n in graph.nodes] == ["same", "same"]
    assert graph.nodes[0].doc == "about the node"
    assert graph.nodes[0].metadata == {"source": "line 3"}
    assert graph.doc == "about the graph"
    assert (graph.name, graph.output_names, graph.outputs[1] is graph.inputs[0]) == (
        "model",
        ["z", "x"],
        True,
    )
    expected = {"license": "free", "onnx.producer_name": "someone", "onnx.producer_version": "1.2"}
    expected |= {
        "onnx.doc_string": "about the model",
        "onnx.model_version": "7",
        "onnx.ir_version": "8",
    }
    assert graph.metadata == expected


# -- sizes -----------------------------------------------------------------------------------------


def shapes(**inputs: list[Any]) -> dict[str, str]:
    graph = load(model([node("Identity", [next(iter(inputs))], ["y"])], inputs, ["y"]))
    return {v.name: str(v.type).removeprefix("float32") for v in graph.inputs}


def test_the_same_text_is_the_same_size() -> None:
    found = shapes(a=["batch", "seq-len", 3], b=["batch", "seq-len"], c=["seq len"])
    assert found == {"a": "[batch, seq_len, 3]", "b": "[batch_2, seq_len_3]", "c": "[seq_len_2]"}


def test_sizes_without_a_name_get_one() -> None:
    assert shapes(a=[None, 3, None], b=[-1]) == {"a": "[a_0, 3, a_2]", "b": "[b_0]"}
    assert shapes(**{"x.1": [None], "x_1_0": ["x_1_0"]}) == {"x.1": "[x_1_0_2]", "x_1_0": "[x_1_0]"}


def test_sizes_may_be_expressions_of_others() -> None:
    assert shapes(a=["past"], b=["seq"], c=["past + seq"])["c"] == "[past_2 + seq_2]"
    assert shapes(a=["h*2"], b=["lambda"], c=["3"], d=["?"]) == {
        "a": "[h_2]",
        "b": "[d_lambda]",
        "c": "[d_3]",
        "d": "[d_0]",
    }


def test_sizes_travel_through_shape_arithmetic() -> None:
    nodes = [
        *(
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"]),
            node("Unsqueeze", ["n", "zeros"], ["u"]),
        ),
        *(node("Concat", ["u", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])),
    ]
    constants = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([2, -1])}
    graph = load(model(nodes, {"x": ["batch", 4, 6]}, ["y"], constants=constants))
    assert graph.outputs[0].shape == (dims.symbol("batch"), 2, 12)


# -- the zoo ---------------------------------------------------------------------------------------

SMALL = {"squeezenet1_1", "shufflenet_v2", "mobilenet_v3_large", "minilm_l6"}
ZOO = [
    pytest.param(file, marks=() if name in SMALL else pytest.mark.zoo, id=file)
    for name in NAMES
    for file in files(name)
]


@pytest.mark.parametrize("name", ZOO)
def test_a_network_is_typed_as_by_onnx(name: str, zoo_model: Callable[[str], Path]) -> None:
    """All ranks are known, and every size that ONNX's own inference knows is the same here."""
    path = zoo_model(name)
    graph = load(path)
    verify(graph)
    types = {v.name: v.type for n in graph.nodes for v in n.outputs}
    assert all(isinstance(t, TensorType) and t.shape is not None for t in types.values())
    structure, _ = split(memoryview(path.read_bytes()), name)
    inferred = onnx.shape_inference.infer_shapes(
        onnx.ModelProto.FromString(structure), data_prop=True
    ).graph
    compared = 0
    for info in [*inferred.value_info, *inferred.output]:
        ours, theirs = types.get(info.name), info.type.tensor_type
        if isinstance(ours, TensorType) and ours.shape is not None and theirs.HasField("shape"):
            assert ours.dtype.onnx == theirs.elem_type, info.name
            assert len(ours.shape) == len(theirs.shape.dim), info.name
            sizes = {name: 7 for d in ours.shape for name in dims.symbols(d)}
            known = [d.dim_value if d.HasField("dim_value") else None for d in theirs.shape.dim]
            assert all(
                b is None or dims.evaluate(a, sizes) == b for a, b in zip(ours.shape, known)
            ), (info.name, ours)
            compared += 1
    assert compared > 30


def test_loading_costs_no_reading_of_weights(zoo_model: Callable[[str], Path]) -> None:
    """Weights are views of the mapped file."""
    path = zoo_model("minilm_l6")
    arrays = [
        v.const for v in load(path).constants() if v.const is not None and v.const.nbytes > 1 << 16
    ]
    assert sum(array.nbytes for array in arrays) > 80e6
    assert not any(array.flags.owndata for array in arrays)


@pytest.mark.parametrize("text", ["_", "?", "None", "unk", "-1"])
def test_a_name_that_says_unknown_binds_nothing(text: str) -> None:
    """Both image axes of some classifiers have the name `_`, and two inputs need not agree in
    it.
    """
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["w"], ["z"])],
        {"x": [1, 3, text, text], "w": [text]},
        ["y", "z"],
    )
    graph = load(proto)
    sizes = [*graph.inputs[0].shape[2:], *graph.inputs[1].shape]
    assert len(set(map(str, sizes))) == 3
    feeds = {"x": np.ones((1, 3, 48, 192), np.float32), "w": np.ones(7, np.float32)}
    with infuse.compile(graph) as compiled:
        found = compiled(feeds["x"], feeds["w"])
    for one, wanted in zip(found, run(proto, feeds)):
        np.testing.assert_array_equal(one, wanted)
    again = to_model(graph).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param for d in again][2:] == [text, text]


def test_an_attribute_that_onnxruntime_ignores_is_named_and_ignored() -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], funny=3)
    proto = model([node], {"x": [2, 4]}, ["y"], constants={"s": np.ones(4, np.float32)})
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    with pytest.warns(RuntimeWarning, match="its attribute 'funny' is not known, and ignored"):
        graph = load(proto)
    np.testing.assert_allclose(evaluate(graph, feeds)["y"], run(proto, feeds)[0], rtol=1e-5)


def test_a_split_with_fewer_outputs_than_parts_is_refused() -> None:
    listed = [helper.make_node("Split", ["x", "sizes"], ["a", "b"], name="cut")]
    counted = [helper.make_node("Split", ["x"], ["a", "b"], name="cut", num_outputs=3)]
    attribute = [helper.make_node("Split", ["x"], ["a", "b"], name="cut", split=[1, 2, 3])]
    for nodes, opset in ((listed, 18), (counted, 18), (attribute, 11)):
        constants = {"sizes": np.int64([1, 2, 3])} if nodes is listed else {}
        proto = model(nodes, {"x": [6]}, ["a", "b"], opset, constants=constants)
        with pytest.raises(Exception, match=r"Mismatch") if nodes is not counted else nullcontext():
            run(proto, {"x": np.zeros(6, np.float32)})
        with pytest.raises(ShapeError, match=r"cut.*Split makes 3 parts and has 2 outputs"):
            load(proto)


@pytest.mark.parametrize("opset", [13, 18])
def test_a_written_split_names_all_its_parts(opset: int) -> None:
    b = Builder("parts")
    x = b.input(6, name="x")
    b.output(
        *b.several(2, "Split", x, np.int64([1, 2, 3])), *b.several(1, "Split", x, num_outputs=3)
    )
    parts = run(to_model(b.graph, opset), {"x": np.arange(6, dtype=np.float32)})
    assert [list(part) for part in parts] == [[0], [1, 2], [0, 1]]


@pytest.mark.parametrize("start", [["n"], [1, "n", 1], ["a", "b", "c"]])
def test_a_loop_squeezes_what_it_carries(start: list[Any]) -> None:
    """Its rank is another one from the second turn on, and no axes say which sizes go."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Squeeze", ["v"], ["q"]),
            helper.make_node("Add", ["q", "one"], ["w"]),
            helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0),
        ],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, None),
        ],
        [
            info("on", TensorProto.BOOL, []),
            info("w", TensorProto.FLOAT, None),
            info("s", TensorProto.FLOAT, None),
        ],
    )
    loop = helper.make_node("Loop", ["turns", "", "x"], ["y", "sums"], body=body)
    inputs = {"x": start, "turns": ("int64", [])}
    proto = model([loop], inputs, ["y", "sums"], constants={"one": np.float32(1)})
    x = np.arange(3, dtype=np.float32).reshape([3] if len(start) == 1 else [1, 3, 1])
    with infuse.compile(load(proto)) as compiled:
        for turns in (0, 1, 3):
            feeds = {"x": x, "turns": np.array(turns)}
            assert_close(list(compiled.run(feeds).values()), run(proto, feeds))
