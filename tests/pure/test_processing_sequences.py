"""Sequences as a part of the model: decoders beside plain Python, all paths and PyTorch's CTC loss,
choices of tokens beside transformers.
"""

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import processing
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate
from tests.pure.traced_blocks import everywhere

pytestmark = pytest.mark.row("C10")

RNG = np.random.default_rng(11)


def log_probs(*shape: int, scale: float = 2.0) -> Any:
    x = RNG.normal(0, scale, shape).astype(np.float32)
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def labels_of(path: Any, blank: int) -> list[int]:
    """A path without repeats and blanks."""
    return [int(k) for k, _ in itertools.groupby(path) if k != blank]


# -- CTC -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("shape", [(3, 20, 4), (1, 1, 3), (2, 0, 3), (0, 5, 3), (4, 9, 1)])
def test_the_best_path(shape: tuple[int, ...], blank: int) -> None:
    blank = min(blank, shape[2] - 1)
    x = log_probs(*shape)
    for lengths in (None, RNG.integers(0, shape[1] + 1, shape[0])):
        arrays = (x,) if lengths is None else (x, lengths)
        labels, counts, scores = everywhere(
            lambda x, n=None: processing.ctc_greedy(x, n, blank=blank), *arrays, keep=(2,)
        )
        assert labels.shape == shape[:2]
        for i, row in enumerate(x):
            valid = row[: shape[1] if lengths is None else lengths[i]]
            expected = labels_of(valid.argmax(-1), blank)
            assert labels[i].tolist() == expected + [-1] * (shape[1] - len(expected))
            assert counts[i] == len(expected)
            np.testing.assert_allclose(scores[i], valid.max(-1).sum(), rtol=1e-5)


def test_blanks_alone_and_a_label_twice() -> None:
    x = np.log(np.float32([[[0.9, 0.1]] * 4, [[0.1, 0.9]] * 4]))
    x[1, 2] = x[0, 0]
    labels, counts, _ = processing.ctc_greedy(x)
    assert labels.tolist() == [[-1] * 4, [1, 1, -1, -1]]
    assert counts.tolist() == [0, 2]
    labels, counts, scores = processing.ctc_beam_search(x[:1], beams=1)
    assert labels.tolist() == [[[-1] * 4]]
    np.testing.assert_allclose(scores, 4 * np.log(0.9), rtol=1e-5)


def test_a_row_of_no_numbers_leaves_the_others() -> None:
    x = log_probs(2, 6, 4)
    right = processing.ctc_greedy(x)
    x[0, 3] = np.nan
    result = everywhere(processing.ctc_greedy, x, keep=(2,))
    assert np.isnan(result[2][0])
    for one, other in zip(result, right):
        np.testing.assert_array_equal(one[1], other[1])


def beam_search(rows: Any, beams: int, blank: int) -> list[tuple[list[int], float]]:
    """Prefix beam search in plain Python."""
    best: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    for row in rows.astype(np.float64):
        after: Any = defaultdict(lambda: [-math.inf, -math.inf])
        for prefix, (ends_blank, ends_label) in best.items():
            total = np.logaddexp(ends_blank, ends_label)
            for c, p in enumerate(row):
                if c == blank:
                    after[prefix][0] = np.logaddexp(after[prefix][0], total + p)
                    continue
                before = total
                if prefix and prefix[-1] == c:
                    after[prefix][1] = np.logaddexp(after[prefix][1], ends_label + p)
                    before = ends_blank
                longer = after[(*prefix, c)]
                longer[1] = np.logaddexp(longer[1], before + p)
        ranked = sorted(after.items(), key=lambda entry: -np.logaddexp(*entry[1]))
        best = {k: (v[0], v[1]) for k, v in ranked[:beams] if np.logaddexp(*v) > -math.inf}
    ranked = sorted(best.items(), key=lambda entry: -np.logaddexp(*entry[1]))
    return [(list(k), float(np.logaddexp(*v))) for k, v in ranked]


@pytest.mark.parametrize(("beams", "blank"), [(1, 0), (2, 3), (5, 0), (16, 1)])
def test_the_best_beams(beams: int, blank: int) -> None:
    x = log_probs(4, 14, 4)
    lengths = np.array([14, 9, 1, 0])
    labels, counts, scores = everywhere(
        lambda x, n: processing.ctc_beam_search(x, n, beams=beams, blank=blank),
        *(x, lengths),
        keep=(2,),
    )
    for i, size in enumerate(lengths):
        expected = beam_search(x[i, :size], beams, blank)
        for k in range(beams):
            prefix, score = expected[k] if k < len(expected) else ([], -math.inf)
            assert labels[i, k].tolist() == prefix + [-1] * (14 - len(prefix))
            assert counts[i, k] == len(prefix)
            np.testing.assert_allclose(scores[i, k], score, rtol=1e-5, atol=1e-5)


def test_with_enough_beams_all_paths_are_counted() -> None:
    torch = pytest.importorskip("torch")
    x = log_probs(1, 5, 3)
    sums: dict[tuple[int, ...], float] = defaultdict(lambda: -math.inf)
    for path in itertools.product(range(3), repeat=5):
        key = tuple(labels_of(path, 0))
        sums[key] = np.logaddexp(sums[key], x[0, range(5), path].sum(dtype=np.float64))
    labels, counts, scores = processing.ctc_beam_search(x, beams=80)
    ranked = sorted(sums.items(), key=lambda entry: -entry[1])
    assert len(ranked) == np.isfinite(scores).sum() < 80
    steps = torch.tensor(x[0][:, None])
    for k, (key, score) in enumerate(ranked):
        assert tuple(labels[0, k, : counts[0, k]]) == key
        np.testing.assert_allclose(scores[0, k], score, rtol=1e-5)
        target = torch.tensor([key], dtype=torch.int64).reshape(1, -1)
        loss = torch.nn.functional.ctc_loss(steps, target, [5], [len(key)], reduction="sum")
        np.testing.assert_allclose(-scores[0, k], loss.item(), rtol=1e-4)


def test_classes_that_cannot_be() -> None:
    x = np.full((1, 3, 3), -np.inf, np.float32)
    x[0, :, 1] = 0
    labels, counts, scores = everywhere(
        lambda x: processing.ctc_beam_search(x, beams=4), x, keep=(2,)
    )
    assert labels[0].tolist() == [[1, -1, -1], *[[-1] * 3] * 3]
    assert counts.tolist() == [[1, 0, 0, 0]]
    np.testing.assert_array_equal(scores, [[0, *[-np.inf] * 3]])
    for shape in ((0, 3, 3), (2, 0, 3)):
        labels, counts, scores = everywhere(
            lambda x: processing.ctc_beam_search(x, beams=4), log_probs(*shape), keep=(2,)
        )
        assert labels.shape == (shape[0], 4, shape[1])
        assert not counts.any()
        assert scores.tolist() == [[0, *[-np.inf] * 3]] * shape[0]


# -- Viterbi ---------------------------------------------------------------------------------------


def best_path(rows: Any, moves: Any, start: Any, end: Any) -> tuple[tuple[int, ...], float]:
    """The best of all paths."""

    def score(path: tuple[int, ...]) -> float:
        steps = sum(rows[i, tag] for i, tag in enumerate(path))
        return float(
            steps
            + start[path[0]]
            + end[path[-1]]
            + sum(moves[a, b] for a, b in itertools.pairwise(path))
        )

    paths = itertools.product(range(len(start)), repeat=len(rows))
    return max(((path, score(path)) for path in paths), key=lambda entry: entry[1])


@pytest.mark.parametrize("ends", [True, False])
def test_the_best_of_all_paths(ends: bool) -> None:
    x, moves = RNG.normal(size=(5, 6, 3)), RNG.normal(size=(3, 3))
    start, end = RNG.normal(size=(2, 3)) if ends else np.zeros((2, 3))
    lengths = np.array([6, 5, 2, 1, 0], np.int32)
    paths, scores = everywhere(
        lambda x, n: processing.viterbi(
            x, moves, start if ends else None, end if ends else None, lengths=n
        ),
        *(x, lengths),
        keep=(2,),
    )
    for i, size in enumerate(lengths[:-1]):
        path, score = best_path(x[i, :size], moves, start, end)
        assert paths[i].tolist() == [*path, *[-1] * (6 - size)]
        np.testing.assert_allclose(scores[i], score)
    assert paths[4].tolist() == [-1] * 6
    assert scores[4] == 0


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3), (2, 1, 3), (1, 5, 1)])
def test_paths_of_few_steps(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape).astype(np.float32)
    moves = np.zeros((shape[2],) * 2)
    paths, scores = everywhere(lambda x: processing.viterbi(x, moves), x, keep=(2,))
    np.testing.assert_array_equal(paths, x.argmax(-1))
    np.testing.assert_allclose(scores, x.max(-1).sum(-1), rtol=1e-5)


def test_transitions_may_be_inputs() -> None:
    x, moves = RNG.normal(size=(2, 7, 4)), RNG.normal(size=(4, 4))
    paths, _ = everywhere(lambda x, m: processing.viterbi(x, m), x, moves, keep=(0, 1, 2))
    np.testing.assert_array_equal(paths, processing.viterbi(x, moves)[0])


# -- tokens ----------------------------------------------------------------------------------------

CHOICES: list[dict[str, Any]] = [
    {},
    {"top_k": 5, "temperature": 0.7, "repetition_penalty": 1.3},
    {"top_p": 0.6, "temperature": 1.5, "repetition_penalty": 1.2},
    {"top_k": 7, "top_p": 0.5},
    {"top_k": 50, "top_p": 0.9, "repetition_penalty": 2.0},
    {"top_k": 1},
    {"top_p": 1e-6},
]


def by_transformers(scores: Any, previous: Any, options: dict[str, Any]) -> Any:
    """The probabilities of all tokens."""
    torch, library = pytest.importorskip("torch"), pytest.importorskip("transformers")
    ids, x = torch.tensor(previous), torch.tensor(scores)
    for name, make in (
        ("repetition_penalty", library.RepetitionPenaltyLogitsProcessor),
        ("temperature", library.TemperatureLogitsWarper),
        ("top_k", library.TopKLogitsWarper),
        ("top_p", library.TopPLogitsWarper),
    ):
        if name in options:
            x = make(options[name])(ids, x)
    return torch.softmax(x.double(), -1).numpy()


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_tokens_come_as_often_as_they_are_probable(options: dict[str, Any]) -> None:
    count, size = 2000, 20
    uniform = ((np.arange(count) + 0.5) / count).astype(np.float32)
    for row in RNG.normal(0, 2, (2, size)).astype(np.float32):
        previous = np.array([3, 17, 3])
        right = by_transformers(row[None], previous[None], options)[0]
        tokens = processing.next_token(
            np.tile(row, (count, 1)), uniform, np.tile(previous, (count, 1)), **options
        )
        often = np.bincount(tokens, minlength=size)
        np.testing.assert_allclose(often, right * count, atol=1.01)


def test_the_best_token() -> None:
    x = RNG.normal(size=(4, 9)).astype(np.float32)
    x[1, :] = x[0, :]
    best = int(x[0].argmax())
    previous = np.array([[-1, -1], [best, -1], [0, 0], [1, 2]])
    result = everywhere(
        lambda x, p: processing.next_token(x, None, p, repetition_penalty=1e6),
        x,
        previous,
        keep=(1,),
    )
    assert result[0] == best
    assert result[1] != best
    np.testing.assert_array_equal(processing.next_token(x), x.argmax(1))
    one = everywhere(lambda x, u: processing.next_token(x, u, top_k=1), x, np.ones(4), keep=(1,))
    np.testing.assert_array_equal(one, x.argmax(1))
    assert processing.next_token(x[:0], np.zeros(0)).shape == (0,)


def test_the_last_random_number_gives_a_token_that_counts() -> None:
    x = np.log(np.float32([[0.5, 0.25, 0.125, 0.125]]))
    for u, token in ((0.0, 0), (0.49, 0), (0.51, 1), (0.74, 1), (0.76, 2), (1.0, 3)):
        result = everywhere(
            lambda x, u, t: processing.next_token(x, u, temperature=t),
            *(x, np.float32([u]), np.float32(1.0)),
            keep=(1,),
        )
        assert result.tolist() == [token]
    assert processing.next_token(x, np.float32([1.0]), top_p=0.7).tolist() == [1]


E, W = RNG.normal(size=(11, 8)), RNG.normal(0, 0.6, (8, 8))
OUT = RNG.normal(size=(8, 11))
END = 3


def step(token: Any, state: Any) -> Any:
    """A small recurrent network."""
    xp = token.__array_namespace__()
    h = xp.tanh(state[0] @ W + xp.take(xp.asarray(E), token, axis=0))
    return h @ OUT, (h,)


def generator(batch: int | str, length: int | str, **options: Any) -> Any:
    def program(prompt: Any, uniform: Any) -> Any:
        xp = prompt.__array_namespace__()
        state = (xp.zeros((prompt.shape[0], 8)),)
        chance = uniform if options.get("temperature") else None
        return processing.generate(step, prompt, state, end=END, uniform=chance, **options)

    specs = {"prompt": infuse.Spec("int64", (batch, length))}
    specs["uniform"] = infuse.Spec("float32", (batch, options["most"]))
    return infuse.trace(program, specs)


def generated(prompt: Any, uniform: Any, most: int, **options: Any) -> list[list[int]]:
    """The same row by row."""
    rows = []
    for line, chances in zip(prompt, uniform):
        state: Any = (np.zeros((1, 8)),)
        for token in line:
            scores, state = step(np.array([token]), state)
        row: list[int] = []
        for chance in chances[:most]:
            if row and row[-1] == END:
                row.append(END)
                continue
            chosen = (chance[None], np.array([[-1, *row]])) if options else ()
            row.append(int(processing.next_token(scores, *chosen, **options)[0]))
            scores, state = step(np.array(row[-1:]), state)
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 2.0, "top_k": 6, "repetition_penalty": 1.5}], ids=str
)
def test_tokens_are_generated_by_a_loop(options: dict[str, Any]) -> None:
    ended = set()
    graph = generator("batch", "length", most=7, **options)
    for batch, length in ((2, 3), (6, 1), (1, 5), (0, 2)):
        prompt = RNG.integers(0, 11, (batch, length))
        uniform = RNG.random((batch, 7), np.float32)
        right = generated(prompt, uniform, 7, **options)
        for g in (graph, generator(batch, length, most=7, **options)):
            result = evaluate(g, {"prompt": prompt, "uniform": uniform})["output"]
            assert result.shape == (batch, 7)
            assert result.tolist() == right
        ended |= {END in row for row in right}
    assert ended == {True, False}


# -- bad arguments ---------------------------------------------------------------------------------

X = log_probs(2, 5, 4)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: processing.ctc_greedy(X, blank=4), "`blank` is 4"),
        (lambda: processing.ctc_greedy(X[0]), "scores are"),
        (lambda: processing.ctc_greedy(X.astype(int)), "scores are floats, not int64"),
        (lambda: processing.ctc_greedy(X, np.float32([1, 2])), "lengths are integers"),
        (lambda: processing.ctc_greedy(X, np.array(3)), "lengths are integers"),
        (lambda: processing.ctc_greedy(X, np.array([1, 2, 3])), "broadcast"),
        (lambda: processing.ctc_beam_search(X, beams=0), "`beams` is 0"),
        (lambda: processing.ctc_beam_search(X, blank=-1), "`blank` is -1"),
        (lambda: processing.viterbi(X, np.zeros((4, 5))), "transitions of 4 tags"),
        (
            lambda: processing.viterbi(X, np.zeros((4, 4)), np.zeros((1, 4))),
            "transitions of 4 tags",
        ),
        (lambda: processing.next_token(X), "scores are floats"),
        (lambda: processing.next_token(X[0], temperature=0.0), "`temperature` is 0"),
        (lambda: processing.next_token(X[0], top_k=-1), "`top_k` is -1"),
        (lambda: processing.next_token(X[0], top_p=0.0), "`top_p` 0"),
        (lambda: processing.next_token(X[0], repetition_penalty=0.0), "`repetition_penalty` 0"),
        (
            lambda: processing.next_token(X[0], None, np.full((5, 1), 4), repetition_penalty=2.0),
            "outside|out of",
        ),
        (lambda: generator(1, 1, most=0), "`most` is 0"),
    ],
)
def test_bad_arguments_are_told(call: Any, what: str) -> None:
    with pytest.raises(InfuseError, match=what):
        call()
