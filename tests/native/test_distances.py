"""Squares of distances from constant vectors: one kernel, whichever way a reader writes them."""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.ir import tensor
from infuse.ir.graph import constant
from infuse.lowering.expand import expand
from infuse.options import CompileOptions
from tests.native.builder import Builder

RNG = np.random.default_rng(0)


def distances(dtype: DType, vectors: Any, write: str) -> Builder:
    b = Builder("distances")
    x = b.graph.add_input("x", tensor(dtype, "n", vectors.shape[-1]))
    rows = b("Unsqueeze", x, constant(np.array([1])))
    if write == "x - v":
        apart = b("Sub", rows, constant(vectors))
    elif write == "v - x":
        apart = b("Sub", constant(vectors), rows)
    else:
        apart = b("Add", constant(-vectors), rows)
    b.output(b("ReduceSumSquare", apart, constant(np.array([-1])), keepdims=0))
    return b


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("write", ["x - v", "v - x", "x + -v"])
@pytest.mark.parametrize("shape", [(1, 3), (37, 5), (1, 37, 5), (200, 1)])
def test_one_kernel(shape: tuple[int, ...], write: str, dtype: DType) -> None:
    vectors = RNG.normal(size=shape).astype(dtype.numpy)
    b = distances(dtype, vectors, write)
    assert "SquareDistances" in {node.kind for node in expand(b.graph)[0].nodes}
    with compile_graph(b.graph, CompileOptions(threads=2)) as model:
        for rows in (0, 1, 50):
            x = RNG.normal(size=(rows, shape[-1])).astype(dtype.numpy)
            (result,) = model.run({"x": x}).values()
            wide = x[:, None].astype(np.float64) - vectors.reshape(shape[-2:])
            rtol = 1e-5 if dtype == dtypes.float32 else 1e-13
            np.testing.assert_allclose(result, (wide**2).sum(2), rtol=rtol)


def test_other_axes_are_left_alone() -> None:
    b = Builder("columns")
    x = b.graph.add_input("x", tensor(dtypes.float64, "n", 1, 5))
    apart = b("Sub", x, constant(RNG.normal(size=(4, 5))))
    b.output(b("ReduceSumSquare", apart, constant(np.array([1])), keepdims=0))
    b.output(b("ReduceSumSquare", apart, constant(np.array([2])), keepdims=0))
    assert "SquareDistances" not in {node.kind for node in expand(b.graph)[0].nodes}
