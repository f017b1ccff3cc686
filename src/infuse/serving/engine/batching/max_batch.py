"""How many rows a batch may have: as warming up found, and found out while serving where that had
no time to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from infuse.serving.engine.batching.timing import SAMPLES, TimeModel

LARGEST: Final = 64
"""Rows of a batch that is chosen by itself."""
PATIENCE: Final = 0.25
"""Seconds that a batch which is chosen by itself may take."""
_AGAIN: Final = 4  # times as many before the next try, each time that one was in vain


class MaxBatchTuner:
    """The most rows of a batch, `most`. It is doubled, up to `largest`, while full batches are the
    best ones.

    `largest` = `most`: nothing is to be found out. `has_room` is asked before each doubling whether
    there is memory for batches twice as large. Where there is no room, or a doubled batch is not
    the best one, `most` is what it was, and the next try comes later: one measurement may be
    chance. The search ends at batches that take longer than `PATIENCE` or fail.
    """

    def __init__(
        self, most: int, largest: int = 0, has_room: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self.most = most
        self._largest = max(most, largest)
        self._proven = most
        self._has_room = has_room
        self._full: Counter[TimeModel] = Counter()
        self._wanted = SAMPLES
        self._asking: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether larger batches may still turn out to be better."""
        return self._proven < self._largest

    def full(self, times: TimeModel) -> None:
        """A batch of `most` rows has run, where batches take the time of `times`, and more had
        waited for it.
        """
        if not self.open or self._asking is not None:
            return
        self._full[times] += 1
        if self._full[times] < self._wanted:
            return
        self._full.clear()
        if times.best(self.most) < self.most:
            self._step_back()
            return
        if self.most > self._proven:
            self._proven, self._wanted = self.most, SAMPLES
        if times.predict(self.most) > PATIENCE:
            self._end()
        elif self.open:
            self._asking = asyncio.get_running_loop().create_task(self._double())

    def failed(self, rows: int) -> None:
        """A batch of so many rows has failed: if so many were never good, they are not tried
        again.
        """
        if rows > self._proven:
            self._end()

    def close(self) -> None:
        """Find out nothing more."""
        if self._asking is not None:
            self._asking.cancel()
        self._end()

    async def _double(self) -> None:
        try:
            if self._has_room is None or await self._has_room():
                self.most = min(2 * self.most, self._largest)
            else:
                self._step_back()
        finally:
            self._asking = None

    def _step_back(self) -> None:
        self.most = self._proven
        self._wanted *= _AGAIN

    def _end(self) -> None:
        self.most = self._largest = self._proven
