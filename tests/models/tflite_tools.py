"""TensorFlow Lite models written by hand, and what LiteRT's interpreter makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import infuse
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

_TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7,
    "complex64": 8, "int8": 9, "float64": 10, "resource": 13, "uint32": 15, "uint16": 16,
    "int4": 17,
}  # fmt: skip
_ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3, "tanh": 4}


class Quant:
    """Scales and zero points of a tensor."""

    def __init__(self, scale: Any, zero: Any = 0, axis: int = 0) -> None:
        self.scale, self.zero, self.axis = np.atleast_1d(scale), np.atleast_1d(zero), axis

    def table(self) -> Any:
        made = tfl.QuantizationParametersT()
        made.scale = self.scale.astype(np.float32)
        made.zeroPoint = np.broadcast_to(self.zero, self.scale.shape).astype(np.int64)
        made.quantizedDimension = self.axis
        return made


class Net:
    """A model of one subgraph or more, built tensor by tensor."""

    def __init__(self) -> None:
        self.model = tfl.ModelT()
        self.model.version = 3
        self.model.operatorCodes, self.model.subgraphs = [], []
        self.model.buffers = [tfl.BufferT()]
        self.subgraph()

    def subgraph(self) -> int:
        """Begin the next subgraph; its number."""
        self.graph = tfl.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        return len(self.model.subgraphs) - 1

    def tensor(
        self,
        dtype: str,
        shape: Sequence[int] = (),
        quant: Quant | None = None,
        data: np.ndarray | None = None,
        name: str = "",
        variable: bool = False,
    ) -> int:
        made = tfl.TensorT()
        made.type, made.name = _TYPES[dtype], name or f"t{len(self.graph.tensors)}"
        made.shape = [abs(n) for n in shape]
        if any(n < 0 for n in shape):
            made.shapeSignature = list(shape)
        made.quantization = None if quant is None else quant.table()
        made.isVariable = variable
        made.buffer = 0
        if data is not None:
            buffer = tfl.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            made.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def input(self, dtype: str, shape: Sequence[int], quant: Quant | None = None) -> int:
        made = self.tensor(dtype, shape, quant)
        self.graph.inputs.append(made)
        return made

    def const(self, array: Any, quant: Quant | None = None, dtype: str = "") -> int:
        data = np.asarray(array)
        shape = data.shape
        if dtype == "int4":
            flat = np.append(data.reshape(-1), np.zeros(data.size % 2, data.dtype)) & 15
            data = (flat[::2] | flat[1::2] << 4).astype(np.uint8)
        return self.tensor(dtype or data.dtype.name, shape, quant, data)

    def ints(self, *values: int) -> int:
        return self.const(np.array(values, np.int32))

    def op(self, kind: str, inputs: Sequence[int], *results: Any, **options: Any) -> Any:
        """Call an operator; results are element types, or (type, quantization). `options` are
        those of the table `table`, which is named after the operator unless it is said.
        """
        made = tfl.OperatorT()
        custom = kind.removeprefix("CUSTOM ") if kind.startswith("CUSTOM ") else ""
        made.opcodeIndex = self._code("CUSTOM" if custom else kind, custom)
        made.inputs = list(inputs)
        made.outputs = [self._result(result) for result in results]
        table, version = options.pop("table", ""), options.pop("version", 1)
        self.model.operatorCodes[made.opcodeIndex].version = version
        if table or options:
            table = table or f"{re.sub('_', '', kind.title())}Options"
            content = getattr(tfl, f"{table}T")()
            for name, value in options.items():
                assert hasattr(content, name), name
                number = _ACTIVATIONS[value] if name == "fusedActivationFunction" else value
                setattr(content, name, number)
            second = hasattr(tfl.BuiltinOptions2, table)
            union = tfl.BuiltinOptions2 if second else tfl.BuiltinOptions
            part = "2" if second else ""
            setattr(made, f"builtinOptions{part}Type", getattr(union, table))
            setattr(made, f"builtinOptions{part}", content)
        self.graph.operators.append(made)
        return made.outputs[0] if len(made.outputs) == 1 else made.outputs

    def _result(self, result: Any) -> int:
        if isinstance(result, int):
            return result
        dtype, quant = result if isinstance(result, tuple) else (result, None)
        return self.tensor(dtype, (), quant)

    def _code(self, kind: str, custom: str) -> int:
        number = getattr(tfl.BuiltinOperator, kind)
        for index, code in enumerate(self.model.operatorCodes):
            if (code.builtinCode, code.customCode or "") == (number, custom):
                return index
        code = tfl.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        code.version, code.customCode = 1, custom or None
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def outputs(self, *tensors: int) -> Net:
        self.graph.outputs = list(tensors)
        return self

    def shaped(self, feeds: Sequence[np.ndarray]) -> Net:
        """State the shapes that results have of these feeds: without, XNNPACK leaves operators to
        LiteRT's kernels.
        """
        interpreter = _started(self.bytes(), feeds, delegated=False)
        interpreter.invoke()
        for index, tensor in enumerate(self.model.subgraphs[0].tensors):
            tensor.shape = interpreter._get_tensor_details(index, 0)["shape"].tolist()
        return self

    def bytes(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def litert(data: bytes, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of LiteRT's own kernels."""
    return litert_runs(data, [feeds])[0]


def litert_runs(
    data: bytes, runs: Sequence[Sequence[np.ndarray]], *, delegated: bool = False
) -> list[list[np.ndarray]]:
    """Those of several runs, one after another; `delegated`: of what XNNPACK takes, as by default,
    those of XNNPACK.
    """
    interpreter = _started(data, runs[0], delegated=delegated)
    inputs = interpreter.get_input_details()
    results = []
    for feeds in runs:
        for detail, feed in zip(inputs, feeds, strict=True):
            interpreter.set_tensor(detail["index"], feed)
        interpreter.invoke()
        details = interpreter.get_output_details()
        results.append([interpreter.get_tensor(d["index"]).copy() for d in details])
    return results


def _started(data: bytes, feeds: Sequence[np.ndarray], *, delegated: bool) -> Interpreter:
    """An interpreter that holds these feeds."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    resolver = OpResolverType.AUTO if delegated else kernels
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=resolver)
    inputs = interpreter.get_input_details()
    for detail, feed in zip(inputs, feeds, strict=True):
        if detail["shape"].tolist() != list(feed.shape):
            interpreter.resize_tensor_input(detail["index"], feed.shape)
    interpreter.allocate_tensors()
    for detail, feed in zip(inputs, feeds, strict=True):
        interpreter.set_tensor(detail["index"], feed)
    return interpreter


def taken(data: bytes, feeds: Sequence[np.ndarray]) -> bool:
    """Whether XNNPACK takes an operator of a model."""
    started = _started(data, feeds, delegated=True)
    return "DELEGATE" in [op["op_name"] for op in started._get_ops_details()]


def infused(graph: Graph, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs that the graph says."""
    named: Mapping[str, Any] = {v.name: feed for v, feed in zip(graph.inputs, feeds)}
    return list(evaluate(graph, named).values())


def agree(net: Net, *feeds: np.ndarray, tolerance: float = 1e-6) -> Graph:
    """Assert that a model computes what LiteRT computes: floats within this part of the largest,
    scaled integers within one unit, all else exactly.
    """
    data = net.bytes()
    graph = infuse.load(data)
    compare(net, infused(graph, feeds), litert(data, feeds), tolerance)
    return graph


def compare(
    net: Net, found: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float
) -> None:
    first = net.model.subgraphs[0]
    for number, (a, b) in enumerate(zip(found, expected)):
        assert a.shape == b.shape, (a.shape, b.shape)
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        scaled = first.tensors[first.outputs[number]].quantization is not None
        if b.dtype.kind == "f":
            scale = np.abs(b[np.isfinite(b)]).max(initial=0)
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(scale, 1e-6))
        elif scaled:
            assert np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0) <= 1
        else:
            np.testing.assert_array_equal(a, b)
