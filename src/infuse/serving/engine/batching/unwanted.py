"""Runs for which nobody waits any more, and which hold up others."""

from __future__ import annotations

import asyncio
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
        self._runs: dict[Callback, tuple[Executor, Sequence[Entry]]] = {}
        self._timers: dict[Callback, asyncio.TimerHandle] = {}

    def begun(self, done: Callback, executor: Executor, entries: Sequence[Entry]) -> None:
        """A run of these entries begins; `done` stands for it."""
        self._runs[done] = (executor, entries)

    def ended(self, done: Callback) -> None:
        """A run has ended."""
        self._runs.pop(done, None)
        if (timer := self._timers.pop(done, None)) is not None:
            timer.cancel()

    def look(self) -> None:
        """Requests have come or gone."""
        if not self._waits() or self._places.free(alone=False)[0]:
            return
        for done, (executor, entries) in self._runs.items():
            if done not in self._timers and all(entry.future.done() for entry in entries):
                loop = asyncio.get_running_loop()
                self._timers[done] = loop.call_later(executor.start_seconds, self._over, done)

    def close(self) -> None:
        """Give up nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._runs.clear()

    def _over(self, done: Callback) -> None:
        self._timers.pop(done, None)
        run = self._runs.get(done)
        if run is not None and self._waits() and not self._places.free(alone=False)[0]:
            run[0].give_up(done)
