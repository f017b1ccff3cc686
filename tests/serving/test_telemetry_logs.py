"""Logs: events, lines of text and JSON, the access log, and what must never be in them."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import numpy as np
import pytest

from infuse.errors import OverloadError
from infuse.serving.config import Telemetry
from infuse.serving.control.telemetry.journal import Event, Journal, clean
from infuse.serving.control.telemetry.logs import Logging, access_log, setup
from infuse.serving.messages import InferRequest, Outcome, Tensor, Timeline

pytestmark = pytest.mark.row("S6")
_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) +\S")


class _Opened:
    """Logging into a text that can be read after it was closed."""

    def __init__(self, **fields: object) -> None:
        self.stream = io.StringIO()
        self.logging = setup(Telemetry(**fields), self.stream)  # type: ignore[arg-type]

    def lines(self) -> list[str]:
        self.logging.close()
        return self.stream.getvalue().splitlines()


@pytest.fixture
def opened() -> Iterator[list[Logging]]:
    before = {name: logging.getLogger(name).handlers[:] for name in ("", "infuse", "asyncio")}
    made: list[Logging] = []
    yield made
    for one in made:
        one.close()
    assert {name: logging.getLogger(name).handlers for name in before} == before


def _open(opened: list[Logging], **fields: object) -> _Opened:
    log = _Opened(**fields)
    opened.append(log.logging)
    return log


def _outcome(**fields: object) -> Outcome:
    line = Timeline(1_000_000, 2_000_000, 3_500_000, 4_000_000, 9_000_000, 11_000_000)
    tensor = Tensor("x", "BYTES", np.array([b"secret payload"], object))
    request = InferRequest("net", inputs=[tensor], timeline=line, protocol="http", **fields)  # type: ignore[arg-type]
    return Outcome(request, 2, None, None, rows=1, batch=4)


def test_lines_of_text(opened: list[Logging]) -> None:
    log = _open(opened)
    journal = Journal(wall=lambda: 12.5)
    journal.emit("model_loaded", model="net", version=3, seconds=1.25, path="a b")
    journal.emit("worker_started", worker=1)
    journal.emit("load_failed", model="net", reason='it is "broken"\nINFO server_stopped')
    first, second = log.lines()
    assert _LINE.match(first)
    assert first.endswith('INFO    model_loaded model=net version=3 seconds=1.25 path="a b"')
    assert second.endswith(
        'ERROR   load_failed model=net reason="it is \\"broken\\"\\nINFO server_stopped"'
    )


def test_lines_are_written_once(opened: list[Logging], caplog: pytest.LogCaptureFixture) -> None:
    log = _open(opened)
    Journal().emit("model_loaded", model="net")
    assert caplog.messages == []  # the root logger's handlers get nothing
    assert len(log.lines()) == 1


def test_lines_of_json(opened: list[Logging]) -> None:
    log = _open(opened, log_format="json", log_level="debug")
    Journal().emit("worker_lost", worker=7, seconds=float("inf"), text="é\n\u2028", none=None)
    logging.getLogger("infuse.serving.engine").warning("a %s\nb", "text")
    event, plain = map(json.loads, log.lines())
    assert (event["level"], event["event"], event["worker"], event["none"]) == (
        "error",
        "worker_lost",
        7,
        None,
    )
    assert (event["seconds"], event["text"]) == ("inf", "é\\n\\u2028")
    assert (plain["logger"], plain["message"]) == ("infuse.serving.engine", "a text\\nb")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_passes_for_no_event(opened: list[Logging], form: str) -> None:
    log = _open(opened, log_format=form)
    try:
        raise ValueError("x\n2026-01-01T00:00:00.000Z INFO    server_stopped")
    except ValueError:
        logging.getLogger("infuse").exception("it failed")
    lines = log.lines()
    assert sum(bool(_LINE.match(line)) for line in lines) == (1 if form == "text" else 0)
    assert "server_stopped" in "".join(lines)
    if form == "json":
        assert "ValueError" in json.loads(lines[0])["exception"]


def test_levels_change_at_run_time(opened: list[Logging]) -> None:
    log = _open(opened, log_level="error")
    journal = Journal()
    journal.emit("model_loaded", model="a")
    log.logging.set_level("debug")
    journal.emit("worker_started", worker=1)
    logging.getLogger("asyncio").info("of no interest")
    log.logging.set_level("error")
    journal.emit("rolled_back", model="a")
    lines = log.lines()
    assert len(lines) == 1
    assert "worker_started worker=1" in lines[0]


def test_access_log(opened: list[Logging]) -> None:
    observe = access_log(Telemetry(access_log=True))
    assert observe is not None
    log = _open(opened, log_format="json")
    observe(_outcome(id="a\nb" + "x" * 1000, trace="00-" + "a" * 32 + "-" + "b" * 16 + "-01"))
    failed = _outcome()
    failed.error, failed.shadow = OverloadError("the queue is full"), True
    observe(failed)
    left = _outcome()
    left.error = CancelledError("gone")
    observe(left)
    lines = log.lines()
    assert not any("secret" in line for line in lines)
    good, bad, gone = map(json.loads, lines)
    assert gone["status"] == 499
    assert (good["event"], good["status"], good["ms"], good["queue_ms"], good["batch"]) == (
        "access",
        200,
        10.0,
        1.5,
        4,
    )
    assert good["id"].startswith("a\\nbxxx")
    assert len(good["id"]) < 140
    assert good["trace"].endswith("-01")
    assert (bad["status"], bad["error"], bad["shadow"]) == (503, "INF-706", True)
    assert "id" not in bad


def test_no_access_log_unless_asked() -> None:
    assert access_log(Telemetry()) is None


def test_tokens_are_covered() -> None:
    assert clean("Authorization: Bearer abc.def-123, more") == "Authorization: Bearer ***, more"
    assert "abc" not in str(Event("access_refused", {"reason": "bearer abc"}))


def test_a_library_touches_no_logger_of_its_user(capfd: pytest.CaptureFixture[str]) -> None:
    Journal().emit("load_failed", model="net")
    assert logging.getLogger("infuse").handlers == []
    assert capfd.readouterr().err == ""


def test_events_reach_the_handlers_of_a_user(caplog: pytest.LogCaptureFixture) -> None:
    Journal().emit("load_failed", model="net")
    assert caplog.messages == ["load_failed model=net"]


def test_journal_remembers_and_counts() -> None:
    journal = Journal(remembered=3)
    for version in range(5):
        journal.emit("model_loaded", model="net", version=version)
    assert [event.fields["version"] for event in journal.recent()] == [2, 3, 4]
    assert [event.fields["version"] for event in journal.recent(1)] == [4]
    assert list(journal.readings()) == [("infuse_events", 5, ("model_loaded", "net"))]


class _Stuck(io.StringIO):
    """A reader that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.reached = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        self.go.wait(30)
        return super().write(text)


def test_a_reader_that_is_stuck_stops_nobody(opened: list[Logging]) -> None:
    stream = _Stuck()
    log = setup(Telemetry(), stream)
    opened.append(log)
    logger = logging.getLogger("infuse.serving")
    logger.info("first")
    assert stream.reached.wait(10)
    for _ in range(10_050):
        logger.info("more")
    assert log.dropped == 50
    log.close(0.01)
    stream.go.set()


def test_a_stream_that_is_closed_stops_nobody(opened: list[Logging]) -> None:
    stream = io.StringIO()
    stream.close()
    log = setup(Telemetry(), stream)
    opened.append(log)
    logging.getLogger("infuse").error("nobody reads this")
    log.close()
    assert log.dropped == 1
    assert [reading.value for reading in log.readings()] == [1]
