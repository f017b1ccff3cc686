"""Lanes of a replica: the same model opened once for each of its cores, for requests that meet each
other.

One request alone is answered soonest by all cores. Several at once are answered at a higher rate
side by side, with no threads that wait for each other, and where something else takes a core, only
one of them is held up.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from infuse.serving.config import Warmup
from infuse.serving.signature import Checker
from infuse.serving.warmup import rate
from infuse.serving.workers.remote import RemoteExecutor

_GAIN: Final = 1.02  # times the rows per second of all cores at one request that lanes must bring


async def open_lanes(
    executor: RemoteExecutor,
    model: Path,
    checker: Checker,
    warmup: Warmup,
    rows: int,
    folder: Path,
    seconds: float,
    hang: float,
) -> tuple[list[RemoteExecutor], float]:
    """Lanes in an executor's worker, and the time of a batch of so many rows in one; none where
    they bring nothing.

    `model` is the compiled one, `folder` holds the inputs of `warmup`; opening one may take
    `seconds`, and a run that takes longer than `hang` seconds counts as hung. Raises what loading
    and running raise.
    """
    lanes: list[RemoteExecutor] = []
    try:
        for _ in range(executor.threads):
            lanes.append(await executor.worker.add(executor.label, model, 1, seconds))
        together = await rate(lanes, checker, warmup, rows, folder, hang)
        alone = await rate([executor], checker, warmup, rows, folder, hang)
        if together > _GAIN * alone:
            return lanes, rows * len(lanes) / together
    except BaseException:
        await close_lanes(lanes)
        raise
    await close_lanes(lanes)
    return [], 0.0


async def close_lanes(lanes: list[RemoteExecutor]) -> None:
    """End lanes; what runs in them ends first."""
    await asyncio.gather(*(lane.close() for lane in lanes))
