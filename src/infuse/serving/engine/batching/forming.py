"""Which of those that wait make up the next batch."""

from __future__ import annotations

import time
from itertools import dropwhile
from typing import Final

from infuse.serving.engine.batching.deadlines import DeadlineQueue
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.engine.batching.timing import TimeModel

_MOST_SCANNED: Final = 512  # entries that are looked at for one batch
_EXPLORE: Final = (
    32  # every so many batches, a larger one is tried: what a size costs may have changed
)


class BatchFormer:
    """Takes batches out of a queue. `target`: seconds from its arrival within which a request is to
    be answered, where that can be; None: the best rate counts alone.
    """

    def __init__(self, queue: DeadlineQueue, target: float | None) -> None:
        self._queue = queue
        self._target = target
        self._turn = 0

    def next(self, head: Entry, idle: int, times: TimeModel, most: int) -> tuple[list[Entry], str]:
        """The entries of the next batch, which begins with `head`, taken out of the queue, and why
        it is as large as it is. `idle` batches could run at once; `most`: rows of the largest.
        """
        if head.key is None or head.alone or most <= 1:
            return self._take_out([head]), "alone"
        alike: list[Entry] = []
        rows = 0
        behind = dropwhile(lambda entry: entry is not head, self._queue)  # others would be late
        for number, entry in enumerate(behind):
            if number >= _MOST_SCANNED or rows >= most:
                break
            if (
                entry.key == head.key
                and not entry.alone
                and (rows + entry.rows <= most or not alike)
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
        if taken >= most:
            reason = "full"
        elif reason == "best" and left is not None and times.best(fair) > goal:
            reason = "target"
        return self._take_out(chosen), reason

    def _take_out(self, entries: list[Entry]) -> list[Entry]:
        for entry in entries:
            self._queue.drop(entry, "running")
        return entries


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
