"""Puts requests together and hands them to executors: at once when one is idle, never waiting for
more to come.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from infuse.errors import (
    DeadlineError,
    InfuseError,
    ModelFailureError,
    OverloadError,
    UnavailableError,
)
from infuse.runtime.session import Array
from infuse.serving.batching.max_batch import MaxBatchTuner
from infuse.serving.batching.padding import Padding
from infuse.serving.batching.places import Places
from infuse.serving.batching.queue import Entry, RequestQueue
from infuse.serving.batching.timing import TimeModel
from infuse.serving.config import Batching
from infuse.serving.workers.executor import Executor, Result, WorkerLostError

_SCANNED: Final = 512  # entries that are looked at for one batch
_EXPLORE: Final = (
    32  # every so many batches, a larger one is tried: what a size costs may have changed
)
_HUNG_FACTOR: Final = 20
_HUNG_LEAST: Final = 10.0  # seconds
_HOPELESS: Final = 0.5  # a deadline before this part of the expected wait is refused at once

BatchObserver = Callable[[Sequence[Entry], int, str, Result], None]


class Batcher:
    """The queue of one version and what runs it.

    Executors in `places` use all cores that a replica has. Instances per core, where there are
    some, use one core each and the same worker: a request that finds everything idle runs on an
    executor, requests that meet others run side by side in instances per core.

    `most`: rows of a batch, unless a `max_batch` is set that finds more. `timeout`: seconds after
    which a run counts as hung; None: `_HUNG_FACTOR` times what is expected. `observe` is called
    after every run.
    """

    def __init__(
        self,
        name: str,
        config: Batching,
        most: int,
        *,
        padding: Padding,
        retries: int,
        timeout: float | None,
        observe: BatchObserver,
    ) -> None:
        self.name = name
        self.config = config
        self.max_batch = MaxBatchTuner(most)
        self.places = Places(self.pump)
        self.running = 0
        self._turn = 0
        self._padding = padding
        self._retries = retries
        self._timeout = timeout
        self._observe = observe
        self._levels = max(1, config.priority_levels)
        self._queue = RequestQueue(self._levels + 1)  # the last one: those that were delayed
        self._target = config.latency_target_ms / 1000 if config.latency_target_ms else None
        self._ordered: deque[tuple[Entry, list[list[Array] | Exception]]] = deque()
        self._closed = ""
        self._ended: WeakKeyDictionary[Executor, int] = (
            WeakKeyDictionary()
        )  # when each last ended a run

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
        entry.level = self._level(entry.request.priority)
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
            entry.deadline = deadline
            self._watch(entry)
        entry.request.timeline.queued = time.perf_counter_ns()
        self._queue.push(entry)
        if self.config.preserve_ordering:
            self._ordered.append((entry, []))
        self.pump(alone=not self.running and self._queue.count == 1)

    def cancel(self, entry: Entry) -> None:
        """Nobody waits for this entry any more."""
        self._queue.drop(entry, "cancelled")

    def expected_wait(self) -> float:
        """Seconds until what waits now would have run, by the model of time."""
        if not self._queue.rows or not self.places.times.measured:
            return 0.0
        executors, times = self.places.usual()
        size = times.best(min(self.most, self._queue.rows))
        return times.predict(size) * (self._queue.rows / size) / (len(executors) or 1)

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
            entries, reason = self._next(len(free), times)
            if not entries:
                return
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
        self.refuse(why)

    def refuse(self, why: str) -> None:
        """Answer what waits with UnavailableError(`why`)."""
        for entry in list(self._queue):
            self._queue.drop(entry, "refused")
            self._fail(entry, UnavailableError(why, where=self.name))

    async def drained(self) -> None:
        """Return when nothing waits or runs."""
        while self._queue.count or self.running:
            await asyncio.sleep(0.005)

    # -- choosing ----------------------------------------------------------------------------------

    def _next(self, idle: int, times: TimeModel) -> tuple[list[Entry], str]:
        """The entries of the next batch, taken out of the queue, and why it is as large as it
        is.
        """
        now = asyncio.get_running_loop().time()
        head = self._first(now)
        if head is None:
            return [], ""
        if head.key is None or head.alone or self.most <= 1:
            return self._taken([head]), "alone"
        alike: list[Entry] = []
        rows = 0
        for number, entry in enumerate(self._queue):
            if number >= _SCANNED or rows >= self.most:
                break
            if (
                entry.key == head.key
                and not entry.alone
                and (rows + entry.rows <= self.most or not alike)
            ):
                alike.append(entry)
                rows += entry.rows
        left = None
        if self._target is not None:
            left = self._target - (time.perf_counter_ns() - head.request.timeline.received) / 1e9
        fair = max(head.rows, -(-rows // idle))
        self._turn += 1
        goal = times.best(fair, max(left, 0.0) if left is not None else None)
        if self._turn % _EXPLORE == 0 and left is None:
            goal = min(fair, larger(goal, self._turn // _EXPLORE))
        chosen: list[Entry] = []
        taken = 0
        for entry in alike:
            if chosen and taken + entry.rows > goal:
                break
            chosen.append(entry)
            taken += entry.rows
        reason = "idle" if taken >= rows else "shared" if goal >= fair else "best"
        if taken >= self.most:
            reason = "full"
        elif reason == "best" and left is not None and times.best(fair) > goal:
            reason = "target"
        return self._taken(chosen), reason

    def _first(self, now: float) -> Entry | None:
        """The first entry that can still be answered in time; those before it are refused."""
        shortest = self.places.times.predict(1)
        while True:
            head = self._queue.first()
            if head is None or head.deadline is None or now + shortest <= head.deadline:
                return head
            if self.config.timeout_action == "delay" and head.level < self._levels:
                self._delay(head)
                continue
            if head.level == self._levels:
                return head
            self._queue.drop(head, "late")
            self._fail(head, DeadlineError("its time is over before it could run", where=self.name))

    def _taken(self, entries: list[Entry]) -> list[Entry]:
        for entry in entries:
            self._queue.drop(entry, "running")
        return entries

    def _level(self, priority: int) -> int:
        """The level of a priority: 1 is the first; 0 is the default one."""
        priority = priority or self.config.default_priority or (self._levels + 1) // 2
        return min(max(priority, 1), self._levels) - 1

    def _watch(self, entry: Entry) -> None:
        """Answer it at its deadline at the latest, as long as it waits."""
        if entry.deadline is not None and entry.timer is None:
            entry.timer = asyncio.get_running_loop().call_at(entry.deadline, self._expired, entry)

    def _again(self, entry: Entry) -> None:
        """Queue it again as the first of all: it did not run, or may run better next time."""
        self._queue.push_front(entry)
        self._watch(entry)

    def _expired(self, entry: Entry) -> None:
        if self.config.timeout_action == "delay":
            if entry.waiting:
                self._delay(entry)
            return
        self._queue.drop(entry, "late")
        self._fail(entry, DeadlineError("it was not answered in time", where=self.name))

    def _delay(self, entry: Entry) -> None:
        """Let an entry that waited too long run after all others."""
        self._queue.drop(entry, "late")
        entry.level = self._levels
        entry.deadline = None
        self._queue.push(entry)

    def _overload(self, what: str) -> OverloadError:
        error = OverloadError(
            what, where=self.name, hint="try again later, or with a longer timeout"
        )
        error.retry_after = max(0.1, round(self.expected_wait(), 2))
        return error

    # -- running -----------------------------------------------------------------------------------

    def _run(self, executor: Executor, times: TimeModel, entries: list[Entry], reason: str) -> None:
        now = time.perf_counter_ns()
        rows = 0
        for entry in entries:
            entry.request.timeline.dispatched = now
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
        seconds = self.patience(times.predict(rows))
        self.running += 1

        def done(result: Result) -> None:
            self.running -= 1
            since = entries[0].request.timeline.dispatched
            before = self._ended.get(executor, 0)
            self._ended[executor] = time.perf_counter_ns()
            for entry in (
                entries
            ):  # until the run before had ended, it waited, though it was at the worker already
                timeline = entry.request.timeline
                timeline.dispatched = max(timeline.dispatched, before)
            if result.error is None:
                times.observe(rows, (time.perf_counter_ns() - since) / 1e9)
                if fills and rows == self.most:
                    self.max_batch.full(times)
            else:
                self.max_batch.failed(rows if len(entries) > 1 else 1)
            self._finished(entries, rows, reason, result)

        try:
            executor.submit(parts, seconds, done)
        except InfuseError as error:
            done(Result(error=error))

    def _finished(self, entries: list[Entry], rows: int, reason: str, result: Result) -> None:
        now = time.perf_counter_ns()
        for entry in entries:
            timeline = entry.request.timeline
            timeline.compute_start, timeline.compute_end = result.began or now, result.ended or now
        self._observe(entries, rows, reason, result)
        if result.error is not None:
            self._failed(entries, result.error)
        else:
            self._answer(entries, rows, result)
        self.pump()

    def _answer(self, entries: list[Entry], rows: int, result: Result) -> None:
        """Give every entry its rows of the outputs."""
        outputs, row = result.outputs, 0
        for entry in entries:
            try:
                if len(entries) > 1 and any(output.shape[:1] != (rows,) for output in outputs):
                    raise ModelFailureError(
                        "the model gave outputs of another batch size", where=self.name
                    )
                answers = []
                for number in entry.outputs:
                    output = outputs[number]
                    if len(entries) > 1:
                        output = output[row : row + entry.rows]
                    mine = self._padding.cut(number, output, entry)
                    answers.append(mine if result.owned else np.array(mine, copy=True))
            except InfuseError as error:
                self._fail(entry, error)
            else:
                entry.leave("answered")
                self._settle(entry, answers)
            row += entry.rows

    def _failed(self, entries: list[Entry], error: Exception) -> None:
        """Try again what may succeed elsewhere or alone; tell the others."""
        lost = isinstance(error, WorkerLostError)
        waited = isinstance(error, WorkerLostError) and not error.begun
        for entry in reversed(entries):
            together = len(entries) > 1
            if waited and not entry.future.done() and not self._closed:
                self._again(entry)
            elif (lost and entry.tries < self._retries) or (together and not lost):
                # One request of a batch may be the cause: from now on each runs by itself.
                entry.tries += lost
                entry.alone = True
                if entry.future.done() or self._closed:
                    self._fail(entry, error)
                else:
                    self._again(entry)
            elif lost:
                what = f"its worker was lost {entry.tries + 1} times while it ran"
                self._fail(
                    entry,
                    ModelFailureError(f"{what}: {getattr(error, 'what', error)}", where=self.name),
                )
            else:
                self._fail(entry, error)

    def _fail(self, entry: Entry, error: Exception) -> None:
        entry.leave("failed")
        self._settle(entry, error)

    def _settle(self, entry: Entry, result: list[Array] | Exception) -> None:
        """Hand the result over; where order is to be kept, when those before are answered."""
        if not self.config.preserve_ordering:
            _hand_over(entry, result)
            return
        for waiting, remaining in self._ordered:
            if waiting is entry and not remaining:
                remaining.append(result)
        while self._ordered and (self._ordered[0][1] or self._ordered[0][0].future.done()):
            first, remaining = self._ordered.popleft()
            if remaining:
                _hand_over(first, remaining[0])


def _hand_over(entry: Entry, result: list[Array] | Exception) -> None:
    if entry.future.done():
        return
    if isinstance(result, Exception):
        entry.future.set_exception(result)
    else:
        entry.future.set_result(result)


def larger(best: int, trial: int) -> int:
    """Rows to try where `best` is best so far: mostly twice as many, every fourth `trial` twice
    that, and so on.

    What far more rows cost is found out, too, but a batch that takes many times as long is a rare
    one.
    """
    rows = 2 * best
    while trial and trial % 4 == 0:
        trial //= 4
        rows *= 2
    return rows
