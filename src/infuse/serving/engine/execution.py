"""A compiled version that runs: its replicas, and the batcher that gives them requests."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from infuse.errors import InputError, ModelFailureError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.batching.max_batch import LARGEST, MaxBatchTuner
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.engine.batching.together import Together
from infuse.serving.engine.executor_admission import ExecutorAdmission
from infuse.serving.engine.replica_layout import Deployment
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.tuner import Tuner, WarmupReport
from infuse.serving.messages import InferRequest, Tensor
from infuse.serving.tuning import LOSS_SECONDS
from infuse.serving.workers.executor import Executor, Result
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.replicas import Replica

_LOSSES: Final = 3  # lost workers within LOSS_SECONDS are taken for the version's fault


class Execution:
    """Runs requests of one version from `start` to `close`. `together`: whether they may be put
    together. `folder` has the inputs that its
    configuration names for warming up; `where` is the version in messages; `statistics` count its
    batches; `on_failure` is told when workers are lost again and again; `request_bytes` is the most
    that inputs have.

    `batcher` is there once `start` has warmed up.
    """

    def __init__(
        self,
        pool: WorkerPool,
        need: Need,
        config: ModelConfig,
        checker: Checker,
        together: Together,
        folder: Path,
        where: str,
        statistics: VersionStatistics,
        on_failure: Callable[[str], None],
        request_bytes: int,
    ) -> None:
        self.checker = checker
        self.batcher: Batcher | None = None
        self._pool, self._need, self._config = pool, need, config
        self._where, self._statistics, self._on_failure = where, statistics, on_failure
        # The first run reads the weights.
        hang = pool.config.start_seconds / 2
        self._tuner = Tuner(checker, config.warmup, folder, hang, together, request_bytes)
        self._deployment = Deployment(pool, need, config, self._tuner, self._replica_changed)
        self._admission: ExecutorAdmission | None = None
        self._losses: deque[float] = deque(maxlen=_LOSSES)

    @property
    def warmup_report(self) -> WarmupReport:
        """What warming up has shown."""
        return self._deployment.warmup_report

    @property
    def instances(self) -> Sequence[Replica]:
        """The replicas."""
        return self._deployment.replicas

    async def start(self) -> None:
        """Start the replicas and warm them up. Raises what went wrong; `close` is due then, too."""
        await self._deployment.start()
        self.batcher = batcher = self._started_batcher()
        self._admission = ExecutorAdmission(
            self._pool,
            self._need,
            self._config,
            batcher,
            self._tuner,
            self.warmup_report,
            self._where,
        )
        for replica in self.instances:
            if replica.executor is not None:
                self._admission.admit(replica.executor)
        await self._admission.settled()

    async def infer(self, request: InferRequest, batcher: Batcher) -> tuple[list[Tensor], int]:
        """The outputs that a request asks for, and the rows of the batch that it ran in. Raises
        InfuseError leaves.
        """
        if not batcher.places.executors and (reason := self.hopeless()):
            raise UnavailableError(reason, where=self._where)
        checker = self.checker
        arrays = checker.arrays(request)
        numbers = checker.requested_outputs(request)
        key, lengths = checker.key(arrays)
        rows = arrays[0].shape[0] if checker.batch else 1
        limit = self._config.batching.max_size
        if checker.batch and limit and rows > limit:
            raise InputError(
                f"the batch has {rows} rows, and max_size is {limit}", where=self._where
            )
        loop = asyncio.get_running_loop()
        entry = Entry(request, arrays, rows, key if rows else None, numbers, loop.create_future())
        entry.lengths = lengths
        deadline = request.deadline
        if deadline is not None:
            deadline += loop.time() - time.monotonic()
        batcher.submit(entry, deadline)
        try:
            results = await entry.future
        except asyncio.CancelledError:
            batcher.cancel(entry)
            raise
        if self._config.finite:
            _require_finite(results, self._where)
        return checker.tensors(numbers, results), entry.batch_rows

    async def close(self) -> None:
        """End all replicas."""
        if self._admission is not None:
            await self._admission.close()
        await self._deployment.close()

    def _started_batcher(self) -> Batcher:
        config, checker = self._config, self.checker
        batcher = Batcher(
            self._where,
            config.batching,
            MaxBatchTuner(self.warmup_report.most, LARGEST, self._has_room)
            if self.warmup_report.open
            else MaxBatchTuner(self.warmup_report.most if checker.batch else 1),
            padding=checker.padding,
            retries=self._pool.config.retries,
            timeout=config.timeout_ms / 1000 or None,
            observe=self._observe_batch,
        )
        for rows, seconds in self.warmup_report.seconds.items():
            batcher.places.times.observe(self.warmup_report.size, rows, seconds)
        return batcher

    async def _has_room(self) -> bool:
        """Whether there is memory for batches twice as large: at most, they take again what its
        replicas take.
        """
        await self._pool.measure()
        return self._pool.has_room(self.instances)

    def _replica_changed(self, executor: Executor | None, replica: Replica) -> None:
        """A worker was lost, or came back."""
        if self.batcher is None or self._admission is None:
            return
        if executor is None and not replica.given_up:
            self._losses.append(time.monotonic())
            if len(self._losses) == _LOSSES and self._losses[-1] - self._losses[0] < LOSS_SECONDS:
                self._losses.clear()
                self._on_failure(
                    f"its workers were lost {_LOSSES} times within {LOSS_SECONDS:g} s: "
                    f"{replica.reason}"
                )
        if executor is not None:
            self._admission.admit(executor)
        elif reason := self.hopeless():
            self.batcher.refuse(reason)

    def hopeless(self) -> str:
        """Why no replica works or can be started again; "" while one may be."""
        if any(replica.executor is not None or not replica.failures for replica in self.instances):
            return ""
        return next(
            (
                f"its workers cannot be started again: {replica.reason}"
                for replica in self.instances
            ),
            "",
        )

    def _observe_batch(
        self, entries: Sequence[Entry], rows: int, reason: str, result: Result
    ) -> None:
        if result.error is None:
            start = entries[0].request.timeline.dispatched
            now = max(time.perf_counter_ns(), result.ended)
            self._statistics.observe_batch(
                rows,
                len(entries),
                result.began - start,
                result.ended - result.began,
                now - result.ended,
                reason,
            )


def _require_finite(arrays: Sequence[Array], where: str) -> None:
    for array in arrays:
        if array.dtype != object and not np.all(np.isfinite(array)):
            raise ModelFailureError("the model gave a number that is not finite", where=where)
