"""Requests of a stream, answered side by side and in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

_MOST_AHEAD: Final = 64  # requests of one stream that are worked on


async def in_order(
    requests: AsyncIterator[bytes],
    answer: Callable[[bytes], Awaitable[bytes]],
    ahead: int = _MOST_AHEAD,
) -> AsyncIterator[bytes]:
    """The answers of requests, in their order, while up to `ahead` of them are worked on.

    When nobody wants more answers, or reading requests fails, what is left of the work is
    cancelled.
    """
    free = asyncio.Semaphore(ahead)
    answers: asyncio.Queue[asyncio.Future[bytes] | None] = asyncio.Queue()
    running: set[asyncio.Future[bytes]] = set()

    async def read() -> None:
        try:
            async for request in requests:
                await free.acquire()
                task = asyncio.ensure_future(answer(request))
                running.add(task)
                answers.put_nowait(task)
        finally:
            answers.put_nowait(None)

    reader = asyncio.ensure_future(read())
    try:
        while (task := await answers.get()) is not None:
            yield await task
            running.discard(task)
            free.release()
        await reader
    finally:
        reader.cancel()
        for task in running:
            task.cancel()
        await asyncio.gather(reader, *running, return_exceptions=True)
