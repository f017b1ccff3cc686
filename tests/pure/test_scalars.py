"""Graphs whose scalar constants are attributes, in files and in another optimization."""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.passes.run import opened
from tests.native.builder import Builder

pytestmark = pytest.mark.row("G3", "G30")
NUMBERS = (0.1, -1 / 3, 1e-3, 7.0)


def chain(dtype: DType) -> Graph:
    """Products, sums, differences and quotients with numbers that have all digits of the type."""
    b = Builder("chain")
    x = y = b.input("n", 3, name="x", dtype=dtype)
    for number in NUMBERS:
        scalar = np.asarray(number, dtype.numpy)
        y = b("Add", b("Mul", y, scalar), b("Tanh", x))
        y = b("Sub", scalar, b("Div", y, b("Exp", b("Div", scalar, b("Exp", x)))))
    b.output(y)
    return b.graph


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16])
def test_files_have_the_numbers_that_the_graph_had(dtype: DType, tmp_path: Path) -> None:
    graph = chain(dtype)
    closed = infuse.optimize(graph, "all")
    assert {"MulScalar", "RSubScalar"} & {node.kind for node in closed.nodes}
    infuse.save(closed, tmp_path / "closed.onnx")
    infuse.save(closed, tmp_path / "closed.infuse")
    numbers = {float(np.asarray(n, dtype.numpy)) for n in NUMBERS}
    feeds = {"x": np.linspace(-2, 2, 12).reshape(4, 3).astype(dtype.numpy)}
    expected = evaluate(closed, feeds)["y0"]
    for name in ("closed.onnx", "closed.infuse"):
        read = infuse.load(tmp_path / name)
        scalars = {
            float(v.const)
            for v in opened(read).constants()
            if v.const is not None and v.const.size == 1 and v.dtype == dtype
        }
        assert numbers <= scalars, name
        answer = evaluate(read, feeds)["y0"]
        assert answer.dtype == dtype.numpy
        step = 1e-6 if dtype.bits >= 32 else 2.0**-6  # a weighted sum is rounded once, or twice
        np.testing.assert_allclose(
            answer.astype(np.float64), expected.astype(np.float64), rtol=step, atol=step
        )


def test_weighted_sums_are_trained_through() -> None:
    """Gradients come from the formulas, as those of the operators that they stand for."""
    from infuse.training import differentiate

    b = Builder("sum")
    x, y = b.input(4, name="x"), b.input(4, name="y")
    total = b("Add", b("Mul", x, np.float32(0.3)), b("Mul", y, np.float32(-0.7)))
    b.output(b("ReduceSum", b("Mul", total, total), keepdims=0))
    closed = infuse.optimize(b.graph, "all")
    assert "WeightedSum" in {node.kind for node in closed.nodes}
    feeds = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
    gradient = evaluate(differentiate(closed, "y0", ["y"]), feeds)["gradient.y"]
    exact = 2 * -0.7 * (0.3 * feeds["x"] - 0.7 * feeds["y"])
    np.testing.assert_allclose(gradient, exact, rtol=1e-6)
