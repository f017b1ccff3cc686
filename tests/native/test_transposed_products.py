"""Products of a transposed operand with constant weights, which are packed as those of others."""

import numpy as np
import pytest

import infuse
from infuse.build.staged import generate
from infuse.ir.expression import Call, Variable
from infuse.targets import Target
from infuse.testing.patterns import graph_of

pytestmark = pytest.mark.row("G29")
X = Variable("x")


@pytest.mark.parametrize("rows", [1, 19, 64])
@pytest.mark.parametrize("turned", [0, 1])
def test_columns_meet_packed_weights(rows: int, turned: int, rng: np.random.Generator) -> None:
    weights = rng.standard_normal((45, 37) if turned else (37, 45), np.float32)
    shift = rng.standard_normal(45, np.float32)
    gemm = {"transA": 1, "transB": turned, "alpha": 0.5}
    graph = graph_of(Call("Gemm", (X, weights, shift), gemm), x=(37, rows))
    program, _ = generate(graph, Target.resolve("native"))
    assert [step.label for step in program.steps][-1] == "Gemm"
    x = rng.standard_normal((37, rows), np.float32)
    matrix = (weights.T if turned else weights).astype(np.float64)
    expected = 0.5 * (x.T.astype(np.float64) @ matrix) + shift
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        np.testing.assert_allclose(model.run({"x": x})["y0"], expected, rtol=0, atol=2e-5)


def test_what_is_transposed_is_put_in_order_once(rng: np.random.Generator) -> None:
    weights = rng.standard_normal((37, 45), np.float32)
    graph = graph_of(Call("Gemm", (X, weights), {"transA": 1}), x=(37, 53))
    program, _ = generate(graph, Target.resolve("native"))
    assert [step.label for step in program.steps] == ["reorder", "Gemm"]
