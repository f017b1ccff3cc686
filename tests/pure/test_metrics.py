"""Metrics and data sets."""

import math

import numpy as np
import pytest

from infuse.data.dataset import feeds_of, spread
from infuse.data.metrics import NAMES, metric, signal_to_noise
from infuse.errors import InfuseError, InputError, OptionError
from infuse.ir.parser import parse

SCORES = np.float32([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.1, 0.2, 0.9], [0.6, 0.5, 0.1]])


def test_scores_of_classes_beside_labels() -> None:
    outputs = [{"y": SCORES[:3]}, {"y": SCORES[3:]}]
    assert metric("top1")(outputs, [1, 0, 0, 1]) == 0.5
    assert metric("top5:y")(outputs, [1, 0, 0, 1]) == 1.0
    assert metric("top1")([{"y": np.int64([1, 2])}], [1, 1]) == 0.5


def test_scores_that_are_not_finite_are_no_hits() -> None:
    assert metric("top1")([{"y": np.full((2, 3), np.nan, np.float32)}], [0, 1]) == 0.0


def test_errors_beside_labels() -> None:
    outputs = [{"y": np.float32([1, 2, 5])}]
    assert metric("mse")(outputs, [1.0, 2.0, 3.0]) == pytest.approx(4 / 3)
    assert metric("mae")(outputs, [1.0, 2.0, 3.0]) == pytest.approx(2 / 3)
    assert not metric("mae").higher_is_better


def test_scores_beside_another_model() -> None:
    other = [{"y": SCORES[[0, 1, 2, 0]]}]
    assert metric("agreement")([{"y": SCORES}], other) == 0.75
    assert metric("cosine")([{"y": 2 * SCORES}], [{"y": SCORES}]) == pytest.approx(1)
    assert metric("sqnr")([{"y": 1.1 * SCORES}], [{"y": SCORES}]) == pytest.approx(20, abs=1e-3)
    assert signal_to_noise(SCORES, SCORES) == math.inf


def test_a_function_is_a_metric() -> None:
    assert metric(lambda outputs, labels: len(outputs) + labels)([{}, {}], 3) == 5


@pytest.mark.parametrize(
    ("which", "labels", "said"),
    [
        ("top1", [1, 0], "2 labels for 4"),
        ("top1", [1, 0, 1, 7], "label 7 is beyond the 3 classes"),
        ("top1", [1.0, 0, 1, 1], "numbers of classes"),
        ("top1:z", [0, 0, 0, 0], "no output 'z'"),
        ("mse", [0, 0, 0, 0], r"shape \(4, 3\)"),
        (lambda outputs, labels: math.nan, None, "not a number"),
        (lambda outputs, labels: 1 / 0, None, "ZeroDivisionError"),
    ],
)
def test_labels_that_do_not_fit_are_refused(which, labels, said) -> None:
    with pytest.raises(InfuseError, match=said):
        metric(which)([{"y": SCORES}], labels)


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(OptionError, match="no metric 'top2'") as error:
        metric("top2")
    assert all(name in str(error.value) for name in NAMES)


GRAPH = parse("""graph "g" (%x: float32[2, 3], %s: float32[]) {
  %y = Add(%x, %s)
  return y = %y
}""")
SYMBOLIC = parse("""graph "g" (%x: float32[batch, 3]) {
  %y = Exp(%x)
  return y = %y
}""")


def test_rows_are_cut_into_batches() -> None:
    x, s = np.arange(12, dtype=np.float32).reshape(4, 3), np.float32(1)
    feeds = feeds_of(GRAPH, {"x": x, "s": s})
    assert [feed["x"].tolist() for feed in feeds] == [x[:2].tolist(), x[2:].tolist()]
    assert all(feed["s"] == 1 for feed in feeds)
    stacked = feeds_of(GRAPH, {"x": x.reshape(2, 2, 3), "s": np.float32([5, 6])})
    assert [float(feed["s"]) for feed in stacked] == [5, 6]
    assert [len(f["x"]) for f in feeds_of(SYMBOLIC, {"x": np.zeros((5, 3), np.float32)}, 2)] == [
        *(2, 2, 1)
    ]
    assert len(feeds_of(SYMBOLIC, [{"x": x}, {"x": x[:1]}], 4)) == 2


@pytest.mark.parametrize(
    ("graph", "data", "said"),
    [
        (GRAPH, {"x": np.zeros((3, 3), np.float32), "s": np.float32(0)}, "3 are not a multiple"),
        (GRAPH, {"x": np.zeros((2, 3), np.float32)}, "'s' missing"),
        (SYMBOLIC, {"z": np.zeros((2, 3), np.float32)}, "'z' not known"),
        (SYMBOLIC, {"x": np.zeros((0, 3), np.float32)}, "no examples"),
        (SYMBOLIC, [], "no examples"),
        (SYMBOLIC, {"x": np.zeros((2, 3))}, "float32, found float64"),
        (SYMBOLIC, {"x": np.zeros(3, np.float32)}, r"shape \(3,\)"),
        (SYMBOLIC, [{"x": np.zeros((1, 3), np.float32)}, {"x": np.zeros(3)}], "part 2"),
    ],
)
def test_data_that_do_not_fit_are_refused(graph, data, said) -> None:
    with pytest.raises(InputError, match=said):
        feeds_of(graph, data)


def test_different_numbers_of_runs_are_refused() -> None:
    data = {"x": np.zeros((6, 3), np.float32), "s": np.zeros(2, np.float32)}
    with pytest.raises(InputError, match="different numbers of runs: 'x' 3, 's' 2"):
        feeds_of(GRAPH, data)


def test_some_runs_are_spread_over_all() -> None:
    runs = [{"x": np.float32([number])} for number in range(9)]
    assert [float(feeds["x"][0]) for feeds in spread(runs, 3)] == [0, 4, 8]
    assert spread(runs, 300) == runs
