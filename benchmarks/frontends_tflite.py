"""Models of TensorFlow Lite beside LiteRT: `python -m benchmarks.frontends_tflite PLACE …`.

For every `.tflite` file: whether Infuse reads it, its nodes, the transposes before and after
optimization, and the largest difference from LiteRT's reference kernels on random inputs, as a part
of the largest output, beside that of LiteRT's optimized kernels from them: a model agrees where its
difference is below a tolerance or that one. Good models to try lie in the wheels of mediapipe and
basic-pitch (`pip download --no-deps mediapipe==0.10.14`, then unzip).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import infuse
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="+", type=Path, metavar="PLACE")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args(arguments)
    files = [
        file
        for p in options.places
        for file in (sorted(p.rglob("*.tflite")) if p.is_dir() else [p])
    ]
    read = wrong = 0
    for file in files:
        try:
            begin = time.perf_counter()
            graph = infuse.load(file)
            seconds = time.perf_counter() - begin
        except InfuseError as error:
            print(f"{file.name:42} refused: {error}")
            continue
        read += 1
        difference, spread = compared(file, graph)
        wrong += not difference <= max(options.tolerance, spread)
        better = infuse.optimize(graph)
        print(
            f"{file.name:42} {len(graph):5} nodes in {seconds:.2f} s, {transposes(graph):3} → "
            f"{transposes(better):2} transposes, difference {difference:.1e} (theirs {spread:.1e})"
        )
    print(f"{len(files)} models, {read} read, {read - wrong} agree")
    return int(wrong > 0)


def transposes(graph: Graph) -> int:
    """How many there are."""
    return sum(node.kind == "Transpose" for node in graph.nodes)


def compared(file: Path, graph: Graph) -> tuple[float, float]:
    """The largest difference of our outputs, and of those of LiteRT's optimized kernels."""
    interpreter = _interpreter(file, OpResolverType.BUILTIN_REF)
    rng, feeds = np.random.default_rng(0), {}
    inputs = [value for value in graph.inputs if value.default is None]
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        feeds[value.name] = _random(rng, detail)
    expected = _outputs(interpreter, list(feeds.values()))
    fast = _interpreter(file, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    theirs = _outputs(fast, list(feeds.values()))
    ours = list(evaluate(graph, feeds).values())
    return _difference(ours, expected), _difference(theirs, expected)


def _interpreter(file: Path, kernels: OpResolverType) -> Interpreter:
    interpreter = Interpreter(model_path=str(file), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    return interpreter


def _outputs(interpreter: Interpreter, feeds: list[np.ndarray]) -> list[np.ndarray]:
    for detail, feed in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], feed)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def _difference(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference of an output, as a part of its largest element."""
    largest = 0.0
    for ours, theirs in zip(found, expected):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return float("nan")
        wide = theirs.astype(np.float64)
        scale = np.abs(wide).max(initial=0) or 1.0
        largest = max(largest, float(np.abs(ours - wide).max(initial=0) / scale))
    return largest


def _random(rng: np.random.Generator, detail: dict[str, Any]) -> np.ndarray:
    shape, dtype = detail["shape"], np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -128), min(info.max, 127) + 1, shape).astype(dtype)


if __name__ == "__main__":
    sys.exit(main())
