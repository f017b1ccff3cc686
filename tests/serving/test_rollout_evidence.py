"""The bounds hold: beside scipy's, and by how often they err on versions that are equal."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest

from infuse.serving.control.rollout.evidence import Looks, bounds, latency_ratio, rate_excess
from infuse.serving.control.rollout.windows import Tally
from tests.serving.rollout_tools import FAILURE, running

pytestmark = pytest.mark.row("S3")


@given(st.integers(1, 5000), st.floats(0, 1))
def test_the_bounds_are_exact(count: int, part: float) -> None:
    bad = round(part * count)
    low, high = bounds(bad, count)
    exact = binomtest(bad, count).proportion_ci(0.999, method="exact")
    assert low == pytest.approx(exact.low, rel=1e-3, abs=1e-9)
    assert 1 - high == pytest.approx(1 - exact.high, rel=1e-3, abs=1e-9)


def test_the_bounds_of_a_million_are_close() -> None:
    low, high = bounds(950_000, 1_000_000)
    assert 0.9492 < low < 0.95 < high < 0.9508


@pytest.mark.parametrize(("bad", "count"), [(3, 20), (1, 2), (5, 100)])
def test_a_few_errors_are_chance(bad: int, count: int) -> None:
    """At the limit of 2 %, so many would come once in a hundred rollouts."""
    assert binomtest(bad, count, 0.02, alternative="greater").pvalue > 0.0005
    assert rate_excess(bad, count, 0, 0, 20) < 0.02


def test_nothing_seen_says_nothing() -> None:
    assert bounds(0, 0) == (0.0, 1.0)
    assert rate_excess(0, 0, 0, 0, 20) <= 0
    assert latency_ratio(Tally(), Tally(), 0.95) == 0


@given(st.integers(0, 300), st.integers(1, 300), st.integers(0, 300), st.integers(20, 3000))
def test_the_excess_is_less_than_what_was_seen(bad: int, more: int, base: int, rest: int) -> None:
    count, reference = bad + more, base + rest
    assert rate_excess(bad, count, base, reference, 20) <= bad / count - base / reference + 1e-12


def test_a_reference_with_too_little_is_taken_as_seen() -> None:
    assert rate_excess(20, 20, 0, 3, 20) > 0.6
    assert rate_excess(20, 20, 3, 3, 20) < 0


def tally_of(latencies: list[float]) -> Tally:
    tally = Tally()
    for seconds in latencies:
        tally.answer(seconds)
    return tally


def test_a_version_many_times_slower_is_seen_by_twenty_requests() -> None:
    draw = random.Random(1)
    old = tally_of([draw.gauss(0.01, 0.0005) for _ in range(200)])
    assert latency_ratio(tally_of([0.05 + draw.random() / 1000 for _ in range(20)]), old, 0.95) > 3
    assert latency_ratio(tally_of([0.05] + [0.01] * 19), old, 0.95) < 1.01


def test_one_slow_request_in_ten_is_seen_at_the_quantile() -> None:
    old = tally_of([0.01] * 2000)
    assert latency_ratio(tally_of(([0.01] * 9 + [0.1]) * 100), old, 0.95) > 5
    assert latency_ratio(tally_of(([0.01] * 99 + [0.1]) * 100), old, 0.95) < 1.2


def test_looks_grow_apart() -> None:
    looks = Looks()
    taken = [count for count in range(20, 10_000) if looks.due(count)]
    assert taken[:3] == [20, 21, 23]
    assert len(taken) < 150
    assert looks.due(taken[-1], last=True)


def test_equal_versions_are_hardly_ever_rolled_back() -> None:
    """Both fail one request in fifty and are slow in one in ten; 150 rollouts, at most one in a
    hundred errs.
    """
    ends = []
    for seed in range(150):
        stage, draw = running(), random.Random(seed)
        happened: list[str] = []
        while not {"promoted", "rolled_back"} & set(happened):
            errors = {number: FAILURE for number in (1, 2) if draw.random() < 0.02}
            stage.send(
                1, 0.04 if draw.random() < 0.1 else 0.01 * draw.lognormvariate(0, 0.3), errors
            )
            happened += stage.kinds(0.1)
        ends.append(happened[-1])
    assert ends.count("rolled_back") <= 1
    assert len(ends) == 150
