"""Groups of cores, each with at most one worker process that all its replicas share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

from infuse.serving.workers.need import Need
from infuse.serving.workers.polling import Waiting
from infuse.serving.workers.process import WorkerProcess
from infuse.serving.workers.process_executor import ProcessExecutor, Worker


class Group:
    """Cores that a worker keeps to, and that worker while there is one. `started` is told of each
    new worker, for whose answers the server waits as `waiting` does.
    """

    def __init__(
        self,
        name: str,
        cores: Sequence[int],
        waiting: Waiting,
        started: Callable[[WorkerProcess], None],
    ) -> None:
        self.name = name
        self.cores = tuple(cores)
        self.worker: WorkerProcess | None = None
        self._waiting, self._started = waiting, started
        self._lock = asyncio.Lock()

    def alone(self) -> Group:
        """The same cores for one replica: what it does to its worker harms no other."""
        return Group(f"{self.name}-alone", self.cores, self._waiting, self._started)

    async def open(self, need: Need, memory_mb: int, seconds: float) -> ProcessExecutor:
        """Load a model into the group's worker, which is started if there is none. Raises what
        loading raises.
        """
        async with self._lock:
            worker = self.worker
            if worker is None or not worker.alive or worker.expected:
                worker = WorkerProcess(self.cores, memory_mb, self._waiting)
                await worker.start()
                self.worker = worker
                self._started(worker)
            try:
                return await worker.add(need.name, need.folder, need.threads, seconds)
            except BaseException:
                await self._leave(worker)
                raise

    async def release(self, worker: Worker) -> None:
        """An instance of this worker was closed; without any left, the worker ends."""
        async with self._lock:
            await self._leave(worker)

    async def _leave(self, worker: Worker) -> None:
        if worker.instances:
            return
        worker.expected = worker.alive
        if self.worker is worker:
            self.worker = None
        await worker.close()


def split(cores: Sequence[int], groups: int) -> list[tuple[int, ...]]:
    """Cores in so many groups (0: one each; no more than there are cores) of neighbours, nearly
    equal in size.
    """
    count = min(groups or len(cores), len(cores))
    bounds = [len(cores) * number // count for number in range(count + 1)]
    return [tuple(cores[low:high]) for low, high in pairwise(bounds)]
