"""Small models that between them use most of what an ONNX file can hold."""

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

node = helper.make_node
FLOAT, INT, BOOL, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def _model(
    nodes: list[onnx.NodeProto], inputs: list[tuple], outputs: list[tuple], **constants: np.ndarray
) -> ModelProto:  # type: ignore[type-arg]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(*v) for v in inputs],
        [helper.make_tensor_value_info(*v) for v in outputs],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _network() -> ModelProto:
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", ["p"], ["s"], start=0, end=1),
        node("Concat", ["s", "rest"], ["t"], axis=0),
        node("Reshape", ["p", "t"], ["f"]),
        node("Gemm", ["f", "m"], ["g"], transB=1, alpha=0.5),
        node("Softmax", ["g"], ["y"], axis=-1),
    ]
    return _model(
        nodes,
        [("x", FLOAT, ["n", 2, 4, 4])],
        [("y", FLOAT, ["n", 5])],
        w=rng.normal(size=(3, 2, 3, 3)).astype(np.float32),
        b=np.zeros(3, np.float32),
        m=rng.normal(size=(5, 12)).astype(np.float32),
        rest=np.array([-1]),
    )


def _control() -> ModelProto:
    then = helper.make_graph(
        [node("Add", ["x", "one"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", FLOAT, None)],
    )
    other = helper.make_graph(
        [node("Mul", ["x", "x"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", FLOAT, None)],
    )
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["go"]),
            node("Add", ["s", "x"], ["s2"]),
            node("Concat", ["k", "s2"], ["k2"], axis=0),
        ],
        "body",
        [helper.make_tensor_value_info("i", INT, []), helper.make_tensor_value_info("c", BOOL, [])]
        + [helper.make_tensor_value_info(n, FLOAT, None) for n in "sk"],
        [helper.make_tensor_value_info("go", BOOL, [])]
        + [helper.make_tensor_value_info(n, FLOAT, None) for n in ("s2", "k2", "s2")],
    )
    nodes = [
        node("If", ["q"], ["z"], then_branch=then, else_branch=other),
        node("Loop", ["m", "", "z", "z"], ["a", "b", "l"], body=body),
        node("NonZero", ["a"], ["nz"]),
        node("Slice", ["b", "from", "to"], ["y"]),
    ]
    inputs = [("x", FLOAT, ["n"]), ("q", BOOL, []), ("m", INT, [])]
    numbers = {"one": np.ones(1, np.float32), "from": np.array([0]), "to": np.array([2])}
    return _model(
        nodes,
        inputs,
        [("y", FLOAT, ["k"]), ("nz", INT, [1, "z"]), ("l", FLOAT, ["t", "n"])],
        **numbers,
    )


def _sequences() -> ModelProto:
    nodes = [
        node("SplitToSequence", ["x", "one"], ["s"], axis=0),
        node("SequenceAt", ["s", "one"], ["e"]),
        node("ConcatFromSequence", ["s"], ["c"], axis=1),
        node("Constant", [], ["k"], value_strings=[b"a", b"bc"]),
        node("Identity", ["k"], ["text"]),
        node("Einsum", ["x", "x"], ["y"], equation="ij,kj->ik"),
    ]
    outputs = [
        ("e", FLOAT, None),
        ("c", FLOAT, None),
        ("text", TEXT, [2]),
        ("y", FLOAT, ["n", "n"]),
    ]
    return _model(nodes, [("x", FLOAT, ["n", 3])], outputs, one=np.array(1))


def _functions() -> ModelProto:
    function = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 21)],
    )
    half = TensorProto(
        name="h", data_type=TensorProto.FLOAT16, dims=[2], int32_data=[0x3C00, 0x4000]
    )
    graph = helper.make_graph(
        [
            helper.make_node("Twice", ["x"], ["t"], domain="mine"),
            node("Cast", ["h"], ["f"], to=FLOAT),
            node("Mul", ["t", "f"], ["y"]),
        ],
        "functions",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 2])],
        [half],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[function])


def _few_bits() -> ModelProto:
    rng = np.random.default_rng(0)
    nodes = [
        node("DequantizeLinear", ["codes", "scales", "zeros"], ["w"], axis=0, block_size=32),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    return _model(
        nodes,
        [("x", FLOAT, ["n", 64])],
        [("y", FLOAT, ["n", 7])],
        codes=rng.integers(0, 16, (64, 7)).astype(ml_dtypes.uint4),
        scales=rng.uniform(0.1, 1, (2, 7)).astype(np.float32),
        zeros=rng.integers(0, 16, (2, 7)).astype(ml_dtypes.uint4),
    )


def models() -> list[ModelProto]:
    """The models, always the same."""
    return [_network(), _control(), _sequences(), _functions(), _few_bits()]
