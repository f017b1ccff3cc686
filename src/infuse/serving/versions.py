"""A served version of a model: built, started, warmed up, asked, and ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from infuse.errors import InfuseError, InputError, ModelFailureError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving.batching.batcher import Batcher
from infuse.serving.batching.max_batch import LARGEST, MaxBatchTuner
from infuse.serving.batching.queue import Entry
from infuse.serving.declared import Declared
from infuse.serving.messages import InferRequest, InferResponse, Tensor
from infuse.serving.model_config import ModelConfig
from infuse.serving.repository import Labels, LocalVersion
from infuse.serving.signature import Checker
from infuse.serving.telemetry.statistics import VersionStatistics
from infuse.serving.warmup import WarmupReport
from infuse.serving.workers.budget import build_limit_of
from infuse.serving.workers.build import Signature, build
from infuse.serving.workers.build_cache import BuildCache, key_of
from infuse.serving.workers.core_instances import close_core_instances, open_core_instances
from infuse.serving.workers.executor import Executor, Result
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.process_executor import ProcessExecutor
from infuse.serving.workers.replica_layout import Deployment
from infuse.serving.workers.replicas import Replica

_SHORT: Final = 2e-3  # seconds of a run, below which instances per core do not pay
# Seconds of a run, below which a worker is given the next one before it has ended this one: between
# two that it is given one after the other, up to a millisecond passes where the cores are busy.
_BRISK: Final = 0.03
_LOSSES: Final = 3  # lost workers within so many seconds are taken for the version's fault
_LOSS_SECONDS: Final = 60.0

_log = logging.getLogger("infuse.serving")


class ServedVersion:
    """One version of one model. `state` is LOADING, READY, UNLOADING or UNAVAILABLE (then `reason`
    says why).
    """

    def __init__(
        self, name: str, number: int, config: ModelConfig, local: LocalVersion, pool: WorkerPool
    ) -> None:
        self.name = name
        self.number = number
        self.config = config
        self.local = local
        self.state = "LOADING"
        self.reason = ""
        self.notes: list[str] = []
        self.loaded_at = 0.0
        self.load_seconds = 0.0
        self.build_seconds = 0.0
        self.statistics = VersionStatistics(name, number)
        self.signature: Signature | None = None
        self.warmup_report = WarmupReport()
        self.assets: Path | None = None
        self.labels = Labels()
        self.retained_files: tuple[LocalVersion, ...] = (local,)
        self.on_failure: Callable[[str], None] = _log.error
        self._losses: deque[float] = deque(maxlen=_LOSSES)
        self._pool = pool
        self._deployment: Deployment | None = None
        self._checker: Checker | None = None
        self._batcher: Batcher | None = None
        self._widening: asyncio.Task[None] | None = None

    @property
    def where(self) -> str:
        """The version in messages."""
        return f"model {self.name!r}, version {self.number}"

    # -- life --------------------------------------------------------------------------------------

    async def load(self, cache: Path) -> None:
        """Build it, start its replicas and warm them up. Raises what went wrong; nothing is left
        behind then.
        """
        began = time.perf_counter()
        try:
            await self._load(cache)
        except BaseException as error:
            self.state = "UNAVAILABLE"
            self.reason = str(error) or type(error).__name__
            await self._close_replicas()
            raise
        self.load_seconds = time.perf_counter() - began
        self.loaded_at = time.time()
        self.state = "READY"

    async def unload(self, why: str = "it was unloaded") -> None:
        """Finish what was accepted, then end all replicas."""
        self.state = "UNLOADING"
        if self._batcher is not None:
            await self._batcher.drained()
            self._batcher.close(why)
        await self._close_replicas()
        self.state = "UNAVAILABLE"
        self.reason = why

    def abort(self, why: str) -> None:
        """Take nothing more, and do not wait for what was accepted: it is answered with
        UnavailableError(`why`).
        """
        self.state, self.reason = "UNAVAILABLE", why
        if self._batcher is not None:
            self._batcher.close(why)

    async def _built(self, cache: Path) -> Signature:
        """The compiled model: what was made of the same files before, or else made now."""
        config, workers, main = self.config, self._pool.config, self.local.main
        options: dict[str, Any] = {
            "precision": config.precision,
            "tune": config.tune,
            "threads": self._pool.threads(config.threads),
        }
        built, compiled = BuildCache(cache), main.is_dir()
        key = await asyncio.to_thread(
            key_of, self.local.digest, str(main.relative_to(self.local.folder)), options
        )
        folder = None if compiled else await asyncio.to_thread(built.find, key)
        if folder is None:
            folder = await build(
                main,
                cache / "hosted" / f"{self.local.digest}-{config.precision}",
                compiled=compiled,
                seconds=workers.build_seconds,
                memory=build_limit_of(workers.build_memory_mb),
                **options,
            )
            if not compiled:
                await asyncio.to_thread(built.keep, key, folder)
        return folder

    async def _load(self, cache: Path) -> None:
        config = self.config
        self.signature = await self._built(cache)
        self.build_seconds = self.signature.seconds
        self.labels.check([spec.name for spec in self.signature.outputs])
        inputs, outputs = self.signature.inputs, self.signature.outputs
        declared = Declared(config, inputs, outputs)
        checker = Checker(inputs, outputs, self.signature.symbols, config.batching.pad, declared)
        threads = self._pool.threads(config.threads, config.replicas)
        if config.threads > threads:
            self.notes.append(
                f"threads is {config.threads}, and there are {threads} processors for models, "
                "which it gets"
            )
        weights = self.signature.weights_bytes
        need = Need(
            f"{self.name}/{self.number}", self.signature.folder, threads, config.memory_mb, weights
        )
        self._deployment = Deployment(self._pool, need, config, self._replica_changed)
        await self._deployment.start(checker, self.assets or self.local.folder)
        self.warmup_report = self._deployment.warmup_report
        self.notes += self.warmup_report.notes
        self._start_batcher(checker)
        await self.widened()

    def _start_batcher(self, checker: Checker) -> None:
        config = self.config
        batcher = Batcher(
            self.where,
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
            batcher.places.times.observe(rows, seconds)
        self._checker, self._batcher = checker, batcher
        for replica in self.instances:
            if replica.executor is not None:
                self._admit(replica.executor)

    async def _has_room(self) -> bool:
        """Whether there is memory for batches twice as large: at most, they take again what its
        replicas take.
        """
        await self._pool.measure()
        return self._pool.has_room(self.instances)

    def _admit(self, executor: Executor) -> None:
        assert self._batcher is not None
        self._batcher.places.add(executor)
        if isinstance(executor, ProcessExecutor):
            seconds = min(self.warmup_report.seconds.values(), default=_BRISK)
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
        config = self.config
        free = not (config.replicas or config.threads or self._pool.packed)
        return free and executor.threads > 1 and bool(self.warmup_report.seconds)

    async def _add_core_instances(self, executor: ProcessExecutor) -> None:
        """Give an executor instances per core, if they bring something; a version serves without
        them, too.
        """
        checker, batcher, signature = self._checker, self._batcher, self.signature
        if checker is None or batcher is None or signature is None:
            return
        rows = min(self.warmup_report.seconds)
        folder = self.assets or self.local.folder
        # Requests wait for these runs: one that hangs must not hold them up longer than a run of
        # theirs.
        hang = batcher.patience(self.warmup_report.seconds[rows] * executor.threads)
        try:
            core_instances, seconds = await open_core_instances(
                executor,
                signature.folder,
                checker,
                self.config.warmup,
                rows,
                folder,
                self._pool.config.start_seconds,
                hang,
            )
        except InfuseError as error:
            _log.warning("%s: it runs one batch at a time: %s", self.where, error)
            return
        if core_instances:
            batcher.places.core_times.observe(rows, seconds)
            for instance in core_instances:
                instance.depth = _depth(seconds)
            batcher.places.add_core_instances(*core_instances)
        else:
            executor.depth = _depth(min(self.warmup_report.seconds.values()))

    def _replica_changed(self, executor: Executor | None, replica: Replica) -> None:
        """A worker was lost, or came back."""
        batcher = self._batcher
        if batcher is None:
            return
        if executor is None:
            self._losses.append(time.monotonic())
            if len(self._losses) == _LOSSES and self._losses[-1] - self._losses[0] < _LOSS_SECONDS:
                self._losses.clear()
                self.on_failure(
                    f"its workers were lost {_LOSSES} times within {_LOSS_SECONDS:g} s: "
                    f"{replica.reason}"
                )
        if executor is not None:
            self._admit(executor)
        elif reason := self._hopeless():
            batcher.refuse(reason)

    def _hopeless(self) -> str:
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

    async def _close_replicas(self) -> None:
        if self._widening is not None:
            self._widening.cancel()
            await asyncio.gather(self._widening, return_exceptions=True)
        if self._batcher is not None:
            instances = self._batcher.places.core_instances
            self._batcher.places.remove(*instances)
            await close_core_instances([x for x in instances if isinstance(x, ProcessExecutor)])
        if self._deployment is not None:
            await self._deployment.close()

    # -- work --------------------------------------------------------------------------------------

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for so many bytes of a request to come; None: there is none."""
        return (
            self._batcher.receive_buffer(size)
            if self._batcher is not None and self.state == "READY"
            else None
        )

    async def infer(self, request: InferRequest) -> tuple[InferResponse, int]:
        """The answer, and the rows of the batch that it ran in. Raises InfuseError leaves."""
        checker, batcher = self._checker, self._batcher
        if checker is None or batcher is None or self.state not in ("READY", "UNLOADING"):
            raise UnavailableError(
                "it does not serve now", where=self.where, hint=self.reason or None
            )
        if not batcher.places.executors and (reason := self._hopeless()):
            raise UnavailableError(reason, where=self.where)
        arrays = checker.arrays(request)
        numbers = checker.requested_outputs(request)
        key, lengths = checker.key(arrays)
        rows = arrays[0].shape[0] if checker.batch else 1
        limit = self.config.batching.max_size
        if checker.batch and limit and rows > limit:
            raise InputError(
                f"the batch has {rows} rows, and max_size is {limit}", where=self.where
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
        if self.config.finite:
            self._check_finite(results)
        outputs = [
            Tensor(
                checker.outputs[number].name,
                checker.output_datatypes[number],
                checker.leaving(number, array),
            )
            for number, array in zip(numbers, results)
        ]
        self.labels.put(outputs)
        return InferResponse(self.name, str(self.number), request.id, outputs), entry.batch_rows

    def _check_finite(self, arrays: Sequence[Array]) -> None:
        for array in arrays:
            if array.dtype != object and not np.all(np.isfinite(array)):
                raise ModelFailureError(
                    "the model gave a number that is not finite", where=self.where
                )

    def _observe_batch(
        self, entries: Sequence[Entry], rows: int, reason: str, result: Result
    ) -> None:
        if result.error is None:
            start = entries[0].request.timeline.dispatched
            now = time.perf_counter_ns()
            self.statistics.observe_batch(
                rows,
                len(entries),
                result.began - start,
                result.ended - result.began,
                now - result.ended,
                reason,
            )

    # -- seeing ------------------------------------------------------------------------------------

    @property
    def instances(self) -> Sequence[Replica]:
        """Its replicas."""
        return self._deployment.replicas if self._deployment is not None else ()

    @property
    def replicas(self) -> Mapping[str, int]:
        """How many replicas are idle, busy, starting, lost."""
        states = {"idle": 0, "busy": 0, "starting": 0, "lost": 0}
        for replica in self.instances:
            states[replica.state] += 1
        return states

    @property
    def serving(self) -> bool:
        """Whether a request would be run: it is ready, and a replica lives."""
        return self.state == "READY" and any(
            replica.executor is not None for replica in self.instances
        )

    @property
    def holds_out(self) -> bool:
        """Whether a request would be taken: it is ready, and a replica lives or is being
        replaced.
        """
        return self.state == "READY" and not self._hopeless()

    @property
    def threads(self) -> int:
        """Cores that a replica uses."""
        instances = self.instances
        return instances[0].need.threads if instances else self._pool.threads(self.config.threads)

    @property
    def rows_waiting(self) -> int:
        """Rows that wait for a batch."""
        return self._batcher.waiting if self._batcher else 0

    @property
    def running(self) -> int:
        """Batches that run."""
        return self._batcher.running if self._batcher else 0

    @property
    def restarts(self) -> int:
        """How often a worker was replaced."""
        return sum(replica.restarts for replica in self.instances)

    @property
    def weights_bytes(self) -> int:
        """Bytes of weights, which all replicas share."""
        return self.signature.weights_bytes if self.signature else 0

    @property
    def most_rows(self) -> int:
        """Rows of the largest batch."""
        return self._batcher.most if self._batcher else 1

    @property
    def times(self) -> dict[int, float]:
        """Measured seconds by rows of a batch."""
        return self._batcher.places.times.table() if self._batcher else {}

    @property
    def core_times(self) -> dict[int, float]:
        """Measured seconds by rows of a batch that has one core; empty where there are no instances
        per core.
        """
        return (
            self._batcher.places.core_times.table()
            if self._batcher and self._batcher.places.core_instances
            else {}
        )

    async def widened(self) -> None:
        """Return when it is settled whether there are instances per core."""
        if self._widening is not None:
            await asyncio.wait([self._widening])

    def pending(self) -> int:
        """Requests that wait for a batch."""
        return self._batcher.pending if self._batcher else 0

    def described(self, inputs: bool) -> list[dict[str, Any]]:
        """Its inputs or outputs as the protocol describes them; UnavailableError before it has
        loaded.
        """
        if self._checker is None:
            raise UnavailableError("it is not loaded", where=self.where, hint=self.reason or None)
        return self._checker.described(inputs)

    @property
    def batched(self) -> bool:
        """Whether its first dimension is one of requests."""
        return bool(self._checker and self._checker.batch)


def _depth(seconds: float) -> int:
    """How many runs a worker has at once, by how long one takes."""
    return 2 if seconds < _BRISK else 1
