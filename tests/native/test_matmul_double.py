"""Products of doubles in native code, beside NumPy, for sizes around those of tiles and panels."""

from itertools import product

import numpy as np
import pytest

from infuse import dtypes
from infuse.codegen.compile import compile_graph
from infuse.ir import tensor
from tests.native.builder import Builder

ROWS, DEPTHS, COLUMNS = (0, 1, 5, 6, 7, 13, 97, 200), (0, 1, 3, 256, 257, 520), (1, 3, 8, 9, 17, 40)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_sizes_around_those_of_tiles(turned: tuple[bool, bool], threads: int) -> None:
    b = Builder("product")
    shapes = [sizes[::-1] if t else sizes for sizes, t in zip((("m", "k"), ("k", "n")), turned)]
    inputs = [b.graph.add_input(n, tensor(dtypes.float64, *s)) for n, s in zip("xy", shapes)]
    operands = [b("Transpose", v, perm=(1, 0)) if t else v for v, t in zip(inputs, turned)]
    b.output(b("MatMul", *operands))
    rng = np.random.default_rng(0)
    with compile_graph(b.graph, threads=threads) as model:
        for m, k, n in product(ROWS, DEPTHS, COLUMNS):
            left, right = rng.normal(size=(m, k)), rng.normal(size=(k, n))
            given = [np.ascontiguousarray(a.T if t else a) for a, t in zip((left, right), turned)]
            (found,) = model.run(dict(zip("xy", given))).values()
            bound = 1e-15 * (np.abs(left) @ np.abs(right)) * max(k, 1)
            assert found.shape == (m, n)
            assert (np.abs(found - left @ right) <= bound).all(), (m, k, n)


def test_batches_that_are_repeated() -> None:
    b = Builder("batches")
    x, y = (
        b.graph.add_input(n, tensor(dtypes.float64, *s))
        for n, s in (("x", (3, 1, 7, 11)), ("y", (4, 11, 19)))
    )
    b.output(b("MatMul", x, y))
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(3, 1, 7, 11)), rng.normal(size=(4, 11, 19))
    left[0, 0, 3] = np.nan
    left[1, 0, 2, 5] = np.inf
    with compile_graph(b.graph, threads=2) as model:
        (found,) = model.run({"x": left, "y": right}).values()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, left @ right, rtol=1e-12)
