"""Compression to activations of 16 bits and weights of 8: what layers become, and contracts that 8
bits break.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import infuse
from infuse.compression.evaluation import Memory
from infuse.data.dataset import feeds_of
from infuse.data.metrics import signal_to_noise
from infuse.errors import ContractError, OptionError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.compression_networks import image_network, images
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1")]

METHOD = "int16-activations"
FORM = "int16 activations"
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def compress(
    graph: Graph,
    method: Any = METHOD,
    data: Any = None,
    max_drop: Any = None,
    **options: Any,
) -> Graph:
    """Compressed, slower layers too: what -O0 makes of kernels says nothing of speed."""
    own = infuse.CompressOptions(**{"allow_slower": True, "threads": 1} | options)
    return infuse.compress(
        graph, method, data=data, contract=infuse.Contract(max_drop), options=own
    )


def answers(graph: Graph, data: dict[str, Array]) -> Array:
    """Native outputs for all examples."""
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        runs = [model.run(feeds) for feeds in feeds_of(graph, data)]
    return np.concatenate([next(iter(outputs.values())) for outputs in runs])


def interpreted(graph: Graph, data: dict[str, Array]) -> Array:
    runs = [evaluate(graph, feeds) for feeds in feeds_of(graph, data)]
    return np.concatenate([next(iter(outputs.values())) for outputs in runs])


def test_activations_of_16_bits_err_by_their_weights_alone(rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    result, bytes_alone = compress(graph, data=data), compress(graph, "int8", data=data)
    report = result.compression
    assert [layer.form for layer in report.layers] == [FORM] * 4
    assert report.weight_bytes < 0.5 * report.weight_bytes_before
    exact = interpreted(graph, data)
    ratio = signal_to_noise(answers(result, data), exact)
    assert ratio > signal_to_noise(answers(bytes_alone, data), exact) + 3
    assert signal_to_noise(answers(result, data), interpreted(result, data)) > 70


def test_onnx_files_have_them_from_opset_21_on(tmp_path: Path, rng: np.random.Generator) -> None:
    import onnxruntime

    graph, data = image_network(rng), images(rng)
    result = compress(graph, data=data, level="basic")
    path = tmp_path / "small.onnx"
    infuse.save(result, path)
    model = onnx.load(path)
    assert next(each.version for each in model.opset_import if not each.domain) >= 21
    onnx.checker.check_model(model, full_check=True)
    with pytest.raises(infuse.InfuseError, match="QuantizeLinear cannot be written in opset 19"):
        infuse.save(result, path, opset=19)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    theirs = np.concatenate([session.run(None, feeds)[0] for feeds in feeds_of(graph, data)])
    assert signal_to_noise(theirs, answers(result, data)) > 60
    read = infuse.load(path)
    assert signal_to_noise(answers(read, data), theirs) > 60


# -- contracts -------------------------------------------------------------------------------------


def spread_network(rng: np.random.Generator) -> tuple[Graph, dict[str, Array]]:
    """Two products, and rows of which some are a thousand times as large as others: steps of 8 bits
    swallow the small ones.
    """
    g = Builder(seed=2)
    x = g.input(1, 64, name="x")
    hidden = g("Relu", g("MatMul", x, g.rng.normal(size=(64, 48)).astype(np.float32)))
    g.output(g("MatMul", hidden, g.rng.normal(size=(48, 96)).astype(np.float32)))
    data = rng.normal(size=(64, 64)).astype(np.float32)
    data[::2] *= 1e-3
    return infuse.optimize(g.graph), {"x": data}


def mean_cosine(outputs: list[dict[str, Array]], labels: Array) -> float:
    """The mean over runs of the cosine between what a model gives and what is right."""
    rows = np.concatenate([next(iter(each.values())) for each in outputs]).astype(np.float64)
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(labels, axis=1)
    products: Array = (rows * labels).sum(1)
    return float(np.mean(np.divide(products, sizes, np.zeros_like(sizes), where=sizes > 0)))


def test_a_contract_that_8_bits_break_holds_with_16(rng: np.random.Generator) -> None:
    graph, data = spread_network(rng)
    exact = interpreted(graph, data).astype(np.float64)
    asked = infuse.Examples(data, exact, mean_cosine), 0.02
    bytes_alone = infuse.Int8(bias_correction=False)
    with pytest.raises(ContractError, match="falls by more than"):
        compress(graph, bytes_alone, *asked)
    words = infuse.Int16Activations(bias_correction=False)
    report = compress(graph, [bytes_alone, words], *asked).compression
    assert report.is_met
    assert [layer.form for layer in report.layers] == [FORM] * 2
    assert report.score > 0.98


# -- what stays in float32 -------------------------------------------------------------------------


def test_sums_that_could_leave_32_bits_stay(rng: np.random.Generator) -> None:
    """70,000 weights of 127 and digits of 255 are 2.3e9."""
    g = Builder(seed=2)
    x = g.input(1, 70_000, name="x")
    g.output(g("MatMul", g("Relu", x), np.ones((70_000, 1), np.float32)))
    data = {"x": rng.normal(size=(2, 70_000)).astype(np.float32)}
    (layer,) = compress(infuse.optimize(g.graph), data=data).compression.layers
    assert layer.form == "float32"
    assert layer.reason == "sums of its products with 16 bits could leave 32 bits"


def test_products_of_two_computed_operands_stay(rng: np.random.Generator) -> None:
    g = Builder(seed=2)
    x = g.input(1, 8, 8, name="x")
    g.output(g("MatMul", g("MatMul", x, g.weight(8, 8)), x))
    data = {"x": rng.normal(size=(20, 8, 8)).astype(np.float32)}
    layers = compress(infuse.optimize(g.graph), data=data).compression.layers
    assert {layer.form: bool(layer.reason) for layer in layers} == {FORM: False, "float32": True}


def test_ranges_need_data(rng: np.random.Generator) -> None:
    with pytest.raises(OptionError, match="needs data"):
        compress(image_network(rng))
    with pytest.raises(OptionError, match="cannot be tuned"):
        infuse.compress(image_network(rng), METHOD, data=images(rng), tune=infuse.Tune(epochs=1))
