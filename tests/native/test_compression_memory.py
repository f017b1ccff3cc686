"""What a compression holds in memory: few open models, and no copies of all weights."""

from __future__ import annotations

import errno
import tracemalloc
from typing import Any

import numpy as np
import pytest

from infuse.compression import Request, compress_graph, control, evaluation
from infuse.compression.evaluation import Memory
from infuse.compression.layers import Layer, find_layers
from infuse.compression.row_store import RowStore
from infuse.compression.speed import Region
from infuse.errors import RuntimeFailure
from infuse.ir.graph import Graph
from infuse.runtime.interface import Model
from tests.compression_networks import image_network, images
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1", "Z2")]


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def test_models_are_open_for_one_question_only(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Two while they are timed in turns, none while steps are profiled, and none at the end."""
    opened: list[Model] = []
    timed: list[int] = []
    profiled: list[int] = []
    compile_graph = evaluation.compile_graph

    def watched(graph: Graph, **options: Any) -> Model:
        model = compile_graph(graph, **options)
        close = model.close

        def closed() -> None:
            opened.remove(model)
            close()

        monkeypatch.setattr(model, "close", closed)
        opened.append(model)
        return model

    def timer(runs: dict[str, Any]) -> dict[str, list[float]]:
        timed.append(len(opened))
        return {name: [1.0 if name == "float32" else 0.5] for name in runs}

    def regions(graph: Graph, small: Graph, layers: list[Layer], *_: Any) -> list[Region]:
        profiled.append(len(opened))
        return [Region((layer,), 1.0, 2.0 if layer.kind == "Gemm" else 0.5) for layer in layers]

    monkeypatch.setattr(evaluation, "compile_graph", watched)
    monkeypatch.setattr(control, "regions", regions)
    result = compress_graph(image_network(rng), Request(timer=timer, threads=1), images(rng))
    assert {layer.form for layer in result.compression.layers} == {"int8", "float32"}
    assert timed[0] == 2
    assert profiled
    assert not any(profiled)
    assert not opened


def test_layers_hold_no_copies_of_their_weights(rng: np.random.Generator) -> None:
    """Matrices of 16 layers of 1 MB each, one after the other: no more than those of a few."""
    build = Builder()
    value = build.input(1, 512, 4, 4)
    for _ in range(16):
        value = build("Conv", value, rng.standard_normal((512, 512, 1, 1)).astype(np.float32))
    layers = find_layers(build.graph)
    assert len(layers) == 16
    size = layers[0].weights.nbytes
    tracemalloc.start()
    try:
        for layer in layers:
            groups, depth, columns = layer.sizes
            assert layer.matrices.shape == (groups, depth, columns)
            assert layer.is_finite
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size <= peak < 2.5 * size


def test_stored_rows_come_back_in_order(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    layers = find_layers(image_network(rng))
    store = RowStore(layers)
    expected = {}
    for layer in layers:
        groups, depth, _ = layer.sizes
        expected[layer] = rng.standard_normal((7, groups, depth)).astype(np.float32)
    for part in (slice(0, 3), slice(3, 3), slice(3, 7)):
        for layer, rows in expected.items():
            store.add(layer, rows[part])
    for layer, rows in expected.items():
        np.testing.assert_array_equal(store[layer], rows)

    def full(data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store._file, "write", full, raising=False)
    with pytest.raises(RuntimeFailure, match="cannot be stored: No space left"):
        store.add(layers[0], expected[layers[0]])
