"""Logs as text or JSON lines, and a line per request when that is asked for. Never payloads, never
tokens.

An engine in somebody's own process only uses loggers below `infuse`, and leaves it to that process
what becomes of them. `setup` is for a process that is a server: lines are written by a thread of
their own, so that a reader who is slow does not stop the server; lines that find the queue full are
dropped and counted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Final, Literal, TextIO

from infuse.errors import InfuseError
from infuse.serving.config import Telemetry
from infuse.serving.control.statuses import http_status, public_text
from infuse.serving.control.telemetry.journal import Event, Value, clean
from infuse.serving.control.telemetry.statistics import failure_of
from infuse.serving.control.telemetry.views import Reading
from infuse.serving.messages import Outcome
from infuse.serving.tuning import END_SECONDS

Level = Literal["debug", "info", "warning", "error"]
_OWN: Final = "infuse"
_FOREIGN: Final = ("asyncio", "grpc", "opentelemetry", "py.warnings")
_LEVELS: Final[Mapping[Level, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_MOST_WAITING: Final = 10_000
_GONE: Final = 499  # the caller did not wait, as nginx logs it
_MOST_WORD: Final = 128
_access: Final = logging.getLogger("infuse.serving.access")
logging.getLogger("infuse.serving").addHandler(logging.NullHandler())


def access_log(config: Telemetry) -> Callable[[Outcome], None] | None:
    """An observer that logs every request; None when the configuration wants no access log."""
    return _log_access if config.access_log else None


def _log_access(outcome: Outcome) -> None:
    if not _access.isEnabledFor(logging.INFO):
        return
    request, error = outcome.request, outcome.error
    line = request.timeline
    fields: dict[str, Value] = {
        "model": clean(request.model, _MOST_WORD),
        "version": outcome.version,
        "protocol": request.protocol,
        "status": _status(error),
        "ms": round(max(line.finished - line.received, 0) / 1e6, 3),
        "rows": outcome.rows,
        "batch": outcome.batch,
    }
    if line.dispatched:
        fields["queue_ms"] = round((line.dispatched - (line.queued or line.received)) / 1e6, 3)
    if request.id:
        fields["id"] = clean(request.id, _MOST_WORD)
    if request.trace:
        fields["trace"] = clean(request.trace, _MOST_WORD)
    if outcome.shadow:
        fields["shadow"] = True
    if error is not None:
        fields["error"] = error.code if isinstance(error, InfuseError) else type(error).__name__
        fields["reason"] = public_text(error)
    _access.info(Event("access", fields))


def _status(error: BaseException | None) -> int:
    if error is None:
        return 200
    return _GONE if failure_of(error) == "CANCELED" else http_status(error)


class Logging:
    """The logging of a server process, until it is closed."""

    def __init__(self, config: Telemetry, stream: TextIO | None = None) -> None:
        kind = JsonLines if config.log_format == "json" else TextLines
        self._writer = _Writer(sys.stderr if stream is None else stream)
        self._writer.setFormatter(kind())
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(_MOST_WAITING)
        self._handler = _Bounded(self._queue)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write, name="infuse-log", daemon=True)
        loggers = map(logging.getLogger, (_OWN, *_FOREIGN))
        self._before = [(logger, logger.level, logger.propagate) for logger in loggers]
        for logger, _, _ in self._before:
            logger.addHandler(self._handler)
            logger.propagate = False
        self.level: Level = config.log_level
        self.set_level(config.log_level)
        logging.captureWarnings(True)
        self._thread.start()

    def set_level(self, level: Level) -> None:
        """Log from this level on; of other libraries never less than warnings."""
        self.level = level
        number = _LEVELS[level]
        logging.getLogger(_OWN).setLevel(number)
        for name in _FOREIGN:
            logging.getLogger(name).setLevel(max(number, logging.WARNING))

    @property
    def dropped(self) -> int:
        """Lines that could not be written."""
        return self._handler.dropped + self._writer.dropped

    def readings(self) -> Iterator[Reading]:
        """The log's own metrics."""
        yield Reading("infuse_log_dropped", self.dropped)

    def close(self, seconds: float = END_SECONDS) -> None:
        """Write what waits, as far as the reader takes it in time, and leave all loggers as they
        were.
        """
        logging.captureWarnings(False)
        for logger, level, propagate in self._before:
            logger.removeHandler(self._handler)
            logger.setLevel(level)
            logger.propagate = propagate
        self._closing.set()
        with contextlib.suppress(queue.Full):  # then the thread has a record to wake up for
            self._queue.put_nowait(None)
        self._thread.join(seconds)
        self._handler.close()

    def _write(self) -> None:
        while (record := self._queue.get()) is not None:
            self._writer.handle(record)
            if self._closing.is_set() and self._queue.empty():
                return


def setup(config: Telemetry, stream: TextIO | None = None) -> Logging:
    """Log as the configuration says, to standard error or a stream. The root logger is left
    alone.
    """
    return Logging(config, stream)


class TextLines(logging.Formatter):
    """`time LEVEL event key=value …`, a line each; lines of a traceback begin with a bar, so that
    none can pass for another event.
    """

    def format(self, record: logging.LogRecord) -> str:
        """A record as text."""
        text = (
            str(record.msg)
            if isinstance(record.msg, Event)
            else f"{record.name}: {clean(record.getMessage())}"
        )
        lines = [f"{_time(record)} {record.levelname:<7} {text}"]
        if record.exc_info:
            lines += [
                f"    | {clean(line)}"
                for line in self.formatException(record.exc_info).splitlines()
            ]
        return "\n".join(lines)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event or message, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as JSON."""
        line: dict[str, Value] = {"time": _time(record), "level": record.levelname.lower()}
        if isinstance(record.msg, Event):
            line |= record.msg.as_line()
        else:
            line |= {"logger": record.name, "message": clean(record.getMessage())}
        if record.exc_info:
            line["exception"] = clean(self.formatException(record.exc_info), 20_000)
        return json.dumps(line)


class _Bounded(logging.handlers.QueueHandler):
    """Never waits: what finds the queue full is counted."""

    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        if not isinstance(record.msg, Event):
            # Arguments may change until the line is written.
            record.msg, record.args = record.getMessage(), None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Writer(logging.StreamHandler[TextIO]):
    """Counts lines that the stream does not take."""

    dropped = 0

    def handleError(self, record: logging.LogRecord) -> None:
        self.dropped += 1


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
