"""The places of the largest elements, as training reads them."""

from __future__ import annotations

import numpy as np
import pytest

from infuse.build.compile import compile_graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from tests.native.kernel_tools import targets

GRAPH = """graph "pool" (%x: float32[n, c, h, w]) {{
  %y, %i = MaxPool(%x, kernel_shape=({kernel}), strides=({strides}), dilations=({dilations}),
      pads=({pads}), storage_order={order})
  return y = %y, i = %i
}}"""


@pytest.mark.parametrize("target", targets())
def test_places_are_those_of_the_first_of_equals(target: str, rng: np.random.Generator) -> None:
    for kernel, strides, dilations, pads, order in [
        ("2, 2", "2, 2", "1, 1", "0, 0, 0, 0", 0),
        ("3, 2", "1, 2", "1, 1", "1, 1, 2, 0", 1),
        ("2, 3", "2, 1", "2, 2", "1, 2, 1, 2", 0),
    ]:
        graph = parse(
            GRAPH.format(
                kernel=kernel, strides=strides, dilations=dilations, pads=pads, order=order
            )
        )
        with compile_graph(graph, CompileOptions(target=target)) as model:
            for shape in [(1, 1, 6, 7), (2, 6, 8, 6), (1, 16, 5, 5), (1, 37, 6, 6), (1, 70, 5, 6)]:
                x = rng.integers(-3, 3, shape).astype(np.float32)
                x[rng.random(shape) < 0.02] = np.nan
                x[rng.random(shape) < 0.02] = -np.inf
                for found, expected in zip(model(x), evaluate(graph, {"x": x}).values()):
                    np.testing.assert_array_equal(found, expected)
