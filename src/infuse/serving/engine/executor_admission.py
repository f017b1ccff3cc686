"""What a version's executors are given: one or two runs at once each, or instances per core."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from infuse.errors import InfuseError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.core_instances import close_core_instances, open_core_instances
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.warmup import WarmupReport
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
    """Adds executors to a batcher. `report` tells how long runs take; `folder` has the inputs for
    warming up; `where` is the version in messages.
    """

    def __init__(
        self,
        pool: WorkerPool,
        need: Need,
        config: ModelConfig,
        batcher: Batcher,
        checker: Checker,
        report: WarmupReport,
        folder: Path,
        where: str,
    ) -> None:
        self._pool, self._need, self._config = pool, need, config
        self._batcher, self._checker, self._report = batcher, checker, report
        self._folder, self._where = folder, where
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
        """
        batcher = self._batcher
        rows = min(self._report.seconds)
        # Requests wait for these runs: one that hangs must not hold them up longer than a run of
        # theirs.
        hang = batcher.patience(self._report.seconds[rows] * executor.threads)
        try:
            core_instances, seconds = await open_core_instances(
                executor,
                self._need.folder,
                self._checker,
                self._config.warmup,
                rows,
                self._folder,
                self._pool.config.start_seconds,
                hang,
            )
        except InfuseError as error:
            _log.warning("%s: it runs one batch at a time: %s", self._where, error)
            return
        if core_instances:
            batcher.places.core_times.observe(rows, seconds)
            for instance in core_instances:
                instance.depth = _depth(seconds)
            batcher.places.add_core_instances(*core_instances)
        else:
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
        await close_core_instances([x for x in instances if isinstance(x, ProcessExecutor)])


def _depth(seconds: float) -> int:
    """How many runs a worker has at once, by how long one takes."""
    return 2 if seconds < _BRISK else 1
