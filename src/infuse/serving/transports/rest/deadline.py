"""What a connection waits for, and how long it may."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from infuse.serving.config import Limits
from infuse.serving.tuning import END_SECONDS

HEAD: Final = 1
"""The rest of a request's head, or the first request."""
BODY: Final = 2
"""The rest of a request's body."""
ANSWER: Final = 3
"""What the application answers."""
READER: Final = 4
"""A caller that reads what is written."""
IDLE: Final = 5
"""The next request."""
LINGER: Final = 6
"""The end of what a caller sends that was refused: it finds the answer so."""


def seconds_by_phase(limits: Limits) -> tuple[float, ...]:
    """How long each phase may take: an index is one of the phases."""
    head, body = limits.header_seconds, limits.body_seconds
    return (inf, head, body, inf, body, limits.idle_seconds, END_SECONDS)


class Deadline:
    """The end of the phase that a connection is in. It does not move while the phase lasts.

    `seconds` are those of `seconds_by_phase`; `clock` tells seconds from any moment on.
    """

    __slots__ = ("_clock", "_due", "_seconds", "_step", "phase")

    def __init__(self, seconds: tuple[float, ...], clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._step = 0
        self.phase = HEAD
        self._due = clock() + seconds[HEAD]

    def enter(self, phase: int, step: int) -> None:
        """Be in a phase. Another `step` begins it anew: the body of another request, say."""
        if phase == self.phase and step == self._step:
            return
        self.phase = phase
        self._step = step
        seconds = self._seconds[phase]
        self._due = inf if seconds == inf else self._clock() + seconds

    def is_over(self, now: float) -> bool:
        """Whether the phase has lasted too long at this time of the clock."""
        return now >= self._due
