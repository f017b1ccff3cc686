"""Counts and latencies of a version in bounded memory, in constant time per request."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, TypedDict

from infuse.errors import DataError, OverloadError
from infuse.serving.control.statuses import http_status

# Eight buckets per doubling, from 2^-20 s (about 1 µs) to 2^10 s: a latency is known to within 9 %.
_PER_DOUBLING: Final = 8
_LOWEST: Final = -20
_BUCKETS: Final = 30 * _PER_DOUBLING
_SPAN: Final = 60.0  # seconds that count as recent
_PARTS: Final = 12  # that they are forgotten in, one by one
_OFFSET: Final = -_LOWEST * _PER_DOUBLING


def bucket(seconds: float) -> int:
    """The bucket of a latency; what is beyond either end falls into the bucket there."""
    if not seconds > 0:
        return 0
    index = math.floor(math.log2(seconds) * _PER_DOUBLING) + _OFFSET
    return min(max(index, 0), _BUCKETS - 1)


def edges(index: int) -> tuple[float, float]:
    """The shortest and the longest latency of a bucket, in seconds."""
    return 2.0 ** ((index - _OFFSET) / _PER_DOUBLING), 2.0 ** (
        (index - _OFFSET + 1) / _PER_DOUBLING
    )


def is_fault(error: BaseException) -> bool:
    """Whether a request failed by its version's fault: not by overload, nor by the caller's, who
    may have gone away.

    Elements that a run failed of are the caller's fault, but of two versions one may refuse what
    the other takes: as rates are compared, they count.
    """
    return isinstance(error, DataError) or (
        not isinstance(error, OverloadError | asyncio.CancelledError) and http_status(error) >= 500
    )


class TallyDescription(TypedDict):
    """What was counted, as JSON has it; latencies in milliseconds, null where nothing was."""

    requests: int
    failed: int
    rejected: int
    error_rate: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    compared: int
    drifted: int
    drift_rate: float | None


class Tally:
    """What became of requests: answered (with their latencies), failed by the version's fault,
    rejected for overload; and how many of its answers were compared with another version's and
    differed.
    """

    __slots__ = ("answered", "buckets", "compared", "drifted", "failed", "rejected")

    def __init__(self) -> None:
        self.answered = 0
        self.failed = 0
        self.rejected = 0
        self.compared = 0
        self.drifted = 0
        self.buckets = [0] * _BUCKETS

    @property
    def requests(self) -> int:
        return self.answered + self.failed + self.rejected

    @property
    def served(self) -> int:
        """Requests that the version had a try at."""
        return self.answered + self.failed

    def answer(self, seconds: float) -> None:
        """Count an answered request."""
        self.answered += 1
        self.buckets[bucket(seconds)] += 1

    def count(self, error: BaseException | None, seconds: float) -> None:
        """Count a request; nothing where the caller did wrong (a status below 500), or has gone
        away.
        """
        if error is None:
            self.answer(seconds)
        elif isinstance(error, OverloadError):
            self.rejected += 1
        elif is_fault(error):
            self.failed += 1

    def add(self, other: Tally) -> None:
        """Count all that another tally has counted."""
        self.answered += other.answered
        self.failed += other.failed
        self.rejected += other.rejected
        self.compared += other.compared
        self.drifted += other.drifted
        self.buckets = [mine + its for mine, its in zip(self.buckets, other.buckets, strict=True)]

    def quantile(self, part: float) -> tuple[float, float]:
        """Seconds between which the latency lies that `part` of the answers do not exceed; (0, 0)
        without answers.
        """
        if not self.answered:
            return 0.0, 0.0
        rank = max(1, math.ceil(part * self.answered))
        passed = 0
        for index, count in enumerate(self.buckets):
            passed += count
            if passed >= rank:
                return edges(index)
        return edges(_BUCKETS - 1)

    def describe(self) -> TallyDescription:
        """The figures for people and programs; latencies in milliseconds, null where nothing was
        counted.
        """
        return {
            "requests": self.requests,
            "failed": self.failed,
            "rejected": self.rejected,
            "error_rate": self.failed / self.requests if self.requests else None,
            "p50_ms": self._milliseconds(0.5),
            "p95_ms": self._milliseconds(0.95),
            "p99_ms": self._milliseconds(0.99),
            "compared": self.compared,
            "drifted": self.drifted,
            "drift_rate": self.drifted / self.compared if self.compared else None,
        }

    def _milliseconds(self, part: float) -> float | None:
        low, high = self.quantile(part)
        return round(math.sqrt(low * high) * 1e3, 4) if self.answered else None


class Window:
    """The tallies of the last `span` seconds, in `slots` pieces that are forgotten one by one."""

    def __init__(self, span: float = _SPAN, slots: int = _PARTS) -> None:
        self._width = span / slots
        self._past: deque[tuple[int, Tally]] = deque(maxlen=slots)
        self._number = -1
        self._slot = Tally()

    def at(self, now: float) -> Tally:
        """The tally that an event of now belongs to."""
        number = int(now / self._width)
        if number != self._number:
            self._number = number
            self._slot = Tally()
            self._past.append((number, self._slot))
        return self._slot

    def total(self, now: float) -> Tally:
        """All of the last `span` seconds, to within one piece."""
        oldest = int(now / self._width) - (self._past.maxlen or 1)
        result = Tally()
        for number, slot in self._past:
            if number > oldest:
                result.add(slot)
        return result


class Windows:
    """The last minute of each version that is `loaded`."""

    def __init__(self, loaded: Callable[[], Collection[int]], clock: Callable[[], float]) -> None:
        self._loaded, self._clock = loaded, clock
        self._windows: dict[int, Window] = {}

    def now(self, version: int) -> Tally | None:
        """What is counted for a version at this time; None for one that is not loaded."""
        window = self._windows.get(version)
        if window is None and version in self._loaded():
            window = self._windows[version] = Window()
        return window.at(self._clock()) if window is not None else None

    def recent(self, versions: Collection[int]) -> Tally:
        """The last minute of some versions."""
        now, total = self._clock(), Tally()
        for version in versions:
            if version in self._windows:
                total.add(self._windows[version].total(now))
        return total

    def forget_unloaded(self) -> None:
        """Drop what was counted for versions that are no longer loaded."""
        for number in self._windows.keys() - set(self._loaded()):
            del self._windows[number]

    def describe(self) -> dict[str, TallyDescription]:
        """The last minute of each version, as JSON."""
        now = self._clock()
        return {
            str(number): window.total(now).describe()
            for number, window in sorted(self._windows.items())
        }
