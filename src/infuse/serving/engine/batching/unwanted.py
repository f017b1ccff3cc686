"""Runs for which nobody waits any more, and which hold up others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from infuse.serving.engine.batching.places import Places
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.workers.executor import Callback, Executor


class UnwantedRuns:
    """Gives up runs whose callers have all gone, once they have held up others for as long as their
    worker takes to start again: so those wait at most twice as long as they must.

    `waits`: whether a request waits.
    """

    def __init__(self, places: Places, waits: Callable[[], bool]) -> None:
        self._places = places
        self._waits = waits
        self._runs: dict[int, tuple[Callback, Executor, Sequence[Entry]]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._numbers = itertools.count()

    def number(self) -> int:
        """A number for a run, which the run's callback can keep without keeping itself alive."""
        return next(self._numbers)

    def begun(
        self, number: int, done: Callback, executor: Executor, entries: Sequence[Entry]
    ) -> None:
        """A run of these entries begins."""
        self._runs[number] = (done, executor, entries)

    def ended(self, number: int) -> None:
        """A run has ended."""
        self._runs.pop(number, None)
        if (timer := self._timers.pop(number, None)) is not None:
            timer.cancel()

    def look(self) -> None:
        """Requests have come or gone."""
        if not self._waits() or self._places.free(alone=False)[0]:
            return
        for number, (_, executor, entries) in self._runs.items():
            if number not in self._timers and all(entry.future.done() for entry in entries):
                loop = asyncio.get_running_loop()
                self._timers[number] = loop.call_later(executor.start_seconds, self._over, number)

    def close(self) -> None:
        """Give up nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._runs.clear()

    def _over(self, number: int) -> None:
        self._timers.pop(number, None)
        run = self._runs.get(number)
        if run is not None and self._waits() and not self._places.free(alone=False)[0]:
            done, executor, _ = run
            executor.give_up(done)
