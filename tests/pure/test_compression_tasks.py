"""The tasks of compression without their packages: how they are stored, and that each judge tells
right answers from wrong ones.
"""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.compression_tasks import NAMES
from benchmarks.compression_tasks.base import Feeds, Prepared, Recipe, top_1
from benchmarks.compression_tasks.file_types import tokens
from benchmarks.compression_tasks.language import perplexity
from benchmarks.compression_tasks.mails import plain, reciprocal_rank
from benchmarks.compression_tasks.reading import (
    boxes,
    boxes_f1,
    characters_right,
    edits,
    overlaps,
    read,
)
from benchmarks.compression_tasks.series import joined, read_series
from benchmarks.compression_tasks.speech import FRAME, f1, frames


def test_there_are_at_least_twelve_networks() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 12


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 7, 4)])
def test_a_task_is_stored_once_and_read_again(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    made = []
    feeds: list[Feeds] = [{"x": np.arange(n, dtype=np.float32)[None] + n} for n in sizes]

    def prepare(packages: object) -> Prepared:
        made.append(packages)
        return Prepared(b"model", feeds[:2], feeds, {"labels": np.array([3, 1, 3])})

    recipe = Recipe("three", "top-1", prepare, top_1)
    recipe.task(tmp_path)
    task = recipe.task(tmp_path)
    assert len(made) == 1
    assert task.model.read_bytes() == b"model"
    assert len(task.calibration) == 2
    assert [one["x"].tolist() for one in task.test] == [one["x"].tolist() for one in feeds]
    assert task.labels is not None
    assert task.labels.tolist() == [3, 1, 3]
    score = task.score(lambda one: {"scores": np.eye(4, dtype=np.float32)[[3]]})
    assert score == pytest.approx(2 / 3)


def test_a_task_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    def prepare(packages: object) -> Prepared:
        return Prepared(b"", [], [], {})

    with pytest.raises(ValueError, match="cannot calibrate"):
        Recipe("none", "top-1", prepare, top_1).task(tmp_path)
    assert not list(tmp_path.iterdir())


def test_edits_are_those_of_the_definition() -> None:
    def slow(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        same = slow(a[1:], b[1:]) + (a[0] != b[0])
        return min(same, slow(a[1:], b) + 1, slow(a, b[1:]) + 1)

    rng = np.random.default_rng(0)
    for _ in range(40):
        a, b = ("".join(rng.choice(list("abc"), rng.integers(6))) for _ in range(2))
        assert edits(a, b) == slow(a, b)


def test_letters_are_read_where_they_change() -> None:
    letters = np.array(["", "a", "b", " "])
    steps = [1, 1, 0, 1, 2, 2, 3, 0, 2]
    scores = np.eye(4)[steps]
    assert read(scores, letters) == "aab b"
    truth = {"texts": np.array(["aab b", "aabab"]), "letters": letters}
    right = characters_right([{"y": scores[None]}, {"y": scores[None]}], truth)
    assert right == pytest.approx(1 - 1 / 10)


def test_boxes_grow_to_the_drawn_lines() -> None:
    scores = np.zeros((100, 200), np.float32)
    scores[20:30, 30:90] = 0.9
    scores[60:70, 10:150] = 0.9
    scores[80:82, 10:12] = 0.9  # too small
    found = boxes(scores)
    assert len(found) == 2
    grown = 1.6 * 11 * 61 / (2 * (11 + 61))  # area and perimeter after dilation by 2 x 2
    near = [[30 - grown, 20 - grown, 90 + grown, 30 + grown]]
    assert overlaps(found[:1], np.array(near))[0, 0] > 0.9
    truth = {"boxes": np.array([*near, [0.0, 90, 20, 99]]), "counts": np.array([2])}
    assert boxes_f1([{"y": scores[None, None]}], truth) == pytest.approx(2 * 1 / (2 + 2))


def test_perplexity_of_equal_and_of_certain_logits() -> None:
    truth = {"next": np.array([[1, 2, 0]])}
    equal = {"logits": np.full((1, 3, 8), 5e3, np.float32)}
    assert perplexity([equal], truth) == pytest.approx(8)
    certain = {"logits": (50 * np.eye(8, dtype=np.float32))[[1, 2, 0]][None]}
    assert perplexity([certain], truth) == pytest.approx(1)
    assert perplexity([certain], {"next": np.array([[1, 2, 3]])}) > 1e6


def test_ranks_of_own_bodies() -> None:
    rows = np.eye(3, dtype=np.float32)
    right = [{"embedding": row[None]} for row in (*rows, *rows)]
    swapped = [{"embedding": row[None]} for row in (*rows, rows[1], rows[0], rows[2])]
    truth = {"pairs": np.arange(3)}
    # A body that is not the own one ties with another: ties count against the subject.
    assert reciprocal_rank(right, truth) == pytest.approx(1)
    assert reciprocal_rank(swapped, truth) == pytest.approx((1 / 3 + 1 / 3 + 1) / 3)


def test_frames_overlap_by_their_context() -> None:
    samples = np.arange(4 * FRAME, dtype=np.float64)
    feeds = frames(samples)
    assert feeds["input"].shape == (4, FRAME + 64)
    assert np.array_equal(feeds["input"][1, :64], samples[FRAME - 64 : FRAME])
    assert np.array_equal(feeds["input"][:, 64:].ravel(), samples)
    speech = {"speech": np.array([True, True, False, False])}
    answers = [{"speech_probs": np.array([0.9, 0.1])}, {"speech_probs": np.array([0.9, 0.1])}]
    assert f1(answers, speech) == pytest.approx(0.5)


def test_bytes_of_both_ends_of_a_file() -> None:
    row = tokens(b"  \nabc" + b"x" * 5000 + b"yz \n")[0]
    assert bytes(row[:4].astype(np.uint8)) == b"abcx"
    assert bytes(row[-2:].astype(np.uint8)) == b"yz"
    short = tokens(b" hello ")[0]
    assert bytes(short[:5].astype(np.uint8)) == b"hello"
    assert (short[6:-6] == 256).all()


def test_marks_of_answers_are_no_part_of_a_subject() -> None:
    assert plain("Re: [ILUG]  two\n words") == "[ILUG] two words"
    assert plain("no mark: here") == "no mark: here"


def test_series_are_read_and_padded(tmp_path: Path) -> None:
    path = tmp_path / "a.ts"
    path.write_text("# words\n@problemName a\n@data\n1,2,3:4,5,6:one\n7,8:9,10:two\n")
    series, classes = read_series(path)
    assert classes == ["one", "two"]
    assert joined(series, 3).tolist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 0], [9, 10, 0]]]
