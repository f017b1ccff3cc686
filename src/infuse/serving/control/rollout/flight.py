"""Requests of one side of a rollout that are under way, and what their ages say of its latencies.

A request that has been under way for some time is known to take longer than that, and so is one
that ended without an answer. `Flight.times` counts each with the time that it has taken so far: no
latency is overstated by that. It counts only requests that began in the step, those that have ended
as well as those that have not: of all that are under way, most are slow ones on any side. Which
side a request is on was drawn by chance as it began; therefore the times of two sides that are
equally fast have one distribution at every moment, also while a stall of the machine holds both up.
"""

from __future__ import annotations

from typing import TypedDict

from infuse.serving.control.rollout.windows import Tally


class FlightDescription(TypedDict):
    """How many requests are under way, and how old the oldest is, in milliseconds; null without
    any.
    """

    in_flight: int
    oldest_ms: float | None


class Flight:
    """When the requests began that have not ended, and how long those of the step have taken; in
    constant time per request, in memory for those under way. `now`, in seconds, only grows.
    """

    __slots__ = ("_began", "_ended", "_since")

    def __init__(self, now: float) -> None:
        self._began: dict[int, float] = {}
        self._ended = Tally()
        self._since = now

    def begin(self, key: int, now: float) -> None:
        """A request has begun; `key` tells it from the others that are under way."""
        self._began[key] = now

    def end(self, key: int, seconds: float, counts: bool) -> None:
        """A request that may have begun here has ended after `seconds`; `counts`: the version had a
        try at it.
        """
        began = self._began.pop(key, None)
        if counts and began is not None and began >= self._since:
            self._ended.answer(seconds)

    def step(self, now: float) -> None:
        """A step begins: what began before counts no longer."""
        self._since = now
        self._ended = Tally()

    def times(self, now: float) -> Tally:
        """How long each request of the step has taken so far, as if it were answered now."""
        total = Tally()
        total.add(self._ended)
        for began in self._began.values():
            if began >= self._since:
                total.answer(now - began)
        return total

    def oldest(self, now: float) -> float:
        """Seconds that the oldest one of the step has been under way; 0 where none is."""
        return now - min(
            (began for began in self._began.values() if began >= self._since), default=now
        )

    def describe(self, now: float) -> FlightDescription:
        """What is under way, of this step and of those before, for people and programs."""
        began = min(self._began.values(), default=None)
        oldest = None if began is None else round((now - began) * 1e3, 4)
        return {"in_flight": len(self._began), "oldest_ms": oldest}
