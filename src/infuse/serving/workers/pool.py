"""The workers of a server: replicas of versions, started, watched, and started again when they are lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infuse.errors import InfuseError
from infuse.runtime.cpus import available_cpus
from infuse.serving.config import Workers
from infuse.serving.telemetry.journal import Journal
from infuse.serving.workers.executor import Executor, LocalExecutor
from infuse.serving.workers.process import RemoteExecutor, WorkerProcess

_FIRST_WAIT: Final = 0.05  # seconds before a lost worker is started again; doubled each time
_LONGEST_WAIT: Final = 10.0
_HEALTHY: Final = 30.0  # seconds that a worker lives, after which its next loss is the first again


@dataclass(frozen=True)
class Need:
    """What a replica of a version is: a compiled model, its threads, and the memory that its worker may have."""

    name: str
    folder: Path
    threads: int
    memory_mb: int = 0


class Replica:
    """One place where a version runs. Lost workers are replaced until it is closed.

    `changed` is called with the executor that came, or with None when it was lost, and whenever it could not be started
    again, which `failures` counts until it is.
    """

    def __init__(self, pool: WorkerPool, need: Need, changed: Callable[[Executor | None, Replica], None]) -> None:
        self.need = need
        self.executor: Executor | None = None
        self.restarts = 0
        self.failures = 0
        self.reason = ""
        self._pool = pool
        self._changed = changed
        self._watch: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def start(self) -> Executor:
        """Start it for the first time; raises when that fails."""
        self.executor = await self._pool.open(self.need)
        if isinstance(self.executor, RemoteExecutor):
            self._watch = asyncio.create_task(self._supervise(self.executor))
        return self.executor

    async def close(self) -> None:
        """End it; runs in progress end first."""
        self._closing.set()
        executor = self.executor
        self.executor = None
        if executor is not None:
            await executor.close()
            if isinstance(executor, RemoteExecutor):
                await self._pool.release(executor.worker)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def _supervise(self, executor: RemoteExecutor) -> None:
        wait = _FIRST_WAIT
        while not self._closing.is_set():
            began = time.monotonic()
            await asyncio.shield(executor.worker.ended)
            if self._closing.is_set():
                return
            self.executor = None
            self.reason = executor.worker.farewell
            self._changed(None, self)
            if time.monotonic() - began > _HEALTHY:
                wait = _FIRST_WAIT
            while not self._closing.is_set():
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
                try:
                    found = await self._pool.open(self.need)
                except InfuseError as error:
                    self.reason = str(error)
                    self.failures += 1
                    self._changed(None, self)
                    self._pool.journal.emit("worker_lost", model=self.need.name, reason=str(error))
                    continue
                assert isinstance(found, RemoteExecutor)
                self.restarts += 1
                self.failures = 0
                self._pool.journal.emit("worker_started", model=self.need.name, worker=found.name)
                executor = found
                self.executor = executor
                self.reason = ""
                self._changed(executor, self)
                break


class WorkerPool:
    """All workers. In mode `inprocess` there are none, and models run on threads of the server."""

    def __init__(self, config: Workers, journal: Journal) -> None:
        self.journal = journal
        self.config = config
        self.cores = sorted(os.sched_getaffinity(0))[: config.cores or available_cpus()]
        self.workers: list[WorkerProcess] = []
        self.lost = 0

    def threads(self, wanted: int) -> int:
        """Threads of a replica that asks for so many; 0 means as many as there are cores."""
        return min(wanted, len(self.cores)) if wanted else len(self.cores)

    async def open(self, need: Need) -> Executor:
        """A place for a version: a worker of its own, or the server itself. Raises what loading raises."""
        if self.config.mode == "inprocess":
            return await asyncio.to_thread(LocalExecutor, need.name, need.folder, need.threads)
        worker = WorkerProcess(self.cores, need.memory_mb)
        worker.on_exit.append(self._gone)
        await worker.start()
        self.workers.append(worker)
        try:
            return await worker.add(need.name, need.folder, need.threads, self.config.start_seconds)
        except BaseException:
            worker.expected = True
            await worker.close(0.0)
            raise

    async def release(self, worker: WorkerProcess) -> None:
        """A replica of this worker was closed; without any left, the worker ends."""
        if not worker.instances:
            worker.expected = True
            await worker.close()

    async def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.expected = True
        await asyncio.gather(*(worker.close() for worker in list(self.workers)))

    def describe(self) -> list[dict[str, Any]]:
        """The workers: process, cores, instances, memory."""
        return [
            {
                "name": worker.name,
                "pid": worker.pid,
                "cores": list(worker.cores),
                "instances": [executor.label for executor in worker.instances.values()],
                "resident_bytes": resident_bytes(worker.pid),
                "started_at": worker.started_at,
            }
            for worker in self.workers
        ]

    def _gone(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        if not worker.expected:
            self.lost += 1
            models = ", ".join(executor.label for executor in worker.carried)
            self.journal.emit("worker_hung" if worker.hung else "worker_lost", model=models, reason=worker.farewell)


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own or shared and present; 0 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
