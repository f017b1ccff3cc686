"""What waits for a model, by priority, and answered at its deadline at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from infuse.errors import DeadlineError, UnavailableError
from infuse.serving.control.model_config import Batching
from infuse.serving.engine.batching.answers import Answers
from infuse.serving.engine.batching.queue import Entry, RequestQueue

_MOST_SCANNED: Final = 512  # entries that are looked at for one that can be in time
_TRIED: Final = 8  # every so many times, one that seems too late runs: the estimate may be wrong


class DeadlineQueue:
    """The queue of one version, whose entries leave when their time is over: with an error, or
    behind all others, as `config` says. Times are of the loop's clock. `gone` is called when a
    request was answered that its time is over.
    """

    def __init__(
        self, name: str, config: Batching, answers: Answers, gone: Callable[[], None]
    ) -> None:
        self._gone = gone
        self._name = name
        self._config = config
        self._answers = answers
        self._levels = max(1, config.priority_levels)
        self._queue = RequestQueue(self._levels + 1)  # the last one: those that were delayed
        self._passed = 0

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return self._queue.rows

    @property
    def count(self) -> int:
        """Requests that wait."""
        return self._queue.count

    @property
    def sizes(self) -> Mapping[int, int]:
        """Rows that wait, by size class."""
        return self._queue.sizes

    def __iter__(self) -> Iterator[Entry]:
        """Those that wait, in the order in which they should run. The queue must not change
        meanwhile.
        """
        return iter(self._queue)

    def push(self, entry: Entry, deadline: float | None) -> None:
        """Queue an entry by its request's priority."""
        entry.level = self._level(entry.request.priority)
        entry.deadline = deadline
        self._watch(entry)
        self._queue.push(entry)

    def drop(self, entry: Entry, state: str) -> None:
        """Take an entry out, wherever it is."""
        self._queue.drop(entry, state)

    def refuse(self, why: str) -> None:
        """Answer what waits with UnavailableError(`why`)."""
        for entry in list(self._queue):
            self._queue.drop(entry, "refused")
            self._answers.fail(entry, UnavailableError(why, where=self._name))

    def first(self, now: float, seconds: Callable[[Entry], float]) -> Entry | None:
        """The entry to run next: the first that is expected to be in time, by the `seconds` that
        its run takes, or the first of all.

        Those that are expected too late wait until their time is over: an estimate puts nobody
        off where a worker has nothing else to do.
        """
        while True:
            head = None
            for number, entry in enumerate(self._queue):
                if entry.deadline is not None and entry.deadline <= now:
                    break
                if entry.deadline is None or now + seconds(entry) <= entry.deadline:
                    return self._chosen(head, entry)
                head = head or entry
                if number >= _MOST_SCANNED:
                    return head
            else:
                return head
            self._expired(entry)

    def _chosen(self, head: Entry | None, entry: Entry) -> Entry:
        """An entry that can be in time, or the one before it that can not: now and then, so that
        what it takes is measured.
        """
        if head is None:
            return entry
        self._passed += 1
        return entry if self._passed % _TRIED else head

    def push_front(self, entry: Entry) -> None:
        """Queue it again as the first of all: it did not run, or may run better next time."""
        self._queue.push_front(entry)
        self._watch(entry)

    def _level(self, priority: int) -> int:
        """The level of a priority: 1 is the first; 0 is the default one."""
        priority = priority or self._config.default_priority or (self._levels + 1) // 2
        return min(max(priority, 1), self._levels) - 1

    def _watch(self, entry: Entry) -> None:
        """Answer it at its deadline at the latest, as long as it waits."""
        if entry.deadline is not None and entry.timer is None:
            entry.timer = asyncio.get_running_loop().call_at(entry.deadline, self._expired, entry)

    def _expired(self, entry: Entry) -> None:
        if self._config.timeout_action == "delay":
            if entry.waiting:
                self._delay(entry)
            return
        self._queue.drop(entry, "late")
        self._answers.fail(entry, DeadlineError("it was not answered in time", where=self._name))
        self._gone()

    def _delay(self, entry: Entry) -> None:
        """Let an entry that waited too long run after all others."""
        self._queue.drop(entry, "late")
        entry.level = self._levels
        entry.deadline = None
        self._queue.push(entry)
