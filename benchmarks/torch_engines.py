"""Runtimes that take a network of the zoo from its PyTorch module rather than from the ONNX file:
the module of `zoo_models.recipe`, whose seeded weights are those of the file. Both are prepared for
the sizes of the first inputs that they meet, in full precision.

LiteRT needs `pip install litert-torch`, in a virtual environment of its own, for that pins older
packages than the tests need.
"""

import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.mobile_engines import output_names
from benchmarks.torchvision_schemas import make_importable
from benchmarks.zoo_models import NAMES, recipe

Arrays = dict[str, np.ndarray]


class Inductor:
    """`torch.compile` by inductor, with freezing and with its search of kernels (max-autotune)."""

    def __init__(self, path: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        start = time.perf_counter()
        module = _module(path)
        options = {
            "freezing": True,
            "max_autotune": True,
            "autotune_num_choices_displayed": 0,
            "cpp.threads": threads,
        }
        self.function = torch.compile(module, dynamic=False, fullgraph=True, options=options)
        self.facts = {"open_s": time.perf_counter() - start}
        self.outputs = output_names(path)

    def run(self, inputs: Arrays) -> Any:
        """See Engine; the first run compiles."""
        with torch.inference_mode():
            return self.function(*map(torch.from_numpy, inputs.values()))

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine; what compiling cost is known once it has run."""
        start = time.perf_counter()
        results = self.run(inputs)
        self.facts.setdefault("compile_s", time.perf_counter() - start)
        return {
            name: tensor.numpy()
            for name, tensor in zip(self.outputs, _tensors(results), strict=True)
        }


class LiteRt:
    """LiteRT with XNNPACK, of a file that litert-torch converts."""

    def __init__(self, path: Path, threads: int) -> None:
        start = time.perf_counter()
        self.module, self.threads = _module(path), threads
        self.facts = {"open_s": time.perf_counter() - start}
        self.outputs = output_names(path)
        self.runner: Any = None
        self.types: dict[str, np.dtype] = {}
        """Of the inputs; the converter makes int32 of token ids."""

    def run(self, inputs: Arrays) -> Any:
        """See Engine; the first run converts."""
        self.runner = self.runner or self._convert(inputs)
        arrays = {f"args_{i}": array for i, array in enumerate(inputs.values())}
        return self.runner(
            **{name: array.astype(self.types[name], copy=False) for name, array in arrays.items()}
        )

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine; what converting cost is known once it has run."""
        results = self.run(inputs)
        return {name: results[f"output_{i}"] for i, name in enumerate(self.outputs)}

    def _convert(self, inputs: Arrays) -> Any:
        import litert_torch
        from ai_edge_litert.interpreter import Interpreter

        start = time.perf_counter()
        example = tuple(map(torch.from_numpy, inputs.values()))
        with tempfile.TemporaryDirectory() as folder, _quiet():
            file = Path(folder, "model.tflite")
            litert_torch.convert(self.module, example).export(str(file))
            interpreter = Interpreter(model_content=file.read_bytes(), num_threads=self.threads)
        runner = interpreter.get_signature_runner()
        self.types = {name: told["dtype"] for name, told in runner.get_input_details().items()}
        self.facts["compile_s"] = time.perf_counter() - start
        return runner


def _module(path: Path) -> torch.nn.Module:
    name = path.stem.removesuffix(".dynamo")
    if name not in NAMES:
        raise ValueError("it is no network of benchmarks.zoo_models, whose module would be needed")
    make_importable()
    return recipe(name).model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _tensors(results: Any) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else list(results)
