"""Products of doubles in native code, beside NumPy, for sizes around those of tiles and panels."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.ir import Graph, tensor
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.foreign import needs_emulator, run_foreign

ROWS, DEPTHS, COLUMNS = (0, 1, 5, 6, 7, 13, 97, 200), (0, 1, 3, 256, 257, 520), (1, 3, 8, 9, 17, 40)


def operands(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both factors, and how far a sum of their products may be from another order's."""
    rng = np.random.default_rng(m * n)
    left, right = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    return left, right, 1e-15 * (np.abs(left) @ np.abs(right)) * max(k, 1)


def product_of_two(turned: tuple[bool, bool] = (False, False)) -> Graph:
    b = Builder("product")
    shapes = [sizes[::-1] if t else sizes for sizes, t in zip((("m", "k"), ("k", "n")), turned)]
    inputs = [b.graph.add_input(n, tensor(dtypes.float64, *s)) for n, s in zip("xy", shapes)]
    b.output(
        b("MatMul", *(b("Transpose", v, perm=(1, 0)) if t else v for v, t in zip(inputs, turned)))
    )
    return b.graph


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_sizes_around_those_of_tiles(turned: tuple[bool, bool], threads: int) -> None:
    with compile_graph(product_of_two(turned), CompileOptions(threads=threads)) as model:
        for m, k, n in product(ROWS, DEPTHS, COLUMNS):
            left, right, bound = operands(m, k, n)
            fed = [np.ascontiguousarray(a.T if t else a) for a, t in zip((left, right), turned)]
            (result,) = model.run(dict(zip("xy", fed))).values()
            assert result.shape == (m, n)
            assert (np.abs(result - left @ right) <= bound).all(), (m, k, n)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_narrow_vectors(target: str) -> None:
    if not Target.resolve(target).is_runnable:
        pytest.skip(f"this machine is no {target}")
    with compile_graph(product_of_two(), CompileOptions(target=target, threads=2)) as model:
        for m, k, n in product((1, 13, 97), (3, 257), COLUMNS):
            left, right, bound = operands(m, k, n)
            (result,) = model.run({"x": left, "y": right}).values()
            assert (np.abs(result - left @ right) <= bound).all(), (m, k, n)


@needs_emulator
def test_another_machine(tmp_path: Path) -> None:
    model = compile_graph(
        product_of_two(), CompileOptions(target="aarch64"), output=tmp_path / "model"
    )
    left, right, bound = operands(13, 257, 9)
    (result,) = run_foreign(model, {"x": left, "y": right}, tmp_path, 2).values()
    assert (np.abs(result - left @ right) <= bound).all()


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
    with compile_graph(b.graph, CompileOptions(threads=2)) as model:
        (result,) = model.run({"x": left, "y": right}).values()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(result, left @ right, rtol=1e-12)
