"""Real input: tiny networks of the transformers library, as both exporters spell them, against ONNX
Runtime.
"""

from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ir.graph import Graph, count_operators

for package in ("torch", "transformers", "onnxscript", "onnxruntime"):
    if find_spec(package) is None:
        pytest.skip(
            f"{package} is needed to export the networks: make test installs it",
            allow_module_level=True,
        )

import onnxruntime  # noqa: E402  after the check that they can be imported
import torch  # noqa: E402

from tests.models.family_network import EXPORTERS  # noqa: E402
from tests.models.family_transformers import LAYERS, TRANSFORMERS  # noqa: E402

SIZES = ({"batch": 2, "seq": 6, "target": 5}, {"batch": 1, "seq": 3, "target": 2})
TOLERANCE = 1e-5  # outputs are of size one
ROTARY = {"Attention": LAYERS, "RotaryEmbedding": 2 * LAYERS, "Softmax": 0, "Concat": 1}


EXPECTED: dict[str, Mapping[str, int]] = {
    "llama": {**ROTARY, "RMSNormalization": 2 * LAYERS + 1, "Transpose": 0},
    "qwen2": {**ROTARY, "RMSNormalization": 2 * LAYERS + 1, "Transpose": 0},
    "mistral": {**ROTARY, "RMSNormalization": 2 * LAYERS + 1, "Transpose": 0},
    "gpt-neox": ROTARY,
    "gpt-j": {**ROTARY, "Transpose": 0},
    "t5": {"Attention": 3 * LAYERS, "RMSNormalization": 5 * LAYERS + 2, "Softmax": 0},
    "whisper": {"Attention": 3 * LAYERS, "LayerNormalization": 5 * LAYERS + 2, "Softmax": 0},
    "vit": {
        "Attention": LAYERS,
        "LayerNormalization": 2 * LAYERS + 1,
        "Softmax": 0,
        "Transpose": 1,
    },
}
"""How many operators of some kinds are left with fused operators."""
FAST = ("llama legacy", "gpt-j dynamo", "vit legacy")
"""What every run exports; the rest takes longer."""
UNEXPORTED = ("t5 dynamo", "whisper legacy")
"""What this version of the exporters cannot write."""
CASES = [
    pytest.param(name, exporter, id=f"{name} {exporter}", marks=() if fast else pytest.mark.full)
    for name in EXPECTED
    for exporter in EXPORTERS
    for fast in [f"{name} {exporter}" in FAST]
    if f"{name} {exporter}" not in UNEXPORTED
]


def _export(name: str, exporter: str, path: Path) -> None:
    torch.manual_seed(0)
    network = TRANSFORMERS[name]().prepare()
    with torch.no_grad():
        for weights in network.model.parameters():
            weights.add_(torch.randn_like(weights) * 0.05)  # biases and scales away from 0 and 1
    network.export(exporter, path)


def _feeds(
    session: Any, sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    feeds = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes[size] for size in value.shape]
        ids = (
            rng.integers(1, 90, shape)
            if "int" in value.type
            else rng.standard_normal(shape).astype(np.float32)
        )
        feeds[value.name] = ids
        if "mask" in value.name:
            feeds[value.name] = np.ones(shape, np.int64)
            feeds[value.name][0, 2:] = 0
    return feeds


def _largest_difference(found: Any, wanted: Any) -> float:
    return float(np.abs(np.asarray(found) - np.asarray(wanted)).max())


def _require(graph: Graph, name: str) -> None:
    counts: Counter[str] = count_operators(graph)
    assert {kind: counts[kind] for kind in EXPECTED[name]} == {**EXPECTED[name]}, dict(counts)


@pytest.mark.timeout(600)
@pytest.mark.row("G33")
@pytest.mark.row("G27")
@pytest.mark.parametrize(("name", "exporter"), CASES)
def test_transformers_are_fused_and_compute_the_same(
    name: str, exporter: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Standard operators at the model's own opset, fused ones of opset 24, and native code."""
    path = tmp_path / "model.onnx"
    _export(name, exporter, path)
    session = onnxruntime.InferenceSession(path)
    graph = infuse.load(path)
    fused = infuse.optimize(graph, "extended")
    _require(fused, name)
    files = {
        tmp_path / "basic.onnx": (infuse.optimize(graph, "basic"), None),
        tmp_path / "fused.onnx": (fused, 24),
    }
    others = []
    for file, (result, opset) in files.items():
        infuse.save(result, file, opset=opset)
        others.append(onnxruntime.InferenceSession(file))
    native = infuse.compile(infuse.optimize(graph, "all"))
    for sizes in SIZES:
        feeds = _feeds(session, sizes, rng)
        wanted = session.run(None, feeds)
        for other in others:
            assert _largest_difference(other.run(None, feeds)[0], wanted[0]) <= TOLERANCE
        assert _largest_difference(next(iter(native.run(feeds).values())), wanted[0]) <= TOLERANCE
