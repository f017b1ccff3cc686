"""What a version's executors are given: one or two runs at once each, or instances per core, which
is the same model opened once for each core, for requests that meet each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from infuse.errors import InfuseError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.batching.timing import GAIN
from infuse.serving.engine.tuner import Tuner, WarmupReport, Way
from infuse.serving.workers.executor import Executor
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.process_executor import ProcessExecutor

_SHORT: Final = 2e-3  # seconds of a run, below which instances per core do not pay
# Seconds of a run, below which a worker is given the next one before it has ended this one: between
# two that it is given one after the other, up to a millisecond passes where the cores are busy.
_BRISK: Final = 0.03

_log = logging.getLogger("infuse.serving")


class ExecutorAdmission:
    """Adds executors to a batcher. `report` tells how long runs take; `where` is the version in
    messages.
    """

    def __init__(
        self,
        pool: WorkerPool,
        need: Need,
        config: ModelConfig,
        batcher: Batcher,
        tuner: Tuner,
        report: WarmupReport,
        where: str,
    ) -> None:
        self._pool, self._need, self._config = pool, need, config
        self._batcher, self._tuner, self._report = batcher, tuner, report
        self._where = where
        self._widening: asyncio.Task[None] | None = None

    def admit(self, executor: Executor) -> None:
        """Give an executor what waits, from now on."""
        self._batcher.places.add(executor)
        if isinstance(executor, ProcessExecutor):
            seconds = min(self._report.seconds.values(), default=_BRISK)
            if seconds >= _SHORT and self._elastic(executor):
                self._widening = asyncio.create_task(self._add_core_instances(executor))
            else:
                executor.depth = _depth(seconds)

    def _elastic(self, executor: ProcessExecutor) -> bool:
        """Whether requests that meet each other may run side by side, on a core each, in the worker
        of an executor.

        That is so where nobody has said how many threads or replicas there are, and where a run was
        measured.
        """
        config = self._config
        free = not (config.replicas or config.threads or self._pool.packed)
        return free and executor.threads > 1 and bool(self._report.seconds)

    async def _add_core_instances(self, executor: ProcessExecutor) -> None:
        """Give an executor instances per core, if they bring something; a version serves without
        them, too.

        One request alone is answered soonest by all cores. Several at once are answered at a higher
        rate side by side, with no threads that wait for each other, and where something else takes
        a core, only one of them is held up.
        """
        places, rows = self._batcher.places, min(self._report.seconds)
        # Requests wait for these runs: one that hangs must not hold them up longer than a run of
        # theirs.
        hang = self._batcher.patience(self._report.seconds[rows] * executor.threads)
        model, limit = self._need.folder, self._pool.config.start_seconds
        instances: list[ProcessExecutor] = []
        try:
            for _ in range(executor.threads):
                instances.append(await executor.worker.add(executor.label, model, 1, limit))
                instances[-1].start_seconds = executor.start_seconds
            alone, together = await self._tuner.rates(
                Way([executor], rows), Way(instances, rows), hang=hang
            )
        except BaseException as error:
            await _close(instances)
            if not isinstance(error, InfuseError):
                raise
            _log.warning("%s: it runs one batch at a time: %s", self._where, error)
            return
        if together > GAIN * alone:
            seconds = rows * len(instances) / together
            places.core_times.observe(self._report.size, rows, seconds)
            for instance in instances:
                instance.depth = _depth(seconds)
            places.add_core_instances(*instances)
        else:
            await _close(instances)
            executor.depth = _depth(min(self._report.seconds.values()))

    async def settled(self) -> None:
        """Return when it is settled whether there are instances per core."""
        if self._widening is not None:
            await asyncio.wait([self._widening])

    async def close(self) -> None:
        """End the instances per core."""
        if self._widening is not None:
            self._widening.cancel()
            await asyncio.gather(self._widening, return_exceptions=True)
        instances = self._batcher.places.core_instances
        self._batcher.places.remove(*instances)
        await _close(instances)


async def _close(instances: Sequence[Executor]) -> None:
    """End instances; what runs in them ends first."""
    await asyncio.gather(*(instance.close() for instance in instances))


def _depth(seconds: float) -> int:
    """How many runs a worker has at once, by how long one takes."""
    return 2 if seconds < _BRISK else 1
