"""The runtimes that are compared, behind one small interface. Nothing of a runtime is imported
before it is opened.
"""

import importlib
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.mobile_engines import Mnn, Ncnn, output_names

Arrays = dict[str, np.ndarray]
TRACT_TYPES = {"float32": "f32", "int64": "i64", "bool": "bool"}


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
        better = infuse.optimize(graph, "all")
        optimized = time.perf_counter()
        self.model = infuse.compile(
            better, infuse.CompileOptions(threads=threads, precision=precision)
        )
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
    """OpenVINO's CPU plugin, asked for latency. Without a precision it is the plugin's choice:
    bfloat16 where the processor multiplies in that, else fp32.
    """

    def __init__(self, path: Path, threads: int, precision: str | None = "fp32") -> None:
        import openvino

        start = time.perf_counter()
        core = openvino.Core()
        config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        if precision:
            config["INFERENCE_PRECISION_HINT"] = {"fp32": "f32"}.get(precision, precision)
        self.compiled = core.compile_model(str(path), "CPU", config)
        self.request = self.compiled.create_infer_request()
        chosen = self.compiled.get_property("INFERENCE_PRECISION_HINT")
        self.facts = {"open_s": time.perf_counter() - start, "bits": chosen.bitwidth}

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        return self.request.infer(inputs, share_inputs=True, share_outputs=True)

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine."""
        results = self.run(inputs)
        return {port.get_any_name(): np.array(results[port]) for port in self.compiled.outputs}


class Tract:
    """tract, whose Python package computes in one thread; prepared for the sizes of the first
    inputs that it meets.
    """

    def __init__(self, path: Path, threads: int) -> None:
        import tract

        if threads != 1:
            raise ValueError("it has one thread only")
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            self.model = tract.onnx().load(_without_sizes(path, Path(folder, "model.onnx")))
        self.facts = {"open_s": time.perf_counter() - start}
        self.inputs = [self.model.input_name(i) for i in range(self.model.input_count())]
        self.outputs = output_names(path)
        self.runnable: Any = None

    def run(self, inputs: Arrays) -> Any:
        """See Engine; the first run compiles."""
        self.runnable = self.runnable or self._prepare(inputs)
        return [value.to_numpy() for value in self.runnable.run([inputs[x] for x in self.inputs])]

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine; what compiling cost is known once it has run."""
        return dict(zip(self.outputs, self.run(inputs), strict=True))

    def _prepare(self, inputs: Arrays) -> Any:
        start = time.perf_counter()
        for i, name in enumerate(self.inputs):
            array = inputs[name]
            sizes = [str(size) for size in array.shape]
            self.model.set_input_fact(i, ",".join([*sizes, TRACT_TYPES[array.dtype.name]]))
        for i in range(len(self.outputs)):
            self.model.set_output_fact(i, None)  # their sizes follow from those of the inputs
        runnable = self.model.into_model().into_runnable()
        self.facts["compile_s"] = time.perf_counter() - start
        return runnable


def _without_sizes(path: Path, file: Path) -> Path:
    """The same model written without the sizes of values inside: where they hold symbols, tract
    refuses numbers for the inputs.
    """
    import onnx

    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, file)
    return file


def later(module: str, name: str) -> Callable[..., Engine]:
    """An engine of a module that is imported when it is opened, for that is heavy."""

    def opened(*arguments: Any) -> Engine:
        made: Engine = getattr(importlib.import_module(module), name)(*arguments)
        return made

    return opened


EXACT = "float64"
"""The witness, benchmarks/exact.py."""
ENGINES: dict[str, Any] = {
    "infuse": Infuse,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "openvino-default": partial(OpenVino, precision=None),
    "ncnn": Ncnn,
    "mnn": Mnn,
    "tract": Tract,
    "torch-inductor": later("benchmarks.torch_engines", "Inductor"),
    "litert": later("benchmarks.torch_engines", "LiteRt"),
    EXACT: later("benchmarks.exact", "Exact"),
}
REFERENCE = "onnxruntime"
PRECISIONS = {"bf16": ("infuse", "openvino"), "bf16x2": ("infuse",), "fp16": ("infuse",)}
"""Engines that also run in other precisions than fp32."""
