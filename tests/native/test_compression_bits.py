"""Compression to few bits: what is stored, what ONNX Runtime makes of it, and rounded rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.compression.evaluation import Memory
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.options import METHODS
from infuse.options.compressing import with_fields
from infuse.options.methods import Method
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1")]
WORDS, WIDTH = 300, 64


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def language() -> Graph:
    """Tokens [n] → logits [n, 96]: an embedding, two products, one of them with a bias."""
    make = Builder("language", seed=3)
    rows = make("Gather", make.weight(WORDS, WIDTH), make.input("n", dtype=dtypes.int64), axis=0)
    hidden = make("Relu", make("MatMul", rows, make.weight(WIDTH, 128)))
    make.output(make("Gemm", hidden, make.weight(128, 96), make.weight(96)))
    return make.graph


def answers(graph: Graph, tokens: np.ndarray) -> np.ndarray:
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        (result,) = model.run({"x0": tokens}).values()
    return np.asarray(result, np.float64)


def error(graph: Graph, exact: np.ndarray, tokens: np.ndarray) -> float:
    """The root of the power of the error over that of the answers."""
    return float(np.linalg.norm(answers(graph, tokens) - exact) / np.linalg.norm(exact))


def compress(method: str | Method, tokens: np.ndarray, level: str = "all") -> Graph:
    data = infuse.Examples({"x0": tokens[None]}, batch=64)
    options = infuse.CompressOptions(level=level, allow_slower=True, threads=1)
    return infuse.compress(language(), method, data=data, options=options)


def test_fewer_bits_are_smaller_and_lose_more(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, WORDS, 64)
    exact = answers(language(), tokens)
    sizes, errors = [], []
    for method in ("int8-weights", "int4", "int3", "int2"):
        graph = compress(method, tokens)
        path = tmp_path / f"{method}.infuse"
        infuse.save(graph, path, coded=method == "int3")
        assert error(infuse.load(path), exact, tokens) == error(graph, exact, tokens)
        sizes.append(path.stat().st_size)
        errors.append(error(graph, exact, tokens))
    assert sizes == sorted(sizes, reverse=True)
    assert errors == sorted(errors)
    # Uniform weights: a step of (high - low) / 15 leaves an error of about a sixteenth.
    assert errors[1] < 0.12


@pytest.mark.parametrize("method", ["int4", "int3", "int2"])
def test_onnx_runtime_multiplies_the_same(method: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    tokens = np.random.default_rng(0).integers(0, WORDS, 64)
    graph = compress(METHODS[method](runtime="onnxruntime"), tokens, level="basic")
    assert sum(node.kind == "MatMulNBits" for node in graph.nodes) == 2
    infuse.save(graph, tmp_path / "small.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "small.onnx")
    (theirs,) = session.run(None, {"x0": tokens})
    ours = answers(graph, tokens)
    # Sums of 128 products in float32, in another order.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(theirs).max())


def test_rounded_activations_lose_less_than_weights_of_4_bits() -> None:
    tokens = np.random.default_rng(0).integers(0, WORDS, 64)
    exact = answers(language(), tokens)
    plain = compress("int4", tokens)
    rounded = compress(infuse.Int4(rounded_activations=True), tokens)
    assert {n.op.attributes()["accuracy_level"] for n in rounded.nodes if n.op.domain} == {4}
    change = np.linalg.norm(answers(rounded, tokens) - answers(plain, tokens))
    # Integers of 8 bits in blocks of 64: an error of a part in some hundreds.
    assert 0 < change / np.linalg.norm(exact) < 0.02
    assert error(rounded, exact, tokens) < 1.1 * error(plain, exact, tokens)


def test_options_of_few_bits_need_such_weights() -> None:
    for options in ({"runtime": "onnxruntime"}, {"rounded_activations": True}):
        with pytest.raises(OptionError, match="means nothing for int8-weights"):
            with_fields("int8-weights", None, options)
    with pytest.raises(OptionError, match="no runtime 'tvm'"):
        infuse.compress(language(), infuse.Int4(runtime="tvm"))
