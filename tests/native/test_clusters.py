"""Weight clustering: values of few bits, and the plan that chooses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.compression.clusters import Clustering, Operands, codebook
from infuse.compression.evaluation import Memory
from infuse.compression.layers import find_layers
from infuse.compression.observation import observe
from infuse.compression.pipeline import named
from infuse.errors import ContractError
from infuse.ir.coding.clusters import clustered
from infuse.ir.coding.weights import coded_size, encoded
from infuse.ir.graph import Graph
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z6")]

DEPTH = 96


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def entropy(values: np.ndarray) -> float:
    share = np.unique(values, return_counts=True)[1] / values.size
    return -float(share @ np.log2(share))


@pytest.mark.parametrize("bits", [2.0, 3.0, 4.5])
@pytest.mark.parametrize("kind", ["normal", "laplace", "standard_t"])
def test_values_have_the_entropy_that_is_asked_for(bits: float, kind: str) -> None:
    """And err less than plain clusters whose entropy is no smaller."""
    rng = np.random.default_rng(0)
    weights = rng.standard_t(4, 20000) if kind == "standard_t" else getattr(rng, kind)(size=20000)
    values = codebook(weights, bits).nearest(weights)
    assert bits - 0.3 < entropy(values) < bits + 0.02
    plain = clustered(weights, int(np.ceil(bits)))
    if entropy(plain) >= entropy(values):
        slope = 4 ** (entropy(plain) - entropy(values))  # of the error by bits
        error, others = (np.mean((each - weights) ** 2) for each in (values, plain))
        assert error < others * slope


@pytest.mark.parametrize(
    "weights",
    [np.zeros(50), np.full(50, -3.5), np.array([7.0]), np.repeat([-1.0, 1e-20, 2.0], 40)],
)
def test_few_values_stay(weights: np.ndarray) -> None:
    result = codebook(weights, 4).nearest(weights)
    assert np.allclose(result, weights, rtol=1e-12, atol=1e-6)


def test_outliers_do_not_take_more_values_than_are_coded() -> None:
    weights = np.random.default_rng(0).standard_normal(50000)
    weights[:200] *= np.geomspace(1, 1e6, 200)
    values = codebook(weights, 7).nearest(weights)
    assert len(np.unique(values)) <= 256


def network(rng: np.random.Generator) -> tuple[Graph, np.ndarray]:
    """A convolution, one by channel, and two products whose operands depend on each other."""
    write = Builder("mixed", 3)
    x = write.input("n", 8, 6, 6, name="x")
    pads = {"pads": (1, 1, 1, 1)}
    y = write("Conv", x, write.weight(16, 8, 3, 3), **pads)
    y = write(
        "Relu", write("Conv", y, write.weight(16, 1, 3, 3), write.weight(16), group=16, **pads)
    )
    y = write("Relu", write("MatMul", write("Flatten", y), write.weight(16 * 36, DEPTH)))
    write.graph.add_output(write("MatMul", y, write.weight(DEPTH, 10)), "scores")
    mixing = rng.standard_normal((4, 8))
    data = np.einsum("nchw,cd->ndhw", rng.standard_normal((60, 4, 6, 6)), mixing)
    return infuse.optimize(write.graph), data.astype(np.float32)


def test_errors_are_made_up_for(rng: np.random.Generator) -> None:
    """On products of all rows by NumPy in float64, beside rounding to the nearest value."""
    graph, data = network(rng)
    source = named(graph)
    layers = find_layers(source)
    assert len(layers) == 4
    runs = [{"x": each[None]} for each in data]
    seen = observe(source, layers, (), runs, takes_moments=True)
    for layer in layers:
        operands = Operands.of(layer, seen)
        assert operands is not None
        chosen = Clustering(layer, operands).of_bits(3)
        nearest = codebook(layer.matrices, 3).nearest(layer.matrices)
        rows = seen.rows[layer].astype(np.float64).transpose(1, 0, 2)
        lost, other = (
            rows @ (each - layer.matrices.astype(np.float64)) for each in (chosen.matrices, nearest)
        )
        if chosen.correction is not None:
            lost += chosen.correction.reshape(len(rows), 1, -1)
        # Nine weights a channel have little to make up with: 0.84 to 1.004 over twelve seeds.
        bound = 1.1 if layer.weights.size < 1000 else 0.9
        assert np.sum(lost**2) < bound * np.sum(other**2), layer.name
        assert entropy(chosen.matrices) < 3.3


def test_a_model_of_clusters_is_saved_in_few_bytes(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    graph, data = network(rng)
    result = infuse.compress(
        graph, "clusters", data={"x": data}, contract=infuse.Contract(max_drop=0.02)
    )
    report = result.compression
    assert report.is_met
    forms = {layer.form for layer in report.layers}
    assert any(form.startswith("clusters of") for form in forms)
    path, plain = tmp_path / "small.infuse", tmp_path / "plain.infuse"
    infuse.save(result, path, coded=True)
    infuse.save(infuse.optimize(graph), plain)
    saved = plain.stat().st_size - path.stat().st_size
    assert saved == pytest.approx(report.weight_bytes_before - report.weight_bytes, rel=0.05)
    with infuse.compile(infuse.load(path)) as small, infuse.compile(graph) as exact:
        pairs = [[m.run({"x": x[None]}) for m in (small, exact)] for x in data]
    cosines = []
    for pair in pairs:
        one, other = (next(iter(each.values())).reshape(-1).astype(np.float64) for each in pair)
        cosines.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    assert 0.98 <= np.mean(cosines) == pytest.approx(report.score, abs=1e-4)


def test_without_data_weights_go_to_the_nearest_value(rng: np.random.Generator) -> None:
    graph, _ = network(rng)
    report = infuse.compress(graph, "clusters").compression
    forms = {layer.node: (layer.form, layer.reason) for layer in report.layers}
    assert forms.pop("Conv_1") == ("float32", "float32 takes no more bytes")  # 576 bytes
    assert all(form.startswith("clusters of") for form, _ in forms.values())
    assert report.weight_bytes < 0.2 * report.weight_bytes_before


def test_a_bound_that_clusters_cannot_meet_is_refused(rng: np.random.Generator) -> None:
    graph, data = network(rng)
    with pytest.raises(ContractError):
        infuse.compress(
            graph,
            "clusters",
            data=infuse.Examples({"x": data[:10]}, metric="cosine"),
            contract=infuse.Contract(max_drop=1e-12),
        )


@pytest.mark.parametrize("values", [3, 40, 256, 5000])
def test_sizes_of_coded_forms_are_told_beforehand(values: int, rng: np.random.Generator) -> None:
    array = rng.standard_normal(values).astype(np.float32)[rng.integers(0, values, (100, 200))]
    form = encoded(array)
    size = array.nbytes if form is None else len(form)
    assert coded_size(array) == pytest.approx(size, rel=0.03)  # words of lanes are whole
