"""Powers at -infinity and -0, which a square root is not, as the product compiles them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infuse
from infuse import dtypes
from tests.native.builder import Builder

VALUES = np.array([-np.inf, -0.0, 0.0, np.inf, 4.0, -4.0, np.nan, 1e-320, 2.25] * 5)


@pytest.mark.usefixtures("product_compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_a_half_are_no_square_roots(dtype: str) -> None:
    x = VALUES.astype(dtype)
    b = Builder("powers")
    value = b.input("n", dtype=dtypes.by_numpy(np.dtype(dtype)), name="x")
    b.output(b("Pow", value, 0.5))
    with infuse.compile(b.graph) as model:
        (found,) = model.run({"x": x}).values()
        # NumPy's power by one half is a square root, too.
        expected = np.array([math.pow(value, 0.5) if value != -4 else np.nan for value in x], dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
