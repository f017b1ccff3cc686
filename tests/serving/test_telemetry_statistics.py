"""Statistics of a version: counts, durations and batches as Triton gives them, quantiles beside
NumPy's.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from infuse.errors import (
    DeadlineError,
    InputError,
    ModelFailureError,
    OverloadError,
    RuntimeFailure,
)
from infuse.serving.control.telemetry.histograms import BOUNDS, BUCKETS, bucket_of, quantile, shown
from infuse.serving.control.telemetry.statistics import VersionStatistics, failure_of
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Tensor, Timeline

pytestmark = pytest.mark.row("S6")
_START = 5_000_000_000_000
_MS = 1_000_000


class _Clock:
    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> int:
        return self.now


def _statistics(clock: _Clock) -> VersionStatistics:
    return VersionStatistics("net", 3, clock=clock, wall=lambda: 1_700_000_000.5)


def _outcome(
    clock: _Clock, *, ms: int = 10, error: Exception | None = None, sent: bool = True
) -> Outcome:
    begin = clock.now - ms * _MS
    line = Timeline(begin, begin + 1000, begin + 3000, begin + 6000, clock.now - 4000, clock.now)
    line.sent = clock.now + 7000 if sent else 0
    tensor = Tensor("x", "FP32", np.zeros((2, 4), np.float32))
    text = Tensor("t", "BYTES", np.array([b"abc", b"de"], object))
    request = InferRequest("net", inputs=[tensor, text], timeline=line)
    return Outcome(
        request,
        3,
        None if error else InferResponse("net", "3", "", [tensor]),
        error,
        rows=2,
        batch=2,
    )


def test_triton_entry() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    for ms in (10, 20):
        statistics.observe(_outcome(clock, ms=ms))
    statistics.observe(_outcome(clock, error=OverloadError("the queue is full")))
    statistics.observe_batch(4, 2, 100, 2000, 300, "idle")
    statistics.observe_batch(1, 1, 10, 200, 30, "deadline")
    entry = statistics.as_triton()
    assert (entry["name"], entry["version"], entry["last_inference"]) == (
        "net",
        "3",
        1_700_000_000_500,
    )
    assert (entry["inference_count"], entry["execution_count"]) == (5, 2)
    stats = entry["inference_stats"]
    assert stats["success"] == {"count": 2, "ns": 30 * _MS}
    assert stats["fail"] == {"count": 1, "ns": 10 * _MS}
    assert stats["queue"] == {"count": 3, "ns": 6000}
    assert stats["compute_infer"] == {"count": 3, "ns": 2 * 2000 + 200}
    assert [batch["batch_size"] for batch in entry["batch_stats"]] == [1, 4]
    assert entry["batch_stats"][1]["compute_input"] == {"count": 1, "ns": 100}
    assert statistics.fired == {"idle": 1, "deadline": 1}


def test_stages_and_bytes() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    for _ in range(3):
        statistics.observe(_outcome(clock))
    statistics.observe(_outcome(clock, sent=False))
    total = statistics.total()
    assert total.shadows == 0
    assert (total.bytes_in, total.bytes_out) == (4 * 37, 4 * 32)
    assert (total.decode_ns, total.queue_ns, total.dispatch_ns) == (4 * 1000, 4 * 2000, 4 * 3000)
    assert (total.compute_ns, total.collect_ns) == (4 * (10 * _MS - 10_000), 4 * 4000)
    assert (total.encoded, total.encode_ns) == (3, 3 * 7000)
    shadow = _outcome(clock)
    shadow.shadow = True
    statistics.observe(shadow)
    total = statistics.total()
    assert (total.encoded, total.shadows) == (3, 1)


def test_seconds_are_forgotten_one_by_one() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    for passed in range(2):
        clock.now = _START + passed * 1_000_000_000
        statistics.observe(_outcome(clock))
    left = []
    for passed in (9, 10, 11):
        clock.now = _START + passed * 1_000_000_000
        left.append(statistics.recent().counts.successes)
    assert left == [2, 1, 0]


def test_a_request_that_never_ran_counts_no_stage() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    request = InferRequest("net", timeline=Timeline(clock.now - 5 * _MS))
    statistics.observe(Outcome(request, 3, None, OverloadError("the queue is full")))
    total = statistics.total()
    assert (total.failed, total.fail_ns, total.queued, total.computed) == (1, 5 * _MS, 0, 0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OverloadError("full"), "REJECTED"),
        (DeadlineError("late"), "REJECTED"),
        (asyncio.CancelledError(), "CANCELED"),
        (ModelFailureError("it crashed"), "BACKEND"),
        (RuntimeFailure("no memory"), "BACKEND"),
        (InputError("wrong"), "OTHER"),
        (KeyError("x"), "OTHER"),
    ],
)
def test_reasons_of_failures(error: BaseException, reason: str) -> None:
    assert failure_of(error) == reason


def test_recent_forgets_and_totals_do_not() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    for second in range(40):
        clock.now = _START + second * 1_000_000_000
        for _ in range(second + 1):
            statistics.observe(_outcome(clock, ms=second + 1))
    recent = statistics.recent()
    assert recent.counts.successes == sum(range(31, 41))
    assert recent.seconds == pytest.approx(9.0)
    assert statistics.total().successes == sum(range(1, 41))
    assert statistics.quantile(1.0) == pytest.approx(0.040, rel=0.14)
    clock.now += 3600 * 1_000_000_000
    assert statistics.recent().counts.successes == 0
    assert statistics.recent().as_dict()["p99_ms"] == 0
    assert statistics.total().successes == sum(range(1, 41))


def test_throughput_of_a_young_version_is_over_its_life() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    clock.now += 2_000_000_000
    for _ in range(100):
        statistics.observe(_outcome(clock))
    for error in (ModelFailureError("it crashed"), OverloadError("full")):
        statistics.observe(_outcome(clock, error=error))
    assert statistics.recent().throughput == pytest.approx(50)
    assert statistics.recent().failure_rate == pytest.approx(2 / 102)


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_beside_numpy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = np.exp(generator.normal(16, 1.5, 4000)).astype(np.int64)
    counts = [0] * BUCKETS
    for value in values.tolist():
        counts[bucket_of(value)] += 1
    for share in (0.01, 0.5, 0.9, 0.95, 0.99, 1.0):
        exact = float(np.quantile(values, share, method="inverted_cdf"))
        index = bucket_of(int(exact))
        low, high = BOUNDS[index - 1], BOUNDS[index]
        assert low <= quantile(counts, share) * 1e9 <= high


def test_buckets() -> None:
    assert bucket_of(0) == bucket_of(1000) == 0
    assert bucket_of(1001) == 1
    assert bucket_of(10**15) == BUCKETS - 1
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert max(high / low for low, high in pairwise(BOUNDS)) < 1.15
    counts = [0] * BUCKETS
    assert quantile(counts, 0.5) == 0
    counts[-1] = 1
    assert quantile(counts, 0.5) == 1000
    counts[bucket_of(2_000_000)] = 2
    cumulative = dict(shown(counts))
    assert (cumulative["0.001"], cumulative["0.002"], cumulative["+Inf"]) == (0, 2, 3)


def test_batch_sizes_that_callers_choose_do_not_fill_the_memory() -> None:
    clock = _Clock()
    statistics = _statistics(clock)
    for rows in range(1, 20_000):
        statistics.observe_batch(rows, 1, 1, 1, 1, "full")
    assert len(statistics.batches) == 1024 + 5
    assert statistics.total().executions == 19_999
