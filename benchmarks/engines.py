"""The runtimes that are compared, behind one small interface. Nothing of a runtime is imported
before it is opened.
"""

import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.mobile_engines import Mnn, Ncnn

Arrays = dict[str, np.ndarray]


class Engine(Protocol):
    """A model opened in one runtime, in full precision unless another one is asked for."""

    facts: dict[str, float]
    """What opening cost and what the plan is: seconds and bytes, by name."""

    def run(self, inputs: Arrays) -> Any:
        """One inference in the runtime's own form: this call is what is timed."""

    def answer(self, inputs: Arrays) -> Arrays:
        """One inference as arrays by output name."""


class Infuse:
    """This project; a folder is a model that was compiled before."""

    def __init__(self, path: Path, threads: int, precision: str = "fp32") -> None:
        import infuse

        if path.is_dir():
            start = time.perf_counter()
            self.model: Any = infuse.load_compiled(path, threads)
            self.facts = {"open_s": time.perf_counter() - start}
            return
        start = time.perf_counter()
        graph = infuse.load(path)
        loaded = time.perf_counter()
        better = infuse.optimize(graph, level="all")
        optimized = time.perf_counter()
        self.model = infuse.compile(better, threads=threads, precision=precision)
        end = time.perf_counter()
        self.facts = {
            "open_s": end - start,
            "load_s": loaded - start,
            "optimize_s": optimized - loaded,
            "compile_s": end - optimized,
            "nodes_before": len(graph.nodes),
            "nodes_after": len(better.nodes),
        }

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        return self.model.run(inputs)

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine; the arena is known once it has run."""
        outputs = {name: np.array(value) for name, value in self.model.run(inputs).items()}
        self.facts["arena_bytes"] = self.model.arena_bytes
        self.facts["arena_lower_bound"] = self.model.arena_lower_bound
        return outputs


class OnnxRuntime:
    """ONNX Runtime's CPU provider with all its optimizations."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        start = time.perf_counter()
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.facts = {"open_s": time.perf_counter() - start}
        self.names = [value.name for value in self.session.get_outputs()]

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        return self.session.run(None, inputs)

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine."""
        return dict(zip(self.names, self.run(inputs), strict=True))


class OpenVino:
    """OpenVINO's CPU plugin, asked for latency."""

    def __init__(self, path: Path, threads: int, precision: str = "fp32") -> None:
        import openvino

        start = time.perf_counter()
        core = openvino.Core()
        config = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": {"fp32": "f32"}.get(precision, precision),
            "PERFORMANCE_HINT": "LATENCY",
        }
        self.compiled = core.compile_model(str(path), "CPU", config)
        self.request = self.compiled.create_infer_request()
        self.facts = {"open_s": time.perf_counter() - start}

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        return self.request.infer(inputs, share_inputs=True, share_outputs=True)

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine."""
        results = self.run(inputs)
        return {port.get_any_name(): np.array(results[port]) for port in self.compiled.outputs}


def exact(path: Path, threads: int) -> Engine:
    """The witness in float64 (benchmarks/exact.py), whose imports are heavy."""
    from benchmarks.exact import Exact

    return Exact(path, threads)


EXACT = "float64"
ENGINES: dict[str, Any] = {
    "infuse": Infuse,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "ncnn": Ncnn,
    "mnn": Mnn,
    EXACT: exact,
}
REFERENCE = "onnxruntime"
PRECISIONS = {"bf16": ("infuse", "openvino"), "fp16": ("infuse",)}
"""Engines that also run in other precisions than fp32."""
