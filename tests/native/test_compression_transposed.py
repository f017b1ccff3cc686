"""Compression of transposed convolutions, as segmentation networks have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.build.staged import generate
from infuse.compression.evaluation import Memory
from infuse.data.dataset import feeds_of
from infuse.data.metrics import signal_to_noise
from infuse.ir.graph import Array, Graph
from infuse.targets import Target
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1", "Z2")]


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def segmentation() -> Graph:
    """A U-Net of two levels: convolutions, transposed ones of several kinds, a skip."""
    b = Builder("segmentation")

    def conv(x: object, inputs: int, outputs: int, stride: int = 1) -> object:
        w = b.weight(outputs, inputs, 3, 3)
        made = b("Conv", x, w, b.weight(outputs), pads=(1,) * 4, strides=(stride, stride))
        return b("Relu", made)

    x = b.input(1, 3, 12, 16, name="x")
    wide = conv(x, 3, 16)
    low = conv(conv(wide, 16, 24, 2), 24, 24)
    up = b("ConvTranspose", low, b.weight(24, 16, 2, 2), b.weight(16), strides=(2, 2))
    joined = conv(b("Concat", up, wide, axis=1), 32, 16)
    how = {"strides": (2, 2), "pads": (1,) * 4}
    larger = b("ConvTranspose", joined, b.weight(16, 18, 3, 3), output_padding=(1, 1), **how)
    last = b("ConvTranspose", b("Relu", larger), b.weight(18, 2, 4, 4), b.weight(2), **how)
    b.output(last)
    return infuse.optimize(b.graph)


def answers(graph: Graph, data: dict[str, Array]) -> Array:
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        return np.concatenate([next(iter(model.run(f).values())) for f in feeds_of(graph, data)])


def test_a_segmentation_network_is_computed_on_integers(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    graph = segmentation()
    data = {"x": rng.standard_normal((12, 3, 12, 16)).astype(np.float32)}
    # What -O0 makes of kernels says nothing of speed.
    result = infuse.compress(
        graph, "int8", data=data, options=infuse.CompressOptions(allow_slower=True, threads=1)
    )
    layers = result.compression.layers
    assert {layer.form for layer in layers} == {"int8"}
    assert [layer.operator for layer in layers].count("ConvTranspose") == 3
    assert result.compression.score > 0.999
    program, _ = generate(result, Target.resolve("x86-64-v3"))
    kinds = {kind for step in program.steps for kind in step.label.split(" + ")}
    assert {"ConvTransposeInteger", "ConvInteger"} <= kinds
    assert not {"Conv", "ConvTranspose"} & kinds
    ours, exact = answers(result, data), answers(graph, data)
    assert signal_to_noise(ours, exact) > 25
    infuse.save(result, tmp_path / "small.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "small.onnx")
    theirs = np.concatenate([session.run(None, f)[0] for f in feeds_of(graph, data)])
    assert signal_to_noise(theirs, ours) > 30


def test_scales_are_those_of_output_channels(rng: np.random.Generator) -> None:
    """A channel whose weights are a hundredth of the others' is as exact as these."""
    b = Builder("channels")
    x = b.input(1, 8, 6, 6, name="x")
    w = b.rng.standard_normal((8, 16, 2, 2)).astype(np.float32)
    w[:, 3] *= 0.01
    b.output(b("ConvTranspose", x, w, strides=(2, 2)))
    data = {"x": rng.standard_normal((12, 8, 6, 6)).astype(np.float32)}
    graph = infuse.optimize(b.graph)
    result = infuse.compress(
        graph, "int8", data=data, options=infuse.CompressOptions(allow_slower=True, threads=1)
    )
    ours, exact = answers(result, data), answers(graph, data)
    for channel in (2, 3):
        assert signal_to_noise(ours[:, channel], exact[:, channel]) > 25


def test_clusters_have_transposed_convolutions(rng: np.random.Generator) -> None:
    b = Builder("clusters")
    x = b.input(1, 16, 6, 6, name="x")
    b.output(b("ConvTranspose", x, b.weight(16, 16, 4, 4), b.weight(16), strides=(2, 2)))
    data = {"x": rng.standard_normal((12, 16, 6, 6)).astype(np.float32)}
    graph = infuse.optimize(b.graph)
    result = infuse.compress(
        graph,
        "clusters",
        data=data,
        contract=infuse.Contract(max_drop="5%"),
        options=infuse.CompressOptions(threads=1),
    )
    (layer,) = result.compression.layers
    assert layer.form.startswith("clusters")
    (w,) = [v for v in result.constants() if v.rank == 4]
    assert len(np.unique(w.const)) < 300
    assert signal_to_noise(answers(result, data), answers(graph, data)) > 10
