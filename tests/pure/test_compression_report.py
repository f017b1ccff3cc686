"""The report of a compression as data: Pareto fronts, the bound, and what pruning adds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infuse.analysis import render_sheet
from infuse.compression import CompressionReport
from infuse.compression.candidates import candidates_of_both, candidates_of_stage
from infuse.compression.contract import Bound
from infuse.compression.frontier import front, nearest
from infuse.compression.report import CandidateReport
from infuse.errors import OptionError

pytestmark = [pytest.mark.row("A2", "Z2")]


def report(**facts: object) -> CompressionReport:
    """Three candidates beside the original: a better one, a dominated one, one without a time."""
    tried = [
        CandidateReport("original", 0.9, {}, 400, 4.0),
        CandidateReport("", 0.85, {"int8": 3}, 100, 1.0),
        CandidateReport("", 0.84, {"int8": 2}, 200, 2.0),
        CandidateReport("", 0.89, {"int8": 1, "int4 weights": 1}, 300, is_result=True),
    ]
    made = CompressionReport("top1", 50, 0.9, 0.89, max_drop="5%", tried=tried)
    return replace(made, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "is_far"),
    [
        ({"metric": "cosine", "reference": 1.0, "score": 0.24}, True),
        ({"metric": "cosine", "reference": 1.0, "score": 0.95}, False),
        ({"metric": "cosine", "reference": 1.0, "score": -0.5}, True),
        ({"metric": "top1", "reference": 0.8, "score": 0.9}, False),
        ({"metric": "top1", "reference": 0.8, "score": 0.7}, True),
        ({"metric": "mse", "reference": 1.0, "score": 1.5, "higher_is_better": False}, False),
        ({"metric": "mse", "reference": 1.0, "score": 2.5, "higher_is_better": False}, True),
        ({"metric": "sqnr", "reference": math.inf, "score": 8.0}, True),
        ({"metric": "sqnr", "reference": math.inf, "score": 12.0}, False),
        ({"metric": "sqnr", "reference": math.inf, "score": math.inf}, False),
        ({"metric": "cosine", "reference": 1.0, "score": 0.24, "max_drop": "80%"}, False),
    ],
    ids=str,
)
def test_a_model_that_is_far_from_the_original_is_doubted(
    facts: dict[str, object], is_far: bool
) -> None:
    made = report(**{"max_drop": "", **facts})
    assert bool(made.doubt) == is_far
    assert made.to_dict()["doubt"] == made.doubt


# -- fronts ----------------------------------------------------------------------------------------


def test_dominated_points_are_not_on_the_front() -> None:
    costs, scores = [4.0, 1.0, 2.0, 3.0, 2.5], [0.9, 0.5, 0.4, 0.8, 0.6]
    assert front(costs, scores, True) == [1, 4, 3, 0]
    assert front(costs, scores, False) == [1, 2]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_front_is_what_no_point_dominates(
    higher_is_better: bool, rng: np.random.Generator
) -> None:
    costs, scores = rng.integers(0, 12, (2, 60)).astype(float)
    better = scores if higher_is_better else -scores

    def is_dominated(number: int) -> bool:
        as_good = (costs <= costs[number]) & (better >= better[number])
        return bool((as_good & ((costs < costs[number]) | (better > better[number]))).any())

    chosen = front(list(costs), list(scores), higher_is_better)
    points = {(costs[n], scores[n]) for n in range(60) if not is_dominated(n)}
    assert {(costs[n], scores[n]) for n in chosen} == points
    assert len(chosen) == len(points)
    assert list(costs[chosen]) == sorted(costs[chosen])


def test_what_was_not_measured_is_on_no_front() -> None:
    assert front([math.inf, 2.0, 1.0], [1.0, math.nan, 0.5], True) == [2]
    assert front([1.0, 2.0], [-math.inf, math.inf], True) == [0, 1]
    assert front([], [], True) == []


def test_the_nearest_are_those_of_the_first_fronts() -> None:
    costs, scores = [1.0, 2.0, 1.0, 2.0, 3.0], [0.5, 0.9, 0.4, 0.8, 0.1]
    assert nearest(costs, scores, True, 2) == [0, 1]
    assert nearest(costs, scores, True, 4) == [0, 1, 2, 3]
    assert nearest(costs, scores, True, 9) == [0, 1, 2, 3, 4]
    assert nearest([math.nan], [1.0], True, 3) == []


# -- the report as data ----------------------------------------------------------------------------


def test_the_data_of_a_report() -> None:
    facts = json.loads(json.dumps(report().to_dict(), allow_nan=False))
    assert facts["fronts"] == {"seconds": [1, 0], "weight_bytes": [1, 3, 0]}
    assert facts["worst_score"] == pytest.approx(0.855)
    assert [row["is_met"] for row in facts["tried"]] == [True, False, False, True]
    assert [row["layers"] for row in facts["tried"]] == [0, 3, 2, 2]
    assert facts["tried"][3]["forms"] == {"int8": 1, "int4 weights": 1}
    assert facts["tried"][3]["seconds"] is None
    assert facts["lines"] == report().lines()


def test_where_less_is_better_the_bound_lies_above() -> None:
    facts = report(higher_is_better=False, max_drop="0.1").to_dict()
    assert facts["worst_score"] == pytest.approx(1.0)
    assert facts["fronts"]["weight_bytes"] == [1, 2]


def test_scores_that_json_does_not_know_are_none() -> None:
    """The original's own signal to noise ratio is infinite."""
    original = CandidateReport("original", math.inf, {}, 400, 4.0)
    made = report(metric="sqnr", reference=math.inf, max_drop="", tried=[original])
    facts = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert facts["reference"] is facts["tried"][0]["score"] is facts["worst_score"] is None
    assert facts["fronts"]["seconds"] == [0]
    assert "<html" in render_sheet("compression", made.to_dict(), "a model")


@pytest.mark.parametrize("text", ["5%", "0.02", "0"])
def test_the_last_score_within_a_bound_holds(text: str) -> None:
    bound = Bound.parse(text)
    for higher_is_better in (True, False):
        worst = bound.worst(0.9, higher_is_better)
        beyond = worst + (-1e-6 if higher_is_better else 1e-6)
        assert bound.holds(0.9, worst, higher_is_better)
        assert not bound.holds(0.9, beyond, higher_is_better)


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    report().write(tmp_path / "page.json", "a model")
    assert json.loads((tmp_path / "page.json").read_text()) == report().to_dict()
    for name in ("page.txt", "no folder/page.html"):
        with pytest.raises(OptionError):
            report().write(tmp_path / name, "a model")
    assert [path.name for path in tmp_path.iterdir()] == ["page.json"]


# -- after a pruning -------------------------------------------------------------------------------


def pruning() -> CompressionReport:
    return CompressionReport(
        *("top1", 50, 0.9, 0.88),
        float_seconds=4.0,
        seconds=2.0,
        weight_bytes_before=400,
        weight_bytes=200,
    )


def test_the_candidates_of_a_pruning() -> None:
    original, pruned = candidates_of_stage(pruning(), "pruned")
    assert (original.name, original.score, original.seconds) == ("original", 0.9, 4.0)
    assert (pruned.name, pruned.weight_bytes, pruned.is_result) == ("pruned", 200, True)
    (alone,) = candidates_of_stage(pruning(), None)
    assert alone.is_result


@pytest.mark.parametrize(("are_comparable", "scores"), [
    (True, [0.9, 0.88, 0.6, 0.87]),
    (False, [0.9, 0.88, 0.87]),
])  # fmt: skip
def test_the_candidates_of_a_pruning_that_is_rounded(
    are_comparable: bool, scores: list[float]
) -> None:
    tried = [
        CandidateReport("original", 0.88, {}, 200, 2.1),
        CandidateReport("", 0.6, {"int8": 2}, 50, 1.0),
        CandidateReport("", 0.865, {"int8": 1}, 120, 1.5, is_result=True),
    ]
    rounded = report(tried=tried, score=0.87, seconds=1.4, float_seconds=4.2)
    pruned = candidates_of_stage(pruning(), "pruned")
    rows = candidates_of_both(pruned, rounded, "pruned", are_comparable=are_comparable)
    assert [row.score for row in rows] == scores
    assert [row.name for row in rows][:2] == ["original", "pruned"]
    assert (rows[0].seconds, rows[-1].seconds) == (4.2, 1.4)
    assert [row.is_result for row in rows] == [False] * (len(rows) - 1) + [True]
