"""The HTTP server on sockets: bodies of every kind, and the end."""

import concurrent.futures
import socket
import threading
from contextlib import closing

import numpy as np
import pytest

from infuse.errors import ConfigurationError
from infuse.serving.config import Listener
from tests.serving.rest_stage import ECHOED, SMALL, app, at_end, echoed, loops, server, until
from tests.serving.rest_tools import (
    FakeEngine,
    Running,
    binary,
    plain,
    post,
    reply,
    serving,
)

__all__ = ["loops", "server"]
pytestmark = pytest.mark.row("S1")


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
