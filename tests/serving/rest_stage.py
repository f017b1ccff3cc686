"""An HTTP server on a socket for tests, and what they wait for."""

import asyncio
import functools
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from infuse.serving.config import Limits
from infuse.serving.transports.rest.app import DataApp
from tests.serving.rest_tools import (
    FakeEngine,
    Running,
    config,
    plain,
    reply,
    serving,
)

SMALL = plain([[1, 2, 3, 4]], [1, 4])
ECHOED = [1, 2, 3, 4]


def app(engine: FakeEngine | None = None, **fields: Any) -> DataApp:
    return DataApp(engine or FakeEngine(), config(**fields))


@pytest.fixture(scope="module", params=[asyncio, uvloop], ids=["asyncio", "uvloop"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Any:
    """Every test of the module runs in both loops."""
    with pytest.MonkeyPatch.context() as patch:
        loop_serving = functools.partial(serving, loop_of=request.param)
        patch.setattr(request.module, "serving", loop_serving)
        yield request.param


@pytest.fixture(scope="module")
def server(loops: Any) -> Iterator[Running]:
    limits = Limits(request_bytes=4 << 20)
    with serving(app(limits=limits), limits, loop_of=loops) as running:
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
