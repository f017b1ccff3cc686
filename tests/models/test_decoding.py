"""The examples that decode with a loop inside of the model: text generation and Viterbi."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import infuse
from examples import generate, viterbi
from infuse.errors import RuntimeFailure
from infuse.runtime import CompiledModel
from tests.models.onnx_tools import session

SHAPE = generate.Shape(words=97, places=64, width=32, heads=4, layers=2)


@pytest.fixture(scope="module")
def weights() -> dict[str, generate.Floats]:
    return generate.random_weights(SHAPE)


@pytest.fixture(scope="module")
def generator(weights: dict[str, generate.Floats]) -> Iterator[CompiledModel]:
    with infuse.compile(
        infuse.load(generate.generator(SHAPE, weights)), infuse.CompileOptions(threads=2)
    ) as model:
        assert isinstance(model, CompiledModel)
        assert not getattr(model, "host_steps", ())
        yield model


def prompt(batch: int, length: int) -> generate.Words:
    return np.random.default_rng(batch).integers(0, SHAPE.words, (batch, length))


def words(model: CompiledModel, given: generate.Words, most: int, end: int = -1) -> generate.Words:
    return np.asarray(
        model.run({"prompt": given, "most": np.array(most), "end": np.array(end)})["generated"]
    )


@pytest.mark.parametrize(("batch", "length", "most"), [(1, 1, 20), (2, 5, 12), (3, 8, 1)])
def test_words_are_those_of_numpy(
    generator: CompiledModel,
    weights: dict[str, generate.Floats],
    batch: int,
    length: int,
    most: int,
) -> None:
    given = prompt(batch, length)
    expected = generate.reference(SHAPE, weights, given, most, -1)
    assert len(np.unique(expected)) > 1 or most == 1
    np.testing.assert_array_equal(words(generator, given, most), expected)


def test_words_are_those_of_onnxruntime(
    generator: CompiledModel, weights: dict[str, generate.Floats]
) -> None:
    feeds = {"prompt": prompt(2, 4), "most": np.array(10), "end": np.array(-1)}
    (expected,) = session(generate.generator(SHAPE, weights)).run(None, feeds)
    np.testing.assert_array_equal(words(generator, feeds["prompt"], 10), expected)


def test_the_end_of_text_stops_a_row_and_then_the_loop(
    generator: CompiledModel, weights: dict[str, generate.Floats]
) -> None:
    given = prompt(2, 5)
    free = generate.reference(SHAPE, weights, given, 12, -1)
    end = int(free[0, 3])
    expected = generate.reference(SHAPE, weights, given, 12, end)
    np.testing.assert_array_equal(words(generator, given, 12, end), expected)
    alone = words(generator, given[:1], 12, end)
    assert alone.shape[1] <= 4
    assert alone[0, -1] == end


def test_no_words_and_too_many(generator: CompiledModel) -> None:
    assert words(generator, prompt(2, 3), 0).shape == (2, 0)
    with pytest.raises(RuntimeFailure):
        words(generator, prompt(1, 5), SHAPE.places)


def test_words_outside_of_the_table_are_refused(generator: CompiledModel) -> None:
    with pytest.raises(RuntimeFailure):
        words(generator, np.array([[SHAPE.words]]), 2)


def test_viterbi(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    start, transitions = (rng.standard_normal(s).astype(np.float32) for s in ((5,), (5, 5)))
    graph = viterbi.decoder(start, transitions)
    infuse.save(graph, tmp_path / "viterbi.onnx", opset=20)
    peer = session(tmp_path / "viterbi.onnx")
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as compiled:
        assert not getattr(compiled, "host_steps", ())
        for batch, length in ((1, 1), (2, 9), (3, 2)):
            scores = rng.standard_normal((batch, length, 5)).astype(np.float32)
            found = compiled.run({"scores": scores})
            path, total = viterbi.reference(start, transitions, scores)
            np.testing.assert_array_equal(found["path"], path)
            np.testing.assert_allclose(found["total"], total, rtol=1e-5)
            for ours, theirs in zip(
                (found["path"], found["total"]), peer.run(None, {"scores": scores})
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5)
