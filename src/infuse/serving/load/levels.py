"""Levels of load: callers that wait for their answers, or requests that come whether or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import numpy as np

from infuse.errors import OptionError
from infuse.runtime.session import Array
from infuse.serving.load.remote import Call, Failure
from infuse.serving.messages import JSON

_T = TypeVar("_T")
_PAUSE: Final = 0.01
"""Seconds that a caller waits after a connection failed, so that it does not try thousands of times
a second.
"""
MOST_REQUESTS: Final = 10_000_000
"""Of one level."""


@dataclass
class Errors:
    """Failures of a kind: how many, and what the first one said."""

    first: str
    count: int = 0


@dataclass
class Level:
    """What callers saw of a level of load.

    `load` is a number of callers (`closed`: each sends a request, waits for its answer, and sends
    the next) or of requests a second (`open`). `latencies` are the seconds of right answers, of an
    open loop from the intended time of sending on. `delays` are the seconds by which the generator
    itself sent later than intended.
    """

    loop: Literal["closed", "open"]
    load: float
    examples: int
    """In a request."""
    latencies: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    errors: dict[str, Errors] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    """From the first request to the last answer."""
    processor_seconds: float = 0.0
    """That the generator itself took."""
    interrupted: bool = False

    @property
    def failed(self) -> int:
        return sum(errors.count for errors in self.errors.values())

    @property
    def requests(self) -> int:
        """Requests that came to an end."""
        return len(self.latencies) + self.failed

    def to_dict(self, processes: int = 1) -> dict[str, JSON]:
        """What `processes` together saw, but for single latencies, as plain data."""
        right = len(self.latencies) / self.seconds
        return {
            "loop": self.loop,
            "load": self.load,
            "requests": self.requests,
            "failed": self.failed,
            "errors": [
                {"kind": kind, "count": errors.count, "first": errors.first}
                for kind, errors in self.errors.items()
            ],
            "seconds": self.seconds,
            "requests_per_second": right,
            "examples_per_second": right * self.examples,
            "sent_bytes": self.sent,
            "received_bytes": self.received,
            "generator_processors": self.processor_seconds / self.seconds / processes,
            "interrupted": self.interrupted,
        }

    async def request(self, call: Call, intended: float) -> Failure | None:
        """Send one, and count what comes of it."""
        self.sent += call.size
        try:
            size = await call.send()
        except Failure as failure:
            errors = self.errors.setdefault(failure.kind, Errors(failure.text))
            errors.count += 1
            return failure
        self.latencies.append(time.perf_counter() - intended)
        self.received += size
        return None


@dataclass(frozen=True)
class Stage:
    """A level to be: so many `callers`, or (none) `rate` requests a second, for `seconds` after
    `warm_up` seconds of the same.
    """

    callers: int
    rate: float
    seconds: float
    warm_up: float
    seed: tuple[int, ...] = (0,)


async def staged_level(
    calls: Sequence[Call], examples: int, stage: Stage, stop: asyncio.Event
) -> Level:
    """The level of a stage; what its warm-up saw is not in it."""
    generator = np.random.default_rng(stage.seed)

    async def level(seconds: float) -> Level:
        if stage.callers:
            return await closed_level(calls, examples, stage.callers, seconds, stop)
        return await open_level(calls, examples, stage.rate, seconds, generator, stop)

    if stage.warm_up:
        await level(stage.warm_up)
    return await level(stage.seconds)


async def closed_level(
    calls: Sequence[Call], examples: int, callers: int, seconds: float, stop: asyncio.Event
) -> Level:
    """So many callers for so long, who send `calls` in turn; until `stop` is set at most."""
    level = Level("closed", callers, examples)
    end = time.perf_counter() + seconds

    async def caller(number: int) -> None:
        while (now := time.perf_counter()) < end:
            failure = await level.request(calls[number % len(calls)], now)
            number += 1
            if failure is not None and failure.cause == "connection":
                await asyncio.sleep(_PAUSE)

    await _run(level, [caller(number) for number in range(callers)], stop)
    return level


async def open_level(
    calls: Sequence[Call],
    examples: int,
    rate: float,
    seconds: float,
    generator: np.random.Generator,
    stop: asyncio.Event,
) -> Level:
    """Requests at random times (a Poisson process), `rate` a second on average, until `stop` is set
    at most. None waits for the answer of another.
    """
    level = Level("open", rate, examples)
    times = arrivals(rate, seconds, generator)

    async def arriving() -> None:
        under_way: set[asyncio.Task[Failure | None]] = set()
        start = time.perf_counter()
        try:
            for number, intended in enumerate((start + times).tolist()):
                while (early := intended - time.perf_counter()) > 0:  # loops wake up too early too
                    await asyncio.sleep(early)
                level.delays.append(time.perf_counter() - intended)
                call = calls[number % len(calls)]
                task = asyncio.ensure_future(level.request(call, intended))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.gather(*under_way)
        finally:
            await _cancel(under_way)

    await _run(level, [arriving()], stop)
    return level


def arrivals(rate: float, seconds: float, generator: np.random.Generator) -> Array:
    """The times of a Poisson process in `[0, seconds)`, ascending; OptionError for too many."""
    if rate * seconds > MOST_REQUESTS:
        raise OptionError(
            f"{rate:g} requests a second for {seconds:g} s are more than {MOST_REQUESTS}",
            hint="a shorter time shows the same",
        )
    return np.sort(generator.uniform(0.0, seconds, generator.poisson(rate * seconds)))


async def _run(
    level: Level, work: Sequence[Coroutine[None, None, None]], stop: asyncio.Event
) -> None:
    """Do all of it, or until `stop` is set, and note what it took."""
    if stop.is_set():
        level.interrupted = True
        for each in work:
            each.close()
        return
    started, processor = time.perf_counter(), time.process_time()
    tasks = [asyncio.ensure_future(each) for each in work]
    whole: asyncio.Future[Any] = asyncio.gather(*tasks)
    stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({whole, stopped}, return_when=asyncio.FIRST_COMPLETED)
        level.interrupted = not whole.done()
        if whole.done():
            whole.result()
    finally:
        await _cancel([stopped, *tasks])
        with suppress(asyncio.CancelledError):
            await whole
    level.seconds = time.perf_counter() - started
    level.processor_seconds = time.process_time() - processor


async def _cancel(tasks: Iterable[asyncio.Future[_T]]) -> None:
    """End tasks, and wait until they have."""
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting)
