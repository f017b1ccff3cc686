"""Models quantized by ONNX Runtime's own tool, against the runtime on the same file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import infuse
from infuse import InferenceSession, SessionOptions
from tests.models.onnx_tools import session

RNG = np.random.default_rng(3)


def weights(**shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    return [
        numpy_helper.from_array(
            (RNG.standard_normal(s) / math.sqrt(math.prod(s[1:]))).astype(np.float32), name
        )
        for name, s in shapes.items()
    ]


def conv_net() -> ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "wd"], ["cd"], pads=[1, 1, 1, 1], group=20),
        helper.make_node("MaxPool", ["cd"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], strides=[2, 2]),
        helper.make_node("Sigmoid", ["c2"], ["s2"]),
        helper.make_node("Conv", ["s2", "w3"], ["c3"]),
        helper.make_node("Add", ["c3", "s2"], ["a3"]),
        helper.make_node("GlobalAveragePool", ["a3"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], transB=1),
    ]
    held = weights(
        w1=(20, 3, 3, 3), b1=(20,), wd=(20, 1, 3, 3), w2=(24, 20, 3, 3), b2=(24,), w3=(24, 24, 1, 1)
    )
    return model(nodes, [2, 3, 16, 16], [*held, *weights(w4=(10, 24), b4=(10,))])


def perceptron() -> ModelProto:
    """The parts of a transformer that are quantized: projections, a product of two computed
    matrices, a softmax.
    """
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "q"], ["v"]),
        helper.make_node("Add", ["v", "x"], ["h"]),
        helper.make_node("MatMul", ["h", "w1"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["o"]),
        helper.make_node("Add", ["o", "h"], ["y"]),
    ]
    return model(nodes, [2, 9, 32], weights(wq=(32, 32), wk=(32, 32), w1=(32, 70), w2=(70, 32)))


def model(
    nodes: list[onnx.NodeProto], shape: list[int], held: list[onnx.TensorProto]
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        held,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """A few random inputs."""

    def __init__(self, shape: list[int]) -> None:
        rng = np.random.default_rng(5)
        self.inputs = iter([{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(4)])

    def get_next(self) -> Any:
        return next(self.inputs, None)


def static(
    form: QuantFormat, activations: QuantType, **more: Any
) -> Callable[[Path, Path, list[int]], None]:
    def run(source: Path, target: Path, shape: list[int]) -> None:
        quantize_static(
            source,
            target,
            Samples(shape),
            quant_format=form,
            activation_type=activations,
            weight_type=QuantType.QInt8,
            # Weights of 7 bits, as the tool asks for processors without VNNI, where the runtime's
            # sums saturate.
            reduce_range=activations != QuantType.QUInt16,
            **more,
        )

    return run


def dynamic(source: Path, target: Path, shape: list[int]) -> None:
    quantize_dynamic(source, target, weight_type=QuantType.QInt8, reduce_range=True)


WAYS = {
    "qdq": static(QuantFormat.QDQ, QuantType.QUInt8),
    "qdq, signed, per channel": static(QuantFormat.QDQ, QuantType.QInt8, per_channel=True),
    "operators": static(QuantFormat.QOperator, QuantType.QUInt8),
    "operators, per channel": static(QuantFormat.QOperator, QuantType.QUInt8, per_channel=True),
    "16 bits": static(QuantFormat.QDQ, QuantType.QUInt16),
    "dynamic": dynamic,
}
MODELS = {"conv net": conv_net, "perceptron": perceptron}


@pytest.fixture(params=MODELS)
def original(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    made = MODELS[request.param]()
    shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    onnx.save(made, tmp_path / "float.onnx")
    return tmp_path / "float.onnx", shape


@pytest.mark.parametrize("way", WAYS)
def test_quantized_models_agree_with_the_runtime(
    original: tuple[Path, list[int]], way: str
) -> None:
    source, shape = original
    path = source.with_name("quantized.onnx")
    WAYS[way](source, path, shape)
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    (expected,) = session(path).run(None, {"x": x})
    for level in (0, 99):
        options = SessionOptions()
        options.graph_optimization_level = level
        found = InferenceSession(str(path), options)
        (y,) = found.run(None, {"x": x})
        error = np.abs(y - expected).max()
        # One step of the last quantization, or a few of earlier ones that were rounded the other
        # way.
        assert error <= 0.02 * np.abs(expected).max(), f"level {level}: {error}"
        assert not getattr(found, "host_steps", ())


@pytest.mark.parametrize("way", WAYS)
def test_optimized_models_stay_quantized(original: tuple[Path, list[int]], way: str) -> None:
    source, shape = original
    path = source.with_name("quantized.onnx")
    WAYS[way](source, path, shape)
    infuse.save(
        infuse.optimize(path, infuse.Rules("all", runtime="onnxruntime")),
        path.with_name("optimized.onnx"),
    )
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    (expected,), (y,) = (
        session(p).run(None, {"x": x}) for p in (path, path.with_name("optimized.onnx"))
    )
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    assert path.with_name("optimized.onnx").stat().st_size < 1.1 * path.stat().st_size
