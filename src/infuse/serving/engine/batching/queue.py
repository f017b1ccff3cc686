"""What waits for a model: bounded, by priority, with deadlines."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from infuse.runtime.session import Array
from infuse.serving.engine.batching.timing import size_class

if TYPE_CHECKING:
    from infuse.serving.messages import InferRequest


class Entry:
    """A request on its way through a version: inputs in the model's order, and the future of its
    outputs.

    `key` tells with which others it may run (equal keys); None: it runs alone. `level` is its place
    among the priorities, 0 first. `deadline` is a time of the loop's clock; `own`: the request set
    it, so it also holds while it runs. `turn` counts how often it was queued: only its last place
    in a queue counts. `size` is the size class of its rows.
    """

    __slots__ = (
        "alone",
        "batch_rows",
        "deadline",
        "future",
        "inputs",
        "key",
        "lengths",
        "level",
        "own",
        "request",
        "outputs",
        "rows",
        "size",
        "state",
        "timer",
        "tries",
        "turn",
    )

    def __init__(
        self,
        request: InferRequest,
        inputs: Sequence[Array],
        rows: int,
        key: Hashable,
        outputs: Sequence[int],
        future: asyncio.Future[list[Array]],
    ) -> None:
        self.request = request
        self.inputs = inputs
        self.rows = rows
        self.size = size_class(inputs, rows)
        self.key = key
        self.outputs = outputs
        self.future = future
        self.level = 0
        self.deadline: float | None = None
        self.lengths: dict[str, int] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.tries = 0
        self.alone = False
        self.own = False
        self.turn = 0
        self.state = "new"
        self.batch_rows = rows

    @property
    def waiting(self) -> bool:
        """Whether it is in a queue, and somebody still waits for it."""
        return self.state == "queued"

    def leave(self, state: str) -> None:
        """It is in the queue no longer."""
        self.state = state
        if self.timer is not None and not (state == "running" and self.own):
            self.timer.cancel()
            self.timer = None


class RequestQueue:
    """Entries by level, each level in the order of arrival. `rows`, `count` and `sizes` (rows by
    size class) are of those that still wait.
    """

    def __init__(self, levels: int) -> None:
        self._levels: list[deque[tuple[int, Entry]]] = [deque() for _ in range(levels)]
        self.rows = 0
        self.count = 0
        self.sizes: Counter[int] = Counter()

    def push(self, entry: Entry) -> None:
        """Append an entry at its level."""
        self._entered(entry)
        self._levels[entry.level].append((entry.turn, entry))

    def push_front(self, entry: Entry) -> None:
        """Put an entry back as the first of all."""
        entry.level = 0
        self._entered(entry)
        self._levels[0].appendleft((entry.turn, entry))

    def drop(self, entry: Entry, state: str) -> None:
        """Take an entry out, wherever it is."""
        if entry.waiting:
            entry.leave(state)
            self.rows -= entry.rows
            self.sizes[entry.size] -= entry.rows
            self.count -= 1
            if not self.count:  # nothing waits: let go of the inputs of those that do not either
                for level in self._levels:
                    level.clear()

    def __iter__(self) -> Iterator[Entry]:
        """Those that wait, in the order in which they should run. The queue must not change
        meanwhile.
        """
        for level in self._levels:
            while level and not (level[0][1].waiting and level[0][1].turn == level[0][0]):
                level.popleft()
            for turn, entry in level:
                if entry.waiting and entry.turn == turn:
                    yield entry

    def first(self) -> Entry | None:
        """The next one; None when nothing waits."""
        return next(iter(self), None)

    def _entered(self, entry: Entry) -> None:
        entry.state = "queued"
        entry.turn += 1
        self.rows += entry.rows
        self.sizes[entry.size] += entry.rows
        self.count += 1
