"""A replica of a version: started, watched, moved, started again when its worker is lost."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from infuse.errors import InfuseError
from infuse.serving.tuning import LOSS_SECONDS, RETRY_SECONDS
from infuse.serving.workers.events import EventLog
from infuse.serving.workers.executor import Executor, LocalExecutor, WorkerLostError
from infuse.serving.workers.groups import Group
from infuse.serving.workers.need import Need
from infuse.serving.workers.process_executor import ProcessExecutor

_LONGEST_WAIT: Final = 10.0
_SUSPICIONS: Final = (
    2  # losses of a shared worker while a replica ran, close together: it gets its own one
)

Changed = Callable[["Executor | None", "Replica"], None]


class Pool(Protocol):
    """What a replica asks of the pool of workers that it belongs to."""

    @property
    def journal(self) -> EventLog:
        """Where what happens is noted."""

    async def admit(self, replica: Replica) -> None:
        """Take a replica in, with a group and memory for it. NoRoomError says what it needs and
        what is there.
        """

    async def open(self, need: Need, group: Group) -> ProcessExecutor | LocalExecutor:
        """An instance of a version in a group's worker, or in the server itself. Raises what
        loading raises.
        """

    def forget(self, replica: Replica) -> None:
        """A replica has ended, or could not be started."""

    def shares(self, group: Group) -> bool:
        """Whether several replicas share the worker of this group."""


class Replica:
    """One place where a version runs. Lost workers are replaced until it is closed.

    `changed` is called with the executor that came (after a loss or a move), or with None when it
    was lost, and whenever it could not be started again, which `failures` counts until it is.
    `group`: the cores whose worker it is in. `own_bytes`: what it takes besides the weights, as
    measured; 0 before that. `given_up`: the last loss was wanted, for nobody waited for what ran.
    `wait`: the seconds before a lost worker is replaced; they double from
    loss to loss of workers that neither ended a run nor lived long.
    """

    def __init__(
        self, pool: Pool, need: Need, changed: Changed, group: Group | None = None
    ) -> None:
        self.need = need
        self.group = group
        self.executor: ProcessExecutor | LocalExecutor | None = None
        self.restarts = 0
        self.failures = 0
        self.moves = 0
        self.given_up = False
        self.reason = ""
        self.wait = RETRY_SECONDS
        self.own_bytes = 0
        self._pool = pool
        self._changed = changed
        self._watch: asyncio.Task[None] | None = None
        self._suspicions: deque[float] = deque(maxlen=_SUSPICIONS)
        self._closing = asyncio.Event()
        self._placing = asyncio.Lock()

    @property
    def state(self) -> str:
        """`idle`, `busy`, `starting` or `lost`."""
        if self.executor is None:
            return "lost" if self.reason else "starting"
        return "idle" if self.executor.free else "busy"

    async def start(self) -> Executor:
        """Start it for the first time; raises when that fails."""
        await self._pool.admit(self)
        assert self.group is not None
        try:
            self.executor = await self._pool.open(self.need, self.group)
        except BaseException:
            self._pool.forget(self)
            raise
        self._observe()
        return self.executor

    async def close(self) -> None:
        """End it; runs in progress end first."""
        self._closing.set()
        await self._unwatch()
        async with self._placing:
            executor, self.executor = self.executor, None
            self._pool.forget(self)
            if executor is not None:
                await executor.close()
            if self.group is not None and isinstance(executor, ProcessExecutor):
                await self.group.release(executor.worker)

    async def move(self, group: Group) -> bool:
        """Load it in another group, let new runs go there, and end the old instance once its runs
        have ended.

        False when it is lost or being closed; raises what loading raises, and nothing has changed
        then.
        """
        async with self._placing:
            old, left = self.executor, self.group
            if self._closing.is_set() or left is None or not isinstance(old, ProcessExecutor):
                return False
            executor = await self._pool.open(self.need, group)
            await self._unwatch()
            self.executor, self.group, self.reason = executor, group, ""
            self.moves += 1
            old.retire()
            self._observe()
            self._changed(executor, self)
            await old.close()
            await left.release(old.worker)
        return True

    def _observe(self) -> None:
        if isinstance(self.executor, ProcessExecutor):
            self._watch = asyncio.create_task(self._supervise(self.executor))

    async def _unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _supervise(self, executor: ProcessExecutor) -> None:
        while not self._closing.is_set():
            began = time.monotonic()
            await asyncio.shield(executor.worker.ended)
            if self._closing.is_set():
                return
            self.executor = None
            self.reason = executor.worker.farewell
            self.given_up = executor.worker.given_up
            if executor.suspect and not self.given_up:
                self._suspect()
            self._changed(None, self)
            if self.given_up:
                self.wait = 0.0
            elif executor.runs or time.monotonic() - began > LOSS_SECONDS:
                self.wait = RETRY_SECONDS
            while not self._closing.is_set():
                await asyncio.sleep(self.wait)
                self.wait = min(max(2 * self.wait, RETRY_SECONDS), _LONGEST_WAIT)
                try:
                    executor = await self._restarted()
                except (InfuseError, OSError) as error:
                    self.reason = str(error)
                    if isinstance(error, WorkerLostError) and self._shared():
                        self._suspect()  # perhaps another model ended the worker
                        continue
                    self.failures += 1
                    self._changed(None, self)
                    self._pool.journal.emit("worker_lost", model=self.need.name, reason=str(error))
                    continue
                break

    def _suspect(self) -> None:
        """It ran, or was being loaded, when its worker was lost. When that happens again, it gets
        its own one.
        """
        now = time.monotonic()
        self._suspicions.append(now)
        again = len(self._suspicions) == _SUSPICIONS and now - self._suspicions[0] < LOSS_SECONDS
        if again and self.group is not None and self._shared():
            self.group = self.group.alone()
            self._pool.journal.emit("replica_isolated", model=self.need.name, reason=self.reason)

    def _shared(self) -> bool:
        return self.group is not None and self._pool.shares(self.group)

    async def _restarted(self) -> ProcessExecutor:
        async with self._placing:
            assert self.group is not None
            executor = await self._pool.open(self.need, self.group)
            assert isinstance(executor, ProcessExecutor)
            self.restarts += 1
            self.failures = 0
            self._pool.journal.emit("worker_started", model=self.need.name, worker=executor.name)
            self.executor = executor
            self.reason = ""
            self._changed(executor, self)
            return executor
