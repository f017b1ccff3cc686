"""Client processes that check every answer: HTTP with binary tensors, and gRPC.

Each request carries a number that no other one has, and an id; the answer must bear the id, and
what the version that it names makes of the number. A request without an answer within `PATIENCE`
seconds, or whose connection breaks, is lost.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Any, Final, Protocol

import numpy as np

from benchmarks.serving_calls import HOST, METHOD
from benchmarks.serving_faults import Kind, expected

PATIENCE: Final = 60.0
_FIRST: Final = 100_000
"""Numbers begin here: a difference of some versions is little beside them."""
_LAST: Final = 5_000_000  # times 1.5 and some, FP32 still holds every whole number
_COLUMNS: Final = 4
_SPREAD: Final = 1 << 20


@dataclass
class Tally:
    """What clients saw. `wrong`: the first few answers that were not right, in words."""

    right: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    wrong_count: int = 0
    lost: list[str] = field(default_factory=list)
    lost_count: int = 0

    def add(self, other: Tally) -> None:
        """Put the counts of two together."""
        self.right += other.right
        self.errors += other.errors
        self.versions += other.versions
        self.wrong = (self.wrong + other.wrong)[:20]
        self.lost = (self.lost + other.lost)[:20]
        self.wrong_count += other.wrong_count
        self.lost_count += other.lost_count

    @property
    def requests(self) -> int:
        """Requests that were sent."""
        return self.right + sum(self.errors.values()) + self.wrong_count + self.lost_count

    def note_wrong(self, text: str) -> None:
        """Count an answer that is not right."""
        self.wrong_count += 1
        self.wrong = [*self.wrong, text][:20]

    def note_lost(self, text: str) -> None:
        """Count a request that has no answer."""
        self.lost_count += 1
        self.lost = [*self.lost, text][:20]


@dataclass(frozen=True)
class Task:
    """What a client process does: so many connections over one protocol, alternating between
    models.
    """

    grpc: bool
    port: int
    connections: int
    models: tuple[str, ...]
    kinds: Mapping[str, Mapping[int, Kind]]
    number: int

    def kind(self, name: str, version: int) -> Kind:
        """What a version of a model is like: good, if nothing else is said."""
        return self.kinds.get(name, {}).get(version, "good")


@dataclass(frozen=True)
class Answer:
    """What came: an error in words, or id, version and outputs."""

    error: str = ""
    id: str = ""
    version: str = ""
    data: bytes = b""


class Caller(Protocol):
    """A connection."""

    async def call(self, name: str, id: str, array: np.ndarray[Any, Any]) -> Answer:
        """Ask once. OSError and the like when no answer comes."""

    async def close(self) -> None:
        """End it."""


class HttpCaller:
    """One connection that is kept, and opened again after an error of it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, name: str, id: str, array: np.ndarray[Any, Any]) -> Answer:
        """One POST with binary tensors both ways."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self.port)
        reader, writer = self._streams
        try:
            item: dict[str, Any] = {"name": "x", "shape": list(array.shape), "datatype": "FP32"}
            item["parameters"] = {"binary_data_size": array.nbytes}
            plain = {"id": id, "inputs": [item], "parameters": {"binary_data_output": True}}
            head = json.dumps(plain).encode()
            lines = (
                f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {HOST}\r\n"
                f"Inference-Header-Content-Length: {len(head)}\r\nContent-Length: "
                f"{len(head) + array.nbytes}\r\n\r\n"
            )
            writer.write(lines.encode() + head + array.tobytes())
            first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                key.lower(): value for key, _, value in (line.partition(": ") for line in rest)
            }
            body = await reader.readexactly(int(headers["content-length"]))
        except BaseException:
            writer.close()
            self._streams = None
            raise
        if headers.get("connection", "") == "close":
            await self.close()
        status = int(first.split()[1])
        if status != 200:
            return Answer(f"{status} {_code(json.loads(body)['error'])}")
        size = int(headers["inference-header-content-length"])
        told = json.loads(body[:size])
        return Answer("", told["id"], told["model_version"], body[size:])

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class GrpcCaller:
    """A channel of its own."""

    def __init__(self, port: int) -> None:
        import grpc.aio

        from infuse.serving.transports.rpc.schema import message

        self._channel = grpc.aio.insecure_channel(
            f"{HOST}:{port}", [("grpc.use_local_subchannel_pool", 1)]
        )
        self._request, response = message("ModelInferRequest"), message("ModelInferResponse")
        self._call = self._channel.unary_unary(METHOD, None, response.FromString)
        self._failure = grpc.aio.AioRpcError

    async def call(self, name: str, id: str, array: np.ndarray[Any, Any]) -> Answer:
        """One ModelInfer. What the server has not answered itself is an OSError."""
        tensor = {"name": "x", "datatype": "FP32", "shape": list(array.shape)}
        made = self._request(
            model_name=name, id=id, inputs=[tensor], raw_input_contents=[array.tobytes()]
        )
        try:
            found = await self._call(made.SerializeToString())
        except self._failure as error:
            text = error.details() or ""
            if "[INF-" not in text:
                raise ConnectionError(f"{error.code().name} {text}") from error
            return Answer(f"{error.code().name} {_code(text)}")
        return Answer("", found.id, found.model_version, found.raw_output_contents[0])

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


class Clients:
    """Client processes under way; `stop` ends them and gives what they saw."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        context = multiprocessing.get_context("spawn")
        self._done = context.Value("q", 0)
        self._stop = context.Event()
        self._results: Any = context.Queue()
        arguments = (self._done, self._stop, self._results)
        self._processes = [
            context.Process(target=_work, args=(task, *arguments), daemon=True) for task in tasks
        ]
        for process in self._processes:
            process.start()

    @property
    def answered(self) -> int:
        """Requests that have come to an end, about."""
        return int(self._done.value)

    def stop(self) -> Tally:
        """Let every client finish its request, and count together."""
        self._stop.set()
        total = Tally()
        for _ in self._processes:
            total.add(self._results.get(timeout=2 * PATIENCE))
        for process in self._processes:
            process.join()
        return total


def _work(task: Task, done: Synchronized[int], stop: Event, results: Any) -> None:
    """A client process."""
    results.put(asyncio.run(_clients(task, done, stop)))


async def _clients(task: Task, done: Synchronized[int], stop: Event) -> Tally:
    make: Callable[[int], Caller] = GrpcCaller if task.grpc else HttpCaller
    tally = Tally()
    counter = iter(range(1 << 60))
    ended = asyncio.Event()

    async def client(number: int) -> None:
        caller = make(task.port)
        while not ended.is_set():
            await _once(task, caller, next(counter), number, tally)
        await caller.close()

    async def watch() -> None:
        told, parent = 0, multiprocessing.parent_process()
        while not stop.is_set() and (parent is None or parent.is_alive()):
            await asyncio.sleep(0.05)
            with done.get_lock():
                done.value += tally.requests - told
            told = tally.requests
        ended.set()

    await asyncio.gather(watch(), *(client(number) for number in range(task.connections)))
    return tally


async def _once(task: Task, caller: Caller, count: int, number: int, tally: Tally) -> None:
    """One request, and the judgement of its answer."""
    name = task.models[(count + number) % len(task.models)]
    whole = task.number * _SPREAD + count
    value = float(_FIRST + 2 * (whole % ((_LAST - _FIRST) // 2)))
    rows = 1 + count % 3
    id = f"{task.number}-{count}"
    array = np.full((rows, _COLUMNS), value, np.float32)
    try:
        answer = await asyncio.wait_for(caller.call(name, id, array), PATIENCE)
    except (OSError, EOFError, asyncio.TimeoutError) as error:
        tally.note_lost(
            f"{name}, {'gRPC' if task.grpc else 'HTTP'}: {type(error).__name__} {error}"
        )
        return
    if answer.error:
        tally.errors[f"{name}: {answer.error}"] += 1
        return
    wanted = expected(task.kind(name, int(answer.version)), int(answer.version), value)
    found = np.frombuffer(answer.data, np.float32)
    if answer.id != id or found.size != array.size or not np.all(found == np.float32(wanted)):
        shown = ", ".join(map(str, struct.unpack_from(f"<{min(4, found.size)}f", answer.data)))
        tally.note_wrong(
            f"{name} {answer.version}, request {id}: {answer.id}: {shown} instead of {wanted}"
        )
        return
    tally.right += 1
    tally.versions[f"{name} {answer.version}"] += 1


def _code(text: str) -> str:
    """The code of an error, and what follows it up to its first mark."""
    code, _, _ = text.partition("]")
    return code.lstrip("[")
