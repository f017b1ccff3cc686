"""Real input: tiny networks of the transformers library, as both exporters spell them, against ONNX Runtime."""

import contextlib
import io
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ir.graph import Graph
from infuse.rewrite.record import count_operators

for package in ("torch", "transformers", "onnxscript", "onnxruntime"):
    if find_spec(package) is None:
        pytest.skip(f"{package} is needed to export the networks: make test installs it", allow_module_level=True)

import onnxruntime  # noqa: E402  after the check that they can be imported
import torch  # noqa: E402

from benchmarks.torchvision_schemas import make_importable  # noqa: E402

os.environ.setdefault("HF_HUB_OFFLINE", "1")
make_importable()
import transformers  # noqa: E402

LAYERS = 2
SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS}
HEADS = {"num_attention_heads": 4, "max_position_embeddings": 64}
SIZES = ({"batch": 2, "seq": 6, "target": 5}, {"batch": 1, "seq": 3, "target": 2})
TOLERANCE = 1e-5  # outputs are of size one
ROTARY = {"Attention": LAYERS, "RotaryEmbedding": 2 * LAYERS, "Softmax": 0, "Concat": 1}


class Decoder(torch.nn.Module):
    """Token ids and a mask in, logits out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Logits without a cache."""
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class Pair(torch.nn.Module):
    """Encoder and decoder: what the encoder reads, token ids of the decoder; its last states out."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, source: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
        """Last states of the decoder."""
        given = {self.name: source, "decoder_input_ids": decoder_input_ids}
        return self.model(**given, use_cache=False).last_hidden_state


class Vision(torch.nn.Module):
    """Pixels in, states out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """States of all patches."""
        return self.model(pixels).last_hidden_state


def _decoder(name: str, **more: Any) -> torch.nn.Module:
    config = getattr(transformers, f"{name}Config")
    return Decoder(getattr(transformers, f"{name}ForCausalLM")(config(**more)))


def _whisper() -> torch.nn.Module:
    layers = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in _WHISPER.items()}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes = {"vocab_size": 97, "d_model": 32, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32}
    return Pair(transformers.WhisperModel(transformers.WhisperConfig(**sizes, **layers, **tokens)), "input_features")


_WHISPER = {"layers": LAYERS, "attention_heads": 4, "ffn_dim": 48}
_T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS, "num_heads": 4}
_VIT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": 4}
_GPTJ = {"vocab_size": 97, "n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 64, "rotary_dim": 4}

NETWORKS: dict[str, Any] = {
    "llama": lambda: _decoder("Llama", **SMALL, **HEADS, num_key_value_heads=2),
    "qwen2": lambda: _decoder("Qwen2", **SMALL, **HEADS, num_key_value_heads=2),
    "mistral": lambda: _decoder("Mistral", **SMALL, **HEADS, num_key_value_heads=2, sliding_window=None),
    "gpt-neox": lambda: _decoder("GPTNeoX", **SMALL, **HEADS),
    "gpt-j": lambda: _decoder("GPTJ", **_GPTJ),
    "t5": lambda: Pair(transformers.T5Model(transformers.T5Config(**_T5)), "input_ids"),
    "whisper": _whisper,
    "vit": lambda: Vision(
        transformers.ViTModel(transformers.ViTConfig(**_VIT, image_size=16, patch_size=4), add_pooling_layer=False)
    ),
}
"""Networks with random weights."""
EXPECTED: dict[str, Mapping[str, int]] = {
    "llama": {**ROTARY, "RMSNormalization": 2 * LAYERS + 1, "Transpose": 0},
    "qwen2": {**ROTARY, "RMSNormalization": 2 * LAYERS + 1, "Transpose": 0},
    "mistral": {**ROTARY, "RMSNormalization": 2 * LAYERS + 1, "Transpose": 0},
    "gpt-neox": ROTARY,
    "gpt-j": {**ROTARY, "Transpose": 0},
    "t5": {"Attention": 3 * LAYERS, "RMSNormalization": 5 * LAYERS + 2, "Softmax": 0},
    "whisper": {"Attention": 3 * LAYERS, "LayerNormalization": 5 * LAYERS + 2, "Softmax": 0},
    "vit": {"Attention": LAYERS, "LayerNormalization": 2 * LAYERS + 1, "Softmax": 0, "Transpose": 1},
}
"""How many operators of some kinds are left with fused operators."""
FAST = ("llama legacy", "gpt-j dynamo", "vit legacy")
"""What every run exports; the rest takes longer."""
UNEXPORTED = ("t5 dynamo", "whisper legacy")
"""What this version of the exporters cannot write."""
CASES = [
    pytest.param(name, exporter, id=f"{name} {exporter}", marks=() if fast else pytest.mark.full)
    for name in NETWORKS
    for exporter in ("legacy", "dynamo")
    for fast in [f"{name} {exporter}" in FAST]
    if f"{name} {exporter}" not in UNEXPORTED
]


def _example(name: str) -> tuple[tuple[torch.Tensor, ...], dict[str, dict[int, str]]]:
    """Inputs to trace with, and the names of their sizes that vary."""
    ids = torch.randint(1, 97, (2, 6), generator=torch.Generator().manual_seed(0))
    words, target = {0: "batch", 1: "seq"}, {0: "batch", 1: "target"}
    if name == "vit":
        return (torch.ones(2, 3, 16, 16),), {"pixels": {0: "batch"}}
    if name == "whisper":
        return (torch.ones(2, 8, 32), ids[:, :5]), {"source": {0: "batch"}, "decoder_input_ids": target}
    if name == "t5":
        return (ids, ids[:, :5]), {"source": words, "decoder_input_ids": target}
    return (ids, torch.ones_like(ids)), {"input_ids": words, "attention_mask": words}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What exporters print and warn of concerns their own versions."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _export(name: str, exporter: str, path: Path) -> None:
    torch.manual_seed(0)
    with _quiet():
        network = NETWORKS[name]().eval()
        for weights in network.parameters():
            weights.add_(torch.randn_like(weights) * 0.05)  # biases and scales away from 0 and 1
        inputs, axes = _example(name)
        options: dict[str, Any] = {"dynamo": False, "dynamic_axes": axes, "opset_version": 17}
        if exporter == "dynamo":
            sizes = {size: torch.export.Dim(size, min=2, max=32) for named in axes.values() for size in named.values()}
            shapes = tuple({axis: sizes[size] for axis, size in named.items()} for named in axes.values())
            options = {"dynamo": True, "dynamic_shapes": shapes}
        torch.onnx.export(network, inputs, str(path), input_names=list(axes), **options)


def _feeds(session: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    feeds = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes[size] for size in value.shape]
        ids = rng.integers(1, 90, shape) if "int" in value.type else rng.standard_normal(shape).astype(np.float32)
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
    fused = infuse.optimize(graph, level="extended")
    _require(fused, name)
    files = {
        tmp_path / "basic.onnx": (infuse.optimize(graph, level="basic"), None),
        tmp_path / "fused.onnx": (fused, 24),
    }
    others = []
    for file, (result, opset) in files.items():
        infuse.save(result, file, opset=opset)
        others.append(onnxruntime.InferenceSession(file))
    native = infuse.compile(infuse.optimize(graph, level="all"))
    for sizes in SIZES:
        feeds = _feeds(session, sizes, rng)
        wanted = session.run(None, feeds)
        for other in others:
            assert _largest_difference(other.run(None, feeds)[0], wanted[0]) <= TOLERANCE
        assert _largest_difference(next(iter(native.run(feeds).values())), wanted[0]) <= TOLERANCE
