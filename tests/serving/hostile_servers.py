"""A server that says what a test wants, and what hostile servers say."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SECRET = "a-token-of-an-administrator"
TRAFFIC: dict[str, Any] = {
    "model": "net",
    "shares": {"1": 1.0},
    "labels": {},
    "settled": None,
    "rollout": {"to": 2, "state": "running", "reason": ""},
}
X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
METADATA: dict[str, Any] = {"name": "net", "inputs": [X], "outputs": [{**X, "name": "y"}]}
Respond = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    respond: Respond
    seen: list[tuple[str, str, str, bytes]]

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token = self.headers.get("Authorization", "")
        self.seen.append((self.command, self.path, token, body))
        try:
            type(self).respond(self)
        except ConnectionError:  # the client has heard enough
            self.close_connection = True

    def say(self, content: Any, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say_without_end(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        while True:
            self.wfile.write(b" " * 65536)


class Quiet(ThreadingHTTPServer):
    """Says nothing of clients that have heard enough."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request, client_address


@contextmanager
def server(respond: Respond) -> Iterator[tuple[str, list[tuple[str, str, str, bytes]]]]:
    """Its address, and what it was asked."""
    kind = type("Kind", (Handler,), {"respond": staticmethod(respond), "seen": []})
    made = Quiet(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}", kind.seen  # type: ignore[attr-defined]
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def outputs(count: int) -> dict[str, Any]:
    """Metadata with so many outputs."""
    return {**METADATA, "outputs": [{**X, "name": f"y{n}"} for n in range(count)]}


def shaped(*shape: Any, **fields: Any) -> dict[str, Any]:
    """Metadata with an input of this shape."""
    return {**METADATA, "inputs": [{**X, "shape": list(shape), **fields}]}


def round_and_round(handler: Handler) -> None:
    handler.say(b"", 307, Location=handler.path)


def _raw(*parts: bytes, again: bytes = b"", pause: float = 0.0) -> Respond:
    """Writes bytes as they are, and then the last of them without end."""

    def respond(handler: Handler) -> None:
        handler.close_connection = True
        for part in parts:
            handler.wfile.write(part)
        while again:
            handler.wfile.write(again)
            handler.wfile.flush()
            time.sleep(pause)

    return respond


def _answer(output: dict[str, Any]) -> Respond:
    """Metadata as they should be, and an answer with this output."""

    def respond(handler: Handler) -> None:
        handler.say(METADATA if handler.command == "GET" else {"outputs": [output]})

    return respond


def _bomb(handler: Handler) -> None:
    handler.say(gzip.compress(bytes(1 << 30), 1), Content_Encoding="gzip")


_OK: Final = b"HTTP/1.1 200 OK\r\n"
MODES: Final[Mapping[str, Respond]] = {
    "redirects to itself": round_and_round,
    "redirects to no address": lambda h: h.say(b"", 302, Location="http://["),
    "redirects to another scheme": lambda h: h.say(b"", 302, Location="ftp://127.0.0.1/x"),
    "redirects nowhere": lambda h: h.say(b"", 302),
    "redirects to a long address": lambda h: h.say(b"", 302, Location="/" + "x" * 60_000),
    "says HTML": lambda h: h.say(b"<html>hello</html>"),
    "says a list": lambda h: h.say([1]),
    "says nothing of it": lambda h: h.say({}),
    "says lists in lists": lambda h: h.say(b"[" * 1_000_000),
    "says objects in objects": lambda h: h.say(b'{"a":' * 1_000_000),
    "says a number without end": lambda h: h.say(b"1" * 10_000_000),
    "says a text of 30 MB": lambda h: h.say(json.dumps("x" * 30_000_000).encode()),
    "says a million numbers": lambda h: h.say(list(range(1_000_000))),
    "says a million names": lambda h: h.say({f"a{n}": n for n in range(1_000_000)}),
    "says what is no Unicode": lambda h: h.say(b"\xff\xfe" * 200_000, 500),
    "says escapes of terminals": lambda h: h.say({"error": "\x1b[31mred\x9b" * 10_000}, 400),
    "says nothing": lambda h: h.say(b"", 204),
    "says 999": lambda h: h.say(b"", 999),
    "says an error of 30 MB": lambda h: h.say({"error": "x" * 30_000_000}, 400),
    "compresses a gibibyte": _bomb,
    "claims to compress": lambda h: h.say(b"{}", Content_Encoding="br"),
    "says without end": Handler.say_without_end,
    "gives 10,000 outputs": lambda h: h.say(outputs(10_000)),
    "gives 4,000 outputs": lambda h: h.say(outputs(4000)),
    "gives a size below zero": lambda h: h.say(shaped(-2, 4)),
    "gives a size of 24 digits": lambda h: h.say(shaped(1 << 80)),
    "gives a shape of a tebibyte": lambda h: h.say(shaped(1 << 20, 1 << 20)),
    "gives 100,000 sizes": lambda h: h.say(shaped(*[1] * 100_000)),
    "gives names of 5,000 characters": lambda h: h.say(shaped(1, name="x" * 5000)),
    "gives infinite sizes": lambda h: h.say(shaped(1e400)),
    "answers with 200,000 sizes": _answer({**X, "name": "y", "shape": [1 << 62] * 200_000}),
    "answers with a size below zero": _answer({**X, "name": "y", "shape": [-4, 1], "data": [1]}),
    "answers with 10,000,000 numbers": _answer(
        {**X, "name": "y", "shape": [1, 4], "data": [1] * 10_000_000}
    ),
    "answers with another output": _answer({**X, "name": "\x1b]0;", "shape": [1, 4], "data": [1]}),
    "hangs up": _raw(),
    "is no server of HTTP": _raw(b"220 mail.example ESMTP\r\n"),
    "says heads without end": _raw(_OK, again=b"X-Head: " + b"x" * 4000 + b"\r\n"),
    "says one line without end": _raw(b"HTTP/1.1 200 ", again=b"x" * 4096),
    "says 100 Continue without end": _raw(again=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "says a length of 20 digits": _raw(_OK, b"Content-Length: 99999999999999999999\r\n\r\n{}"),
    "says a length below zero": _raw(_OK, b"Content-Length: -5\r\n\r\n{}"),
    "says two lengths": _raw(_OK, b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}"),
    "promises more than it says": _raw(_OK, b"Content-Length: 900\r\n\r\n{}"),
    "says chunks without end": _raw(
        _OK, b"Transfer-Encoding: chunked\r\n\r\n", again=b"1000\r\n" + b" " * 4096 + b"\r\n"
    ),
    "says a chunk of 2^60": _raw(
        _OK, b"Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n", again=b" " * 4096
    ),
    "says one byte at a time": _raw(
        _OK, b"Content-Length: 1000000\r\n\r\n", again=b" ", pause=0.05
    ),
}
"""What hostile servers do."""
