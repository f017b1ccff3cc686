from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

from infuse.serving.control.rollout.windows import Tally, Window, bucket, edges

pytestmark = pytest.mark.row("S3")


@given(st.floats(1e-6, 1000))
def test_a_latency_lies_in_its_bucket_which_is_narrow(seconds: float) -> None:
    low, high = edges(bucket(seconds))
    assert low * (1 - 1e-12) <= seconds <= high * (1 + 1e-12)
    assert high / low < 1.0906


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-12, float("nan")])
def test_what_is_too_short_is_in_the_first_bucket(seconds: float) -> None:
    assert bucket(seconds) == 0


def test_what_is_too_long_is_in_the_last_bucket() -> None:
    assert bucket(1e9) == bucket(2e6) == bucket(1023.9)


@given(
    st.lists(st.floats(1e-5, 10), min_size=1, max_size=200),
    st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0]),
)
def test_quantiles_are_those_of_the_latencies(latencies: list[float], part: float) -> None:
    tally = Tally()
    for seconds in latencies:
        tally.answer(seconds)
    low, high = tally.quantile(part)
    exact = float(np.quantile(latencies, part, method="inverted_cdf"))
    assert low * (1 - 1e-12) <= exact <= high * (1 + 1e-12)


def test_nothing_counted_has_no_figures() -> None:
    plain = Tally().describe()
    assert Tally().quantile(0.5) == (0.0, 0.0)
    assert [plain[key] for key in ("error_rate", "p50_ms", "p95_ms", "p99_ms", "drift_rate")] == [
        None
    ] * 5


def test_tallies_add_up() -> None:
    first, second = Tally(), Tally()
    for tally, seconds in ((first, 0.001), (second, 0.1), (second, 0.1)):
        tally.answer(seconds)
    second.failed, second.rejected, second.compared, second.drifted = 3, 2, 4, 1
    first.add(second)
    assert (first.requests, first.served, first.failed, first.rejected) == (8, 6, 3, 2)
    assert first.quantile(1 / 3) == edges(bucket(0.001))
    assert first.quantile(0.34) == edges(bucket(0.1))
    assert first.describe()["drift_rate"] == 0.25
    assert first.describe()["error_rate"] == 3 / 8


def test_a_window_forgets_piece_by_piece() -> None:
    window = Window(span=60, slots=12)
    for now in range(0, 60, 5):
        window.at(now).answer(0.01)
    assert window.total(59).answered == 12
    assert window.total(60).answered == 11
    assert window.total(89).answered == 6
    assert window.total(1000).answered == 0


def test_a_window_stays_small() -> None:
    window = Window(span=60, slots=12)
    for now in range(5000):
        for _ in range(20):
            window.at(float(now)).answer(0.01)
    assert len(window._past) == 12
    assert sum(map(sys.getsizeof, (tally.buckets for _, tally in window._past))) < 30_000
    assert 12 * 4 * 20 < window.total(4999.0).answered <= 12 * 5 * 20
