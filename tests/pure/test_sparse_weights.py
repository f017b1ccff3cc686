"""Which weights become zero, and what is left of the products."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from infuse.compression.insertion import with_forms
from infuse.compression.layers import Layer, find_layers
from infuse.compression.sparse import (
    Moments,
    Pattern,
    SparseForm,
    SparseOptions,
    sparsified,
    why_not_sparse,
)
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from tests.native.builder import Builder

pytestmark = pytest.mark.row("Z3")
Rng = np.random.Generator
Doubles = NDArray[np.float64]


def product(k: int, n: int) -> tuple[Graph, Layer]:
    b = Builder("product")
    b.output(b("MatMul", b.input(5, k, name="x"), b.weight(k, n)))
    return b.graph, find_layers(b.graph)[0]


def correlated(rng: Rng, rows: int, depth: int) -> NDArray[np.float32]:
    """Rows whose elements depend on each other, some large and some small."""
    mixing = rng.standard_normal((depth, depth)) * np.geomspace(1, 0.05, depth)
    return (rng.standard_normal((rows, depth)) @ mixing).astype(np.float32)


@pytest.mark.parametrize(("text", "shape"), [
    ("16x1", (48, 64)), ("4x1", (48, 64)), ("1x1", (7, 9)), ("16x4", (50, 70)), ("8x2", (33, 20)),
])  # fmt: skip
def test_blocks_with_the_largest_sums_stay(text: str, shape: tuple[int, int], rng: Rng) -> None:
    pattern, scores = Pattern.parse(text), rng.random(shape)
    mask = pattern.mask(scores, 0.75)
    assert mask.shape == shape
    sums: dict[bool, list[float]] = {True: [], False: []}
    for row in range(0, shape[0], pattern.rows):
        for column in range(0, shape[1], pattern.columns):
            place = slice(row, row + pattern.rows), slice(column, column + pattern.columns)
            assert mask[place].all() or not mask[place].any()
            sums[bool(mask[place].any())].append(float(scores[place].sum()))
    assert min(sums[True]) >= max(sums[False])
    assert len(sums[False]) == round(0.75 * (len(sums[True]) + len(sums[False])))


@pytest.mark.parametrize("depth", [8, 10])
def test_two_of_four_stay(depth: int, rng: Rng) -> None:
    scores = rng.random((depth, 5))
    mask = Pattern.parse("2:4").mask(scores, 0.5)
    for start in range(0, depth, 4):
        part, taken = scores[start : start + 4], mask[start : start + 4]
        assert (taken.sum(0) == 2).all()
        np.testing.assert_array_equal(
            np.sort(part, 0)[-2:], np.sort(np.where(taken, part, 0), 0)[-2:]
        )


def test_data_tell_which_weights_matter(rng: Rng) -> None:
    """With data the error of the products is smaller than by magnitude, and smaller still where
    weights make up for others; on rows that were not seen, too.
    """
    _, layer = product(96, 64)
    rows, unseen = np.split(correlated(rng, 8000, 96), 2)
    moments = Moments.of_rows(rows)
    assert moments is not None
    blind = sparsified(layer, Pattern(16), 0.7, None)
    seeing = sparsified(layer, Pattern(16), 0.7, moments)
    assert blind.how == "magnitude"
    assert seeing.how.endswith("fitted")
    exact = layer.matrices[0].astype(np.float64)
    errors = [float(np.sum((unseen @ (s.matrices[0] - exact)) ** 2)) for s in (blind, seeing)]
    assert errors[1] < 0.5 * errors[0]
    power = float(np.sum((unseen @ exact) ** 2))
    assert seeing.error == pytest.approx(errors[1] / power, rel=0.2)
    for each in (blind, seeing):
        zero = (each.matrices[0].reshape(96, 4, 16) == 0).all(2)
        assert zero.sum() == round(0.7 * zero.size)


def test_weights_that_stay_are_the_least_squares(rng: Rng) -> None:
    _, layer = product(24, 16)
    rows = correlated(rng, 400, 24)
    wide = rows.astype(np.float64)
    moments = Moments(wide.T @ wide, wide.T @ wide)
    found = sparsified(layer, Pattern(16), 0.5, moments)
    stays = np.flatnonzero(found.matrices[0].any(1))
    goal = wide @ layer.matrices[0]
    best = np.linalg.lstsq(wide[:, stays], goal, rcond=None)[0]
    least = float(np.sum((wide[:, stays] @ best - goal) ** 2))
    actual = float(np.sum((wide @ found.matrices[0] - goal) ** 2))
    assert least <= actual * (1 + 1e-6)
    assert actual < 1.1 * least  # damping keeps it from the very least


def test_activations_that_are_always_zero(rng: Rng) -> None:
    _, layer = product(32, 16)
    rows = correlated(rng, 100, 32)
    rows[:, :10] = 0
    found = sparsified(layer, Pattern(16), 0.5, Moments.of_rows(rows))
    assert np.isfinite(found.matrices).all()
    nothing = sparsified(layer, Pattern(16), 0.5, Moments.of_rows(0 * rows))
    assert nothing.how == "magnitude"


def test_windows_have_blocks_of_channels_of_one_tap(rng: Rng) -> None:
    b = Builder("windows")
    b.output(b("Conv", b.input(1, 8, 5, 5, name="x"), b.weight(32, 8, 3, 3)))
    layer = find_layers(b.graph)[0]
    found = sparsified(layer, Pattern(16, 4), 0.75, None)
    filters = layer.in_layout(found.matrices)
    blocks = filters.reshape(2, 16, 2, 4, 3, 3).transpose(0, 2, 4, 5, 1, 3).reshape(36, -1)
    filled = (blocks != 0).any(1)
    assert filled.sum() == 9
    assert (blocks[filled] != 0).all()


def test_a_graph_gets_the_zeros(rng: Rng) -> None:
    graph, layer = product(32, 32)
    found = sparsified(layer, Pattern(16), 0.5, None)
    result = with_forms(graph, {layer: SparseForm(found.matrices, "50% zero")}, {})
    verify(result)
    x = rng.standard_normal((5, 32)).astype(np.float32)
    (answer,) = evaluate(result, {"x": x}).values()
    np.testing.assert_allclose(answer, x @ found.matrices[0], rtol=1e-5, atol=1e-5)


def test_layers_that_stay_as_they_are() -> None:
    b = Builder("groups")
    b.output(b("Conv", b.input(1, 32, 5, 5), b.weight(32, 8, 3, 3), group=4))
    assert "in groups" in why_not_sparse(find_layers(b.graph)[0], Pattern(16))
    _, small = product(16, 8)
    assert "fewer weights" in why_not_sparse(small, Pattern(16))
    assert not why_not_sparse(small, Pattern(4))
    small.matrices[0, 0, 0] = np.nan
    assert "not finite" in why_not_sparse(small, Pattern(4))


@pytest.mark.parametrize("text", ["", "x", "0x1", "16x0", "4:2", "0:4", "16", "-1x4", "16x1x1"])
def test_patterns_that_mean_nothing(text: str) -> None:
    with pytest.raises(OptionError, match="not a pattern"):
        Pattern.parse(text)


@pytest.mark.parametrize("part", [0.0, 1.0, -1.0, 2.0, float("nan"), float("inf")])
def test_parts_that_mean_nothing(part: float) -> None:
    with pytest.raises(OptionError, match="not a part"):
        SparseOptions(part)
