"""Real input (a): a trained network on the held-out digits, against ONNX Runtime, sample by
sample.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse

DATA = Path(__file__).parent / "data"
MODEL = DATA / "digits.onnx"
LEVELS = ["none", "basic", "extended", "all"]


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.load(DATA / "digits_test.npz")["pixels"].astype(np.float32) / 16


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    return np.load(DATA / "digits_test.npz")["labels"]


@pytest.fixture(scope="module")
def expected(images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": images})[0]


def close(logits: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max())


@pytest.mark.row("C1")
@pytest.mark.row("R1")
def test_every_sample_is_classified_as_by_onnxruntime(
    images: np.ndarray, labels: np.ndarray, expected: np.ndarray
) -> None:
    (logits,) = infuse.InferenceSession(MODEL).run(None, {"image": images})
    assert np.array_equal(logits.argmax(1), expected.argmax(1))
    assert (logits.argmax(1) == labels).mean() > 0.99
    assert close(logits, expected)


@pytest.mark.row("R4")
def test_one_session_takes_every_batch(images: np.ndarray, expected: np.ndarray) -> None:
    session = infuse.InferenceSession(MODEL)
    for batch in (1, 2, 7, 64, len(images)):
        (logits,) = session.run(["logits"], {"image": images[:batch]})
        assert logits.shape == (batch, 10)
        assert close(logits, expected[:batch]), batch


@pytest.mark.row("G11")
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_gives_the_same_answer(
    level: str, images: np.ndarray, expected: np.ndarray
) -> None:
    model = infuse.compile(infuse.optimize(infuse.load(MODEL), level))
    assert close(model.run({"image": images})["logits"], expected)


@pytest.mark.row("G11")
def test_no_norm_is_left() -> None:
    better = infuse.optimize(infuse.load(MODEL), "basic")
    assert not [node for node in better.nodes if node.kind == "BatchNormalization"]
