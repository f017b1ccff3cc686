"""A measurement: a server, a model, and levels of load one after the other."""

from __future__ import annotations

import asyncio
import signal
import threading
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from infuse.errors import OptionError
from infuse.options.serving import CallOptions, LoadPlan
from infuse.serving.load.caller_tls import CallerTls
from infuse.serving.load.levels import Level, Stage, staged_level
from infuse.serving.load.processes import shared_level, shares
from infuse.serving.load.remote import REFUSALS, Call, Client, Failure, RemoteModel
from infuse.serving.messages import Tensor

_SCHEMES: Final = ("http", "https", "grpc", "grpcs")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Target:
    """A model of a server, and how it is called; `tls` is for https and grpcs."""

    url: str
    model: str
    options: CallOptions
    tls: CallerTls


@dataclass(frozen=True)
class Measurement:
    """What was measured; `interrupted`: before the plan was done."""

    model: RemoteModel
    inputs: Sequence[Tensor]
    request_bytes: int
    levels: Sequence[Level]
    interrupted: bool

    @property
    def is_refused(self) -> bool:
        """Whether requests failed, and none did not."""
        failed = any(level.failed for level in self.levels)
        return failed and not any(level.latencies for level in self.levels)


def connect(target: Target, connections: int) -> Client:
    """A client for a target. OptionError for a URL of another scheme; nothing is sent yet."""
    parts = _address(target.url)
    options = target.options
    common = (target.model, options.version, options.secret, options.timeout, connections)
    target.tls.check_scheme(target.url)
    if parts.scheme.startswith("http"):
        from infuse.serving.load.http_client import HttpClient

        context = target.tls.context() if parts.scheme == "https" else None
        return HttpClient(target.url, *common, json_tensors=options.json_tensors, tls=context)
    if options.json_tensors:
        raise OptionError("gRPC has no JSON tensors", hint="leave --json-tensors out")
    if parts.path.strip("/") or parts.query:
        raise OptionError(f"the address {target.url!r} has a path", hint="gRPC takes host:port")
    from infuse.serving.load.rpc_client import RpcClient

    credentials = target.tls.credentials() if parts.scheme == "grpcs" else None
    return RpcClient(parts.netloc, *common, credentials=credentials)


def _address(url: str) -> urllib.parse.SplitResult:
    """The parts of a server's URL; OptionError where it is none."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_complete = bool(parts.hostname) and (parts.port or parts.scheme.startswith("http"))
    except ValueError:
        is_complete = False
    if not is_complete or parts.scheme not in _SCHEMES:
        raise OptionError(
            f"{url!r} is not the address of a server",
            hint="write it as http://host:8000 or grpc://host:8001",
        )
    return parts


async def measure(
    target: Target,
    plan: LoadPlan,
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

        async def one(stage: Stage, stop: asyncio.Event) -> Level:
            if plan.processes == 1:
                return await staged_level(calls, model.examples(requests[0]), stage, stop)
            parts = shares(stage, plan.processes)
            own = partial(connect, target, plan.connections)
            return await shared_level(own, model, requests, parts, stop)

        levels, interrupted = await _levels(plan, one, progress)
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


def _stages(plan: LoadPlan) -> list[Stage]:
    return [
        Stage(callers, rate, plan.seconds, plan.warm_up, (plan.seed, number))
        for number, (callers, rate) in enumerate(plan.loads)
    ]


async def _levels(
    plan: LoadPlan, one: Callable[[Stage, asyncio.Event], Awaitable[Level]], progress: Progress
) -> tuple[list[Level], bool]:
    """The levels of a plan, each by `one`, as far as they came; and whether they were
    interrupted.
    """
    levels: list[Level] = []
    stages = _stages(plan)
    with _interruption() as stop:
        for number, stage in enumerate(stages):
            named = f"{stage.callers} callers" if stage.callers else f"{stage.rate:g} requests/s"
            progress(named, number, len(stages))
            level = await one(stage, stop)
            if level.requests or not level.interrupted:
                levels.append(level)
            if stop.is_set():
                break
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
