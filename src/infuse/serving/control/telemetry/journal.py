"""What happened to a server, as events with names: for the log, the metrics and the console."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from infuse.serving.control.telemetry.views import Reading
from infuse.serving.messages import JSON

Value: TypeAlias = str | int | float | bool | None
LEVELS: Final[Mapping[str, int]] = {
    "load_failed": logging.ERROR,
    "worker_lost": logging.ERROR,
    "worker_hung": logging.ERROR,
    "worker_out_of_memory": logging.ERROR,
    "repository_unreachable": logging.ERROR,
    "objectives_refused": logging.ERROR,
    "rolled_back": logging.WARNING,
    "held": logging.WARNING,
    "objective_burning": logging.WARNING,
    "access_refused": logging.WARNING,
    "certificate_refused": logging.WARNING,
    "request_retried": logging.WARNING,
    "worker_started": logging.DEBUG,
}
"""Levels of the events that are not just worth knowing."""
_SECRET: Final = re.compile(r"(?i)\b(bearer)\s+[^\s\"',;]+")
_MOST_TEXT: Final = 2000
_MOST_EVENTS: Final = 500
_MOST_COUNTS: Final = 2000


def clean(text: str, longest: int = _MOST_TEXT) -> str:
    """Foreign text for one line of a log: escaped where it cannot be printed, tokens covered, cut
    to a length.
    """
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else _escape(sign) for sign in text)
    return _SECRET.sub(r"\1 ***", text)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: its kind (`rolled_back`), what it happened to, when (in seconds
    since 1970).
    """

    kind: str
    fields: Mapping[str, Value] = field(default_factory=dict)
    at: float = field(default_factory=time.time)

    @property
    def level(self) -> int:
        """The level of `logging` that it has."""
        return LEVELS.get(self.kind, logging.INFO)

    def __str__(self) -> str:
        return " ".join(
            [self.kind, *(f"{key}={_plain(value)}" for key, value in self.fields.items())]
        )

    def as_line(self) -> dict[str, Value]:
        """As the log's JSON lines show it."""
        return {"event": self.kind, **{key: _json(value) for key, value in self.fields.items()}}

    def as_entry(self) -> dict[str, JSON]:
        """As the console and the admin routes show it: what it happened to, why, and the share of
        traffic after it.
        """
        fields = self.fields
        return {
            "kind": self.kind,
            "model": fields.get("model") or "",
            "version": fields.get("version") or 0,
            "reason": fields.get("reason") or "",
            "share": fields.get("share") or 0.0,
            "at": self.at,
        }


class Journal:
    """Logs events, counts them, and remembers the last. Threads may share it."""

    def __init__(
        self, remembered: int = _MOST_EVENTS, wall: Callable[[], float] = time.time
    ) -> None:
        self._log = logging.getLogger("infuse.serving")
        self._wall = wall
        self._last: deque[Event] = deque(maxlen=remembered)
        self._counts: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def emit(self, kind: str, **fields: Value) -> Event:
        """Say that something happened. `model`, `version`, `reason` and `share` are fields that the
        console shows.
        """
        event = Event(kind, fields, self._wall())
        with self._lock:
            self._last.append(event)
            key = (kind, str(fields.get("model") or ""))
            if key not in self._counts and len(self._counts) >= _MOST_COUNTS:
                key = (kind, "")
            self._counts[key] = self._counts.get(key, 0) + 1
        self._log.log(event.level, event)
        return event

    def recent(self, most: int = _MOST_EVENTS) -> list[Event]:
        """The last events, the newest last."""
        with self._lock:
            return list(self._last)[-most:] if most > 0 else []

    def readings(self) -> Iterator[Reading]:
        """How often each event happened."""
        with self._lock:
            counts = dict(self._counts)
        for (kind, model), count in counts.items():
            yield Reading("infuse_events", count, (kind, model))


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
