"""Behaviours of `docs/serving_tests.md` that the tests of the HTTP server lack: very many chunks,
exact limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from infuse.serving.config import Limits
from infuse.serving.transports.rest.app import DataApp
from tests.serving.rest_tools import (
    FakeEngine,
    Running,
    binary,
    config,
    plain,
    post,
    reply,
    serving,
)

pytestmark = pytest.mark.row("S1")

LIMIT = 1 << 20
SMALL = plain([[1, 2, 3, 4]], [1, 4])


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    limits = Limits(request_bytes=LIMIT)
    with serving(DataApp(FakeEngine(), config(limits=limits)), limits) as running:
        yield running


@pytest.mark.parametrize(
    "path", ["models/echo/infer", "models/words/infer", "repository/index", "logging"]
)
def test_a_body_may_come_in_very_many_chunks(server: Running, path: str) -> None:
    """Half a million chunks of one byte are no request, and are answered like one."""
    chunks = b"1\r\nA\r\n" * 500_000 + b"0\r\n\r\n"
    raw = "Inference-Header-Content-Length: 0"
    with closing(server.connect()) as connection:
        headers = ["Transfer-Encoding: chunked", *([raw] if path.endswith("words/infer") else [])]
        connection.sendall(post(chunks, *headers, path=f"/v2/{path}", length=-1))
        answer = reply(connection)
        if path.endswith("words/infer"):
            assert answer.status == 200
            assert answer.body.endswith(b"A" * 500_000)
        else:
            assert answer.status in (400, 403, 405, 413)
            assert answer.error
        connection.sendall(post(SMALL))
        assert reply(connection).json["outputs"][0]["data"] == [1, 2, 3, 4]


def test_a_good_body_in_chunks_of_one_byte_is_good(server: Running) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in SMALL) + b"0\r\n\r\n"
    with closing(server.connect()) as connection:
        connection.sendall(post(chunks, "Transfer-Encoding: chunked", length=-1))
        assert reply(connection).json["outputs"][0]["data"] == [1, 2, 3, 4]


def as_json(size: int) -> tuple[bytes, dict[str, str]]:
    """A JSON request of exactly this many bytes."""
    return SMALL + b" " * (size - len(SMALL)), {}


def as_binary(size: int) -> tuple[bytes, dict[str, str]]:
    """A binary request of exactly this many bytes."""
    rows = size // 16 - 64
    body, headers = binary(np.ones((rows, 4), np.float32))
    header = int(headers["inference-header-content-length"])
    grown = body[: header - 1] + b" " * (size - len(body)) + body[header - 1 :]
    return grown, {**headers, "inference-header-content-length": str(header + size - len(body))}


@pytest.mark.parametrize("make", [as_json, as_binary])
@pytest.mark.parametrize("more", [-1, 0, 1, 1000])
def test_the_limit_of_a_request_is_exact(server: Running, make: Any, more: int) -> None:
    body, headers = make(LIMIT + more)
    assert len(body) == LIMIT + more
    with closing(server.connect()) as connection:
        connection.sendall(post(body, *(f"{name}: {value}" for name, value in headers.items())))
        answer = reply(connection)
        if more > 0:
            assert answer.status == 413
            assert str(LIMIT) in answer.error
        else:
            assert answer.status == 200
    with closing(server.connect()) as connection:
        connection.sendall(post(SMALL))
        assert reply(connection).status == 200
