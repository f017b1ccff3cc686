"""Models that MindSpore wrote, against MindSpore's own outputs, and damaged ones."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.formats import format_name
from infuse.frontends.mindspore.messages import MESSAGES
from infuse.ops.core.evaluate import evaluate
from tests.models.mindspore_tools import DATA, difference, listed, records

COARSE = {"ops.interpolate-bicubic": 3e-3, "ops.interpolate-bicubic, align_corners=True": 3e-3}
"""MindSpore looks its cubic weights up in a table of 1024 places."""


@pytest.mark.parametrize("name", records("operators"))
def test_operator(name: str) -> None:
    difference(records("operators")[name], COARSE.get(name, 1e-5))


@pytest.mark.parametrize("name", records("models"))
def test_network(name: str) -> None:
    assert difference(records("models")[name], 1e-4) < 1e-4


def test_parameters_beside_the_file() -> None:
    graph = infuse.load(DATA / "large.mindir")
    record = records("large")["large"]
    (result,) = evaluate(graph, {graph.inputs[0].name: record["in0"]}).values()
    np.testing.assert_allclose(result, record["out0"], atol=1e-5)
    assert {v.name for v in graph.constants()} >= {"0.bias", "2.bias"}


def test_parameters_without_their_file(tmp_path: Path) -> None:
    data = (DATA / "large.mindir").read_bytes()
    with pytest.raises(ModelFileError, match="from memory"):
        infuse.load(data)
    (tmp_path / "large.mindir").write_bytes(data)
    with pytest.raises(ModelFileError, match="cannot be opened"):
        infuse.load(tmp_path / "large.mindir")
    (tmp_path / "large_variables").mkdir()
    (tmp_path / "large_variables" / "data_0").write_bytes(b"short")
    with pytest.raises(ModelFileError, match="only 5 bytes"):
        infuse.load(tmp_path / "large.mindir")


def test_format() -> None:
    assert format_name(DATA / "large.mindir") == "MindSpore (MindIR)"
    with pytest.raises(ModelFileError, match="encrypted"):
        infuse.load(DATA / "encrypted.mindir")


def test_names_and_symbols() -> None:
    graph = infuse.load(records("models")["BERT-dynamic"]["model"].tobytes())
    assert [v.name for v in graph.inputs] == ["ids", "mask"]
    assert [str(size) for size in graph.inputs[0].shape] == ["ids_0", "ids_1"]
    assert graph.output_names == ["output_0", "output_1"]
    assert any(node.name.startswith("layers-CellList") for node in graph.nodes)


@pytest.mark.parametrize("is_scalar", [False, True])
def test_an_empty_list_of_axes_is_all_of_them(is_scalar: bool) -> None:
    """As `ops.any(x)` of MindSpore 2.8 is written."""
    proto = model("ops.any")
    if is_scalar:
        del proto.graph.input[0].tensor[0].dims[:]
    axes, keep, reduce = proto.graph.node
    del axes.attribute[0].values[:]
    keep.attribute[0].i = 0
    del reduce.attribute[0].tensors[0].dims[:]
    graph = infuse.load(proto.SerializeToString())
    (feed,) = listed(records("operators")["ops.any"], "in")
    for x in (feed[0, 0], np.bool_(True)) if is_scalar else (feed, np.zeros_like(feed)):
        (result,) = evaluate(graph, {graph.inputs[0].name: x}).values()
        assert result.dtype == bool
        assert result == x.any()


def test_the_shape_of_a_tensor_is_a_tensor() -> None:
    """As `ops.dyn_shape(x)` is written."""
    proto = model("ops.square")
    state(proto, "TensorShape", [3], 7)
    graph = infuse.load(proto.SerializeToString())
    (feed,) = listed(records("operators")["ops.square"], "in")
    (result,) = evaluate(graph, {graph.inputs[0].name: feed}).values()
    assert result.tolist() == [*feed.shape]


def state(proto, kind: str, dims: list[int], element: int) -> None:
    """Let the only node be of this primitive, with this result."""
    (node,) = proto.graph.node
    proto.primitives[0].op_type = kind
    for tensor in (node.attribute[0].tensors[0], proto.graph.output[0].tensor[0]):
        tensor.dims[:] = dims
        tensor.data_type = element


def test_a_tensor_as_large_as_another() -> None:
    proto = model("ops.square")
    proto.graph.input.add().CopyFrom(proto.graph.input[0])
    proto.graph.input[1].name += "2"
    proto.graph.input[1].tensor[0].dims[:] = [5, 2, 3, 4]
    proto.graph.node[0].input.append(proto.graph.input[1].name)
    state(proto, "ExpandAs", [5, 2, 3, 4], 1)
    graph = infuse.load(proto.SerializeToString())
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    like = np.zeros((5, 2, 3, 4), np.float32)
    feeds = dict(zip((value.name for value in graph.inputs), (x, like)))
    (result,) = evaluate(graph, feeds).values()
    np.testing.assert_array_equal(result, np.broadcast_to(x, like.shape))


def test_the_extreme_of_a_scalar() -> None:
    """As `ops.aminmax` is written."""
    proto = model("ops.ArgMinWithValue")
    for node in (*proto.graph.node, proto.graph.input[0], *proto.graph.output):
        tensors = node.tensor if hasattr(node, "tensor") else []
        for attribute in getattr(node, "attribute", ()):
            tensors = [*attribute.tensors, *(t for v in attribute.values for t in v.tensors)]
        for tensor in tensors:
            del tensor.dims[:]
    for node in proto.graph.node:
        if node.op_type == "Constant":
            node.attribute[0].i = 0
    graph = infuse.load(proto.SerializeToString())
    place, least = evaluate(graph, {graph.inputs[0].name: np.array(-3, np.float32)}).values()
    assert (place.shape, place.tolist(), least.shape, least.tolist()) == ((), 0, (), -3.0)


# -- bad files -------------------------------------------------------------------------------------


def model(name: str = "nn.Dense", file: str = "operators"):
    proto = MESSAGES["Model"]()
    proto.ParseFromString(records(file)[name]["model"].tobytes())
    return proto


def refused(proto, error: type[InfuseError], match: str) -> None:
    with pytest.raises(error, match=match):
        infuse.load(proto.SerializeToString())


def test_all_missing_primitives_are_named() -> None:
    proto = model()
    for number, primitive in enumerate(proto.primitives):
        if primitive.op_type in ("MatMul", "BiasAdd", "Reshape"):
            primitive.op_type = f"Unknown{number}"
    refused(proto, UnsupportedOperatorError, "3 operators that Infuse does not know: Unknown")


def test_attributes_are_not_dropped() -> None:
    proto = model("nn.MaxPool1d")
    pool = next(p for p in proto.primitives if p.op_type.startswith("MaxPool"))
    pool.attribute.add(name="rotated", i=1, type=7)
    refused(proto, UnsupportedOperatorError, "attribute 'rotated'")


def test_negative_steps_to_the_end() -> None:
    proto = model("slice-end")
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.attribute[0].values:
            for value in node.attribute[0].values:
                value.ints[:] = [-n if n == 1 else n for n in value.ints]
    refused(proto, UnsupportedOperatorError, "negative step")


def test_compressed_and_quantized_parameters() -> None:
    proto = model()
    proto.graph.parameter[0].compression_type = 3
    refused(proto, UnsupportedOperatorError, "compressed")
    proto = model()
    proto.graph.parameter[0].quant_params.add(quant_algo_name="linear")
    refused(proto, UnsupportedOperatorError, "quantized")


def test_sizes_that_lie() -> None:
    proto = model()
    proto.graph.parameter[0].dims[:] = [1 << 40, 1 << 40]
    refused(proto, ModelFileError, "bytes, and it has")
    proto = model()
    proto.graph.parameter[0].dims[:] = [-1, 4]
    refused(proto, ModelFileError, "its shape is")


def test_a_node_of_its_own_result() -> None:
    proto = model()
    node = next(
        n for n in proto.graph.node if n.op_type.startswith("REF::") and "MatMul" in n.op_type
    )
    node.input[0] = node.output[0]
    refused(proto, ModelFileError, "needs its own result")


def test_functions_without_end() -> None:
    proto = model("if", "models")
    for graph in proto.functions:
        node = graph.node.add(op_type=f"REF::{graph.name}", output=[f"{graph.name}:again"])
        node.input.extend(value.name for value in graph.input)
        graph.output[0].name = node.output[0]
    refused(proto, UnsupportedOperatorError, "recursive function")


def test_names_that_are_missing() -> None:
    proto = model()
    proto.graph.output[0].name = "nothing"
    refused(proto, ModelFileError, "no node 'nothing'")
    refused(
        MESSAGES["Model"](ir_version="1.1", producer_name="MindSpore"), ModelFileError, "outputs"
    )


@pytest.mark.parametrize("name", ["LSTM", "if", "while-nested", "BERT-dynamic"])
def test_damaged_files(name: str) -> None:
    data = records("models")[name]["model"].tobytes()
    rng = random.Random(name)
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 4, 20))):
            damaged[rng.randrange(24, len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del damaged[rng.randrange(24, len(data)) :]
        with suppress(InfuseError):
            infuse.load(bytes(damaged))
