"""Models whose weights have zero blocks: the kernels that leave them out, beside float64 and the
dense kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from infuse.codegen.compile import compile_graph, lower_graph
from infuse.ir.graph import Graph
from infuse.targets import Target
from tests.native.builder import Builder

Rng = np.random.Generator


def in_blocks(rng: Rng, k: int, n: int, part: float) -> NDArray[np.float32]:
    """A matrix of which this part of the blocks of 16 columns is not zero."""
    mask = np.repeat(rng.random((k, -(-n // 16))) < part, 16, axis=1)[:, :n]
    return np.asarray(rng.uniform(-1, 1, (k, n)) * mask, np.float32)


def product_graph(kind: str, weights: NDArray[Any], rows: int | str = 20) -> Graph:
    """Relu of a product with constant weights [k, n], and of its bias."""
    write = Builder(kind)
    k, n = weights.shape
    bias = np.linspace(-1, 1, n, dtype=np.float32)
    if kind == "Conv":
        filters = np.ascontiguousarray(weights.T).reshape(n, k, 1, 1)
        y = write("Conv", write.input(2, k, 3, rows, name="x"), filters, bias)
    elif kind == "Gemm":
        x = write.input(rows, k, name="x")
        y = write("Gemm", x, np.ascontiguousarray(weights.T), bias, transB=1)
    else:
        y = write("Add", write("MatMul", write.input(rows, k, name="x"), weights), bias)
    write.graph.add_output(write("Relu", y), "y")
    return write.graph


def headers_of(graph: Graph, target: str = "native", **options: Any) -> set[str]:
    """The kernel headers that a graph is compiled with."""
    program = lower_graph(graph, Target.resolve(target), **options)
    return set().union(*(step.function.includes for step in program.steps))


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
def test_products_leave_out_zero_blocks(rng: Rng, kind: str) -> None:
    weights = in_blocks(rng, 256, 200, 0.15)
    graph = product_graph(kind, weights)
    assert "sparse.hpp" in headers_of(graph)
    shape = (2, 256, 3, 20) if kind == "Conv" else (20, 256)
    x = rng.uniform(-1, 1, shape).astype(np.float32)
    with compile_graph(graph) as model:
        y = model.run({"x": x})["y"]
    rows = np.moveaxis(x, 1, -1) if kind == "Conv" else x
    exact = rows.astype(np.float64) @ weights + np.linspace(-1, 1, 200, dtype=np.float32)
    expected = np.maximum(np.moveaxis(exact, -1, 1) if kind == "Conv" else exact, 0)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-5)
