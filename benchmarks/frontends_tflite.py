"""Models of TensorFlow Lite beside LiteRT: `python -m benchmarks.frontends_tflite PLACE …`.

For every `.tflite` file: whether Infuse reads it, its nodes, the transposes before and after
optimization, and the largest difference from LiteRT's own kernels on random inputs, as a part of
the largest output. Good models to try lie in the wheels of mediapipe and basic-pitch
(`pip download --no-deps mediapipe==0.10.14`, then unzip).
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
        difference = compared(file, graph)
        wrong += not difference <= options.tolerance
        better = infuse.optimize(graph)
        print(
            f"{file.name:42} {len(graph):5} nodes in {seconds:.2f} s, {transposes(graph):3} → "
            f"{transposes(better):2} transposes, difference {difference:.1e}"
        )
    print(f"{len(files)} models, {read} read, {read - wrong} agree")
    return int(wrong > 0)


def transposes(graph: Graph) -> int:
    """How many there are."""
    return sum(node.kind == "Transpose" for node in graph.nodes)


def compared(file: Path, graph: Graph) -> float:
    """The largest difference of an output, as a part of its largest element."""
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_path=str(file), experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    rng, feeds = np.random.default_rng(0), {}
    inputs = [value for value in graph.inputs if value.default is None]
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        feeds[value.name] = _random(rng, detail)
        interpreter.set_tensor(detail["index"], feeds[value.name])
    interpreter.invoke()
    ours = evaluate(graph, feeds).values()
    differences = [0.0]
    for detail, found in zip(interpreter.get_output_details(), ours):
        expected = interpreter.get_tensor(detail["index"])
        if found.shape != expected.shape or found.dtype != expected.dtype:
            return float("nan")
        wide = expected.astype(np.float64)
        largest = np.abs(wide).max(initial=0) or 1.0
        differences.append(float(np.abs(found - wide).max(initial=0) / largest))
    return max(differences)


def _random(rng: np.random.Generator, detail: dict[str, Any]) -> np.ndarray:
    shape, dtype = detail["shape"], np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -128), min(info.max, 127) + 1, shape).astype(dtype)


if __name__ == "__main__":
    sys.exit(main())
