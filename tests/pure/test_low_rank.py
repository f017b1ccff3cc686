"""Low rank: factors against the exact optimum, and what graphs with factored layers compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from infuse.compression.insertion import with_forms
from infuse.compression.layers import find_layers
from infuse.compression.low_rank import (
    Activations,
    Decomposition,
    FactoredForm,
    factored,
    tucker_ranks,
    why_not_factored,
)
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate

pytestmark = [pytest.mark.row("Z4")]
Doubles = NDArray[np.float64]


def _rows(rng: np.random.Generator, depth: int, count: int = 500) -> Doubles:
    """Correlated rows with means of their own."""
    mix = rng.standard_normal((depth, depth)) * 0.8 ** np.arange(depth)
    return rng.standard_normal((count, depth)) @ mix.T + rng.standard_normal(depth)


def _error(rows: Doubles, matrix: Doubles, factors: Any) -> float:
    first, second = factors.weights
    results = rows @ first @ second
    if factors.correction is not None:
        results = results + factors.correction
    exact = rows @ matrix
    return float(np.sum((results - exact) ** 2) / np.sum(exact**2))


@pytest.mark.parametrize("shape", [(40, 24), (24, 40)])
def test_whitened_factors_are_the_best_of_their_rank(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    rows, matrix = _rows(rng, shape[0]), rng.standard_normal(shape)
    decomposition = Decomposition(matrix, Activations.of_rows(rows))
    plain = Decomposition(matrix, Activations.unknown(shape[0]))
    centred = (rows - rows.mean(0)) @ matrix
    tail = np.linalg.svd(centred, compute_uv=False) ** 2
    for rank in range(1, 24):
        factors = decomposition.factors(rank)
        # Eckart, Young: no matrix of this rank has products that are nearer to the exact ones
        least = tail[rank:].sum() / np.sum((rows @ matrix) ** 2)
        error = _error(rows, matrix, factors)
        assert error == pytest.approx(least, rel=1e-3, abs=1e-9)
        assert factors.error == pytest.approx(error, rel=1e-3, abs=1e-6)
        assert error < _error(rows, matrix, plain.factors(rank))


def test_activations_that_barely_vary_have_factors(rng: np.random.Generator) -> None:
    rows = np.full((200, 24), 3.0) + 1e-5 * rng.standard_normal((200, 24))
    moments = (rows.astype(np.float32).T @ rows.astype(np.float32)).astype(np.float64) / 200
    decomposition = Decomposition(rng.standard_normal((24, 40)), Activations(moments, rows.mean(0)))
    factors = decomposition.factors(4)
    assert all(np.isfinite(each).all() for each in factors.weights)
    assert factors.error < 1e-6


def test_without_data_factors_are_those_of_the_singular_values(rng: np.random.Generator) -> None:
    matrix = rng.standard_normal((40, 24))
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    first, second = Decomposition(matrix, Activations.unknown(40)).factors(5).weights
    np.testing.assert_allclose(
        first @ second, left[:, :5] * values[:5] @ right[:5], rtol=1e-6, atol=1e-8
    )


def _dense(rng: np.random.Generator, kind: str, bias: bool) -> Graph:
    size = "float32[48, 64]" if "transB" in kind else "float32[64, 48]"
    operands = f"%x, {size}{{{_texts(rng, 64 * 48)}}}"
    if bias:
        operands += f", float32[48]{{{_texts(rng, 48)}}}"
    name, _, attributes = kind.partition(" ")
    call = f"{name}({operands}{', ' if attributes else ''}{attributes})"
    return parse(f'graph "g" (%x: float32[n, 64]) {{\n%y = {call}\nreturn y = %y\n}}')


def _texts(rng: np.random.Generator, count: int) -> str:
    return ", ".join(f"{each:.6f}" for each in rng.standard_normal(count))


@pytest.mark.parametrize(
    ("kind", "bias"),
    [("MatMul", False), ("Gemm", True), ("Gemm", False), ("Gemm transB=1", True)],
)
def test_factored_products_compute_their_factors(
    kind: str, bias: bool, rng: np.random.Generator
) -> None:
    graph = _dense(rng, kind, bias)
    (layer,) = find_layers(graph)
    rows = _rows(rng, 64)
    factors = factored(layer, Decomposition(layer.matrices[0], Activations.of_rows(rows)), 0.7)
    assert factors is not None
    small = with_forms(graph, {layer: FactoredForm(factors)}, {})
    x = rows[:9].astype(np.float32)
    addend = evaluate(graph, {"x": np.zeros((1, 64), np.float32)})["y"]
    expected = x @ factors.weights[0] @ factors.weights[1] + factors.correction + addend
    answer = evaluate(small, {"x": x})["y"]
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-4)
    assert [node.kind for node in small.nodes][:2] == ["MatMul", kind.split(maxsplit=1)[0]]


@pytest.mark.parametrize("kernel", [1, 3])
def test_factored_convolutions_are_near_what_their_error_says(
    kernel: int, rng: np.random.Generator
) -> None:
    weights = f"float32[64, 48, {kernel}, {kernel}]{{{_texts(rng, 64 * 48 * kernel**2)}}}"
    pads = ", ".join([str(kernel // 2)] * 4)
    graph = parse(f"""graph "g" (%x: float32[n, 48, 9, 9]) {{
      %y = Conv(%x, {weights}, float32[64]{{{_texts(rng, 64)}}}, pads=({pads}), strides=(2, 2))
      return y = %y
    }}""")
    (layer,) = find_layers(graph)
    mixed = rng.standard_normal((48, 48)) * 0.8 ** np.arange(48)
    x = np.einsum("ij,njhw->nihw", mixed, rng.standard_normal((20, 48, 9, 9))) + 0.3
    x = x.astype(np.float32)
    rows = layer.rows(x, 10**6, rng)[:, 0]
    decomposition = Decomposition(layer.matrices[0], Activations.of_rows(rows))
    for factors in (
        factored(layer, decomposition, 0.6),
        decomposition.tucker((kernel, kernel), tucker_ranks(layer, 0.7) or (16, 16)),
    ):
        assert factors is not None
        small = with_forms(graph, {layer: FactoredForm(factors)}, {})
        exact, answer = (evaluate(each, {"x": x})["y"] for each in (graph, small))
        bias = evaluate(graph, {"x": np.zeros_like(x)})["y"]
        error = np.sum((answer - exact) ** 2) / np.sum((exact - bias) ** 2)
        assert answer.shape == exact.shape
        assert error == pytest.approx(factors.error, rel=0.02)


def test_layers_that_have_no_factors_say_why(rng: np.random.Generator) -> None:
    graph = parse(f"""graph "g" (%x: float32[1, 32, 4, 4]) {{
      %a = Conv(%x, float32[32, 1, 1, 1]{{{_texts(rng, 32)}}}, group=32)
      %y = Conv(%a, float32[4, 32, 1, 1]{{{_texts(rng, 128)}}})
      return y = %y
    }}""")
    reasons = [why_not_factored(layer) for layer in find_layers(graph)]
    assert reasons == ["grouped convolutions are not factored", "it is too small for a rank of 16"]
