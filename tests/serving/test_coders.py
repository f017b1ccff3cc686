"""Processes that read and write large messages: right results, errors of ours, and what becomes of
their ends.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import InfuseError, RequestError, RuntimeFailure, TooLargeError, UnavailableError
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.transports.coders import Coders, pool
from infuse.serving.transports.coders.memory import Memory, joined
from infuse.serving.transports.coders.messages import Done, Job
from infuse.serving.transports.rest import codec, large
from infuse.serving.transports.rpc import codec as rpc_codec, large as rpc_large
from tests.serving.rest_tools import plain

pytestmark = pytest.mark.row("S1")

ROOT = Path(__file__).parents[2]

VALUES: dict[str, Any] = {
    "BOOL": [True, False] * 20,
    "UINT8": list(range(0, 250, 5)),
    "INT64": [(-1) ** n * (1 << n) for n in range(62)],
    "UINT64": [(1 << 64) - 1] * 20,
    "FP32": [0.5, -1e-45, float("nan"), float("-inf")] * 9,
    "FP64": [0.1, -5e-324, 1.7e308] * 9,
    "BYTES": ["a,b", "[", "", "é\n", '"]'] * 2000,
}


# ----------------------------------------------------------------------------------- what coders do


@pytest.fixture(autouse=True)
def this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coders look for modules where this process does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path[1:]]))


def end(job: Job, source: Memory, target: Memory) -> Done:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def hang(job: Job, source: Memory, target: Memory) -> Done:
    sum(range(10**12))  # in C, with Python's lock
    raise AssertionError


def devour(job: Job, source: Memory, target: Memory) -> Done:
    return Done(config=str(len(bytearray(1 << 50))))


def lie(job: Job, source: Memory, target: Memory) -> Done:
    return Done(files=[("a", (0, 1 << 40))])


@asynccontextmanager
async def coders(most: int = 2) -> AsyncIterator[Coders]:
    made = Coders(1 << 20, most)
    try:
        yield made
    finally:
        await made.close()
        assert not made.processes


async def works(made: Coders) -> None:
    request = await made.request(large.request, plain([1, 2], [2], "INT32"), None, "m", "3")
    assert (request.model, request.version, request.inputs[0].data.tolist()) == ("m", "3", [1, 2])


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


# ----------------------------------------------------------------------------------------- messages


def test_requests_and_answers_are_as_in_one_process() -> None:
    async def main() -> None:
        async with coders() as made:
            for datatype, values in VALUES.items():
                more = {"id": "7", "parameters": {"priority": 2, "a": 0.5, "b": "c"}}
                body = plain(values, [len(values)], datatype, outputs=[{"name": "y"}], **more)
                one = codec.decode(body, None, "m", "2")
                other = await made.request(large.request, body, None, "m", "2")
                assert other.inputs[0].data.dtype == one.inputs[0].data.dtype
                np.testing.assert_array_equal(other.inputs[0].data, one.inputs[0].data)
                for request in (one, other):
                    request.inputs = []
                    request.timeline = one.timeline
                assert other == one
                array = codec.decode(body, None, "m").inputs[0].data
                for parameters in (
                    {},
                    {"binary_data": True},
                    *([{"classification": 2}] if datatype != "BYTES" else []),
                ):
                    asked = InferRequest("m", outputs=[RequestedOutput("y", parameters)])
                    labels = [b"zero", b"one"]
                    response = InferResponse(
                        "m", "2", "7", [Tensor("y", datatype, array, {"p": 1}, labels)], {"q": "r"}
                    )
                    length, parts = codec.encode(asked, response)
                    found, views = await made.answer(large.answer, asked, response)
                    assert (found, [bytes(view) for view in views]) == (
                        length,
                        [bytes(part) for part in parts],
                    )
                    for work, write in (
                        (rpc_large.answer, rpc_codec.encode),
                        (rpc_large.streamed_answer, rpc_codec.encode_streamed),
                    ):
                        assert await made.message(work, asked, response) == write(asked, response)

    asyncio.run(main())


def test_binary_tensors_lie_behind_large_json() -> None:
    number = {"name": "b", "shape": [2], "datatype": "INT32", "parameters": {"binary_data_size": 8}}
    nothing = {"name": "z", "shape": [0, 3], "datatype": "FP32", "data": []}
    head = json.dumps({"inputs": [number, nothing]}).encode()

    async def main() -> None:
        async with coders() as made:
            request = await made.request(large.request, head + bytes(range(8)), len(head), "m")
            assert request.inputs[0].data.tobytes() == bytes(range(8))
            assert request.inputs[1].data.shape == (0, 3)

    asyncio.run(main())


@pytest.mark.parametrize(("datatype", "data", "rest", "rpc"), [
    ("BYTES", [b"a" * 50, b"b" * 51], True, True),
    ("BYTES", [b"a" * 50, b"b" * 50], False, False),
    ("BYTES", [b""] * 6, True, True),
    ("FP32", [0.5] * 6, True, False),
    ("FP32", [0.5] * 5, False, False),
])  # fmt: skip
def test_answers_are_long_by_their_elements_or_by_the_bytes_of_their_texts(
    datatype: str, data: list[Any], rest: bool, rpc: bool
) -> None:
    array = np.array(data, object if datatype == "BYTES" else np.float32)
    answer = InferResponse("m", "1", "", [Tensor("y", datatype, array)])
    assert codec.is_long(InferRequest("m"), answer, 5, 100) == rest
    assert rpc_codec.is_long_answer(InferRequest("m"), answer, 5, 100) == rpc
    binary = InferRequest("m", parameters={"binary_data_output": True})
    assert codec.is_long(binary, answer, 5, 100) == rpc, "numbers are copied as they are"


def test_what_is_wrong_is_told_as_in_one_process() -> None:
    bodies = [
        plain([1], [2]),
        b"{",
        plain([0.5], [1], "INT8"),
        b'{"inputs":[{"name":"%b"}]}' % (b"a" * 9999),
    ]

    async def main() -> None:
        async with coders() as made:
            for body in bodies:
                with pytest.raises(RequestError) as one:
                    codec.decode(body, None, "m")
                with pytest.raises(RequestError) as other:
                    await made.request(large.request, body, None, "m")
                assert str(other.value) == str(one.value)[:4200]
            assert len(made.processes) == 1

    asyncio.run(main())


def test_bytes_are_joined() -> None:
    assert joined([b"abc", b"", memoryview(b"de"), bytes(100)]) == b"abcde" + bytes(100)


# ---------------------------------------------------------------------------------------- processes


def test_none_is_started_before_it_is_needed() -> None:
    async def main() -> None:
        async with coders() as made:
            assert not made.processes
            await works(made)
            assert len(made.processes) == 1
            await works(made)
            assert len(made.processes) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("work", "kind"), [(end, UnavailableError), (devour, TooLargeError), (lie, RuntimeFailure)]
)
def test_one_that_fails_costs_its_own_message_only(work: Any, kind: type[InfuseError]) -> None:
    async def main() -> None:
        async with coders() as made:
            await works(made)
            for _ in range(2):
                with pytest.raises(kind) as caught:
                    await asyncio.gather(made.load(work, b"x"), works(made))
                assert "Hint" in str(caught.value) or kind is RuntimeFailure
                await works(made)

    asyncio.run(main())


def test_one_that_is_killed_while_it_rests_is_replaced() -> None:
    async def main() -> None:
        async with coders() as made:
            await works(made)
            (pid,) = made.processes
            os.kill(pid, signal.SIGKILL)
            until(lambda: ended(pid) and not any(coder.alive for coder, _ in made._idle))
            await works(made)
            assert made.processes != [pid]

    asyncio.run(main())


def test_a_caller_that_goes_ends_its_own_only() -> None:
    async def main() -> None:
        async with coders(1) as made:
            await works(made)
            (pid,) = made.processes
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(made.load(hang, b"x"), 0.2)
            await works(made)
            await asyncio.to_thread(until, lambda: ended(pid))

    asyncio.run(main())


def test_messages_wait_for_their_turn() -> None:
    async def main() -> None:
        async with coders(1) as made:
            await asyncio.gather(*(works(made) for _ in range(8)))
            assert len(made.processes) == 1

    asyncio.run(main())


def test_the_end_waits_for_none() -> None:
    async def main() -> None:
        made = Coders(1 << 20)
        waiting = asyncio.create_task(made.load(hang, b"x"))
        while not made.processes:
            await asyncio.sleep(0.01)
        await made.close()
        with pytest.raises(UnavailableError):
            await waiting
        with pytest.raises(UnavailableError, match="stopping"):
            await works(made)

    asyncio.run(main())


def test_those_without_work_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_IDLE_SECONDS", 0.01)

    async def main() -> None:
        async with coders() as made:
            await works(made)
            limit = time.monotonic() + 60
            while made.processes:
                assert time.monotonic() < limit
                await asyncio.sleep(0.01)
            await works(made)

    asyncio.run(main())


SERVER = """
import asyncio, sys
from infuse.serving.transports.coders import Coders
from tests.serving.test_coders import hang

async def main():
    coders = Coders(1 << 20)
    task = asyncio.create_task(coders.load(hang, b"x"))
    while not coders.processes:
        await asyncio.sleep(0.01)
    print(*coders.processes, flush=True)
    await task

asyncio.run(main())
"""


def test_none_outlives_the_server() -> None:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert not ended(pid)
        server.kill()
    until(lambda: ended(pid))
