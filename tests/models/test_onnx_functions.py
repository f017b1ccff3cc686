"""Functions of ONNX files, operators that ONNX defines by others, and unknown ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infuse.errors import GraphError, UnsupportedOperatorError
from infuse.frontends.onnx import attributes, build, load
from infuse.ops.core.base import REGISTRY
from infuse.ops.core.opaque import Opaque
from tests.models.onnx_tools import assert_close, model, outputs, run

pytestmark = pytest.mark.row("C1")
node = helper.make_node
X = np.linspace(-3, 3, 48, dtype=np.float32).reshape(2, 4, 2, 3)


def function(
    name: str, inputs: list[str], results: list[str], nodes: list[onnx.NodeProto], **options: Any
) -> onnx.FunctionProto:
    options.setdefault(
        "opset_imports", [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    )
    return helper.make_function("own", name, inputs, results, nodes, **options)


def referring(
    kind: str, inputs: list[str], results: list[str], **references: str
) -> onnx.NodeProto:
    result = node(kind, inputs, results)
    types = {"alpha": onnx.AttributeProto.FLOAT, "axis": onnx.AttributeProto.INT}
    for name, source in references.items():
        result.attribute.add(name=name, ref_attr_name=source, type=types[name])
    return result


OWN = {"imports": [helper.make_opsetid("own", 1)]}


def test_functions_are_inlined_inside_each_other() -> None:
    inner = function(
        "Inner",
        ["a"],
        ["b"],
        [referring("LeakyRelu", ["a"], ["b"], alpha="slope")],
        attributes=["slope"],
    )
    call = node("Inner", ["p"], ["q"], domain="own")
    call.attribute.add(name="slope", ref_attr_name="s", type=onnx.AttributeProto.FLOAT)
    outer = function("Outer", ["p"], ["r"], [call, node("Neg", ["q"], ["r"])], attributes=["s"])
    calls = [
        node("Outer", ["x"], ["h"], domain="own", s=0.5),
        node("Outer", ["h"], ["y"], "second", domain="own", s=0.25),
    ]
    proto = model(calls, {"x": X.shape}, ["y"], functions=[inner, outer], **OWN)
    graph = load(proto)
    assert [n.kind for n in graph.nodes] == ["LeakyRelu", "Neg"] * 2
    assert "second/" in graph.nodes[-1].name
    assert graph.output_names == ["y"]
    assert_close(outputs(graph, {"x": X}), run(proto, {"x": X}))


def test_functions_have_defaults_and_optional_inputs() -> None:
    body = [
        referring("LeakyRelu", ["a"], ["l"], alpha="slope"),
        node("Clip", ["l", "low", "high"], ["b"]),
    ]
    default = [helper.make_attribute("slope", 0.5)]
    clipped = function("Clipped", ["a", "low", "high"], ["b"], body, attribute_protos=default)
    low = np.float32(-0.5)
    calls = [
        node("Clipped", ["x", "low"], ["y"], domain="own"),
        node("Clipped", ["x", "", "low"], ["z"], domain="own"),
    ]
    proto = model(
        calls,
        {"x": X.shape},
        ["y", "z"],
        constants={"low": low},
        functions=[clipped],
        ir_version=9,
        **OWN,
    )
    leaky = np.where(X < 0, X * np.float32(0.5), X)
    assert_close(outputs(load(proto), {"x": X}), [np.maximum(leaky, low), np.minimum(leaky, low)])


def test_a_functions_own_opset_counts() -> None:
    old = [helper.make_opsetid("", 11)]
    sums = function(
        "Sums", ["a"], ["b"], [node("ReduceSum", ["a"], ["b"], axes=[1])], opset_imports=old
    )
    proto = model(
        [node("Sums", ["x"], ["y"], domain="own")], {"x": X.shape}, ["y"], functions=[sums], **OWN
    )
    assert_close(outputs(load(proto), {"x": X}), [X.sum(1, keepdims=True)])


def test_a_function_that_calls_itself_is_refused() -> None:
    loop = function("F", ["a"], ["b"], [node("G", ["a"], ["b"], domain="own")])
    back = function("G", ["a"], ["b"], [node("F", ["a"], ["b"], domain="own")])
    proto = model(
        [node("F", ["x"], ["y"], "n", domain="own")],
        {"x": [1]},
        ["y"],
        functions=[loop, back],
        **OWN,
    )
    with pytest.raises(GraphError, match="calls itself"):
        load(proto)


@pytest.mark.parametrize(
    ("kind", "opset"), [("Mish", 18), ("LayerNormalization", 17), ("Gelu", 20), ("Celu", 12)]
)
def test_what_onnx_defines_by_others_is_expanded(
    kind: str, opset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = ["x", "s"] if kind == "LayerNormalization" else ["x"]
    scale = {"s": np.float32([1, 2, 3])} if len(inputs) > 1 else {}
    proto = model([node(kind, inputs, ["y"])], {"x": X.shape}, ["y"], opset, scale)
    others = {key: op for key, op in REGISTRY.items() if key != ("", kind)}
    for reader in (attributes, build):
        monkeypatch.setattr(reader, "REGISTRY", others)
    graph = load(proto)
    assert len(graph) > 1
    assert_close(
        outputs(graph, {"x": X}), run(proto, {"x": X}), 2e-5
    )  # ONNX squares before it takes the mean


def test_unknown_operators_stay_as_they_are() -> None:
    custom = node(
        "Magic",
        ["x", "", "w"],
        ["h", "", "k"],
        "m",
        domain="my.own",
        level=3,
        table=numpy_helper.from_array(X),
    )
    proto = model(
        [custom, node("Relu", ["h"], ["y"])],
        {"x": ["n", 3]},
        ["y", "k"],
        constants={"w": np.float32([1])},
        imports=[helper.make_opsetid("my.own", 4)],
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("h", 1, ["n", 7]))
    with pytest.warns(RuntimeWarning, match=r"my\.own::Magic are taken for float32"):
        graph = load(proto)
    opaque = graph.nodes[0]
    assert isinstance(opaque.op, Opaque)
    assert (opaque.op.domain, opaque.op.name, opaque.op.version, opaque.name) == (
        "my.own",
        "Magic",
        4,
        "m",
    )
    assert opaque.inputs[1] is None
    assert opaque.op.attributes()["level"] == 3
    np.testing.assert_array_equal(opaque.op.attributes()["table"], X)
    assert str(graph.outputs[0].type) == "float32[n, 7]"
    assert graph.opsets["my.own"] == 4


def _strange(read_by: Any, output: Any, **stated: int) -> onnx.ModelProto:
    """Texts → an unknown operator → `t` → one node → `y`."""
    proto = model(
        [node("Magic", ["x"], ["t"], "m", domain="my.own"), read_by],
        {},
        [],
        imports=[helper.make_opsetid("my.own", 1)],
    )
    proto.graph.input.append(helper.make_tensor_value_info("x", TensorProto.STRING, ["n"]))
    proto.graph.output.append(output)
    for name, kind in stated.items():
        proto.graph.value_info.append(helper.make_tensor_value_info(name, kind, ["n"]))
    return proto


COUNTED = node(
    "TfIdfVectorizer", ["t"], ["y"], max_gram_length=1, min_gram_length=1, max_skip_count=0,
    mode="TF", ngram_counts=[0], ngram_indexes=[0, 1], pool_strings=["a", "b"],
)  # fmt: skip


COPY = node("Identity", ["t"], ["y"])


@pytest.mark.parametrize(
    ("reader", "kind"),
    [(COUNTED, TensorProto.FLOAT), (COPY, TensorProto.STRING), (COPY, TensorProto.INT64)],
)
def test_what_an_unknown_operator_makes_is_not_taken_for_float32(reader: Any, kind: int) -> None:
    output = helper.make_tensor_value_info("y", kind, None)
    with pytest.raises(UnsupportedOperatorError, match=r"my\.own::Magic .* its output 't'"):
        load(_strange(reader, output))
    graph = load(_strange(reader, output, t=TensorProto.STRING if reader is COUNTED else kind))
    assert graph.outputs[0].dtype.onnx == kind


def test_what_nothing_contradicts_is_warned_of() -> None:
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    with pytest.warns(RuntimeWarning, match=r"outputs of my\.own::Magic are taken for float32"):
        load(_strange(node("Relu", ["t"], ["y"]), output))
    load(_strange(node("Relu", ["t"], ["y"]), output, t=TensorProto.FLOAT))
