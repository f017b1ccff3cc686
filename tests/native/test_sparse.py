"""Models whose weights have zero blocks: the kernels that leave them out, beside float64 and the
dense kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from infuse import dtypes
from infuse.build.compile import Compilation, compile_graph
from infuse.build.staged import generate, lower_graph
from infuse.ir.graph import Graph, constant
from infuse.lowering.choice import Chooser
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime import CompiledModel
from infuse.targets import DotType, Target
from infuse.targets.cpu.lower.sparse import FORMS
from tests.native.builder import Builder
from tests.support.emulation import NEWEST, resolve

Rng = np.random.Generator
NATIVE = Target.resolve("native")
pytestmark = pytest.mark.row("Z3")


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


def quantized_graph(kind: str, weights: NDArray[Any]) -> Graph:
    """A product of dequantized operands, rounded to 8 bits again; weights [k, n], for Conv those of
    windows of 3 × 3.
    """
    write = Builder(kind)
    k, n = weights.shape
    steps = constant(np.linspace(0.01, 0.02, n, dtype=np.float32))
    scale, zero = constant(np.float32(0.05)), constant(np.uint8(117))
    shape = (2, k // 9, 6, 7) if kind == "Conv" else (20, k)
    x = write("DequantizeLinear", write.input(*shape, dtype=dtypes.uint8, name="x"), scale, zero)
    if kind == "Conv":
        filters = np.ascontiguousarray(weights.reshape(3, 3, k // 9, n).transpose(3, 2, 0, 1))
        w = write("DequantizeLinear", filters, steps, axis=0)
        y = write("Conv", x, w, pads=(1, 1, 1, 1))
    else:
        w = write("DequantizeLinear", weights, steps, axis=1)
        y = write("MatMul", x, w)
    write.graph.add_output(write("QuantizeLinear", y, constant(np.float32(0.5)), zero), "y")
    return write.graph


@pytest.mark.parametrize("kind", ["MatMul", "Conv"])
def test_integers_leave_out_zero_blocks(rng: Rng, kind: str) -> None:
    weights = np.asarray(Builder().blocks(288, 96, 20, dtype=dtypes.int8).const)
    graph = quantized_graph(kind, weights)
    assert "sparse_integer.hpp" in headers_of(graph)
    shape = (2, 32, 6, 7) if kind == "Conv" else (20, 288)
    feeds = {"x": rng.integers(0, 256, shape, np.uint8)}
    with compile_graph(graph) as model:
        y = model.run(feeds)["y"]
    dense = Chooser(NATIVE.machine, forced=lambda key: key.names[0])
    generated = generate(graph, NATIVE, chooser=dense)
    folder = Compilation(graph, CompileOptions(threads=1)).build(generated)
    with CompiledModel.load(folder, 1) as model:
        np.testing.assert_array_equal(y, model.run(feeds)["y"])
    exact = evaluate(graph, feeds)["y"]
    assert np.abs(y.astype(int) - exact.astype(int)).max() <= 1  # a tie of the rounding


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_only_the_run_knows(rng: Rng, threads: int) -> None:
    weights = in_blocks(rng, 128, 80, 0.1)
    graph = product_graph("MatMul", weights, rows="n")
    bias = np.linspace(-1, 1, 80, dtype=np.float32)
    with compile_graph(graph, CompileOptions(threads=threads)) as model:
        for rows in (1, 7, 16, 100):
            x = rng.uniform(-1, 1, (rows, 128)).astype(np.float32)
            exact = np.maximum(x.astype(np.float64) @ weights + bias, 0)
            np.testing.assert_allclose(model.run({"x": x})["y"], exact, rtol=1e-5, atol=2e-5)


def test_dense_weights_and_other_precisions_stay_dense(rng: Rng) -> None:
    dense = rng.uniform(-1, 1, (256, 200)).astype(np.float32)
    assert "sparse.hpp" not in headers_of(product_graph("MatMul", dense))
    scattered = dense * (rng.random(dense.shape) < 0.2)
    assert "sparse.hpp" not in headers_of(product_graph("MatMul", scattered))
    few = in_blocks(rng, 256, 200, 0.1)
    assert "sparse.hpp" not in headers_of(product_graph("MatMul", few), precision="fp16")


def test_all_weights_may_be_zero(rng: Rng) -> None:
    graph = product_graph("MatMul", np.zeros((64, 40), np.float32))
    x = rng.uniform(-1, 1, (20, 64)).astype(np.float32)
    with compile_graph(graph) as model:
        y = model.run({"x": x})["y"]
    bias = np.linspace(-1, 1, 40, dtype=np.float32)
    np.testing.assert_array_equal(y, np.broadcast_to(np.maximum(bias, 0), y.shape))


def test_only_blocks_that_are_not_zero_are_stored(rng: Rng) -> None:
    weights = in_blocks(rng, 512, 512, 0.2)
    program = lower_graph(product_graph("MatMul", weights), NATIVE)
    filled = np.count_nonzero(weights) * 4
    assert filled < program.weights.bytes < 1.1 * filled


def test_integers_are_stored_once(rng: Rng) -> None:
    weights = np.asarray(Builder().blocks(512, 512, 800, dtype=dtypes.int8).const)
    program = lower_graph(quantized_graph("MatMul", weights), NATIVE)
    filled = np.count_nonzero(weights)
    assert filled <= program.weights.bytes < 1.2 * filled * layout_words()
    dense = rng.integers(1, 100, (512, 512), np.int8)
    program = lower_graph(quantized_graph("MatMul", dense), NATIVE)
    assert program.weights.bytes < 1.1 * dense.size * layout_words()


def layout_words() -> int:
    """Bytes of a packed integer on this machine."""
    unit = NATIVE.machine.dot(DotType.U8S8)
    return 1 if unit is not None and unit.products == 4 else 2


def test_tile_registers_are_not_given_up_for_few_zeros() -> None:
    """Blocks are multiplied by vectors, so they must leave out more where there are tiles."""
    sizes = (128, 768, 192, 48 * 192 * 2 // 5)
    plain = resolve("x86-64-v4+avx512_vnni").machine
    for machine, chosen in ((plain, "blocks"), (resolve(NEWEST).machine, "dense")):
        assert Chooser(machine).choose("sparse_integer", sizes, FORMS).chosen == chosen
