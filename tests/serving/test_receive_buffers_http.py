"""Bodies of HTTP requests that are received in memory of workers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import InfuseError
from infuse.serving.config import Limits, Listener, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.transports.rest.app import DataApp
from infuse.serving.transports.rest.server import HttpServer
from infuse.serving.workers.process_executor import ProcessExecutor
from infuse.serving.workers.slots import RECEIVE_BUFFERS
from tests.serving import models
from tests.serving.receive_stage import BYTES, ROWS, copies, taken

__all__ = ["copies"]
pytestmark = pytest.mark.row("S5")


@asynccontextmanager
async def served(tmp_path: Path, **fields: Any) -> AsyncIterator[tuple[Engine, HttpServer]]:
    """An engine with workers, and its data port."""
    config = models.config(
        tmp_path, **({"workers": Workers(), "control": "none", "limits": Limits()} | fields)
    )
    async with Engine(config) as engine:
        server = HttpServer(
            DataApp(engine, config), Listener(host="127.0.0.1", port=0), config.limits
        )
        await server.start()
        try:
            yield engine, server
        finally:
            await server.stop(5.0)


def executor_of(engine: Engine, name: str = "add") -> ProcessExecutor:
    (version,) = engine.models[name].versions.values()
    executor = version._execution.batcher.places.executors[0]
    assert isinstance(executor, ProcessExecutor)
    return executor


def message(array: np.ndarray, head: bytes | None = None, path: str = "add") -> bytes:
    """A request over HTTP with a binary tensor; `head`: its JSON, b"": none."""
    data = array.tobytes()
    if head is None:
        parameters = {"binary_data_size": len(data)}
        tensor = {
            "name": "x",
            "datatype": "FP32",
            "shape": list(array.shape),
            "parameters": parameters,
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    start = (
        f"POST /v2/models/{path}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: "
        f"{len(head) + len(data)}\r\n"
    )
    return (
        start.encode()
        + f"Inference-Header-Content-Length: {len(head)}\r\n\r\n".encode()
        + head
        + data
    )


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Status, JSON and binary data of an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    size = int(headers.get("inference-header-content-length", len(body)))
    return int(lines[0].split()[1]), body[:size], body[size:]


async def ask(server: HttpServer, *requests: bytes) -> list[tuple[int, bytes, bytes]]:
    """One request after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    found = []
    for request in requests:
        writer.write(request)
        found.append(await answer(reader))
    writer.close()
    return found


def large(first: float) -> np.ndarray:
    return np.arange(first, first + ROWS * 4, dtype=np.float32).reshape(ROWS, 4)


@pytest.mark.parametrize("raw", [False, True])
def test_large_bodies_are_not_copied(raw: bool, tmp_path: Path, copies: list[int]) -> None:
    models.write(tmp_path / "models", "add", models.adder(1, (ROWS, 4)))

    async def check() -> None:
        async with served(tmp_path) as (engine, server):
            copies.clear()
            given = [large(value) for value in (0, 5, -9)]
            found = await ask(server, *(message(array, b"" if raw else None) for array in given))
            for array, (status, _, data) in zip(given, found):
                assert status == 200
                np.testing.assert_array_equal(
                    np.frombuffer(data, np.float32).reshape(ROWS, 4), array + 1
                )
            assert copies == []
            await models.until(lambda: not taken(executor_of(engine)), "loans are given back")

    asyncio.run(check())


def test_callers_at_once_get_their_own_answers(tmp_path: Path) -> None:
    models.write(
        tmp_path / "models", "add", models.adder(1), config="batching: {max_queue: 1000000}\n"
    )

    async def check() -> None:
        async with served(tmp_path) as (engine, server):

            async def caller(number: int) -> None:
                given = [large(1000.0 * number + turn) for turn in range(6)]
                for array, (status, _, data) in zip(given, await ask(server, *map(message, given))):
                    assert status == 200
                    np.testing.assert_array_equal(
                        np.frombuffer(data, np.float32).reshape(ROWS, 4), array + 1
                    )

            await asyncio.gather(*map(caller, range(8)))
            await models.until(lambda: not taken(executor_of(engine)), "loans are given back")

    asyncio.run(check())


@pytest.mark.parametrize(
    "head",
    [
        (
            b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], '
            b'"parameters": {"binary_data_size": 16}}]}'
        ),
        b'{"inputs": [',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}',
    ],
)
def test_a_refused_body_is_given_back(head: bytes, tmp_path: Path) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        async with served(tmp_path) as (engine, server):
            given = large(0.0)
            found = await ask(server, *[message(given, head)] * 3, message(given))
            assert [each[0] for each in found] == [400] * 3 + [200]
            await models.until(lambda: not taken(executor_of(engine)), "loans are given back")

    asyncio.run(check())


def test_callers_that_stall_keep_no_others_from_being_answered_and_give_back_what_they_had(
    tmp_path: Path,
) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        async with served(tmp_path) as (engine, server):
            executor = executor_of(engine)
            stalled = []
            for _ in range(4):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(message(large(0.0))[: BYTES // 2])
                stalled.append(writer)
            await models.until(
                lambda: len(executor._slots._buffers) == RECEIVE_BUFFERS,
                "all loans are taken",
            )
            ((status, _, data),) = await ask(server, message(large(3.0)))
            assert status == 200
            np.testing.assert_array_equal(
                np.frombuffer(data, np.float32).reshape(ROWS, 4), large(4.0)
            )
            for writer in stalled:
                writer.transport.abort()
            await models.until(lambda: not taken(executor), "loans are given back")

    asyncio.run(check())


def test_shadows_are_given_what_the_caller_sent(tmp_path: Path) -> None:
    config = (
        'version_policy: {all: true}\nsplit: {"1": 1}\nshadow: {"2": 1.0}\n'
        "batching: {max_queue: 1000000}\n"
    )
    for version in (1, 2):
        models.write(tmp_path / "models", "add", models.adder(1), version, config)

    async def check() -> None:
        async with served(tmp_path) as (engine, server):
            found = await ask(server, *(message(large(value)) for value in range(20)))
            assert [each[0] for each in found] == [200] * 20

            def window() -> dict[str, int]:
                windows: dict[str, dict[str, int]] = engine.admin.traffic("add").describe()[
                    "windows"
                ]
                return windows.get("2", {"compared": 0})

            await models.until(lambda: window()["compared"] == 20, "all copies have run")
            assert window()["drifted"] == 0
            executors = [
                version._execution.batcher.places.executors[0]
                for version in engine.models["add"].versions.values()
            ]
            await models.until(lambda: not any(map(taken, executors)), "loans are given back")

    asyncio.run(check())


def test_json_alone_is_never_read_from_a_loan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))
    request = (
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
    )
    head = request.ljust(1 << 16)
    lent = []

    async def check() -> None:
        monkeypatch.setattr(Engine, "receive_buffer", lambda *asked: lent.append(asked))
        async with served(tmp_path) as (_, server):
            found = await ask(server, message(np.empty(0, np.float32), head), message(large(0.0)))
            assert [each[0] for each in found] == [200, 200]
            assert [size > BYTES for *_, size in lent] == [
                True
            ]  # for the second one, which has a tensor behind its JSON

    asyncio.run(check())


def test_there_is_no_loan_for_what_would_be_refused(tmp_path: Path) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        async with served(tmp_path) as (engine, server):
            assert engine.receive_buffer("add", "", BYTES) is not None
            assert engine.receive_buffer("add", "1", BYTES) is not None
            for model, version in (("none", ""), ("add", "7"), ("add", "canary")):
                assert engine.receive_buffer(model, version, BYTES) is None
            found = await ask(
                server, message(large(0.0), path="none"), message(large(0.0), path="add/versions/9")
            )
            assert [each[0] for each in found] == [404, 404]
            with pytest.raises(InfuseError):
                engine.models["add"].version("7")

    asyncio.run(check())
