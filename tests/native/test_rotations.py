"""Rotations of channels in whole compressions, and in files that ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.compression.bases import find_bases
from infuse.compression.evaluation import Memory
from infuse.compression.layers import find_layers
from infuse.compression.orthogonal import rotation
from infuse.compression.scratch import ScratchArrays
from infuse.compression.turning import turned
from infuse.data.metrics import signal_to_noise
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1")]
Array = np.ndarray[Any, Any]
WIDTH, HEADS, TOKENS = 32, 2, 6


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def attending(outlier: float, has_norm: bool = True) -> Graph:
    """A block of a transformer: some channels of the values are so many times as large, and what
    reads them so many times smaller.
    """
    g = Builder(seed=3)
    x = g.input("n", TOKENS, WIDTH, name="x")
    scale = np.where(np.arange(WIDTH) % 16 == 5, outlier, 1).astype(np.float32)

    def product(value: Any, depth: int, columns: int, by: Any = 1.0) -> Any:
        matrix = g.rng.normal(size=(depth, columns)) / depth**0.5 * by
        return g("MatMul", value, matrix.astype(np.float32))

    stream = product(x, WIDTH, WIDTH)
    row = g("LayerNormalization", stream, g.weight(WIDTH), g.weight(WIDTH)) if has_norm else x
    parts = [g("Add", product(row, WIDTH, WIDTH, by), g.weight(WIDTH)) for by in (1, 1, scale)]
    heads = [
        g("Transpose", g("Reshape", p, np.array([0, TOKENS, HEADS, -1])), perm=order)
        for p, order in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
    ]
    weights = g("Softmax", g("MatMul", heads[0], heads[1]), axis=-1)
    mixed = g("Transpose", g("MatMul", weights, heads[2]), perm=(0, 2, 1, 3))
    joined = g("Reshape", mixed, np.array([0, TOKENS, WIDTH]))
    result = product(joined, WIDTH, WIDTH, 1 / scale[:, None])
    g.output(product(g("Add", stream, result) if has_norm else g("Relu", result), WIDTH, 8))
    return infuse.optimize(g.graph)


def data_of(rng: np.random.Generator, count: int = 48) -> dict[str, Array]:
    return {"x": rng.standard_normal((count, TOKENS, WIDTH)).astype(np.float32)}


def compress(graph: Graph, method: str, data: Any, **options: bool) -> Graph:
    own = infuse.CompressOptions(allow_slower=True, threads=1, **options)
    return infuse.compress(graph, method, data=data, options=own)


@pytest.mark.parametrize("method", ["int8", "int8-dynamic"])
def test_a_rotated_compression_is_nearer_to_the_original(
    method: str, rng: np.random.Generator
) -> None:
    graph, data, test = attending(40.0), data_of(rng), data_of(rng)
    (exact,) = evaluate(graph, test).values()
    near, reports = {}, {}
    for is_on in (False, True):
        made = compress(graph, method, data, rotate=is_on, equalize=False)
        with infuse.compile(made, infuse.CompileOptions(threads=1)) as model:
            (result,) = model.run(test).values()
        near[is_on], reports[is_on] = signal_to_noise(result, exact), made.compression
    assert near[True] > near[False] + 1.5
    told = [layer for layer in reports[True].layers if "rotated" in layer.calibrator]
    assert len(told) >= 2
    assert any(note.startswith("rotated: 16 channels") for note in reports[True].notes)
    assert not any("rotat" in note for note in reports[False].notes)


def test_rotations_that_do_not_help_are_left(rng: np.random.Generator) -> None:
    """Rows of signs have no large channels."""
    g = Builder(seed=3)
    x = g.input("n", WIDTH, name="x")
    first = np.eye(WIDTH, dtype=np.float32)
    g.output(g("MatMul", g("MatMul", x, first), g.weight(WIDTH, 8)))
    graph = g.graph
    data = {"x": np.sign(rng.standard_normal((200, WIDTH))).astype(np.float32)}
    graph.report = infuse.optimize(graph).report  # products of products stay
    report = compress(graph, "int8", infuse.Examples(data, batch=200)).compression
    assert "rotations that do not help: 1" in report.notes
    assert not any("rotated" in layer.calibrator for layer in report.layers)


def test_a_normalization_that_others_read_is_named(rng: np.random.Generator) -> None:
    g = Builder(seed=3)
    row = g("LayerNormalization", g.input("n", WIDTH, name="x"), g.weight(WIDTH))
    hidden = g("Relu", g("MatMul", row, g.weight(WIDTH, WIDTH)))
    g.output(g("Add", g("MatMul", hidden, g.weight(WIDTH, WIDTH)), row))
    data = {"x": rng.standard_normal((200, WIDTH)).astype(np.float32)}
    notes = compress(
        infuse.optimize(g.graph), "int8", infuse.Examples(data, batch=200)
    ).compression.notes
    (note,) = [note for note in notes if "rotated" in note]
    assert note.startswith("not rotated: the channels of 'LayerNormalization")
    assert "comes from outside" in note


@pytest.mark.parametrize("has_norm", [False, True])
def test_onnx_runtime_computes_the_same_of_rotated_files(
    has_norm: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    import onnxruntime

    graph, data = attending(40.0, has_norm), data_of(rng, 4)
    graph = infuse.optimize(graph, "basic")
    bases, _ = find_bases(graph, find_layers(graph))
    assert sorted(basis.block for basis in bases) == ([16, 32] if has_norm else [16])
    result = turned(graph, [(b, rotation(b.block, rng)) for b in bases], ScratchArrays())
    answers = []
    for number, each in enumerate((graph, result)):
        path = tmp_path / f"{number}.onnx"
        infuse.save(each, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        answers += session.run(None, data)
    with infuse.compile(result, infuse.CompileOptions(threads=1)) as model:
        answers += model.run(data).values()
    # constants are rounded to float32 once more, sums of 32 products are other ones
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=2e-5 * np.abs(answers[0]).max())
