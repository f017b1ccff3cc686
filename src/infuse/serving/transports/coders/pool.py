"""The coders of a server: started with the first large message, and ended when there is none for a
while.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from infuse.errors import UnavailableError
from infuse.serving.messages import InferRequest, InferResponse
from infuse.serving.transports.coders.memory import Memory
from infuse.serving.transports.coders.messages import (
    Done,
    Job,
    request_from,
    request_to,
    response_to,
)
from infuse.serving.transports.coders.process import Coder
from infuse.serving.transports.elements import Buffer
from infuse.serving.workers.budget import build_limit_of

_T = TypeVar("_T")

Work = Callable[[Job, Memory, Memory], Done]
"""A function of a module: what a coder does with the memory that is written already, and that which
it writes.
"""

LARGE: Final = 256 << 10
"""Bytes of a message, from which a coder reads it."""
MANY: Final = LARGE // 16
"""Elements of JSON or BYTES, from which a coder reads or writes them."""
MOST_CODERS: Final = 2
"""Coders of a server."""
_IDLE_SECONDS: Final = 30.0
_BYTES_EACH: Final = 64
"""Bytes of Python's objects for a byte of a message: the most that lists and tables take."""
_MOST_AT_LEAST: Final = 512 << 20


class Coders:
    """Reads and writes the large messages of a server, each in a process of its own, `most` at
    once.

    `message_bytes`: what a message may have at most. A coder gets memory by that, and by what the
    machine has. When nobody waits for a message any more, its coder is ended; the next one starts
    another.
    """

    def __init__(self, message_bytes: int, most: int = MOST_CODERS) -> None:
        self._most = max(1, min(most, len(os.sched_getaffinity(0))))
        self._memory = _MOST_AT_LEAST + _BYTES_EACH * message_bytes
        limit = build_limit_of(0)
        if limit is not None:
            self._memory = max(_MOST_AT_LEAST, min(self._memory, limit // self._most))
        self._threads: ThreadPoolExecutor | None = None
        self._turns = asyncio.Semaphore(self._most)
        self._idle: list[tuple[Coder, float]] = []
        self._busy: set[Coder] = set()
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """The numbers of the processes that there are."""
        return [coder.pid for coder in (*self._busy, *[coder for coder, _ in self._idle])]

    async def request(
        self,
        work: Work,
        body: Buffer,
        length: int | None = None,
        model: str = "",
        version: str = "",
    ) -> InferRequest:
        """The request that `work` makes of a body, or its error."""
        job = Job(_name(work), length=length, model=model, version=version)
        return await self._read(job, body, _request)

    async def load(self, work: Work, body: Buffer) -> tuple[str, dict[str, bytes]]:
        """The configuration and the files that `work` makes of a body, or its error."""
        return await self._read(Job(_name(work)), body, _load)

    async def answer(
        self, work: Work, request: InferRequest, response: InferResponse
    ) -> tuple[int | None, list[memoryview]]:
        """What `work` makes of a response: the length of its JSON, and the parts of a body; or its
        error.
        """
        return await self._write(
            work, request, response, lambda done, memory: (done.length, _views(done, memory))
        )

    async def message(self, work: Work, request: InferRequest, response: InferResponse) -> bytes:
        """The message that `work` makes of a response, or its error."""
        return await self._write(
            work, request, response, lambda done, memory: memory.read(done.parts[0])
        )

    async def close(self) -> None:
        """End all coders; messages that are being read or written are refused."""
        self._closed = True
        for coder in tuple(self._busy):
            coder.kill()
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        while self._idle:
            self._idle.pop()[0].close()

    async def _read(self, job: Job, body: Buffer, result: Callable[[Done, Memory], _T]) -> _T:
        def fill(memory: Memory) -> None:
            job.body = memory.put(body)

        return await self._do(job, fill, result)

    async def _write(
        self,
        work: Work,
        request: InferRequest,
        response: InferResponse,
        result: Callable[[Done, Memory], _T],
    ) -> _T:
        job = Job(_name(work))

        def fill(memory: Memory) -> None:
            job.request = request_to(memory, request, tensors=False)
            job.response = response_to(memory, response)

        return await self._do(job, fill, result)

    async def _do(
        self, job: Job, fill: Callable[[Memory], None], result: Callable[[Done, Memory], _T]
    ) -> _T:
        """Have a coder do a job; a thread waits for it. A coder whose result nobody wants any more
        is ended.
        """
        loop = asyncio.get_running_loop()
        async with self._turns:
            if self._closed:
                raise UnavailableError("the server is stopping")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._most, "coder")
            turn = _Turn()
            try:
                return await loop.run_in_executor(
                    self._threads, self._done, turn, job, fill, result
                )
            except asyncio.CancelledError:
                turn.cancel()
                raise
            finally:
                loop.call_later(_IDLE_SECONDS, self._rest)

    def _done(
        self,
        turn: _Turn,
        job: Job,
        fill: Callable[[Memory], None],
        result: Callable[[Done, Memory], _T],
    ) -> _T:
        source, target = Memory(), Memory()
        try:
            coder = self._coder()
            turn.begin(coder)
            self._busy.add(coder)
            try:
                fill(source)
                return result(coder.do(job, source, target), target)
            finally:
                self._busy.discard(coder)
                if turn.end() and coder.alive and not self._closed:
                    self._idle.append((coder, time.monotonic()))
                else:
                    coder.close()
        finally:
            source.close()
            target.close()

    def _coder(self) -> Coder:
        """One that has nothing to do, or a new one."""
        while self._idle:
            coder, _ = self._idle.pop()
            if coder.alive:
                return coder
            coder.close()
        return Coder(self._memory)

    def _rest(self) -> None:
        """End the coders that have had nothing to do for long."""
        limit = time.monotonic() - _IDLE_SECONDS
        for each in [each for each in self._idle if each[1] <= limit]:
            with suppress(ValueError):  # a thread has just given it work
                self._idle.remove(each)
                each[0].close()


class _Turn:
    """A job that is under way, and may be cancelled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._coder: Coder | None = None
        self._cancelled = False

    def begin(self, coder: Coder) -> None:
        with self._lock:
            self._coder = coder
            if self._cancelled:
                coder.kill()

    def end(self) -> bool:
        """Whether the coder may go on; it is left alone from now on."""
        with self._lock:
            self._coder = None
            return not self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._coder is not None:
                self._coder.kill()


def _name(work: Work) -> str:
    return f"{work.__module__}:{work.__name__}"


def _request(done: Done, memory: Memory) -> InferRequest:
    assert done.request is not None
    return request_from(memory, done.request)


def _views(done: Done, memory: Memory) -> list[memoryview]:
    return [memory.view(place) for place in done.parts]


def _load(done: Done, memory: Memory) -> tuple[str, dict[str, bytes]]:
    return done.config, {name: memory.read(place) for name, place in done.files}
