"""The HTTP server on sockets: bodies of every kind, callers that are slow, rude or gone, TLS, and
the end.
"""

import asyncio
import concurrent.futures
import functools
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from infuse.errors import ConfigurationError
from infuse.serving.config import Limits, Listener
from infuse.serving.transports.rest.app import DataApp
from tests.serving import rest_tools
from tests.serving.rest_tools import (
    HOST,
    FakeEngine,
    Running,
    binary,
    config,
    plain,
    post,
    reply,
    serving,
)
from tests.serving.test_security_tls import DAY, NOW, pair

pytestmark = pytest.mark.row("S1")
SMALL = plain([[1, 2, 3, 4]], [1, 4])
ECHOED = [1, 2, 3, 4]


def app(engine: FakeEngine | None = None, **fields: Any) -> DataApp:
    return DataApp(engine or FakeEngine(), config(**fields))


@pytest.fixture(scope="module", params=[asyncio, uvloop], ids=["asyncio", "uvloop"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Any:
    """Everything here is so in both loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            globals(), "serving", functools.partial(rest_tools.serving, loop_of=request.param)
        )
        yield request.param


@pytest.fixture(scope="module")
def server(loops: Any) -> Iterator[Running]:
    limits = Limits(request_bytes=4 << 20)
    with serving(app(limits=limits), limits) as running:
        yield running


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Waits until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.005)


def at_end(connection: socket.socket) -> bool:
    """Whether the server has closed the connection; what it still sent is thrown away."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def echoed(connection: socket.socket) -> None:
    answer = reply(connection)
    assert answer.status == 200
    assert answer.json["outputs"][0]["data"] == ECHOED


# ------------------------------------------------------------------------------------------- bodies


@pytest.mark.parametrize("rows", [1, 100, 5_000, 60_000, 200_000])
def test_binary_bodies_of_every_size_come_back(server: Running, rows: int) -> None:
    array = np.random.default_rng(rows).random((rows, 4), np.float32)
    body, headers = binary(array, parameters={"binary_data_output": True})
    lines = [f"{name}: {value}" for name, value in headers.items()]
    with closing(server.connect()) as connection:
        for _ in range(3):
            connection.sendall(post(body, *lines))
            answer = reply(connection)
            assert (
                answer.body[int(answer.headers["inference-header-content-length"]) :]
                == array.tobytes()
            )


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
def test_a_request_may_come_in_pieces(server: Running, pieces: int) -> None:
    whole = post(SMALL)
    step = max(1, len(whole) // pieces)
    with closing(server.connect()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(whole), step):
            connection.sendall(whole[place : place + step])
        echoed(connection)


def test_tensors_of_large_bodies_are_aligned() -> None:
    engine = FakeEngine()
    with serving(app(engine)) as running, closing(running.connect()) as connection:
        for spaces in range(5):
            body, headers = binary(np.zeros((99_999, 4), np.float32), id="x" * spaces)
            connection.sendall(
                post(body, f"Inference-Header-Content-Length: {next(iter(headers.values()))}")
            )
            assert reply(connection).status == 200
    assert all(request.inputs[0].data.ctypes.data % 64 == 0 for request in engine.requests)


@pytest.mark.parametrize("sizes", [[7, 1, 30], [1 << 20, 3]])
def test_chunked_bodies(server: Running, sizes: list[int]) -> None:
    body = SMALL.ljust(sum(sizes) + 10)
    chunks, place = b"", 0
    for size in [*sizes, len(body) - sum(sizes)]:
        chunks += b"%x\r\n%b\r\n" % (size, body[place : place + size])
        place += size
    with closing(server.connect()) as connection:
        for _ in range(2):
            connection.sendall(post(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked", length=-1))
            echoed(connection)


def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    bodies = [plain([[i, 0, 0, 0]], [1, 4], id=str(i)) for i in range(20)]
    with closing(server.connect()) as connection:
        connection.sendall(b"".join(map(post, bodies)))
        assert [reply(connection).json["id"] for _ in bodies] == [str(i) for i in range(20)]


def test_pipelined_large_requests_are_answered_in_order(server: Running) -> None:
    arrays = [np.full((50_000, 4), i, np.float32) for i in range(4)]
    sent = b""
    for array in arrays:
        body, headers = binary(array, parameters={"binary_data_output": True})
        sent += post(body, f"Inference-Header-Content-Length: {next(iter(headers.values()))}")
    with closing(server.connect()) as connection:
        writer = threading.Thread(target=connection.sendall, args=(sent,))
        writer.start()
        for array in arrays:
            assert reply(connection).body.endswith(array.tobytes())
        writer.join()


def test_a_caller_may_wait_for_continue(server: Running) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(post(b"", "Expect: 100-continue", length=len(SMALL)))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(SMALL)
        echoed(connection)


@pytest.mark.parametrize("body", [SMALL, SMALL.ljust(400_000)])
def test_a_wish_for_another_protocol_is_passed_over(server: Running, body: bytes) -> None:
    wish = (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
    )
    with closing(server.connect()) as connection:
        for _ in range(2):
            connection.sendall(post(body, *wish))
            echoed(connection)
        connection.sendall(
            b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        assert reply(connection).json["name"] == "infuse"
        connection.sendall(post(body))
        echoed(connection)


def test_head_and_http_1_0(server: Running) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(b"HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = reply(connection, "HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert int(answer.headers["content-length"]) > 0
        connection.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert reply(connection).json == {"live": True}
        assert at_end(connection)


# ------------------------------------------------------------------------------------- rude callers


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


# ------------------------------------------------------------------------------------------ the end


@pytest.mark.row("S7")
def test_a_stop_lets_requests_finish_and_takes_no_new_ones() -> None:
    engine = FakeEngine(held=True)
    with (
        serving(app(engine)) as running,
        closing(running.connect()) as busy,
        closing(running.connect()) as idle,
    ):
        busy.sendall(post(SMALL))
        assert engine.arrived.wait(20)
        until(lambda: running.server.connections == 2)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            stopped = pool.submit(running.stop, 20)
            assert at_end(idle)
            with pytest.raises(OSError):  # noqa: PT011
                running.connect()
            assert not stopped.done()
            engine.release.set()
            answer = reply(busy)
            assert answer.json["outputs"][0]["data"] == ECHOED
            assert at_end(busy)
            stopped.result(20)
    assert running.server.connections == 0


@pytest.mark.row("S7")
def test_a_stop_ends_when_the_grace_is_over() -> None:
    engine = FakeEngine(held=True)
    with serving(app(engine)) as running, closing(running.connect()) as busy:
        busy.sendall(post(SMALL))
        assert engine.arrived.wait(20)
        running.stop(0.05)
        answer = reply(busy)
        assert answer.status == 503
        assert "stopping" in answer.error


def test_a_port_that_is_taken_is_named() -> None:
    with serving(app()) as running:
        again = serving(app(), listener=Listener(port=running.port))
        with pytest.raises(ConfigurationError, match=str(running.port)) as caught, again:
            pass
    assert "another port" in str(caught.value)


def test_an_address_that_is_not_ours_is_named() -> None:
    with (
        pytest.raises(ConfigurationError, match=r"192\.0\.2\.1"),
        serving(app(), listener=Listener(host="192.0.2.1")),
    ):
        pass


# ---------------------------------------------------------------------------------------------- TLS


def spoken(running: Running, context: ssl.SSLContext, sent: bytes) -> Any:
    with context.wrap_socket(running.connect(), server_hostname="localhost") as connection:
        connection.sendall(sent)
        return reply(connection)


@pytest.mark.row("S9")
def test_tls(tmp_path: Path) -> None:
    own = pair(tmp_path, "own")
    trusting = ssl.create_default_context(cafile=str(own.paths[0]))
    array = np.random.default_rng(1).random((50_000, 4), np.float32)
    body, headers = binary(array, parameters={"binary_data_output": True})
    sent = post(body, f"Inference-Header-Content-Length: {next(iter(headers.values()))}")
    with serving(app(), listener=Listener(tls=own.tls())) as running:
        assert running.server.url.startswith("https://")
        assert spoken(running, trusting, post(SMALL)).json["outputs"][0]["data"] == ECHOED
        assert spoken(running, trusting, sent).body.endswith(array.tobytes())
        with pytest.raises(ssl.SSLCertVerificationError):
            spoken(running, ssl.create_default_context(), post(SMALL))
        with closing(running.connect()) as plain_text:
            plain_text.sendall(post(SMALL))
            assert at_end(plain_text)


@pytest.mark.row("S9")
def test_mutual_tls(tmp_path: Path) -> None:
    own, authority = pair(tmp_path, "own"), pair(tmp_path, "authority")
    client, stranger = pair(tmp_path, "client", issuer=authority), pair(tmp_path, "stranger")
    with serving(app(), listener=Listener(tls=own.tls(client_ca=authority))) as running:
        known = ssl.create_default_context(cafile=str(own.paths[0]))
        known.load_cert_chain(*client.paths)
        assert spoken(running, known, post(SMALL)).status == 200
        for context in (ssl.create_default_context(cafile=str(own.paths[0])) for _ in range(2)):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                spoken(running, context, post(SMALL))
            context.load_cert_chain(*stranger.paths)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                spoken(running, context, post(SMALL))


@pytest.mark.row("S9")
def test_a_certificate_that_has_expired_is_refused_at_the_start(tmp_path: Path) -> None:
    old = pair(tmp_path, "old", begin=NOW - 9 * DAY, end=NOW - DAY)
    with (
        pytest.raises(ConfigurationError, match="expired"),
        serving(app(), listener=Listener(tls=old.tls())),
    ):
        pass
