"""Recurrent layers with weights of 8 bits by `infuse.compress`: what is stored and told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.compression import Request, compress_graph, control
from infuse.compression.evaluation import Memory
from infuse.compression.gates import find_gates
from infuse.compression.layers import Layer
from infuse.compression.speed import Region
from infuse.data.dataset import feeds_of
from infuse.data.metrics import signal_to_noise
from infuse.ir.graph import Graph, constant
from infuse.ops.core.evaluate import evaluate
from tests.native.builder import Builder
from tests.native.ort_fixtures import onnxruntime, quiet

pytestmark = pytest.mark.row("Z1", "Z2")
STEPS, WIDTH = 6, 12
ALIKE = 35.0
"""Decibels: weights that are rounded to 255 steps err by about -48 dB."""


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def network(hidden: int = 24, last: str = "h") -> Graph:
    """An LSTM, a GRU of both directions, and a product; `last`: the state of which is read."""
    b = Builder()
    x = b.input(STEPS, 1, WIDTH, name="x")
    weights = [b.weight(1, 4 * hidden, k) for k in (WIDTH, hidden)]
    y, h, c = b.several(3, "LSTM", x, *weights, b.weight(1, 8 * hidden), hidden_size=hidden)
    flat = b("Squeeze", y, [1])
    weights = [b.weight(2, 3 * hidden, hidden) for _ in range(2)]
    both = {"hidden_size": hidden, "direction": "bidirectional", "linear_before_reset": 1}
    _, states = b.several(2, "GRU", flat, *weights, **both)
    state = h if last == "h" else c
    joined = b("Concat", b("Reshape", states, [1, 2 * hidden]), b("Squeeze", state, [0]), axis=1)
    b.output(b("MatMul", joined, b.weight(3 * hidden, 5)))
    return infuse.optimize(b.graph)


def data_of(rng: np.random.Generator, count: int = 8) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((count, STEPS, 1, WIDTH)).astype(np.float32)}


def compress(
    graph: Graph, method: Any, data: Any = None, max_drop: Any = None, **options: Any
) -> Graph:
    """Compressed, slower layers too: what -O0 makes of kernels says nothing of speed."""
    own = infuse.CompressOptions(**{"allow_slower": True, "threads": 1} | options)
    return infuse.compress(
        graph, method, data=data, contract=infuse.Contract(max_drop), options=own
    )


def answers(graph: Graph, runs: list[dict[str, Any]]) -> np.ndarray:
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        return np.concatenate([model.run(feeds)["y0"] for feeds in runs])


@pytest.mark.parametrize("method", ["int8", "int8-dynamic", "int8-weights", "int4"])
def test_weights_become_integers(method: str, tmp_path: Path, rng: np.random.Generator) -> None:
    graph, data = network(), data_of(rng)
    runs = feeds_of(graph, data)
    result = compress(graph, method, data=data)
    forms = {layer.operator: layer.form for layer in result.compression.layers}
    assert forms["LSTM"] == forms["GRU"] == "int8 weights"
    assert not [layer for layer in result.compression.layers if "LSTM" in layer.reason]
    assert result.compression.weight_bytes < 0.35 * result.compression.weight_bytes_before
    expected = np.concatenate([evaluate(result, feeds)["y0"] for feeds in runs])
    exact = np.concatenate([evaluate(graph, feeds)["y0"] for feeds in runs])
    found = answers(result, runs)
    assert signal_to_noise(found, expected) > ALIKE
    if method != "int4":
        assert signal_to_noise(found, exact) > 30
    for name in ("small.infuse", "small.onnx"):
        infuse.save(result, tmp_path / name)
        assert signal_to_noise(answers(infuse.load(tmp_path / name), runs), found) > 60


def test_onnxruntime_reads_them(tmp_path: Path, rng: np.random.Generator) -> None:
    graph, data = network(last="c"), data_of(rng)
    runs, path = feeds_of(graph, data), tmp_path / "small.onnx"
    result = compress(graph, "int8-weights", data=data)
    infuse.save(result, path)
    session = onnxruntime.InferenceSession(
        str(path), quiet(onnxruntime), providers=["CPUExecutionProvider"]
    )
    witness = np.concatenate([session.run(None, feeds)[0] for feeds in runs])
    np.testing.assert_allclose(answers(result, runs), witness, 2e-5, 2e-5)


def test_a_contract_looks_at_recurrent_layers_alone(rng: np.random.Generator) -> None:
    graph, data = network(), data_of(rng)
    report = compress(graph, ["int8-weights", "int8-dynamic"], data, 0.01).compression
    assert report.is_met
    changes = {each.operator: each.sensitivity for each in report.layers}
    assert changes["LSTM"] is not None
    assert 0 < changes["LSTM"] < 1e-2


@pytest.mark.parametrize("slow", ["LSTM", "GRU"])
def test_layers_that_are_no_faster_stay_in_float32(
    slow: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = network(), data_of(rng)

    def regions(graph: Graph, small: Graph, layers: list[Layer], *_: Any) -> list[Region]:
        return [Region((each,), 1.0, 1.0 if each.kind == slow else 0.5) for each in layers]

    def timer(runs: dict[str, Any]) -> dict[str, list[float]]:
        return {
            name: [1.0 if name == "float32" else 0.6 - 0.1 * ("round" in name)] for name in runs
        }

    monkeypatch.setattr(control, "regions", regions)
    request = Request(
        (infuse.Int8Weights(),),
        examples=infuse.Examples(data),
        options=infuse.CompressOptions(threads=1),
        timer=timer,
    )
    layers = compress_graph(graph, request).compression.layers
    forms = {layer.operator: (layer.form, layer.reason) for layer in layers}
    other = {"LSTM": "GRU", "GRU": "LSTM"}[slow]
    assert forms[slow] == ("float32", "float32 is as fast")
    assert forms[other] == ("int8 weights", "")


def test_weights_that_are_not_finite_stay(rng: np.random.Generator) -> None:
    b = Builder()
    x = b.input(STEPS, 1, WIDTH, name="x")
    w = np.ones((1, 8, WIDTH), np.float32)
    w[0, 3, 2] = np.inf
    y, last = b.several(2, "RNN", x, constant(w), b.weight(1, 8, 8), hidden_size=8)
    b.output(y, last)
    (layer,) = compress(b.graph, "int8-weights").compression.layers
    assert (layer.form, layer.reason) == ("float32", "its weights are not finite")


def test_weights_that_are_computed_or_quantized_already_are_told(rng: np.random.Generator) -> None:
    b = Builder()
    x, r = b.input(STEPS, 1, WIDTH, name="x"), b.input(1, 8, 8, name="r")
    first, _ = b.several(2, "RNN", x, b.weight(1, 8, WIDTH), r, hidden_size=8)
    second, _ = b.several(
        2, "RNN", b("Squeeze", first, [1]), b.weight(1, 8, 8), b.weight(1, 8, 8), hidden_size=8
    )
    b.output(second)
    once = compress(b.graph, "int8-weights")
    assert [each.reason for each in once.compression.layers if each.form == "float32"] == [
        "it has no constant weights"
    ]
    assert find_gates(once) == []
    again = compress(once, "int8-weights").compression.layers
    assert {each.reason for each in again} >= {"its weights are quantized already"}
