"""A served version of a model: built, started, warmed up, asked, and ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from infuse.errors import UnavailableError
from infuse.options import CompileOptions
from infuse.runtime.session import Array
from infuse.serving.control.compiling import compile_options
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository import Labels, LocalVersion
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.compiled import Builder, Interface
from infuse.serving.engine.execution import Execution
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.upgrade import Upgrade
from infuse.serving.messages import InferRequest, InferResponse, TensorMetadata
from infuse.serving.workers.build import Signature
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.replicas import Replica

_log = logging.getLogger("infuse.serving")


class ServedVersion:
    """One version of one model. `state` is LOADING, READY, UNLOADING or UNAVAILABLE (then `reason`
    says why).
    """

    def __init__(
        self,
        name: str,
        number: int,
        config: ModelConfig,
        local: LocalVersion,
        pool: WorkerPool,
        *,
        labels: Labels | None = None,
        assets: Path | None = None,
        on_failure: Callable[[str], None] = _log.error,
        request_bytes: int,
        turn: asyncio.Lock,
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
        self._interface: Interface | None = None
        self.labels = labels or Labels()
        self.retained_files: tuple[LocalVersion, ...] = (local,)
        self._on_failure = on_failure
        self._request_bytes = request_bytes
        self._assets = assets
        self._pool = pool
        self._execution: Execution | None = None
        self._turn = turn
        self._upgrade: Upgrade | None = None

    @property
    def _batcher(self) -> Batcher | None:
        return self._execution.batcher if self._execution is not None else None

    @property
    def _checker(self) -> Checker | None:
        return self._execution.checker if self._execution is not None and self._batcher else None

    @property
    def where(self) -> str:
        """The version in messages."""
        return f"model {self.name!r}, version {self.number}"

    # -- life --------------------------------------------------------------------------------------

    async def load(self, cache: Path, *, waits: bool) -> None:
        """Build it, start its replicas and warm them up; where it `waits`, with compiled code.
        Raises what went wrong; nothing is left behind then.
        """
        began = time.perf_counter()
        try:
            await self._load(cache, waits)
        except BaseException as error:
            self.state = "UNAVAILABLE"
            self.reason = str(error) or type(error).__name__
            if self._execution is not None:
                await self._execution.close()
            raise
        self.load_seconds = time.perf_counter() - began
        self.loaded_at = time.time()
        self.state = "READY"

    async def unload(self, why: str = "it was unloaded") -> None:
        """Finish what was accepted, then end all replicas."""
        self.state = "UNLOADING"
        if self._upgrade is not None:
            await self._upgrade.close()
        if self._batcher is not None:
            await self._batcher.drained()
            self._batcher.close(why)
        if self._execution is not None:
            await self._execution.close()
        self.state = "UNAVAILABLE"
        self.reason = why

    def abort(self, why: str) -> None:
        """Take nothing more, and do not wait for what was accepted: it is answered with
        UnavailableError(`why`).
        """
        self.state, self.reason = "UNAVAILABLE", why
        if self._upgrade is not None:
            self._upgrade.cancel()
        if self._batcher is not None:
            self._batcher.close(why)

    async def _load(self, cache: Path, waits: bool) -> None:
        config, pool = self.config, self._pool
        builder = Builder(
            self.local, config, pool.config, self._pool.threads(config.threads), cache
        )
        self.signature = signature = await builder.first(waits=waits)
        self.build_seconds = signature.seconds
        self.labels.check([spec.name for spec in signature.outputs])
        self._interface = interface = Interface.of(signature, config)
        self.notes += interface.notes
        threads = pool.threads(config.threads, config.replicas)
        if config.threads > threads:
            self.notes.append(
                f"threads is {config.threads}, and there are {threads} processors for models, "
                "which it gets"
            )
        self._execution = self._made(signature, interface)
        await self._execution.start()
        self.notes += self._execution.warmup_report.notes
        if builder.may_change(signature):
            options = CompileOptions.flat(**compile_options(config))
            self._upgrade = Upgrade(
                builder,
                self._turn,
                self._started,
                self._changed,
                self._stays,
                options.bound,
                self.where,
            )

    def _made(self, signature: Signature, interface: Interface) -> Execution:
        config, pool = self.config, self._pool
        threads = pool.threads(config.threads, config.replicas)
        name, weights = f"{self.name}/{self.number}", signature.weights_bytes
        return Execution(
            pool,
            Need(name, signature.folder, threads, config.memory_mb, weights),
            config,
            interface.checker,
            interface.together,
            self._assets or self.local.folder,
            self.where,
            self.statistics,
            self._on_failure,
            self._request_bytes,
        )

    # -- compiled code after prebuilt kernels ------------------------------------------------------

    async def _started(self, signature: Signature) -> Execution:
        """Another form of it, beside the one that serves."""
        execution = self._made(signature, Interface.of(signature, self.config))
        try:
            await execution.start()
        except BaseException:
            await execution.close()
            raise
        return execution

    async def _changed(self, signature: Signature, execution: Execution) -> None:
        """Serve with this form from now on; what the other one accepted is answered by it."""
        before, self._execution, self.signature = self._execution, execution, signature
        assert before is not None
        assert before.batcher is not None
        try:
            await before.batcher.drained()
        finally:  # also where the version is unloaded meanwhile
            before.batcher.close("it was replaced")
            await before.close()

    def _stays(self, why: str) -> None:
        self.notes.append(f"prebuilt kernels stay: {why}")

    @property
    def tier(self) -> str:
        """What answers: "prebuilt" kernels, or "compiled" code; "" before it is loaded."""
        return self.signature.tier if self.signature is not None else ""

    # -- work --------------------------------------------------------------------------------------

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for so many bytes of a request to come; None: there is none."""
        batcher = self._batcher if self.state == "READY" else None
        return batcher.receive_buffer(size) if batcher is not None else None

    async def infer(self, request: InferRequest) -> tuple[InferResponse, int]:
        """The answer, and the rows of the batch that it ran in. Raises InfuseError leaves."""
        execution = self._execution
        if (
            execution is None
            or execution.batcher is None
            or self.state not in ("READY", "UNLOADING")
        ):
            raise UnavailableError(
                "it does not serve now", where=self.where, hint=self.reason or None
            )
        outputs, rows = await execution.infer(request, execution.batcher)
        if self._upgrade is not None:
            self._upgrade.observe(request, outputs)
        self.labels.put(outputs)
        return InferResponse(self.name, str(self.number), request.id, outputs), rows

    # -- seeing ------------------------------------------------------------------------------------

    @property
    def instances(self) -> Sequence[Replica]:
        """Its replicas."""
        return self._execution.instances if self._execution is not None else ()

    @property
    def parts(self) -> Collection[str]:
        """The models that it calls: none."""
        return ()

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
        return (
            self.state == "READY" and self._execution is not None and not self._execution.hopeless()
        )

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

    def pending(self) -> int:
        """Requests that wait for a batch."""
        return self._batcher.pending if self._batcher else 0

    def described(self, inputs: bool) -> list[TensorMetadata]:
        """Its inputs or outputs as the protocol describes them; UnavailableError before it has
        loaded.
        """
        if self._checker is None:
            raise UnavailableError("it is not loaded", where=self.where, hint=self.reason or None)
        return self._checker.described(inputs)

    @property
    def batching_obstacle(self) -> str:
        """Why requests are not put together; "" where they may be."""
        return self._interface.obstacle if self._interface is not None else ""

    @property
    def batched(self) -> bool:
        """Whether its first dimension is one of requests."""
        return bool(self._checker and self._checker.batch)
