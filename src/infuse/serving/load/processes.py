"""A level of load that several processes send together, each a part of it."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from typing import Any, Final

from infuse.errors import RuntimeFailure
from infuse.serving.load.levels import Level, Stage, staged_level
from infuse.serving.load.remote import Client, RemoteModel
from infuse.serving.messages import Tensor

_LOOK_SECONDS: Final = 0.05
_MOST_START_SECONDS: Final = 120.0
"""In which all processes of a level must have started."""
Connect = Callable[[], Client]


def shares(stage: Stage, processes: int) -> list[Stage]:
    """A stage in parts for so many processes, of callers at most one for each."""
    if not stage.callers:
        part = replace(stage, rate=stage.rate / processes)
        return [replace(part, seed=(*stage.seed, number)) for number in range(processes)]
    count = min(processes, stage.callers)
    whole, rest = divmod(stage.callers, count)
    return [replace(stage, callers=whole + (number < rest)) for number in range(count)]


async def shared_level(
    connect: Connect,
    model: RemoteModel,
    requests: Sequence[Sequence[Tensor]],
    parts: Sequence[Stage],
    stop: asyncio.Event,
) -> Level:
    """One level, of which each process makes a part; they begin together. `connect` must be
    picklable. RuntimeFailure where a process ends without an answer.
    """
    context = multiprocessing.get_context("spawn")
    ended, barrier = context.Event(), context.Barrier(len(parts))
    receivers: list[Connection] = []
    processes = []
    for part in parts:
        receiver, sender = context.Pipe(duplex=False)
        work = (connect, model, requests, part, barrier, ended, sender)
        process = context.Process(target=_work, args=work, daemon=True)
        process.start()
        sender.close()
        receivers.append(receiver)
        processes.append(process)
    watching = asyncio.ensure_future(_told(stop, ended))
    try:
        answers = [asyncio.to_thread(receiver.recv) for receiver in receivers]
        levels: list[Level] = list(await asyncio.gather(*answers))
    except EOFError as error:
        raise RuntimeFailure("a process of the load generator ended without an answer") from error
    finally:
        ended.set()
        watching.cancel()
        for process in processes:
            await asyncio.to_thread(process.join, 2 * _LOOK_SECONDS)
            process.kill()
    return merged(levels)


def merged(levels: Sequence[Level]) -> Level:
    """What several processes saw, as one level."""
    whole = Level(levels[0].loop, sum(level.load for level in levels), levels[0].examples)
    for level in levels:
        whole.latencies += level.latencies
        whole.delays += level.delays
        for kind, errors in level.errors.items():
            known = whole.errors.setdefault(kind, replace(errors, count=0))
            known.count += errors.count
        whole.sent += level.sent
        whole.received += level.received
        whole.seconds = max(whole.seconds, level.seconds)
        whole.processor_seconds += level.processor_seconds
        whole.interrupted |= level.interrupted
    return whole


async def _told(stop: asyncio.Event, ended: Event) -> None:
    await stop.wait()
    ended.set()


def _work(
    connect: Connect,
    model: RemoteModel,
    requests: Sequence[Sequence[Tensor]],
    part: Stage,
    barrier: Barrier,
    ended: Event,
    sender: Connection,
) -> None:
    """A process; Ctrl-C reaches it by way of `ended`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def sent() -> Level:
        client = connect()
        try:
            calls = [client.call(model, inputs) for inputs in requests]
            stop = asyncio.Event()
            looking = asyncio.ensure_future(_look(ended, stop))
            try:
                await asyncio.to_thread(barrier.wait, _MOST_START_SECONDS)
                return await staged_level(calls, model.examples(requests[0]), part, stop)
            finally:
                looking.cancel()
        finally:
            await client.close()

    sender.send(runner()(sent()))
    sender.close()


async def _look(ended: Event, stop: asyncio.Event) -> None:
    """Set `stop` once the other process has said so."""
    while not ended.is_set():
        await asyncio.sleep(_LOOK_SECONDS)
    stop.set()


def runner() -> Callable[..., Any]:
    """What runs a coroutine: in uvloop's loop where that is installed."""
    with suppress(ImportError):
        import uvloop

        return uvloop.run
    return asyncio.run
