"""SplineTransformer beside scikit-learn: at knots, beside them, far outside, and at NaN."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate

preprocessing = pytest.importorskip("sklearn.preprocessing", reason="fits the models")

RNG = np.random.default_rng(0)
X = np.stack([RNG.normal(size=80), RNG.integers(0, 4, 80)], axis=1)
ODD = np.array([[0.0, -0.0], [-0.0, 5e-324], [50, -50], [-1e9, 1e9], [1e-310, 3]])
LOST = np.array([[np.nan, 1.0], [0.5, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize("extrapolation", ["error", "constant", "linear", "continue", "periodic"])
@pytest.mark.parametrize("degree", range(5))
def test_splines(extrapolation: str, degree: int) -> None:
    for knots, bias in product(("uniform", "quantile"), (True, False)):
        model = preprocessing.SplineTransformer(
            6,
            degree=degree,
            knots=knots,
            extrapolation=extrapolation,
            include_bias=bias,
            handle_missing="zeros",
        ).fit(X)
        ends = [s.t[degree : len(s.t) - degree] for s in model.bsplines_]
        at = np.stack([np.resize(end, 8) for end in ends], axis=1)
        tables = [X, at, LOST]
        # The library fails where splines of degree 0 end; "error" is a test of its own.
        if extrapolation != "error" and (degree or extrapolation in ("continue", "periodic")):
            tables += [np.nextafter(at, 99), np.nextafter(at, -99), ODD]
        graph = infuse.load(model)
        for x in tables:
            found, expected = evaluate(graph, {"x": x})["transformed"], model.transform(x)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_what_lies_outside_ends_the_run_where_asked_for() -> None:
    model: Any = preprocessing.SplineTransformer(4, extrapolation="error").fit(X)
    graph = infuse.load(model)
    with infuse.compile(graph) as compiled:
        np.testing.assert_allclose(compiled.run({"x": X})["transformed"], model.transform(X))
        for run in (lambda x: evaluate(graph, x), compiled.run):
            with pytest.raises(InfuseError):
                run({"x": np.array([[99.0, 1.0]])})
