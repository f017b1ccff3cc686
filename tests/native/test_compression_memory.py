"""What a compression holds in memory: few open models, and no copies of all weights."""

from __future__ import annotations

import errno
import gc
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.build.compile import compile_graph
from infuse.compression import Request, compress_graph, control, evaluation
from infuse.compression.evaluation import Memory
from infuse.compression.insertion import with_forms
from infuse.compression.layers import Layer, find_layers
from infuse.compression.observation import observe
from infuse.compression.row_store import RowStore
from infuse.compression.speed import Region
from infuse.compression.static import StaticOptions, plan_static
from infuse.errors import RuntimeFailure
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel
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

    def watched(graph: Graph, *options: Any) -> Model:
        model = compile_graph(graph, *options)
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
    result = compress_graph(
        image_network(rng),
        Request(
            examples=infuse.Examples(images(rng)),
            options=infuse.CompressOptions(threads=1),
            timer=timer,
        ),
    )
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

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("infuse.compression.scratch.os.pwrite", full)
    with pytest.raises(RuntimeFailure, match="cannot be stored: No space left"):
        store.add(layers[0], expected[layers[0]])


def test_a_closed_model_is_gone_at_once(rng: np.random.Generator) -> None:
    """Its library and weights are nobody's then, and need no collection of garbage."""
    network = image_network(rng)
    feeds = {"x": images(rng, 1)["x"]}
    model = compile_graph(network, CompileOptions(threads=1))
    assert isinstance(model, CompiledModel)
    library = weakref.ref(model._signature.library)
    model.run(feeds)
    gc.collect()
    gc.disable()
    try:
        model.close()
        del model
        assert library() is None
    finally:
        gc.enable()


def test_weights_that_were_given_back_are_read_again(rng: np.random.Generator) -> None:
    build = Builder()
    x = build.input(1, 1024)
    build.output(build("MatMul", x, rng.standard_normal((1024, 1024)).astype(np.float32)))
    feeds = {build.graph.inputs[0].name: rng.standard_normal((1, 1024)).astype(np.float32)}
    with compile_graph(build.graph, CompileOptions(threads=1)) as model:
        first = model.run(feeds)
        model.give_back_weights()
        for name, array in model.run(feeds).items():
            np.testing.assert_array_equal(array, first[name])


def test_compact_models_have_no_transformed_weights(rng: np.random.Generator) -> None:
    """A 3 × 3 convolution that goes by Winograd's tiles otherwise: same results, fewer bytes."""
    build = Builder()
    filters = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    x = build.input(1, 64, 32, 32)
    build.output(build("Conv", x, filters, pads=(1, 1, 1, 1)))
    feeds = {build.graph.inputs[0].name: rng.standard_normal((1, 64, 32, 32)).astype(np.float32)}
    with compile_graph(build.graph, CompileOptions(threads=1)) as fast:
        assert fast.weights_bytes > 1.5 * filters.nbytes
        (expected,) = fast.run(feeds).values()
    with compile_graph(build.graph, CompileOptions(threads=1, weights="small")) as compact:
        assert compact.weights_bytes < 1.1 * filters.nbytes
        (found,) = compact.run(feeds).values()
    # sums of 576 products of normal numbers, in another order: 2⁻²⁴ · 24² and the tiles' factor
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_all_graphs_share_the_integers_of_a_plan(rng: np.random.Generator) -> None:
    network = image_network(rng)
    layers = find_layers(network)
    seen = observe(network, layers, (), [{"x": each[None]} for each in images(rng)["x"]])
    plan = plan_static(network, layers, seen, StaticOptions())
    assert len(plan.layers) == len(layers)
    graphs = [with_forms(network, plan.layers, {}) for _ in range(2)]
    for layer, form in plan.layers.items():
        exact = layer.in_layout(form.weights.integers)
        for graph in graphs:
            arrays = [v.const for v in graph.constants() if v.const is not None]
            assert any(
                np.shares_memory(array, form.weights.integers) and np.array_equal(array, exact)
                for array in arrays
            )
