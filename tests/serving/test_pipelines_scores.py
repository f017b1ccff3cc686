"""Probabilities, names of classes, and vectors of sentences, held against plain formulas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from infuse.errors import ConfigurationError, InfuseError, InputError, ModelFailureError
from infuse.serving.engine.pipelines.builtins import BUILTINS, create, load
from infuse.serving.engine.pipelines.steps import Builtin

pytestmark = pytest.mark.row("S1")


def built(name: str, folders: Sequence[Path] = (), **options: Any) -> Builtin:
    return create(name, options, folders, "step 1")


def run(
    name: str, inputs: dict[str, Any], folders: Sequence[Path] = (), **options: Any
) -> dict[str, Any]:
    step = built(name, folders, **options)
    return step.run(inputs, frozenset(port.name for port in step.outputs))


@pytest.mark.parametrize("name", BUILTINS)
def test_every_built_in_says_what_it_does(name: str) -> None:
    text = " ".join((load(name).__doc__ or "").split())
    assert "Input" in text
    assert "Output" in text
    assert "Options: `" in text
    assert load(name).kind.__doc__


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize(("axis", "temperature"), [(-1, 1.0), (0, 0.5), (1, 20.0)])
def test_softmax(dtype: Any, axis: int, temperature: float, rng: np.random.Generator) -> None:
    scores = (rng.standard_normal((3, 4, 5)) * 30).astype(dtype)
    found = run("softmax", {"scores": scores}, axis=axis, temperature=temperature)["probabilities"]
    powers = np.exp(scores.astype(np.float64) / temperature)
    np.testing.assert_allclose(
        found, powers / powers.sum(axis, keepdims=True), rtol=1e-6, atol=1e-37
    )
    assert found.dtype == np.float32


def test_softmax_of_large_and_strange_scores() -> None:
    scores = np.array(
        [[1000, 1000], [-np.inf, 0], [np.nan, 0], [np.inf, 0], [-np.inf, -np.inf]], np.float32
    )
    found = run("softmax", {"scores": scores})["probabilities"]
    np.testing.assert_array_equal(found[:2], [[0.5, 0.5], [0, 1]])
    assert np.isnan(found[2:]).any(1).all()
    assert run("softmax", {"scores": np.zeros((0, 3), np.float32)})["probabilities"].shape == (0, 3)


def test_softmax_refuses() -> None:
    with pytest.raises(InputError, match="has no axis 2"):
        run("softmax", {"scores": np.zeros((2, 2), np.float32)}, axis=2)
    for temperature in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match=r"step 1: `temperature`"):
            built("softmax", temperature=temperature)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "labels.txt").write_text("cat\ndog\nhorse, grey\näffchen\n", "utf-8")
    return tmp_path


def test_the_best_classes_are_named(folder: Path) -> None:
    scores = np.array([[0.1, 0.5, 0.25, 0.5], [np.nan, -1, 1e-5, 3]], np.float32)
    found = run("topk_labels", {"scores": scores}, [folder], k=3)
    expected = [
        ["dog:0.5", "äffchen:0.5", "horse, grey:0.25"],
        ["äffchen:3.0", "horse, grey:1e-05", "dog:-1.0"],
    ]
    assert found["labels"].tolist() == [[label.encode() for label in row] for row in expected]
    assert found["indices"].tolist() == [[1, 3, 2], [3, 2, 1]]
    np.testing.assert_array_equal(found["scores"], np.take_along_axis(scores, found["indices"], 1))
    one = run("topk_labels", {"scores": scores[0]}, [folder], k=9, separator="=")
    assert one["labels"].tolist() == [
        b"dog=0.5",
        "äffchen=0.5".encode(),
        b"horse, grey=0.25",
        b"cat=0.1",
    ]
    nan = run("topk_labels", {"scores": scores[1]}, [folder], k=4)
    assert nan["labels"][-1] == b"cat:nan"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_scores_of_any_float_are_named(dtype: Any, folder: Path, rng: np.random.Generator) -> None:
    scores = rng.permutation(40).reshape(10, 4).astype(dtype)
    found = run("topk_labels", {"scores": scores}, [folder], k=1)
    np.testing.assert_array_equal(found["indices"][:, 0], scores.astype(np.float64).argmax(1))


def test_names_that_do_not_fit_are_refused(folder: Path) -> None:
    with pytest.raises(ModelFailureError, match=r"5 classes, and 4 names in 'labels.txt'"):
        run("topk_labels", {"scores": np.zeros((1, 5), np.float32)}, [folder])
    with pytest.raises(InputError, match="shape"):
        run("topk_labels", {"scores": np.zeros((1, 1, 4), np.float32)}, [folder])
    with pytest.raises(ConfigurationError, match=r"no file 'names.txt'"):
        built("topk_labels", [folder], labels="names.txt")
    (folder / "empty.txt").touch()
    with pytest.raises(ConfigurationError, match="is empty"):
        built("topk_labels", [folder], labels="empty.txt")
    (folder / "binary.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        built("topk_labels", [folder], labels="binary.txt")


@pytest.mark.parametrize(
    "name", ["../labels.txt", "/etc/passwd", "a/../../labels.txt", "", "..\\labels.txt", "a\0b"]
)
def test_files_outside_the_folder_are_refused(name: str, folder: Path) -> None:
    inner = folder / "model"
    inner.mkdir()
    with pytest.raises(ConfigurationError, match="not a name of a file in the model's folder"):
        built("topk_labels", [inner], labels=name)


def test_the_first_folder_with_the_file_is_taken(folder: Path) -> None:
    version = folder / "1"
    version.mkdir()
    scores = {"scores": np.array([[1, 0, 0, 0]], np.float32)}
    assert run("topk_labels", scores, [version, folder], k=1)["labels"][0, 0] == b"cat:1.0"
    (version / "labels.txt").write_text("lion\n\n\n\n\n")
    with pytest.raises(ModelFailureError, match="5 names"):
        run("topk_labels", scores, [version, folder], k=1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("mode", ["mean", "max", "cls"])
@pytest.mark.parametrize("normalise", [False, True])
def test_embeddings_are_pooled(
    dtype: Any, mode: str, normalise: bool, rng: np.random.Generator
) -> None:
    embeddings = rng.standard_normal((4, 6, 8)).astype(dtype)
    lengths = [6, 1, 3, 0]
    mask = np.array([[1] * n + [0] * (6 - n) for n in lengths], np.int64)
    embeddings[mask == 0] = np.nan  # what was filled up does not count
    found = run(
        "mean_pool", {"embeddings": embeddings, "mask": mask}, mode=mode, normalise=normalise
    )["vectors"]
    for row, length in enumerate(lengths):
        tokens = embeddings[row, :length].astype(np.float64)
        pools = {"mean": lambda t: t.mean(0), "max": lambda t: t.max(0), "cls": lambda t: t[0]}
        expected = pools[mode](tokens) if length else np.zeros(8)
        if normalise and length:
            expected = expected / np.linalg.norm(expected)
        np.testing.assert_allclose(found[row], expected, rtol=1e-6, atol=1e-7)
    assert found.dtype == np.float32


def test_pooling_without_a_mask_takes_all() -> None:
    embeddings = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    np.testing.assert_array_equal(
        run("mean_pool", {"embeddings": embeddings}, normalise=False)["vectors"], embeddings.mean(1)
    )
    for mode in ("mean", "max", "cls"):
        none = run("mean_pool", {"embeddings": embeddings[:, :0]}, mode=mode)["vectors"]
        np.testing.assert_array_equal(none, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("shape", "mask"), [((2, 3), (2, 3)), ((2, 3, 4), (2, 4)), ((2, 3, 4), (1, 3))]
)
def test_pooling_refuses(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    with pytest.raises(InfuseError, match="shape"):
        run(
            "mean_pool",
            {"embeddings": np.zeros(shape, np.float32), "mask": np.zeros(mask, np.int64)},
        )
