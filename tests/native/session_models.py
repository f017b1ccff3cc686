"""Small ONNX models for tests that hold on ONNX Runtime and on Infuse alike."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.full((2, 3), 10, np.float32)
FEED = {"x": X, "y": Y}
W = np.array([1, 2, 3], np.float32)


def info(name: str, sizes: Any, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, sizes)


def model_of(nodes: Any, inputs: Any, outputs: Any, **more: Any) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "small", inputs, outputs, **more)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def bytes_of(*parts: Any, **more: Any) -> bytes:
    return model_of(*parts, **more).SerializeToString()


def adder(sizes: Any = ("batch", 3)) -> onnx.ModelProto:
    """`sum` and `product` of `x` and `y`."""
    nodes = [
        helper.make_node("Add", ["x", "y"], ["sum"]),
        helper.make_node("Mul", ["x", "y"], ["product"]),
    ]
    inputs, outputs = ([info(name, sizes) for name in names] for names in ("xy", _OUTPUTS))
    return model_of(nodes, inputs, outputs)


_OUTPUTS = ("sum", "product")
ADDER = adder().SerializeToString()


def scaled(*, is_input: bool = False, location: str = "") -> onnx.ModelProto:
    """`z` = `x` times an initializer `w`, which may be an input too, or lie in another file."""
    weight = from_array(W, "w")
    if location:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        for key, text in (("location", location), ("offset", "0"), ("length", "12")):
            weight.external_data.add(key=key, value=text)
    inputs = [info("x", ["n", 3]), *([info("w", [3])] if is_input else [])]
    node = helper.make_node("Mul", ["x", "w"], ["z"])
    return model_of([node], inputs, [info("z", ["n", 3])], initializer=[weight])


def unary(kind: str, element: int = FLOAT, sizes: Any = ("n",), **attributes: Any) -> bytes:
    """One operator from `x` to `y`."""
    node = helper.make_node(kind, ["x"], ["y"], **attributes)
    return bytes_of([node], [info("x", sizes, element)], [info("y", sizes, element)])


def pair_of_tensors() -> bytes:
    """A sequence of `x` and `x`."""
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
    output = helper.make_tensor_sequence_value_info("s", FLOAT, ["n", 3])
    return bytes_of([node], [info("x", ["n", 3])], [output])
