"""Instances per core of a replica: the same model opened once for each of its cores, for requests
that meet each other.

One request alone is answered soonest by all cores. Several at once are answered at a higher rate
side by side, with no threads that wait for each other, and where something else takes a core, only
one of them is held up.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from infuse.serving.control.model_config import Warmup
from infuse.serving.engine.batching.timing import GAIN
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.warmup import rate
from infuse.serving.workers.process_executor import ProcessExecutor


async def open_core_instances(
    executor: ProcessExecutor,
    model: Path,
    checker: Checker,
    warmup: Warmup,
    rows: int,
    folder: Path,
    seconds: float,
    hang: float,
) -> tuple[list[ProcessExecutor], float]:
    """Instances per core in an executor's worker, and the time of a batch of so many rows in one;
    none where they bring nothing.

    `model` is the compiled one, `folder` holds the inputs of `warmup`; opening one may take
    `seconds`, and a run that takes longer than `hang` seconds counts as hung. Raises what loading
    and running raise.
    """
    core_instances: list[ProcessExecutor] = []
    try:
        for _ in range(executor.threads):
            core_instances.append(await executor.worker.add(executor.label, model, 1, seconds))
        together = await rate(core_instances, checker, warmup, rows, folder, hang)
        alone = await rate([executor], checker, warmup, rows, folder, hang)
        if together > GAIN * alone:
            return core_instances, rows * len(core_instances) / together
    except BaseException:
        await close_core_instances(core_instances)
        raise
    await close_core_instances(core_instances)
    return [], 0.0


async def close_core_instances(core_instances: list[ProcessExecutor]) -> None:
    """End instances per core; what runs in them ends first."""
    await asyncio.gather(*(instance.close() for instance in core_instances))
