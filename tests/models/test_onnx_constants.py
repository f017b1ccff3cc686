"""Constants of ONNX files: nodes, sparse ones, tensors of every type, large ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infuse import dtypes
from infuse.frontends.onnx import load
from tests.models.onnx_tools import model, outputs

pytestmark = pytest.mark.row("C1")
node = helper.make_node


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({"value": numpy_helper.from_array(np.float32([[1, 2]]))}, np.float32([[1, 2]])),
        ({"value_float": 0.1}, np.float32(0.1)),
        ({"value_floats": [0.1, 2.0]}, np.float32([0.1, 2])),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": [3, 4]}, np.array([3, 4])),
        ({"value_string": "a"}, np.array("a", object)),
        ({"value_strings": ["a", "ü"]}, np.array(["a", "ü"], object)),
    ],
)
def test_constant_nodes(attribute: dict[str, Any], expected: np.ndarray) -> None:
    graph = load(model([node("Constant", [], ["c"], **attribute)], {}, ["c"]))
    assert len(graph) == 0
    assert graph.outputs[0].const is not None
    assert graph.outputs[0].const.dtype == expected.dtype
    np.testing.assert_array_equal(graph.outputs[0].const, expected)


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_constants_are_written_out(indices: np.ndarray) -> None:
    values = numpy_helper.from_array(np.float32([7, 8]), "s")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
    proto = model(
        [node("Constant", [], ["c"], sparse_value=sparse), node("Add", ["c", "s"], ["y"])],
        {},
        ["y"],
    )
    proto.graph.sparse_initializer.append(sparse)
    expected = np.zeros((2, 3), np.float32)
    expected[0, 1], expected[1, 2] = 7, 8
    np.testing.assert_array_equal(outputs(load(proto), {})[0], expected * 2)


DTYPES = [d for d in dtypes.ALL if d.kind != "s"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "fields"])
def test_tensors_of_every_type(dtype: dtypes.DType, raw: bool) -> None:
    numbers = np.array([0, 1, 1, 0, 1] if dtype.is_bool else [0, 1, 1.5, 1, 0.5])
    array = numbers.astype(dtype.numpy)
    if dtype.is_signed and not dtype.name.startswith("float8e8m0"):
        array[2] = np.array(-1).astype(dtype.numpy)
    proto = numpy_helper.from_array(array, "c")
    if not raw:
        packed = proto.raw_data if dtype.bits in (2, 4) else None
        values = list(packed) if packed is not None else array.reshape(-1)
        if dtype.bits == 6:
            proto.ClearField("raw_data")
            proto.int32_data.extend(array.view(np.uint8).tolist())
        elif packed is not None:
            proto.ClearField("raw_data")
            proto.int32_data.extend(values)
        else:
            proto = helper.make_tensor("c", dtype.onnx, [5], values)
    value = load(_holding(proto)).outputs[0]
    assert value.const is not None
    assert value.dtype == dtype
    np.testing.assert_array_equal(value.const.view(np.uint8), array.view(np.uint8))


def _holding(tensor: TensorProto) -> onnx.ModelProto:
    proto = model([], {}, [tensor.name])
    proto.graph.initializer.append(tensor)
    return proto


def test_strings_survive_that_are_no_utf_8() -> None:
    tensor = TensorProto(
        name="c", data_type=TensorProto.STRING, dims=[2], string_data=[b"\xff", "ß".encode()]
    )
    value = load(_holding(tensor)).outputs[0]
    assert [text.encode("utf-8", "surrogateescape") for text in value.const] == [
        b"\xff",
        "ß".encode(),
    ]


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    weights = np.arange(4096, dtype=np.float32)
    floats = helper.make_tensor("f", TensorProto.FLOAT, [4096], weights)
    proto = model(
        [node("Add", ["x", "w"], ["a"]), node("Add", ["a", "f"], ["y"])],
        {"x": [1]},
        ["y"],
        constants={"w": weights},
    )
    proto.graph.initializer.append(floats)
    onnx.save(proto, tmp_path / "m.onnx")
    graph = load(tmp_path / "m.onnx")
    for constant in graph.constants():
        assert constant.const is not None
        assert not constant.const.flags.owndata
        assert not constant.const.flags.writeable
        np.testing.assert_array_equal(constant.const, weights)
