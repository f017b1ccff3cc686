"""What happens to a model's traffic, for logs, metrics and the console."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Event:
    """Something that an operator or a rollout did.

    `kind`: rollout_started, step, promoted, rolled_back, paused, resumed, waiting, label_set,
    label_removed, split_set, shadow_set. `share`: the version's part of the traffic from now on;
    `at`: seconds of the epoch.
    """

    kind: str
    model: str
    version: int
    reason: str
    share: float
    at: float


class EventLog:
    """What happens to a model's traffic, until somebody takes it. `wall` gives seconds of the
    epoch.
    """

    def __init__(self, model: str, wall: Callable[[], float]) -> None:
        self._model, self._wall = model, wall
        self._events: list[Event] = []

    def tell(self, kind: str, version: int, reason: str = "", share: float = 0.0) -> None:
        """Note an event."""
        self._events.append(Event(kind, self._model, version, reason, share, self._wall()))

    def drain(self) -> list[Event]:
        """What was told since the last call."""
        events, self._events = self._events, []
        return events
