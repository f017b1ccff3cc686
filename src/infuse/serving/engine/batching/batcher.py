"""Puts requests together and hands them to executors: at once when one is idle, never waiting for
more to come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from infuse.errors import (
    DeadlineError,
    InfuseError,
    ModelFailureError,
    OverloadError,
    UnavailableError,
)
from infuse.runtime.session import Array
from infuse.serving.control.model_config import Batching
from infuse.serving.engine.batching.answers import Answers
from infuse.serving.engine.batching.deadlines import DeadlineQueue
from infuse.serving.engine.batching.forming import BatchFormer
from infuse.serving.engine.batching.max_batch import MaxBatchTuner
from infuse.serving.engine.batching.padding import Padding
from infuse.serving.engine.batching.places import Places
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.engine.batching.timing import SizedTimes
from infuse.serving.engine.batching.unwanted import UnwantedRuns
from infuse.serving.tuning import WAIT_SECONDS
from infuse.serving.workers.executor import Executor, Result, WorkerLostError

_HUNG_FACTOR: Final = 20
_HUNG_LEAST: Final = 10.0  # seconds
_HOPELESS: Final = 0.5  # a deadline before this part of the expected wait is refused at once

BatchObserver = Callable[[Sequence[Entry], int, str, Result], None]


class Batcher:
    """The queue of one version and what runs it.

    Executors in `places` use all cores that a replica has. Instances per core, where there are
    some, use one core each and the same worker: a request that finds everything idle runs on an
    executor, requests that meet others run side by side in instances per core.

    `max_batch` says how many rows a batch may have. `timeout`: seconds after
    which a run counts as hung; None: `_HUNG_FACTOR` times what is expected. `observe` is called
    after every run.
    """

    def __init__(
        self,
        name: str,
        config: Batching,
        max_batch: MaxBatchTuner,
        *,
        padding: Padding,
        retries: int,
        timeout: float | None,
        observe: BatchObserver,
    ) -> None:
        self.name = name
        self.config = config
        self.max_batch = max_batch
        self.places = Places(self.pump)
        self.running = 0
        self._padding = padding
        self._retries = retries
        self._timeout = timeout
        self._observe = observe
        self._answers = Answers(name, padding, config.preserve_ordering)
        self._queue = DeadlineQueue(name, config, self._answers, self._caller_gone)
        target = config.latency_target_ms / 1000 if config.latency_target_ms else None
        self._former = BatchFormer(self._queue, target)
        self._closed = ""
        self._ended: WeakKeyDictionary[Executor, int] = (
            WeakKeyDictionary()
        )  # when each last ended a run
        self._unwanted = UnwantedRuns(self.places, lambda: self._queue.count > 0)

    @property
    def most(self) -> int:
        """Rows of the largest batch."""
        return self.max_batch.most

    @property
    def waiting(self) -> int:
        """Rows in the queue."""
        return self._queue.rows

    @property
    def pending(self) -> int:
        """Requests that wait in the queue."""
        return self._queue.count

    def submit(self, entry: Entry, deadline: float | None) -> None:
        """Queue an entry and run it as soon as it may. `deadline` is on the loop's clock.

        OverloadError when the queue is full or the deadline cannot be met, UnavailableError when it
        is closed.
        """
        if self._closed:
            raise UnavailableError(self._closed, where=self.name)
        if self._queue.rows + entry.rows > self.config.max_queue and self._queue.rows:
            raise self._overload(
                f"{self._queue.rows} rows wait already, of {self.config.max_queue} at most"
            )
        loop = asyncio.get_running_loop()
        entry.own = deadline is not None
        default = self.config.default_timeout_ms / 1000
        if deadline is None and default:
            deadline = loop.time() + default
        if deadline is not None:
            left = deadline - loop.time()
            if left <= 0:
                raise DeadlineError("its time was over before it was queued", where=self.name)
            if left < _HOPELESS * self.expected_wait():
                raise self._overload(f"it allows {left * 1e3:.1f} ms, and the queue takes longer")
        entry.request.timeline.queued = time.perf_counter_ns()
        self._queue.push(entry, deadline)
        self._answers.expect(entry)
        self.pump(alone=not self.running and self._queue.count == 1)
        self._unwanted.look()

    def cancel(self, entry: Entry) -> None:
        """Nobody waits for this entry any more."""
        self._queue.drop(entry, "cancelled")
        self._unwanted.look()

    def _caller_gone(self) -> None:
        self._unwanted.look()

    def expected_wait(self) -> float:
        """Seconds until what waits now would have run, by the model of time."""
        executors, times = self.places.usual()
        seconds = 0.0
        for size, rows in self._queue.sizes.items():
            if rows:
                sized = times.of(size)
                batch = sized.best(min(self.most, rows))
                seconds += sized.predict(batch) * (rows / batch)
        return seconds / (len(executors) or 1)

    def patience(self, expected: float) -> float:
        """Seconds after which a run that should take so many counts as hung."""
        return self._timeout or max(_HUNG_LEAST, _HUNG_FACTOR * expected)

    def pump(self, alone: bool = False) -> None:
        """Give idle executors what waits. `alone`: it is one request, which has just come and met
        no other.
        """
        while self._queue.rows or self._queue.count:
            free, times = self.places.free(alone)
            if not free:
                return
            now = asyncio.get_running_loop().time()
            head = self._queue.first(now, partial(_expected, times))
            if head is None:
                return
            entries, reason = self._former.next(head, len(free), times.of(head.size), self.most)
            self._run(min(free, key=lambda executor: -executor.free), times, entries, reason)

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for so many bytes of a request to come, of whoever would run it now; None: there
        is none.
        """
        if self.running or self._queue.count:
            return None
        free, _ = self.places.free(alone=True)
        return free[0].receive_buffer(size) if free else None

    def close(self, why: str) -> None:
        """Take nothing more, and answer what waits with UnavailableError(`why`)."""
        self._closed = why
        self.max_batch.close()
        self._unwanted.close()
        self._queue.refuse(why)

    def refuse(self, why: str) -> None:
        """Answer what waits with UnavailableError(`why`)."""
        self._queue.refuse(why)

    async def drained(self) -> None:
        """Return when nothing waits or runs."""
        while self._queue.count or self.running:
            await asyncio.sleep(WAIT_SECONDS)

    def _overload(self, what: str) -> OverloadError:
        error = OverloadError(
            what, where=self.name, hint="try again later, or with a longer timeout"
        )
        error.retry_after = max(0.1, round(self.expected_wait(), 2))
        return error

    # -- running -----------------------------------------------------------------------------------

    def _run(
        self, executor: Executor, times: SizedTimes, entries: list[Entry], reason: str
    ) -> None:
        now = time.perf_counter_ns()
        rows = 0
        for entry in entries:
            timeline = entry.request.timeline
            timeline.dispatched, timeline.compute_start, timeline.compute_end = now, 0, 0
            rows += entry.rows
        for entry in entries:
            entry.batch_rows = rows
        parts = self._padding.filled(entries)
        fills = (
            rows == self.most
            and bool(self._queue.rows)
            and entries[0].key is not None
            and not entries[0].alone
        )
        size = max(entry.size for entry in entries)
        seconds = self.patience(times.of(size).predict(rows))
        self.running += 1
        number = self._unwanted.number()

        def done(result: Result) -> None:
            self.running -= 1
            self._unwanted.ended(number)
            since = entries[0].request.timeline.dispatched
            before = self._ended.get(executor, 0)
            self._ended[executor] = time.perf_counter_ns()
            for entry in (
                entries
            ):  # until the run before had ended, it waited, though it was at the worker already
                timeline = entry.request.timeline
                timeline.dispatched = max(timeline.dispatched, before)
            if result.error is None:
                times.observe(size, rows, (time.perf_counter_ns() - since) / 1e9)
                if fills and rows == self.most:
                    self.max_batch.full(times.of(size))
            else:
                self.max_batch.failed(rows if len(entries) > 1 else 1)
            self._finished(entries, rows, reason, result)

        self._unwanted.begun(number, done, executor, entries)
        try:
            executor.submit(parts, seconds, done)
        except InfuseError as error:
            done(Result(error=error))

    def _finished(self, entries: list[Entry], rows: int, reason: str, result: Result) -> None:
        now, dispatched = time.perf_counter_ns(), entries[0].request.timeline.dispatched
        result.clamp(dispatched, now)
        for entry in entries:
            timeline = entry.request.timeline
            timeline.compute_start, timeline.compute_end = result.began, result.ended
        self._observe(entries, rows, reason, result)
        if result.error is not None:
            self._failed(entries, result.error)
        else:
            self._answers.give(entries, rows, result)
        self.pump()

    def _failed(self, entries: list[Entry], error: Exception) -> None:
        """Try again what may succeed elsewhere or alone; tell the others."""
        lost = isinstance(error, WorkerLostError)
        waited = isinstance(error, WorkerLostError) and not error.begun
        for entry in reversed(entries):
            together = len(entries) > 1
            if waited and not entry.future.done() and not self._closed:
                self._queue.push_front(entry)
            elif (lost and entry.tries < self._retries) or (together and not lost):
                # One request of a batch may be the cause: from now on each runs by itself.
                entry.tries += lost
                entry.alone = True
                if entry.future.done() or self._closed:
                    self._answers.fail(entry, error)
                else:
                    self._queue.push_front(entry)
            elif lost:
                lost_by = error.what if isinstance(error, InfuseError) else error
                what = f"its worker was lost {entry.tries + 1} times while it ran: {lost_by}"
                self._answers.fail(entry, ModelFailureError(what, where=self.name))
            else:
                self._answers.fail(entry, error)


def _expected(times: SizedTimes, entry: Entry) -> float:
    """Seconds that a run of one entry takes."""
    return times.of(entry.size).predict(entry.rows)
