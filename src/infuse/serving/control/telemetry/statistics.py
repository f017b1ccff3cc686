"""What a served version did: counts and durations, per batch size, as histograms, and of the last
ten seconds.

All is counted once, in the counts of the running second; those of older seconds are added to the
past. So an observation costs a few additions and no lock: the engine's loop is the only caller.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from infuse.errors import DataError, DeadlineError, ModelFailureError, OverloadError, RuntimeFailure
from infuse.serving.control.telemetry.histograms import BOUNDS, BUCKETS, quantile
from infuse.serving.messages import JSON, Outcome, Tensor, Timeline

FAILURES: Final = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
"""Why a request failed, in Triton's words: refused or out of time, given up by its caller, the
model's fault, else.
"""
_KINDS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (OverloadError, 0),
    (DeadlineError, 0),
    (asyncio.CancelledError, 1),
    (concurrent.futures.CancelledError, 1),
    (DataError, 3),
    (ModelFailureError, 2),
    (RuntimeFailure, 2),
)
_SECOND: Final = 1_000_000_000
WINDOW: Final = 10
"""Seconds that count as recent."""
FEWEST: Final = 10
"""Requests that say something: one bad request of three is no news."""
_MOST_SIZES: Final = 1024


def failure_of(error: BaseException) -> str:
    """Triton's reason of a failure."""
    return FAILURES[_failure_index(error)]


class Counts:
    """What happened in some time. Durations are in nanoseconds.

    `decode`: until a request was queued; `queue`: until it was taken into a batch; `dispatch`:
    until its batch computed; `compute`; `collect`: until its outputs were there; `encode`: until
    they were serialized, of `encoded` requests. `busy`: replicas computed, all together.
    `requests`, `queues`, `computes` are histograms.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "busy_ns",
        "collect_ns",
        "compute_ns",
        "computed",
        "computes",
        "decode_ns",
        "dispatch_ns",
        "encode_ns",
        "encoded",
        "executions",
        "fail_ns",
        "failures",
        "queue_ns",
        "queued",
        "queues",
        "requests",
        "rows",
        "shadows",
        "success_ns",
        "successes",
    )

    def __init__(self) -> None:
        self.successes = self.success_ns = self.fail_ns = self.shadows = 0
        self.failures = [0] * len(FAILURES)
        self.queued = self.decode_ns = self.queue_ns = 0
        self.computed = self.dispatch_ns = self.compute_ns = self.collect_ns = 0
        self.encoded = self.encode_ns = 0
        self.executions = self.rows = self.busy_ns = 0
        self.bytes_in = self.bytes_out = 0
        self.requests = [0] * BUCKETS
        self.queues = [0] * BUCKETS
        self.computes = [0] * BUCKETS

    @property
    def failed(self) -> int:
        """Requests that failed, for whatever reason."""
        return sum(self.failures)

    def add(self, other: Counts) -> None:
        """Count what another one counted."""
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(
                self,
                name,
                [a + b for a, b in zip(mine, theirs)] if isinstance(mine, list) else mine + theirs,
            )


class Recent:
    """The last ten seconds of a version, for people. Rates are per second, durations in seconds."""

    def __init__(self, counts: Counts, seconds: float) -> None:
        self.counts = counts
        self.seconds = seconds

    @property
    def throughput(self) -> float:
        """Answered requests per second."""
        return self.counts.successes / self.seconds

    @property
    def failure_rate(self) -> float:
        """The part of the requests that failed."""
        total = self.counts.successes + self.counts.failed
        return self.counts.failed / total if total else 0.0

    def quantile(self, share: float) -> float:
        """What `share` of the answered requests took at most; 0 when there were none."""
        return quantile(self.counts.requests, share)

    def as_dict(self) -> dict[str, float]:
        """What a console shows; durations in milliseconds."""
        return {
            "requests_per_second": self.throughput,
            "rows_per_second": self.counts.rows / self.seconds,
            "failure_rate": self.failure_rate,
            "mean_batch": self.counts.rows / self.counts.executions
            if self.counts.executions
            else 0.0,
            "p50_ms": self.quantile(0.5) * 1e3,
            "p95_ms": self.quantile(0.95) * 1e3,
            "p99_ms": self.quantile(0.99) * 1e3,
        }


class BatchCounts:
    """Executions with one batch size: how many, how many requests were in them, durations in
    nanoseconds.
    """

    __slots__ = (
        "compute_infer_ns",
        "compute_input_ns",
        "compute_output_ns",
        "executions",
        "requests",
    )

    def __init__(self) -> None:
        self.executions = self.requests = 0
        self.compute_input_ns = self.compute_infer_ns = self.compute_output_ns = 0


class VersionStatistics:
    """Counts of one version of a model, from when it was made. Not for several threads.

    `clock` gives nanoseconds of the same clock as `Timeline`, `wall` seconds since 1970.
    """

    def __init__(
        self,
        model: str,
        version: int,
        clock: Callable[[], int] = time.perf_counter_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self.version = version
        self.fired: dict[str, int] = {}
        self.batches: dict[int, BatchCounts] = {}
        self.compute_input_ns = self.compute_infer_ns = self.compute_output_ns = 0
        self.compute_requests = 0
        self.last_inference_ms = 0
        self._clock = clock
        self._wall = wall
        self._past = Counts()
        self._seconds: deque[tuple[int, Counts]] = deque()
        self._started = clock()
        self._turn = 0
        self._current = Counts()
        self._last: Timeline | None = None
        self._rotate(self._started)

    def observe(self, outcome: Outcome) -> None:
        """Count a finished request."""
        now = self._clock()
        if now >= self._turn:
            self._rotate(now)
        counts = self._current
        timeline = outcome.request.timeline
        finished = timeline.finished or now
        took = _span(timeline.received, finished)
        error = outcome.error
        if error is None:
            counts.successes += 1
            counts.success_ns += took
            counts.requests[bisect_left(BOUNDS, took)] += 1
            if outcome.response is not None:
                counts.bytes_out += _bytes_of(outcome.response.outputs)
        else:
            counts.failures[_failure_index(error)] += 1
            counts.fail_ns += took
        counts.bytes_in += _bytes_of(outcome.request.inputs)
        if outcome.shadow:
            counts.shadows += 1
        dispatched = timeline.dispatched
        if dispatched:
            queued = timeline.queued or timeline.received
            waited = _span(queued, dispatched)
            counts.queued += 1
            counts.decode_ns += _span(timeline.received, queued)
            counts.queue_ns += waited
            counts.queues[bisect_left(BOUNDS, waited)] += 1
            ended = timeline.compute_end
            if ended:
                computed = _span(timeline.compute_start, ended)
                counts.computed += 1
                counts.dispatch_ns += _span(dispatched, timeline.compute_start)
                counts.compute_ns += computed
                counts.collect_ns += _span(ended, finished)
                counts.computes[bisect_left(BOUNDS, computed)] += 1
        # A transport serializes after this: the request before this one tells how long that takes.
        last = self._last
        if last is not None and last.sent:
            counts.encoded += 1
            counts.encode_ns += _span(last.finished, last.sent)
        self._last = timeline

    def observe_batch(
        self,
        rows: int,
        requests: int,
        compute_input_ns: int,
        compute_infer_ns: int,
        compute_output_ns: int,
        reason: str,
    ) -> None:
        """Count an execution that gave outputs: of how many rows, for how many requests, and why it
        started then.
        """
        now = self._clock()
        if now >= self._turn:
            self._rotate(now)
        compute_input_ns, compute_infer_ns, compute_output_ns = (
            max(span, 0) for span in (compute_input_ns, compute_infer_ns, compute_output_ns)
        )
        counts = self._current
        counts.executions += 1
        counts.rows += rows
        counts.busy_ns += compute_infer_ns
        self.fired[reason] = self.fired.get(reason, 0) + 1
        self.last_inference_ms = int(self._wall() * 1e3)
        self.compute_requests += requests
        self.compute_input_ns += compute_input_ns * requests
        self.compute_infer_ns += compute_infer_ns * requests
        self.compute_output_ns += compute_output_ns * requests
        # Beyond some size, sizes are rounded up: callers choose them, and must not fill the memory
        # with them.
        size = rows if rows <= _MOST_SIZES else 1 << (rows - 1).bit_length()
        batch = self.batches.get(size)
        if batch is None:
            batch = self.batches[size] = BatchCounts()
        batch.executions += 1
        batch.requests += requests
        batch.compute_input_ns += compute_input_ns
        batch.compute_infer_ns += compute_infer_ns
        batch.compute_output_ns += compute_output_ns

    def total(self) -> Counts:
        """Counts since the start."""
        return _sum_of((self._past, *(counts for _, counts in self._seconds)))

    def recent(self, seconds: int = WINDOW) -> Recent:
        """The last seconds, at most ten, the running one with them."""
        now = self._clock()
        first = now // _SECOND - min(seconds, WINDOW) + 1
        counts = _sum_of(counts for second, counts in self._seconds if second >= first)
        return Recent(counts, max(now - max(first * _SECOND, self._started), 1) / 1e9)

    def quantile(self, share: float) -> float:
        """What `share` of the requests answered in the last ten seconds took at most, in seconds;
        0: none were.
        """
        return self.recent().quantile(share)

    def as_triton(self) -> dict[str, JSON]:
        """The version's entry in the answer of `GET v2/models/stats`; durations in nanoseconds."""
        total = self.total()
        return {
            "name": self.model,
            "version": str(self.version),
            "last_inference": self.last_inference_ms,
            "inference_count": total.rows,
            "execution_count": total.executions,
            "inference_stats": {
                "success": _duration(total.successes, total.success_ns),
                "fail": _duration(total.failed, total.fail_ns),
                "queue": _duration(total.queued, total.queue_ns),
                "compute_input": _duration(self.compute_requests, self.compute_input_ns),
                "compute_infer": _duration(self.compute_requests, self.compute_infer_ns),
                "compute_output": _duration(self.compute_requests, self.compute_output_ns),
                "cache_hit": _duration(0, 0),
                "cache_miss": _duration(0, 0),
            },
            "batch_stats": [
                {
                    "batch_size": size,
                    "compute_input": _duration(batch.executions, batch.compute_input_ns),
                    "compute_infer": _duration(batch.executions, batch.compute_infer_ns),
                    "compute_output": _duration(batch.executions, batch.compute_output_ns),
                }
                for size, batch in sorted(self.batches.items())
            ],
            "memory_usage": [],
        }

    def _rotate(self, now: int) -> None:
        second = now // _SECOND
        while self._seconds and self._seconds[0][0] <= second - WINDOW:
            self._past.add(self._seconds.popleft()[1])
        self._current = Counts()
        self._seconds.append((second, self._current))
        self._turn = (second + 1) * _SECOND


def _failure_index(error: BaseException) -> int:
    return next((index for kind, index in _KINDS if isinstance(error, kind)), len(FAILURES) - 1)


def _bytes_of(tensors: Iterable[Tensor]) -> int:
    total = 0
    for tensor in tensors:
        data = tensor.data
        total += sum(map(len, data.flat)) if data.dtype.hasobject else data.nbytes
    return total


def _span(earlier: int, later: int) -> int:
    """Nanoseconds between two moments; 0 where they are in no order: counters must not fall."""
    return max(later - earlier, 0)


def _duration(count: int, nanoseconds: int) -> Mapping[str, int]:
    return {"count": count, "ns": nanoseconds}


def _sum_of(parts: Iterable[Counts]) -> Counts:
    total = Counts()
    for part in parts:
        total.add(part)
    return total
