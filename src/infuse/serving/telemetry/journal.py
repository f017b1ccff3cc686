"""What happened to a server, as events with names: for the log, the metrics and the console."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from infuse.serving.telemetry.views import Reading

Value: TypeAlias = str | int | float | bool | None
EventName: TypeAlias = Literal[
    "server started",
    "server draining",
    "server stopped",
    "model loading",
    "model built",
    "model loaded",
    "model unloaded",
    "load failed",
    "worker started",
    "worker lost",
    "worker hung",
    "worker out of memory",
    "request retried",
    "repository unreachable",
    "repository reachable",
    "label moved",
    "split changed",
    "rollout started",
    "rollout step",
    "rollout finished",
    "rolled back",
    "objective burning",
    "objective met",
    "access refused",
    "level changed",
    "access",
]
_LEVELS: Final[Mapping[EventName, int]] = {
    "load failed": logging.ERROR,
    "worker lost": logging.ERROR,
    "worker hung": logging.ERROR,
    "worker out of memory": logging.ERROR,
    "repository unreachable": logging.WARNING,
    "rolled back": logging.WARNING,
    "objective burning": logging.WARNING,
    "access refused": logging.WARNING,
    "worker started": logging.DEBUG,
    "request retried": logging.WARNING,
}
_SECRET: Final = re.compile(r"(?i)\b(bearer)\s+[^\s\"',;]+")
_LONGEST: Final = 2000


def clean(text: str, longest: int = _LONGEST) -> str:
    """Foreign text for one line of a log: escaped where it cannot be printed, tokens covered, cut to a length."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else _escape(sign) for sign in text)
    return _SECRET.sub(r"\1 ***", text)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: its name, what it happened to, when (in seconds since 1970)."""

    name: EventName
    fields: Mapping[str, Value] = field(default_factory=dict)
    at: float = field(default_factory=time.time)

    @property
    def level(self) -> int:
        """The level of `logging` that it has."""
        return _LEVELS.get(self.name, logging.INFO)

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={_plain(value)}" for key, value in self.fields.items())])

    def as_dict(self) -> dict[str, Value]:
        """As the console and the log's JSON lines show it."""
        return {"event": self.name, **{key: _json(value) for key, value in self.fields.items()}}


class Journal:
    """Logs events, counts them, and remembers the last. Threads may share it."""

    def __init__(self, remembered: int = 500, wall: Callable[[], float] = time.time) -> None:
        self._log = logging.getLogger("infuse.serving")
        self._wall = wall
        self._last: deque[Event] = deque(maxlen=remembered)
        self._counts: dict[EventName, int] = {}
        self._lock = threading.Lock()

    def emit(self, name: EventName, **fields: Value) -> Event:
        """Say that something happened."""
        event = Event(name, fields, self._wall())
        with self._lock:
            self._last.append(event)
            self._counts[name] = self._counts.get(name, 0) + 1
        self._log.log(event.level, event)
        return event

    def recent(self, most: int = 100) -> list[Event]:
        """The last events, the newest last."""
        with self._lock:
            return list(self._last)[-most:] if most > 0 else []

    def readings(self) -> Iterator[Reading]:
        """How often each event happened."""
        with self._lock:
            counts = dict(self._counts)
        for name, count in counts.items():
            yield Reading("infuse_events", count, (name.replace(" ", "_"),))


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def _plain(value: Value) -> str:
    """A value of a line of text: quoted where it would not be one word."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = clean(str(value))
    if text and not any(sign in text for sign in ' "='):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _json(value: Value) -> Value:
    """A value of a line of JSON, which has no infinities."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return clean(value) if isinstance(value, str) else value
