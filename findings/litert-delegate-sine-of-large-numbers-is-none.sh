#!/usr/bin/env bash
# LiteRT 2.3.0 on x86-64 (AVX-512): by default (the XNNPACK delegate) float32 functions go astray
# for large numbers: SIN(1e10) is -4891, SQRT(1e38) is 1.5e19, LOG(3e38) is infinity, LOGISTIC(1e38)
# is NaN while that of 3e38 is 1, RSQRT(0) is NaN, and EXP(NaN) is 0. Nothing is said.
#
# LiteRT's own kernels, which run where the delegate is switched off or does not take a node, give
# the right numbers for the same file: whether a shape is known decides which answer comes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ai-edge-litert==2.3.0 flatbuffers==25.12.19 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def file_of(name: str, count: int) -> bytes:
    """A model of one operator on `count` floats."""
    model, graph, code, node = (
        getattr(schema, f"{kind}T")() for kind in ("Model", "SubGraph", "OperatorCode", "Operator")
    )
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
    tensors = [schema.TensorT() for _ in range(2)]
    for tensor, label in zip(tensors, "xy"):
        tensor.name, tensor.shape, tensor.type = label, [count], schema.TensorType.FLOAT32
    node.opcodeIndex, node.inputs, node.outputs = 0, [0], [1]
    graph.tensors, graph.inputs, graph.outputs, graph.operators = tensors, [0], [1], [node]
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def answers(name: str, x: np.ndarray, resolver: OpResolverType) -> np.ndarray:
    interpreter = Interpreter(
        model_content=file_of(name, len(x)), experimental_op_resolver_type=resolver
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


CASES = {
    "SIN": ([1e10, 1.0], [-0.487506, 0.841471]),
    "COS": ([1e10, 1.0], [0.873120, 0.540302]),
    "SQRT": ([1e38, 3e38, 4.0], [1e19, 1.7320508e19, 2.0]),
    "LOG": ([3e38, 1.0], [88.596848, 0.0]),
    "LOGISTIC": ([1e38, 3e38, 0.0], [1.0, 1.0, 0.5]),
    "RSQRT": ([0.0, 4.0], [np.inf, 0.5]),
    "EXP": ([np.nan, 0.0], [np.nan, 1.0]),
}
print("LiteRT 2.3.0")
for name, (numbers, right) in CASES.items():
    x = np.array(numbers, np.float32)
    delegate = answers(name, x, OpResolverType.AUTO)
    kernel = answers(name, x, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    print(f"{name} of {numbers}: delegate {delegate.tolist()}, kernel {kernel.tolist()}")
    assert np.allclose(kernel, right, rtol=1e-5, equal_nan=True)
    assert not np.allclose(delegate[0], right[0], rtol=0.1, equal_nan=True)
    assert np.allclose(delegate[-1], right[-1], rtol=1e-5, atol=1e-6)
PYTHON
