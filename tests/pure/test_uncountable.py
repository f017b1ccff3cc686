"""Tensors with more elements than an integer counts: an error that names them."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

import infuse
from infuse.errors import ModelFileError


def model(operator: str, size: int) -> bytes:
    sizes = [size] * 3
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    kind = TensorProto.INT64 if operator in ("Size", "Shape") else TensorProto.FLOAT
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("operator", ["Flatten", "Size", "Relu", "Transpose", "ReduceSum"])
@pytest.mark.parametrize("level", ["none", "basic", "all"])
def test_what_cannot_be_counted_is_told_of(operator: str, level: str) -> None:
    with pytest.raises(ModelFileError, match=r"'x' has the shape .*more elements than can be"):
        infuse.optimize(infuse.load(model(operator, 1 << 32)), level)


@pytest.mark.parametrize("operator", ["Flatten", "Size", "Relu"])
def test_what_can_be_counted_is_read(operator: str) -> None:
    infuse.optimize(infuse.load(model(operator, 1 << 20)))
