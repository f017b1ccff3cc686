"""The HTTP server on sockets: callers that are slow, rude or gone."""

import socket
import struct
import time
from contextlib import closing

import numpy as np
import pytest

from infuse.serving.config import Limits
from tests.serving.rest_stage import SMALL, app, at_end, echoed, loops, server, until
from tests.serving.rest_tools import (
    HOST,
    FakeEngine,
    Running,
    binary,
    post,
    reply,
    serving,
)

__all__ = ["loops", "server"]
pytestmark = pytest.mark.row("S1")


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\1\2\3\r\n\r\n",
        b"hello there\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\n\r\n",
        post(SMALL, "Content-Length: 1"),
        post(b"", "Content-Length: -1", length=-1),
        post(b"", "Content-Length: many", length=-1),
        post(b"", "Content-Length: 99999999999999999999999", length=-1),
        post(SMALL, "Transfer-Encoding: chunked"),
        post(b"zz\r\n", "Transfer-Encoding: chunked", length=-1),
        post(SMALL, "Bad Header: x"),
        post(SMALL, "Folded: a\r\n b\0"),
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_not_http_is_answered_400_and_ended(server: Running, sent: bytes) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(sent)
        answer = reply(connection)
        assert answer.status == 400
        assert answer.error
        assert at_end(connection)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Running) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(post(b"", length=1 << 40))
        answer = reply(connection)
        assert answer.status == 413
        assert answer.error
        assert at_end(connection)


def test_a_caller_that_sends_too_much_finds_the_answer(server: Running) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(post(bytes(5 << 20)))
        assert reply(connection).status == 413


def test_chunks_that_do_not_end_are_refused(server: Running) -> None:
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    with closing(server.connect()) as connection:
        connection.sendall(post(chunk * 5, "Transfer-Encoding: chunked", length=-1))
        assert reply(connection).status == 413
        assert at_end(connection)


@pytest.mark.parametrize("line", ["X: " + "a" * 200_000, "X: a\r\n" * 30_000])
def test_a_head_that_does_not_end_is_refused(server: Running, line: str) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n" + line.encode())
        assert reply(connection).status == 431
        assert at_end(connection)


@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (66_000, 431), (120_000, 431)])
def test_a_head_that_comes_at_once_has_the_same_limit(
    server: Running, size: int, status: int
) -> None:
    with closing(server.connect()) as connection:
        head = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall(head + b"X: " + b"a" * size + b"\r\n\r\n")
        assert reply(connection).status == status


def test_a_caller_that_has_said_all_gets_its_answer() -> None:
    engine = FakeEngine(held=True)
    with serving(app(engine)) as running, closing(running.connect()) as connection:
        connection.sendall(post(SMALL))
        connection.shutdown(socket.SHUT_WR)
        assert engine.arrived.wait(20)
        engine.release.set()
        echoed(connection)
        assert at_end(connection)


@pytest.mark.parametrize(
    "part", [post(b"", length=100) + b"{", b"GET /v2 HT", post(SMALL)[:-1], b""]
)
def test_a_caller_that_leaves_in_the_middle_leaves_nothing(part: bytes) -> None:
    engine = FakeEngine()
    with serving(app(engine)) as running:
        with closing(running.connect()) as connection:
            connection.sendall(part)
            until(lambda: running.server.connections == 1)
        until(lambda: running.server.connections == 0)
    assert engine.requests == []


def test_a_caller_that_breaks_off_has_its_request_dropped() -> None:
    engine = FakeEngine(held=True)
    with serving(app(engine)) as running:
        with closing(running.connect()) as connection:
            connection.sendall(post(SMALL))
            assert engine.arrived.wait(20)
            # An end of what is sent alone may come from a caller that still reads; a reset does
            # not.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert engine.dropped.wait(20)
        engine.release.set()
        until(lambda: running.server.connections == 0)
        with closing(running.connect()) as connection:
            connection.sendall(post(SMALL))
            echoed(connection)


def test_a_caller_that_leaves_before_the_answer_harms_nobody() -> None:
    engine = FakeEngine(held=True)
    with serving(app(engine)) as running:
        with closing(running.connect()) as connection:
            connection.sendall(post(SMALL))
            assert engine.arrived.wait(20)
        engine.release.set()
        until(lambda: running.server.connections == 0)
        with closing(running.connect()) as connection:
            connection.sendall(post(SMALL))
            echoed(connection)


@pytest.mark.parametrize(
    ("limits", "sent", "status"),
    [
        (Limits(header_seconds=0.1), b"POST /v2/mod", 408),
        (Limits(header_seconds=0.1), b"", None),
        (Limits(body_seconds=0.1), post(b"{", length=9), 408),
        (Limits(body_seconds=0.1), post(bytes(300_000), length=400_000), 408),
        (
            Limits(body_seconds=0.1),
            post(b"1\r\n{\r\n", "Transfer-Encoding: chunked", length=-1),
            408,
        ),
        (Limits(idle_seconds=0.1), post(SMALL), 200),
    ],
)
@pytest.mark.row("S7")
def test_slow_and_silent_callers_are_cut_off(
    limits: Limits, sent: bytes, status: int | None
) -> None:
    with serving(app(), limits) as running, closing(running.connect()) as connection:
        connection.sendall(sent)
        if status is not None:
            assert reply(connection).status == status
        assert at_end(connection)
        until(lambda: running.server.connections == 0)


@pytest.mark.row("S7")
def test_a_body_that_trickles_in_does_not_prolong_its_time() -> None:
    with (
        serving(app(), Limits(body_seconds=0.3)) as running,
        closing(running.connect()) as connection,
    ):
        connection.sendall(post(b"", length=1 << 20))
        began = time.monotonic()

        def trickle() -> None:
            while time.monotonic() < began + 20:
                connection.sendall(b" ")
                time.sleep(0.01)

        with pytest.raises(OSError):  # noqa: PT011
            trickle()


@pytest.mark.row("S7")
def test_a_caller_that_does_not_read_is_cut_off() -> None:
    limits = Limits(body_seconds=0.2)
    body, headers = binary(
        np.zeros((1_000_000, 4), np.float32), parameters={"binary_data_output": True}
    )
    sent = post(body, f"Inference-Header-Content-Length: {next(iter(headers.values()))}")
    with serving(app(), limits) as running, closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((HOST, running.port))
        connection.sendall(sent)
        until(lambda: running.server.connections == 0)


@pytest.mark.row("S7")
def test_more_connections_than_allowed_are_told_to_come_back() -> None:
    with serving(app(), Limits(connections=2)) as running:
        first, second = running.connect(), running.connect()
        with closing(first), closing(second):
            for connection in (first, second):
                connection.sendall(post(SMALL))
                echoed(connection)
            with closing(running.connect()) as third:
                answer = reply(third)
                assert answer.status == 503
                assert answer.headers["retry-after"] == "1"
                assert answer.error
        until(lambda: running.server.connections == 0)
        with closing(running.connect()) as fourth:
            fourth.sendall(post(SMALL))
            echoed(fourth)
