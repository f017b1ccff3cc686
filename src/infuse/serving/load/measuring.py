"""A measurement: a server, a model, and levels of load one after the other."""

from __future__ import annotations

import asyncio
import signal
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from infuse.errors import OptionError
from infuse.serving.load.levels import Level, closed_level, open_level
from infuse.serving.load.remote import REFUSALS, Call, Client, Failure, RemoteModel
from infuse.serving.messages import Tensor

MOST_CONNECTIONS: Final = 1024
"""At once, to one server."""
_SCHEMES: Final = ("http", "https", "grpc", "grpcs")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Target:
    """A model of a server. `seconds`: the longest that an answer may take."""

    url: str
    model: str
    version: str = ""
    token: str = ""
    seconds: float = 60.0
    json_tensors: bool = False


@dataclass(frozen=True)
class Plan:
    """Levels of load, in their order, each for so many seconds after `warm_up` seconds of the same;
    `callers` of closed loops, `rates` of open ones.
    """

    callers: Sequence[int]
    rates: Sequence[float]
    seconds: float
    warm_up: float
    seed: int = 0

    @property
    def connections(self) -> int:
        return MOST_CONNECTIONS if self.rates else max(self.callers)


@dataclass(frozen=True)
class Measurement:
    """What was measured; `interrupted`: before the plan was done."""

    model: RemoteModel
    inputs: Sequence[Tensor]
    request_bytes: int
    levels: Sequence[Level]
    interrupted: bool


def connect(target: Target, connections: int) -> Client:
    """A client for a target. OptionError for a URL of another scheme; nothing is sent yet."""
    parts = urllib.parse.urlsplit(target.url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise OptionError(
            f"{target.url!r} is not the address of a server",
            hint="write it as http://host:8000 or grpc://host:8001",
        )
    common = (target.model, target.version, target.token, target.seconds, connections)
    if parts.scheme.startswith("http"):
        from infuse.serving.load.http_client import HttpClient

        return HttpClient(target.url, *common, json_tensors=target.json_tensors)
    if target.json_tensors:
        raise OptionError("gRPC has no JSON tensors", hint="leave --json-tensors out")
    if parts.path.strip("/") or parts.query:
        raise OptionError(f"the address {target.url!r} has a path", hint="gRPC takes host:port")
    from infuse.serving.load.rpc_client import RpcClient

    return RpcClient(parts.netloc, *common, secure=parts.scheme == "grpcs")


async def measure(
    target: Target,
    plan: Plan,
    inputs_of: Callable[[RemoteModel], Sequence[Sequence[Tensor]]],
    progress: Progress,
) -> Measurement:
    """Ask the server for the model, send it `inputs_of` that, and measure. SIGINT ends it early.

    Errors say that the server is not there, that it does not know the model, or that it refuses
    these inputs.
    """
    client = connect(target, plan.connections)
    try:
        model = await _described(client, target.url)
        requests = inputs_of(model)
        calls = [client.call(model, inputs) for inputs in requests]
        await _try(calls[0], target.url)
        levels, interrupted = await _levels(plan, calls, model.examples(requests[0]), progress)
        return Measurement(model, requests[0], calls[0].size, levels, interrupted)
    finally:
        await client.close()


async def _described(client: Client, where: str) -> RemoteModel:
    try:
        return await client.describe()
    except Failure as failure:
        raise failure.error(where) from failure


async def _try(call: Call, where: str) -> None:
    """One request, for the error where the server refuses all such requests; others are counted
    later.
    """
    try:
        await call.send()
    except Failure as failure:
        if failure.cause in REFUSALS:
            raise failure.error(where) from failure


async def _levels(
    plan: Plan, calls: Sequence[Call], examples: int, progress: Progress
) -> tuple[list[Level], bool]:
    """The levels of a plan as far as they came, and whether they were interrupted."""
    generator = np.random.default_rng(plan.seed)
    levels: list[Level] = []
    count = len(plan.callers) + len(plan.rates)
    with _interruption() as stop:

        async def at(callers: int, rate: float, seconds: float) -> Level:
            if callers:
                return await closed_level(calls, examples, callers, seconds, stop)
            return await open_level(calls, examples, rate, seconds, generator, stop)

        for callers, rate in [*((n, 0.0) for n in plan.callers), *((0, r) for r in plan.rates)]:
            name = f"{callers} callers" if callers else f"{rate:g} requests/s"
            progress(name, len(levels), count)
            if plan.warm_up:
                await at(callers, rate, plan.warm_up)
            if stop.is_set():
                break
            levels.append(await at(callers, rate, plan.seconds))
    return levels, stop.is_set()


@contextmanager
def _interruption() -> Iterator[asyncio.Event]:
    """An event that SIGINT sets, where this is the thread that gets signals."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    loop.add_signal_handler(signal.SIGINT, event.set)
    try:
        yield event
    finally:
        loop.remove_signal_handler(signal.SIGINT)
