"""Runtimes made for phones, which convert an ONNX file to a format of their own first; in full
precision.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs import DEFAULT_DIMS, make_inputs

Arrays = dict[str, np.ndarray]


class Ncnn:
    """ncnn, by way of pnnx; images one at a time, for its tensors have no batch."""

    def __init__(self, path: Path, threads: int) -> None:
        import ncnn

        start = time.perf_counter()
        inputs = make_inputs(path, DEFAULT_DIMS)
        if any(array.ndim != 4 or len(array) != 1 for array in inputs.values()):
            raise ValueError("it takes single images only")
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = threads
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        options.use_bf16_storage = False
        shapes = ",".join(f"[{','.join(map(str, array.shape))}]f32" for array in inputs.values())
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "model.onnx")
            target.symlink_to(path.resolve())
            _convert(["pnnx", target.name, f"inputshape={shapes}", "fp16=0"], folder)
            self.net.load_param(str(Path(folder, "model.ncnn.param")))
            self.net.load_model(str(Path(folder, "model.ncnn.bin")))
        self.facts = {"open_s": time.perf_counter() - start}
        self.outputs = output_names(path)

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        import ncnn

        if any(len(array) != 1 for array in inputs.values()):
            raise ValueError("it takes single images only")
        extractor = self.net.create_extractor()
        for number, array in enumerate(inputs.values()):
            extractor.input(f"in{number}", ncnn.Mat(array[0]))
        return [extractor.extract(f"out{number}")[1] for number in range(len(self.outputs))]

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine."""
        return {
            name: np.array(found)[None]
            for name, found in zip(self.outputs, self.run(inputs), strict=True)
        }


class Mnn:
    """MNN's CPU backend."""

    def __init__(self, path: Path, threads: int) -> None:
        import MNN

        start = time.perf_counter()
        self.outputs = output_names(path)
        self.inputs = list(make_inputs(path, DEFAULT_DIMS))
        config = {"backend": "CPU", "precision": "high", "numThread": threads}
        manager = MNN.nn.create_runtime_manager((config,))
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "model.mnn")
            options = [
                "--modelFile",
                str(path.resolve()),
                "--MNNModel",
                str(target),
                "--bizCode",
                "none",
            ]
            _convert(["mnnconvert", "-f", "ONNX", *options], folder)
            self.net = MNN.nn.load_module_from_file(
                str(target),
                self.inputs,
                self.outputs,
                runtime_manager=manager,
                dynamic=False,
                shape_mutable=False,
            )
        self.facts = {"open_s": time.perf_counter() - start}

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        from MNN import expr

        given = []
        for name in self.inputs:
            array = (
                inputs[name].astype(np.int32) if inputs[name].dtype == np.int64 else inputs[name]
            )
            value = expr.placeholder(
                array.shape, expr.NCHW, expr.int if array.dtype == np.int32 else expr.float
            )
            value.write(np.ascontiguousarray(array))
            given.append(value)
        return [expr.convert(found, expr.NCHW).read() for found in self.net.forward(given)]

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine."""
        return {
            name: np.array(found)
            for name, found in zip(self.outputs, self.run(inputs), strict=True)
        }


def output_names(path: Path) -> list[str]:
    """Names of an ONNX file's outputs."""
    import onnx

    return [value.name for value in onnx.load(path, load_external_data=False).graph.output]


def _convert(command: Sequence[str], folder: str) -> None:
    """Run a converter that was installed beside this Python; RuntimeError with its last words where
    it fails.
    """
    tool = Path(sys.executable).parent / command[0]
    found = subprocess.run(
        [tool, *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise RuntimeError(f"{command[0]}: {(found.stderr or found.stdout).strip()[-300:]}")
