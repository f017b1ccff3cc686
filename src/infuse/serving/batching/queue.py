"""What waits for a model: bounded, by priority, with deadlines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from infuse.runtime.session import Array

if TYPE_CHECKING:
    from infuse.serving.messages import InferRequest


class Entry:
    """A request on its way through a version: inputs in the model's order, and the future of its outputs.

    `key` tells with which others it may run (equal keys); None: it runs alone. `level` is its place among the
    priorities, 0 first. `deadline` is a time of the loop's clock.
    """

    __slots__ = (
        *("alone", "batch_rows", "deadline", "future", "inputs", "key", "lengths", "level", "request", "rows"),
        *("state", "timer", "tries", "wanted"),
    )

    def __init__(
        self,
        request: InferRequest,
        inputs: Sequence[Array],
        rows: int,
        key: Hashable,
        wanted: Sequence[int],
        future: asyncio.Future[list[Array]],
    ) -> None:
        self.request = request
        self.inputs = inputs
        self.rows = rows
        self.key = key
        self.wanted = wanted
        self.future = future
        self.level = 0
        self.deadline: float | None = None
        self.lengths: dict[str, int] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.tries = 0
        self.alone = False
        self.state = "new"
        self.batch_rows = rows

    @property
    def waiting(self) -> bool:
        """Whether it is in a queue, and somebody still waits for it."""
        return self.state == "queued"

    def leave(self, state: str) -> None:
        """It is in the queue no longer."""
        self.state = state
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class RequestQueue:
    """Entries by level, each level in the order of arrival. `rows` and `count` are of those that still wait."""

    def __init__(self, levels: int) -> None:
        self._levels: list[deque[Entry]] = [deque() for _ in range(levels)]
        self.rows = 0
        self.count = 0

    def push(self, entry: Entry) -> None:
        """Append an entry at its level."""
        self._entered(entry)
        self._levels[entry.level].append(entry)

    def push_front(self, entry: Entry) -> None:
        """Put an entry back as the first of all."""
        entry.level = 0
        self._entered(entry)
        self._levels[0].appendleft(entry)

    def drop(self, entry: Entry, state: str) -> None:
        """Take an entry out, wherever it is."""
        if entry.waiting:
            entry.leave(state)
            self.rows -= entry.rows
            self.count -= 1

    def __iter__(self) -> Iterator[Entry]:
        """Those that wait, in the order in which they should run. The queue must not change meanwhile."""
        for level in self._levels:
            while level and not level[0].waiting:
                level.popleft()
            for entry in level:
                if entry.waiting:
                    yield entry

    def first(self) -> Entry | None:
        """The next one; None when nothing waits."""
        return next(iter(self), None)

    def _entered(self, entry: Entry) -> None:
        entry.state = "queued"
        self.rows += entry.rows
        self.count += 1
