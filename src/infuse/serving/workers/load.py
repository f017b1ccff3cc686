"""What an instance of a model did lately: runs, and processor time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW: Final = 30
"""Seconds that count."""


class Load:
    """Runs and busy time by second, those of the last `WINDOW` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._seconds: deque[list[float]] = deque()  # second, runs, busy seconds

    def add(self, busy: float) -> None:
        """A run has ended that kept cores busy for so many seconds, all cores together."""
        second = int(self._clock())
        if not self._seconds or self._seconds[-1][0] != second:
            self._forget(second)
            self._seconds.append([second, 0, 0.0])
        last = self._seconds[-1]
        last[1] += 1
        last[2] += busy

    def recent(self) -> tuple[float, float]:
        """Runs per second, and cores that were busy in the mean."""
        now = self._clock()
        self._forget(int(now))
        seconds = min(max(now - self._began, 1.0), float(WINDOW))
        return sum(each[1] for each in self._seconds) / seconds, sum(
            each[2] for each in self._seconds
        ) / seconds

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - WINDOW:
            self._seconds.popleft()
