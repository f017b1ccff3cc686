"""The engines that are held against the backend tests of ONNX, behind one small interface."""

import ctypes
import importlib.util
import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
import onnx.numpy_helper

LEVELS = ("none", "basic", "all")
PEERS = {"onnxruntime": "onnxruntime", "openvino": "openvino", "reference": "onnx"}
"""The other engines, and the package that each needs."""


class Opened(Protocol):
    """A model in one engine, ready to run."""

    host: Sequence[str]
    """Operators that did not run as native code, where the engine tells."""

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """The outputs, in order."""


class Infuse:
    """This project at one level of optimization, as its session opens a model."""

    def __init__(self, model: onnx.ModelProto, level: str) -> None:
        from infuse.onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

        options = SessionOptions(intra_op_num_threads=1)
        options.graph_optimization_level = {
            "none": GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
        }[level]
        self.session = InferenceSession(model.SerializeToString(), options)
        self.host = [step.partition(" ")[0] for step in self.session.host_steps]
        self.names = {value.name for value in self.session.get_inputs()}

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """See Opened."""
        return self.session.run(None, {name: x for name, x in inputs.items() if name in self.names})


class OnnxRuntime:
    """ONNX Runtime's CPU provider."""

    def __init__(self, model: onnx.ModelProto) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.host: Sequence[str] = ()

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """See Opened; element types that NumPy lacks go through the runtime's own values."""
        plain = all(
            _is_plain(value.type)
            for value in (*self.session.get_inputs(), *self.session.get_outputs())
        )
        if plain:
            results: list[Any] = self.session.run(None, inputs)
            return results
        found = self.session.run_with_ort_values(
            None, {name: _ort_value(x) for name, x in inputs.items()}
        )
        return [_array(value) for value in found]


def _is_plain(type: str) -> bool:
    return not any(word in type for word in ("bfloat", "float8", "float4", "int4", "int2"))


def _ort_value(x: Any) -> Any:
    from onnxruntime import OrtValue

    return OrtValue.ortvalue_from_numpy_with_onnx_type(
        x, onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    )


def _array(value: Any) -> Any:
    kind, shape = value.element_type(), value.shape()
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    if dtype.isbuiltin == 1:
        return value.numpy()
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size)
    return onnx.numpy_helper.to_array(onnx.TensorProto(data_type=kind, dims=shape, raw_data=data))


class OpenVino:
    """OpenVINO's CPU plugin in float32."""

    def __init__(self, model: onnx.ModelProto) -> None:
        import openvino

        core = openvino.Core()
        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        read = core.read_model(io.BytesIO(model.SerializeToString()))
        self.compiled = core.compile_model(read, "CPU", config)
        self.host: Sequence[str] = ()

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """See Opened."""
        results = self.compiled(list(inputs.values()))
        return [_typed(results[port], port) for port in self.compiled.outputs]


def _typed(array: Any, port: Any) -> Any:
    """An output in its own element type: it comes as raw bits where NumPy has none."""
    if port.get_element_type().get_type_name() == "bf16":
        import ml_dtypes

        return np.asarray(array).view(ml_dtypes.bfloat16)
    return array


class Reference:
    """ONNX's own evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        self.evaluator = ReferenceEvaluator(model)
        self.host: Sequence[str] = ()

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """See Opened."""
        results: list[Any] = self.evaluator.run(None, inputs)
        return results


_PEERS: dict[str, Callable[[onnx.ModelProto], Opened]] = {
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "reference": Reference,
}


def opener(engine: str) -> Callable[[onnx.ModelProto], Opened]:
    """What opens a model in an engine: "infuse LEVEL", or a name of `PEERS`."""
    if engine in _PEERS:
        return _PEERS[engine]
    level = engine.removeprefix("infuse ")
    return lambda model: Infuse(model, level)


def is_installed(peer: str) -> bool:
    """Whether the package of a peer is there."""
    return importlib.util.find_spec(PEERS[peer]) is not None
