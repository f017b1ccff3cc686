"""Models in other floating types than float32 run natively as they are."""

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.ir.parser import parse
from infuse.ops.core.base import Rounding
from infuse.ops.core.evaluate import evaluate
from infuse.testing.compare import assert_agrees

GRAPH = """graph "layer" (%x: {0}[n, 24], %w: {0}[24, 9]) {{
  %product = MatMul(%x, %w)
  %limited = Tanh(%product)
  %y = Softmax(%limited)
  return y = %y
}}"""


@pytest.mark.row("R3")
@pytest.mark.parametrize(
    ("name", "near"), [("float16", 2.0**-9), ("bfloat16", 2.0**-6), ("float64", 1e-12)]
)
def test_a_layer_in_its_own_type(name: str, near: float, rng: np.random.Generator) -> None:
    dtype = dtypes.by_name(name)
    graph = parse(GRAPH.format(name))
    with infuse.compile(graph) as model:
        for rows in (1, 5):
            feeds = {"x": rng.standard_normal((rows, 24)), "w": rng.standard_normal((24, 9)) / 5}
            given = {key: value.astype(dtype.numpy) for key, value in feeds.items()}
            exact = parse(GRAPH.format("float64"))
            expected = evaluate(
                exact, {key: value.astype(np.float64) for key, value in given.items()}
            )["y"]
            found = model.run(given)["y"]
            assert found.dtype == dtype.numpy
            assert_agrees(found, expected, Rounding(ulp=4, abs=near))
