"""Staying awake for a moment: where the next message is expected at once, waking up takes longer than looking again.

On an idle processor, above all a virtual one, a sleeping process is back at work only some fifty to a hundred
microseconds after it is woken. A request to a small model crosses four such gaps.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Collection
from typing import Final

_WEIGHT: Final = 0.2  # of a new gap in the mean


class Gaps:
    """The mean of the last gaps between two things, in seconds; long ones count as `longest`."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.mean = longest

    def add(self, seconds: float) -> None:
        """A gap has ended."""
        self.mean += _WEIGHT * (min(seconds, self.longest) - self.mean)

    @property
    def short(self) -> bool:
        """Whether it pays to stay awake until the next one ends."""
        return self.mean < 0.5 * self.longest


class Vigil:
    """Keeps an event loop from sleeping: it goes on looking at its sockets, and lets other processes run between.

    `runs` are long ones under way, which have the processors: as long as there are any, it does sleep.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.runs = 0
        self._loop = loop
        self._limit = 0.0
        self._turning = False

    def keep(self, seconds: float) -> None:
        """Stay awake so long from now."""
        self._limit = max(self._limit, time.perf_counter() + seconds)
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if not self.runs and time.perf_counter() < self._limit:
            os.sched_yield()
            self._loop.call_soon(self._turn)
        else:
            self._turning = False


class Ear:
    """Receives messages from a socket; while they come within `seconds` of each other, it does not sleep for them.

    It does while there is something in `runs`, which has the processors.
    """

    def __init__(self, channel: socket.socket, most_bytes: int, seconds: float, runs: Collection[object] = ()) -> None:
        self._channel = channel
        self._most = most_bytes
        self._gaps = Gaps(seconds)
        self._runs = runs

    def receive(self) -> bytes:
        """The next message; empty at the end."""
        began = time.perf_counter()
        message = self._at_once(began + self._gaps.longest) if self._gaps.short else None
        if message is None:
            message = self._channel.recv(self._most)
        self._gaps.add(time.perf_counter() - began)
        return message

    def _at_once(self, limit: float) -> bytes | None:
        while not self._runs and time.perf_counter() < limit:
            try:
                return self._channel.recv(self._most, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
        return None
