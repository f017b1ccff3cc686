"""Normalizations whose data lie thousands of their deviations from zero: the mean is subtracted
before anything is squared, in the interpreter and in native code.
"""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.native.builder import Builder

SHAPE = (2, 6, 8, 9)
EPSILON = 1e-5
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "GroupNormalization": ({"num_groups": 3, "epsilon": EPSILON}, (6,), (2, 3, 4)),
    "InstanceNormalization": ({"epsilon": EPSILON}, (6,), (2, 3)),
    "LayerNormalization": ({"axis": 2, "epsilon": EPSILON}, (8, 9), (2, 3)),
    "MeanVarianceNormalization": ({"axes": (0, 2, 3)}, (), (0, 2, 3)),
}
"""By operator its attributes, the shape of its scale and bias, and the axes that are normalized,
once channels are groups of channels.
"""


@pytest.mark.parametrize("mean", [100, 5000, -100_000])
@pytest.mark.parametrize("kind", CASES)
def test_data_far_from_zero_are_normalized(kind: str, mean: float) -> None:
    attributes, scale, axes = CASES[kind]
    g = Builder()
    x = g.input(*SHAPE, name="x")
    weights = [np.ones(scale, np.float32), np.zeros(scale, np.float32)] if scale else []
    g.graph.add_output(g(kind, x, *weights, **attributes))
    (output,) = g.graph.outputs
    given = np.random.default_rng(0).standard_normal(SHAPE)
    data = (mean + given).astype(np.float32)
    groups = data.astype(np.float64)
    if kind == "GroupNormalization":
        groups = groups.reshape(2, 3, 2, 8, 9)
    centered = groups - groups.mean(axes, keepdims=True)
    right = (centered / np.sqrt(groups.var(axes, keepdims=True) + EPSILON)).reshape(SHAPE)
    bound = 1e-5 + abs(mean) * 4e-7  # the mean itself is rounded
    assert np.abs(evaluate(g.graph, {"x": data})[output.name] - right).max() < bound
    compiled = infuse.compile(infuse.optimize(g.graph))
    assert np.abs(compiled.run({"x": data})[output.name] - right).max() < bound
