"""Small ONNX models, and running one in ONNX Runtime without its optimizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate

CODES = {
    name: helper.np_dtype_to_tensor_dtype(np.dtype(name))
    for name in ("float32", "float64", "int64", "bool")
}


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[Any] | tuple[str, Sequence[Any]]],
    outputs: Sequence[str],
    opset: int = 17,
    constants: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> ModelProto:
    """A model of float32 inputs of these shapes (or `(dtype, shape)`); outputs have no declared
    type.
    """
    typed = {
        k: v if v and isinstance(v[0], str) and v[0] in CODES else ("float32", v)
        for k, v in inputs.items()
    }
    graph = helper.make_graph(
        nodes,
        options.pop("name", "model"),
        [helper.make_tensor_value_info(k, CODES[str(t)], list(s)) for k, (t, s) in typed.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
    )
    options.setdefault("ir_version", 8 if opset < 19 else 10)
    imports = [helper.make_opsetid("", opset), *options.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, **options)


def session(source: ModelProto | Path) -> Any:
    """The model in ONNX Runtime, as it stands, on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    given = source.SerializeToString() if isinstance(source, ModelProto) else str(source)
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def run(source: ModelProto | Path, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes."""
    return list(session(source).run(None, dict(feeds)))


def assert_close(results: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-5) -> None:
    """Same shapes and types, and elements within `tolerance` of the largest expected magnitude."""
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        result, wanted = np.asarray(result), np.asarray(wanted)
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind == "f":
            scale = max(1.0, float(np.abs(wanted).max(initial=0)))
            np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(result, wanted)


def checked(proto: ModelProto) -> ModelProto:
    """The model, which ONNX itself takes for a sound one."""
    onnx.checker.check_model(proto, full_check=True)
    return proto


def outputs(graph: Graph, feeds: dict[str, Any]) -> list[Any]:
    """What the interpreter computes."""
    verify(graph)
    return list(evaluate(graph, feeds).values())
