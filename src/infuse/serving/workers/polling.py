"""Staying awake for a moment: where the next message is expected at once, waking up takes longer
than looking again.

On an idle processor, above all a virtual one, a sleeping process is back at work only some fifty to
a hundred microseconds after it is woken. A request to a small model crosses four such gaps.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Collection
from typing import Final

from infuse.serving.tuning import RETRY_SECONDS

NEWEST: Final = 0.2
"""Weight of a new measurement in a moving mean of what changes fast."""
_LATE: Final = 1e-4  # seconds; a caller's turn between two requests takes less
_LATE_WEIGHT: Final = 0.05  # of a new wait in their share
_LATE_SHARE: Final = 0.15  # of waits; beyond, one sleeps for RETRY_SECONDS


class InterArrivalMean:
    """The mean of the last gaps between two things, in seconds; long ones count as `longest`."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.mean = longest

    def add(self, seconds: float) -> None:
        """A gap has ended."""
        self.mean += NEWEST * (min(seconds, self.longest) - self.mean)

    @property
    def short(self) -> bool:
        """Whether it pays to stay awake until the next one ends."""
        return self.mean < 0.5 * self.longest


class ContentionDetector:
    """Whether others need the processors: where too many waits saw one come back late from letting
    them run.
    """

    def __init__(self) -> None:
        self._until = 0.0
        self._late = False
        self._share = 0.0  # of late waits

    def here(self, now: float) -> bool:
        """Whether one had better sleep, at the time `now`."""
        return now < self._until

    def let_run(self) -> None:
        """Let others run that are waiting for this processor."""
        began = time.perf_counter()
        os.sched_yield()
        self._late |= time.perf_counter() - began > _LATE

    def end(self, now: float, alone: bool) -> None:
        """A wait ends at the time `now`. `alone`: of one request that met no other, whose caller
        may take its time.
        """
        self._share += _LATE_WEIGHT * ((self._late and not alone) - self._share)
        self._late = False
        if self._share > _LATE_SHARE:
            self._until = now + RETRY_SECONDS
            self._share = 0.0


class Waiting:
    """How a server waits for what comes next: asleep. It is told what is under way."""

    seconds = 0.0
    """Within so many, workers look again before they sleep."""

    @property
    def alone(self) -> bool:
        """Whether there is no more than one request, as far as it knows."""
        return True

    def request_begins(self) -> None:
        """A request has come."""

    def request_ends(self) -> None:
        """A request was answered."""

    def run_begins(self) -> None:
        """A long run begins, which has the processors."""

    def run_ends(self) -> None:
        """A long run has ended."""

    def expect(self, seconds: float) -> None:
        """Something is to come within so many seconds."""


class BusyPoller(Waiting):
    """Keeps an event loop from sleeping for `seconds` at most: it goes on looking at its sockets,
    and lets other processes run between.

    As long as there are long runs, it does sleep. So it does for a while where others need the
    processors.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._runs = 0
        self._requests = 0
        self._gaps = InterArrivalMean(seconds)
        self._answered = 0.0
        self._contention = ContentionDetector()
        self._limit = 0.0
        self._turning = False

    @property
    def alone(self) -> bool:
        """Whether there is no more than one request."""
        return self._requests <= 1

    def request_begins(self) -> None:
        """A request has come."""
        self._requests += 1
        self._gaps.add(time.perf_counter() - self._answered)

    def request_ends(self) -> None:
        """A request was answered; where the next one mostly comes soon, stay awake for it."""
        self._requests -= 1
        self._answered = time.perf_counter()
        if self._gaps.short:
            self.expect(2 * self._gaps.mean)

    def run_begins(self) -> None:
        """A long run begins, which has the processors."""
        self._runs += 1

    def run_ends(self) -> None:
        """A long run has ended."""
        self._runs -= 1

    def expect(self, seconds: float) -> None:
        """Stay awake so long from now."""
        seconds = min(seconds, self.seconds)
        now = time.perf_counter()
        self._contention.end(now, self.alone)
        self._limit = max(self._limit, now + seconds)
        if not self._turning and not self._contention.here(now):
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        if not self._runs and time.perf_counter() < self._limit:
            self._contention.let_run()
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._turning = False


class PollingReceiver:
    """Receives messages from a socket; while they come within `seconds` of each other, it does not
    sleep for them.

    It does while there is something in `runs`, which has the processors, and for a while where
    others need them. `alone`: what it hears is of one request after the other.
    """

    def __init__(
        self, channel: socket.socket, most_bytes: int, seconds: float, runs: Collection[object] = ()
    ) -> None:
        self._channel = channel
        self._most = most_bytes
        self._gaps = InterArrivalMean(seconds)
        self._runs = runs
        self._contention = ContentionDetector()
        self.alone = True

    def receive(self) -> bytes:
        """The next message; empty at the end."""
        began = time.perf_counter()
        message = self._at_once(began + self._gaps.longest) if self._stays(began) else None
        if message is None:
            message = self._channel.recv(self._most)
        ended = time.perf_counter()
        self._gaps.add(ended - began)
        self._contention.end(ended, self.alone)
        return message

    def _stays(self, now: float) -> bool:
        return self._gaps.short and not self._contention.here(now)

    def _at_once(self, limit: float) -> bytes | None:
        while not self._runs and time.perf_counter() < limit:
            try:
                return self._channel.recv(self._most, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._contention.let_run()
        return None
