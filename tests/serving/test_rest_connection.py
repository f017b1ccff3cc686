"""Connections of HTTP/1.1 by themselves: the order of answers, applications of every kind, and what
follows a last request.
"""

import asyncio
import contextlib
import functools
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import uvloop

from infuse.serving.config import Limits
from infuse.serving.transports.rest.asgi import Application
from infuse.serving.transports.rest.deadline import ANSWER, BODY, HEAD, Deadline, seconds_by_phase
from tests.serving import rest_tools
from tests.serving.rest_tools import reply, serving

pytestmark = pytest.mark.row("S1")


@pytest.fixture(scope="module", params=[asyncio, uvloop], ids=["asyncio", "uvloop"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything here is so in both loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            globals(), "serving", functools.partial(rest_tools.serving, loop_of=request.param)
        )
        yield


async def send(sender: Any, *parts: bytes, length: bool = True, status: int = 200) -> None:
    """An answer in parts."""
    headers = [(b"content-length", b"%d" % sum(map(len, parts)))] if length else []
    await sender({"type": "http.response.start", "status": status, "headers": headers})
    for part in parts:
        await sender({"type": "http.response.body", "body": part, "more_body": True})
    await sender({"type": "http.response.body"})


async def echo(scope: dict[str, Any], receive: Any, sender: Any) -> None:
    """The path and the body."""
    message = await receive()
    if message["type"] == "http.request":
        await send(sender, scope["raw_path"], b" ", message["body"])


def get(path: str, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"GET {path} HTTP/{version}", "Host: x", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    return get(path, f"Content-Length: {len(body)}", *headers).replace(b"GET", b"POST", 1) + body


def rest(connection: socket.socket) -> bytes:
    """All that is still sent, up to the end of the connection, in order or not."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def all_of(application: Application, sent: bytes, limits: Limits | None = None) -> bytes:
    """What is sent to the end of a connection on which no more is asked for."""
    with serving(application, limits) as running, closing(running.connect()) as connection:
        connection.sendall(sent)
        return rest(connection)


# -------------------------------------------------------------------------------- order and the end


def test_a_refusal_comes_after_the_answers_to_what_came_before() -> None:
    with serving(echo) as running, closing(running.connect()) as connection:
        connection.sendall(get("/a") + post("/b", b"1") + b"what is this\r\n\r\n" + get("/c"))
        assert reply(connection).body == b"/a "
        assert reply(connection).body == b"/b 1"
        refusal = reply(connection)
        assert (refusal.status, refusal.headers["connection"]) == (400, "close")
        assert rest(connection) == b""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("wish", [(), ("Connection: Upgrade", "Upgrade: h2c")])
def test_nothing_is_read_after_the_last_request(version: str, wish: tuple[str, ...]) -> None:
    paths = []

    async def noting(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        paths.append(scope["path"])
        await echo(scope, receive, sender)

    if wish:
        headers = ("Connection: close, Upgrade", "Upgrade: h2c")
    else:
        headers = ("Connection: keep-alive" if version == "1.0" else "Connection: close",)
    last = get("/last", *headers, version=version)
    answer = all_of(noting, get("/first") + last + get("/more") + b"\0no HTTP")
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"400" not in answer
    assert answer.endswith(b"connection: close\r\n\r\n/last ")
    assert paths == ["/first", "/last"]


def test_an_early_answer_that_ends_the_connection_is_found_by_who_still_sends() -> None:
    async def refusing(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        await send(sender, b"no", status=401)

    with serving(refusing) as running, closing(running.connect()) as connection:
        body = bytes(4 << 20)
        sender = threading.Thread(
            target=connection.sendall, args=(post("/", body, "Connection: close"),)
        )
        sender.start()
        answer = reply(connection)
        assert (answer.status, answer.body) == (401, b"no")
        sender.join(20)
        assert rest(connection) == b""


def test_an_early_answer_leaves_the_connection_as_it_was() -> None:
    async def hasty(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        await send(sender, scope["raw_path"])

    with serving(hasty) as running, closing(running.connect()) as connection:
        for size in (3, 300_000, 0):
            connection.sendall(post(f"/{size}", bytes(size)))
            assert reply(connection).body == b"/%d" % size


def test_callers_that_send_on_while_they_wait_are_held_up_and_lose_nothing() -> None:
    count, opened, release = 3000, [], threading.Event()

    async def slow(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        opened.append(scope["path"])
        while not release.is_set():
            await asyncio.sleep(0.005)
        await echo(scope, receive, sender)

    with serving(slow) as running, closing(running.connect()) as connection:
        sent = b"".join(post(f"/{number}", b"x" * 500) for number in range(count))
        sender = threading.Thread(target=connection.sendall, args=(sent,))
        sender.start()
        release.set()
        for number in range(count):
            assert reply(connection).body.startswith(b"/%d " % number)
        sender.join(20)
        assert len(opened) == count


def test_a_body_that_waits_for_the_answer_before_is_not_late() -> None:
    """The second request's body cannot be received: the time that it has begins afterwards."""

    async def slow(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(0.5)
        await echo(scope, receive, sender)

    limits = Limits(header_seconds=0.2, body_seconds=0.2)
    with serving(slow, limits) as running, closing(running.connect()) as connection:
        second = post("/second", b"all of it")
        connection.sendall(get("/slow") + second[:-3])
        assert reply(connection).body == b"/slow "
        connection.sendall(second[-3:])
        assert reply(connection).body == b"/second all of it"


def test_a_wish_for_another_protocol_has_a_body_that_is_announced() -> None:
    wish = ("Connection: Upgrade", "Upgrade: h2c")
    chunks = get("/a", *wish, "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n\r\n"
    assert all_of(echo, chunks).startswith(b"HTTP/1.1 400 ")
    many = get("/a", *wish) * 200
    with serving(echo) as running, closing(running.connect()) as connection:
        connection.sendall(many)
        assert [reply(connection).body for _ in range(200)] == [b"/a "] * 200


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a/b", b"/a/b", b""),
        ("//a", b"//a", b""),
        ("/a?b?c", b"/a", b"b?c"),
        ("/a%2Fb?", b"/a%2Fb", b""),
        ("/a?b#c", b"/a", b"b"),
        ("http://host:1/a?b", b"/a", b"b"),
    ],
)
def test_targets(target: str, path: bytes, query: bytes) -> None:
    scopes: list[dict[str, Any]] = []

    async def noting(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        scopes.append(scope)
        await echo(scope, receive, sender)

    with serving(noting) as running, closing(running.connect()) as connection:
        connection.sendall(get(target))
        assert reply(connection).status == 200
        assert (scopes[0]["raw_path"], scopes[0]["query_string"]) == (path, query)
        assert scopes[0]["client"] == connection.getsockname()
        assert scopes[0]["server"] == connection.getpeername()


@pytest.mark.parametrize("target", ["a", "http://host", "/\xe9"])
def test_targets_without_a_path(target: str) -> None:
    sent = get("/").replace(b"/", target.encode("latin-1"), 1)
    assert all_of(echo, sent).startswith(b"HTTP/1.1 400 ")


def test_callers_of_http_1_0_are_not_told_to_continue() -> None:
    with serving(echo) as running, closing(running.connect()) as connection:
        head = post("/a", b"x", "Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
        connection.sendall(head[:-1])
        connection.sendall(head[-1:])
        assert reply(connection).body == b"/a x"


# ------------------------------------------------------------------------------------- applications


def test_answers_of_unknown_length_go_out_in_chunks_as_they_come() -> None:
    read = threading.Event()

    async def streaming(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        await sender({"type": "http.response.start", "status": 200})
        await sender({"type": "http.response.body", "body": b"first", "more_body": True})
        while not read.is_set():
            await asyncio.sleep(0.005)
        await sender({"type": "http.response.body", "body": b"second"})

    with serving(streaming) as running, closing(running.connect()) as connection:
        connection.sendall(get("/"))
        answer = b""
        while not answer.endswith(b"\r\n\r\n5\r\nfirst\r\n"):
            answer += connection.recv(1)
        assert b"transfer-encoding: chunked\r\n" in answer
        read.set()
        rest_of_it = b"6\r\nsecond\r\n0\r\n\r\n"
        assert connection.recv(len(rest_of_it), socket.MSG_WAITALL) == rest_of_it
        connection.sendall(get("/", "Connection: close"))
        assert rest(connection).endswith(b"\r\n\r\n5\r\nfirst\r\n" + rest_of_it)


def test_answers_of_unknown_length_end_with_the_connection_in_http_1_0() -> None:
    async def streaming(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        await send(sender, b"a", b"b", length=False)

    answer = all_of(streaming, get("/", version="1.0"))
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"connection: close\r\n\r\nab")


@pytest.mark.parametrize("status", [204, 304])
def test_answers_that_have_no_body(status: int) -> None:
    async def bare(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        await send(sender, length=False, status=status)

    answer = all_of(bare, get("/", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in answer


def test_an_application_that_fails_is_answered_for(caplog: pytest.LogCaptureFixture) -> None:
    async def failing(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        raise ValueError("nobody may read this")

    with serving(failing) as running, closing(running.connect()) as connection:
        for _ in range(2):
            connection.sendall(get("/"))
            answer = reply(connection)
            assert (answer.status, answer.body) == (500, b"")
    assert "nobody may read this" in caplog.text


@pytest.mark.parametrize("raises", [True, False])
def test_an_application_that_breaks_off_ends_the_connection(raises: bool) -> None:
    async def breaking(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        headers = [(b"content-length", b"9999999")]
        await sender({"type": "http.response.start", "status": 200, "headers": headers})
        await sender({"type": "http.response.body", "body": bytes(2 << 20), "more_body": True})
        if raises:
            raise ValueError("it breaks off")

    assert len(all_of(breaking, get("/"))) < 9999999


def test_who_asks_for_more_than_the_body_learns_of_the_end() -> None:
    heard: list[str] = []
    begun, done = threading.Event(), threading.Event()

    async def listening(scope: dict[str, Any], receive: Any, sender: Any) -> None:
        heard.append((await receive())["type"])
        begun.set()
        if scope["path"] == "/answered":
            await send(sender, b"x")
        heard.append((await receive())["type"])
        done.set()

    with serving(listening) as running:
        for path in ("/answered", "/left"):
            heard.clear()
            begun.clear()
            done.clear()
            with closing(running.connect()) as connection:
                connection.sendall(get(path))
                if path == "/answered":
                    assert reply(connection).body == b"x"
                assert begun.wait(20)
                # An end of what is sent alone may come from a caller that still reads.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            assert done.wait(20)
            assert heard == ["http.request", "http.disconnect"]


# ---------------------------------------------------------------------------------------- deadlines


def test_a_phase_ends_when_its_own_time_is_over() -> None:
    now = [100.0]
    limits = Limits(header_seconds=1, body_seconds=5)
    deadline = Deadline(seconds_by_phase(limits), lambda: now[0])
    assert not deadline.is_over(100.9)
    assert deadline.is_over(101.0)
    deadline.enter(BODY, 1)
    now[0] = 104.0
    deadline.enter(BODY, 1)  # more of the same body
    assert deadline.is_over(105.0)
    deadline.enter(BODY, 2)
    assert not deadline.is_over(108.9)
    deadline.enter(ANSWER, 2)
    assert not deadline.is_over(1e300)
    deadline.enter(HEAD, 3)
    assert deadline.is_over(105.0)
