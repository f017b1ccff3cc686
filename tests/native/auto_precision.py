"""Networks with a layer that rounding hurts, and clocks that tell what a test wants."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.ir.graph import Graph, Value, constant
from infuse.options import Auto, CompileOptions
from infuse.runtime.interface import Model
from tests.native.builder import Builder

Runs = Mapping[str, Callable[[], object]]
SIZE = 32


class Clock:
    """Tells for each precision the seconds that it is given, for mixed ones those of `mixed`; and
    remembers what it was asked.
    """

    def __init__(self, mixed: float = 0.6, **seconds: float) -> None:
        self._seconds = {"fp32": 1.0, "fp16": 0.5, "bf16": 0.4, **seconds}
        self._mixed = mixed
        self.asked: list[list[str]] = []
        self.noise = 1.0

    def __call__(self, runs: Runs) -> dict[str, list[float]]:
        self.asked.append([*runs])
        for run in runs.values():
            run()
        least = {name: self._seconds.get(name, self._mixed) for name in runs}
        return {name: [self.noise * seconds, seconds] for name, seconds in least.items()}


def cancelling(rng: np.random.Generator, columns: int = SIZE) -> NDArray[np.float32]:
    """Weights near 1000: with rows whose sum is zero, all that matters is what rounding takes."""
    return (1000 + rng.standard_normal((SIZE, columns))).astype(np.float32)


def tame(rng: np.random.Generator, columns: int = SIZE) -> NDArray[np.float32]:
    return (rng.standard_normal((SIZE, columns)) / np.sqrt(SIZE)).astype(np.float32)


class Network(Builder):
    """Layers by name on rows of `SIZE` numbers; their weights in `weights`."""

    def __init__(self) -> None:
        super().__init__("network")
        self.x = self.input("n", SIZE, name="x")
        self.weights: dict[str, NDArray[np.float32]] = {}

    def layer(self, x: Value, name: str, weights: NDArray[np.float32]) -> Value:
        self.weights[name] = weights
        y = self("MatMul", x, constant(weights, name))
        assert y.producer is not None
        y.producer.name = name
        return y

    def centred(self, x: Value) -> Value:
        return self("Sub", x, self("ReduceMean", x, [-1], keepdims=1))


def sensitive() -> Network:
    """Three tame layers, and beside them one whose rounding the output shows."""
    make = Network()
    h = make("Relu", make.layer(make.x, "first", tame(make.rng)))
    h = make("Relu", make.layer(h, "second", tame(make.rng)))
    h = make.layer(h, "third", tame(make.rng))
    make.output(make("Add", h, make.layer(make.centred(make.x), "delicate", cancelling(make.rng))))
    return make


def exact(make: Network, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """What `sensitive` computes, in float64."""
    w = {name: array.astype(np.float64) for name, array in make.weights.items()}
    wide = x.astype(np.float64)
    h = np.maximum(np.maximum(wide @ w["first"], 0) @ w["second"], 0) @ w["third"]
    return h + (wide - wide.mean(axis=-1, keepdims=True)) @ w["delicate"]


def compiled(
    graph: Graph,
    bound: float = 1e-2,
    data: Any = None,
    timer: Clock | None = None,
    output: Path | None = None,
) -> Model:
    request = Auto(bound, data, timer or Clock())
    return compile_graph(graph, CompileOptions(precision=request, threads=1), output=output)


def precisions(model: Model) -> dict[str, str]:
    """Of the layers in the report."""
    layers: Sequence[Mapping[str, str]] = model.metadata["precision_report"]["layers"]
    return {layer["node"]: layer["precision"] for layer in layers}


def labels(make: Builder, near: NDArray[np.float32]) -> None:
    """An output of floats, and which of its elements is the largest."""
    y = make("MatMul", make.input("n", len(near), name="x"), near)
    make.output(y, make("ArgMax", y, axis=-1, keepdims=0))


def random_rows(make: Builder, count: int = 5) -> dict[str, Any]:
    return {"x": make.rng.standard_normal((count, SIZE)).astype(np.float32)}


FLOAT = dtypes.float32
