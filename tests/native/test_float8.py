"""Floats of 8 bits behind QuantizeLinear and DequantizeLinear, as exporters of FP8 models write
them: files, and products on the kernel that decodes weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import infuse
from infuse import dtypes
from infuse.build.staged import generate
from infuse.dtypes import DType
from infuse.ir.graph import Graph, constant
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from infuse.targets.cpu.emit.language import CPP
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1")]
Array = np.ndarray[Any, Any]
KINDS = {
    TensorProto.FLOAT8E4M3FN: (ml_dtypes.float8_e4m3fn, 448.0, "nbits_matmul<43, 1>"),
    TensorProto.FLOAT8E5M2: (ml_dtypes.float8_e5m2, 57344.0, "nbits_matmul<52, 1>"),
}
TYPES = (dtypes.float8e4m3fn, dtypes.float8e5m2)
EDGES = np.float32(
    [
        *(0, -0.0, np.nan, np.inf, -np.inf, 1e9, -1e9, 448, 464, 465, -480, 57344, 61440, 65536),
        *(0.3, -0.7, 17, 2**-9, 2**-10, 1.01 * 2**-10, 2**-16, 2**-17, -1.5 * 2**-17, 3e-5),
    ]
)
"""Ordinary numbers, the largest, ties between it and the next one, subnormals, and no numbers."""


def file_of(nodes: list[Any], inputs: dict[str, list[Any]], constants: list[Any]) -> Any:
    """A model with the output y."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "float8", values, [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def floats8(name: str, kind: int, array: Array) -> Any:
    return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)


def floats32(name: str, array: Any) -> Any:
    array = np.asarray(array, np.float32)
    return helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.reshape(-1))


def calls_of(graph: Graph) -> str:
    program, _ = generate(graph, Target.resolve("native"))
    return "".join(line for step in program.steps for line in CPP.body_of(step.function))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_activations_are_rounded_as_the_reference_does(
    kind: int, saturate: int, tmp_path: Path
) -> None:
    numpy = KINDS[kind][0]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], saturate=saturate),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["y"]),
    ]
    constants = [floats32("scale", 1.0), floats8("zero", kind, np.zeros((), numpy))]
    model = file_of(nodes, {"x": [None]}, constants)
    onnx.save(model, tmp_path / "edges.onnx")
    (expected,) = ReferenceEvaluator(model).run(None, {"x": EDGES})
    with infuse.compile(tmp_path / "edges.onnx", infuse.CompileOptions(threads=1)) as compiled:
        result = compiled.run({"x": EDGES})["y"]
    np.testing.assert_array_equal(result, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[is_number], np.signbit(expected)[is_number])


def quantized_file(kind: int, operator: str, per_channel: bool) -> tuple[Any, list[int]]:
    """A product or convolution between floats of 8 bits, activations included."""
    numpy, largest, _ = KINDS[kind]
    rng = np.random.default_rng(0)
    shape, axis = {"MatMul": ((48, 20), 1), "Gemm": ((20, 48), 0), "Conv": ((20, 6, 3, 3), 0)}[
        operator
    ]
    weights = rng.standard_normal(shape).astype(np.float32)
    others = tuple(a for a in range(len(shape)) if a != axis)
    scale = np.abs(weights).max(others if per_channel else None) / largest
    spread = scale.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    constants = [
        floats8("w8", kind, (weights / spread).astype(numpy)),
        floats32("w_scale", scale),
        floats32("x_scale", 0.01),
        floats8("zero", kind, np.zeros((), numpy)),
        floats32("bias", rng.standard_normal(20)),
    ]
    attributes = {"transB": 1} if operator == "Gemm" else {}
    operands = ["x1", "w", *([] if operator == "MatMul" else ["bias"])]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "zero"], ["x8"]),
        helper.make_node("DequantizeLinear", ["x8", "x_scale", "zero"], ["x1"]),
        helper.make_node("DequantizeLinear", ["w8", "w_scale"], ["w"], axis=axis),
        helper.make_node(operator, operands, ["y"], **attributes),
    ]
    size = [5, 6, 8, 8] if operator == "Conv" else [5, 48]
    return file_of(nodes, {"x": size}, constants), size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_files_compute_as_the_reference_and_onnx_runtime_do(
    kind: int, operator: str, per_channel: bool, tmp_path: Path
) -> None:
    import onnxruntime

    model, size = quantized_file(kind, operator, per_channel)
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32) * 3
    x.reshape(-1)[: len(EDGES)] = np.where(np.isfinite(EDGES), EDGES, 0)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    graph = infuse.optimize(path)
    if operator != "Conv":
        assert KINDS[kind][2] in calls_of(graph)
    copies = [tmp_path / "copy.onnx", tmp_path / "copy.infuse"]
    for copy in copies:
        infuse.save(graph, copy)
    weights = [t.data_type for t in onnx.load(copies[0]).graph.initializer]
    assert weights.count(kind) >= 1
    plain = onnxruntime.SessionOptions()
    # its optimizer makes a product of integers of these, which its checks then refuse
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    results = [onnxruntime.InferenceSession(copies[0], plain).run(None, {"x": x})[0]]
    for each in (path, *copies):
        with infuse.compile(each, infuse.CompileOptions(threads=1)) as compiled:
            results.append(compiled.run({"x": x})["y"])
    for result in results:  # the same numbers, summed up in another order
        np.testing.assert_allclose(
            result, expected, rtol=1e-5, atol=1e-6 * float(np.abs(expected).max())
        )


def network(kind: DType, depth: int, codes: Array, how: str) -> Builder:
    """A product with all the codes that are given: scales for the tensor, channels, or blocks."""
    make, columns = Builder(), 37
    x = make.input("n", depth)
    matrix = make.rng.choice(codes, (depth, columns)).view(kind.numpy)
    matrix[::40, 0] = 0
    if how == "blocks":
        scales = make.rng.uniform(1e-3, 0.1, (-(-depth // 32), columns))
        numbers = {"axis": 0, "block_size": 32}
    else:
        scales = make.rng.uniform(1e-3, 0.1, () if how == "tensor" else columns)
        numbers = {"axis": 1}
    values = [constant(matrix), constant(np.asarray(scales, np.float32))]
    make.output(make("MatMul", x, make("DequantizeLinear", *values, **numbers)))
    return make


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_weights_of_a_linear_layer_lie_turned(kind: DType) -> None:
    """As torch exports them, for inputs of three axes."""
    make = Builder()
    x, matrix = make.input("n", 5, 64), make.rng.standard_normal((20, 64)).astype(kind.numpy)
    scales = constant(make.rng.uniform(1e-3, 0.1, 20).astype(np.float32))
    weights = make("DequantizeLinear", constant(matrix), scales, axis=0)
    make.output(make("MatMul", x, make("Transpose", weights, perm=(1, 0))))
    assert "nbits_matmul" in calls_of(make.graph)
    data = {"x0": np.random.default_rng(0).standard_normal((3, 5, 64)).astype(np.float32)}
    (expected,) = evaluate(make.graph, data).values()
    with infuse.compile(make.graph, infuse.CompileOptions(threads=1)) as model:
        (result,) = model.run(data).values()
    np.testing.assert_allclose(result, expected, atol=2e-6 * float(np.abs(expected).max()))


def finite_codes(kind: DType) -> Array:
    codes = np.arange(256, dtype=np.uint8)
    return codes[np.isfinite(codes.view(kind.numpy).astype(np.float32))]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("how", ["tensor", "channels", "blocks"])
@pytest.mark.parametrize("depth", [32, 70, 256])
def test_weights_are_decoded_where_they_are_multiplied(kind: DType, how: str, depth: int) -> None:
    graph = network(kind, depth, finite_codes(kind), how).graph
    assert "nbits_matmul" in calls_of(graph)
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        for rows in (1, 3, 8, 40):
            x = np.random.default_rng(rows).standard_normal((rows, depth)).astype(np.float32)
            (expected,), (result,) = (
                evaluate(graph, {"x0": x}).values(),
                model.run({"x0": x}).values(),
            )
            size = float(np.abs(expected).max())
            np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6 * size)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_code_is_decoded_exactly(kind: DType) -> None:
    """Rows of ones and zeros pick single weights, subnormal ones among them."""
    codes = finite_codes(kind)
    make = Builder()
    x, matrix = make.input("n", len(codes)), np.repeat(codes[:, None], 16, 1).view(kind.numpy)
    values = [constant(matrix), constant(np.float32(1))]
    make.output(make("MatMul", x, make("DequantizeLinear", *values)))
    assert "nbits_matmul" in calls_of(make.graph)
    with infuse.compile(make.graph, infuse.CompileOptions(threads=1)) as model:
        for rows in (slice(0, 1), slice(100, 107), slice(0, len(codes))):
            picked = np.eye(len(codes), dtype=np.float32)[rows]
            (result,) = model.run({"x0": picked}).values()
            np.testing.assert_array_equal(result, matrix.astype(np.float32)[rows])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_weights_that_are_no_numbers_are_multiplied_as_floats(kind: DType) -> None:
    """NaN is 0x7f in both types."""
    graph = network(kind, 64, np.uint8([1, 60, 0x7F]), "channels").graph
    assert "nbits_matmul" not in calls_of(graph)
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        (result,) = model.run({"x0": np.ones((2, 64), np.float32)}).values()
    assert np.isnan(result).all()


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_product_of_integers_is_rounded_to_floats_of_8_bits(kind: DType) -> None:
    make = Builder()
    x = make.input(4, 16)
    scale = constant(np.float32(0.05))
    rows = make("DequantizeLinear", make("QuantizeLinear", x, scale), scale)
    weights = constant(make.rng.integers(-127, 128, (16, 8)).astype(np.int8))
    product = make("MatMul", rows, make("DequantizeLinear", weights, constant(np.float32(0.01))))
    zero = constant(np.zeros((), kind.numpy))
    make.output(make("DequantizeLinear", make("QuantizeLinear", product, scale, zero), scale, zero))
    data = {"x0": np.random.default_rng(0).uniform(0, 12, (4, 16)).astype(np.float32)}
    (expected,) = evaluate(make.graph, data).values()
    with infuse.compile(make.graph, infuse.CompileOptions(threads=1)) as model:
        (result,) = model.run(data).values()
    # sums in float32 beside sums of integers may fall on the other side of a tie: one step
    np.testing.assert_allclose(result, expected, rtol=0.26 if kind.name.endswith("e5m2") else 0.13)
    assert np.mean(result == expected) > 0.9
