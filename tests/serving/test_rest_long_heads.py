"""Heads of requests that are almost as long as they may be, and what follows them."""

from __future__ import annotations

from typing import Any

import pytest

from infuse.serving.config import Limits
from infuse.serving.transports.rest.reading import MOST_HEADER_BYTES, Refusal, RequestReader

BODY = bytes(range(256)) * 400


class Received:
    """What a reader tells of."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def opened(self, scope: Any, keep_alive: bool, expects_continue: bool) -> None:
        pass

    def completed(self, body: Any) -> None:
        self.bodies.append(bytes(body))


def request(size: int) -> bytes:
    """A request with a body, whose head has this size."""
    start = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\nX: "
    return (start + "x" * (size - len(start) - 4) + "\r\n\r\n").encode() + BODY


@pytest.mark.parametrize("size", [1000, 40_000, 60_000, MOST_HEADER_BYTES - 100, MOST_HEADER_BYTES])
@pytest.mark.parametrize("piece", [1 << 14, 10_007, 1 << 20])
def test_bodies_after_long_heads_are_whole(size: int, piece: int) -> None:
    received = Received()
    reader = RequestReader(received, Limits(), {"type": "http"}, None)  # type: ignore[arg-type]
    data = memoryview(request(size) * 2)
    while data:
        if reader.place is None:
            part = min(piece, len(data))
            reader.feed(data[:part])
        else:
            part = min(len(reader.place), piece, len(data))
            reader.place[:part] = data[:part]
            reader.placed(part)
        data = data[part:]
    assert received.bodies == [BODY, BODY]


@pytest.mark.parametrize("piece", [1 << 14, 1 << 20])
def test_a_longer_head_is_refused(piece: int) -> None:
    reader = RequestReader(Received(), Limits(), {"type": "http"}, None)  # type: ignore[arg-type]
    data = memoryview(request(MOST_HEADER_BYTES + 2))

    def read() -> None:
        for start in range(0, len(data), piece):
            reader.feed(data[start : start + piece])

    with pytest.raises(Refusal, match="longer than"):
        read()
