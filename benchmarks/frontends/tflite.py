"""Files of TensorFlow Lite beside LiteRT's reference kernels: a model agrees, too, where it is no
further from them than LiteRT's optimized kernels are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from benchmarks.frontends import Case, Feeds, file_case, files
from infuse.ir.graph import Graph

FAST = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def cases(names: Sequence[str]) -> Iterator[Case]:
    """The files of places."""
    for file in files(map(Path, names), "*.tflite"):
        case = file_case(
            file,
            lambda feeds, file=file: _outputs(file, OpResolverType.BUILTIN_REF, feeds),
            lambda graph, file=file: _random(file, graph),
        )
        yield replace(case, near=lambda feeds, file=file: _outputs(file, FAST, feeds))


def _interpreter(file: Path, kernels: OpResolverType) -> Interpreter:
    interpreter = Interpreter(model_path=str(file), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    return interpreter


def _outputs(file: Path, kernels: OpResolverType, feeds: Feeds) -> list[np.ndarray]:
    interpreter = _interpreter(file, kernels)
    for detail, feed in zip(interpreter.get_input_details(), feeds.values(), strict=True):
        interpreter.set_tensor(detail["index"], feed)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def _random(file: Path, graph: Graph) -> Feeds:
    details = _interpreter(file, OpResolverType.BUILTIN_REF).get_input_details()
    inputs = [value for value in graph.inputs if value.default is None]
    rng = np.random.default_rng(0)
    return {v.name: _array(rng, detail) for v, detail in zip(inputs, details, strict=True)}


def _array(rng: np.random.Generator, detail: dict[str, Any]) -> np.ndarray:
    shape, dtype = detail["shape"], np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -128), min(info.max, 127) + 1, shape).astype(dtype)
