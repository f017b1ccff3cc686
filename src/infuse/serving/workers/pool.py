"""The workers of a server: groups of cores, the replicas in them, and the memory that they take."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from infuse.runtime.cpus import available_cpus
from infuse.serving.config import Workers
from infuse.serving.workers.balancing import Balancer
from infuse.serving.workers.budget import (
    PROCESS_BYTES,
    Budget,
    Memory,
    NoRoomError,
    limit_of,
    no_room,
    resident_bytes,
)
from infuse.serving.workers.events import EventLog
from infuse.serving.workers.executor import LocalExecutor
from infuse.serving.workers.groups import Group, split
from infuse.serving.workers.load import Load
from infuse.serving.workers.need import Need
from infuse.serving.workers.placement import Item
from infuse.serving.workers.polling import BusyPoller, Waiting
from infuse.serving.workers.process import WorkerProcess
from infuse.serving.workers.process_executor import ProcessExecutor
from infuse.serving.workers.replicas import Replica

MOST_PER_CORE: Final = 64
"""Replicas of all models for each processor, unless `workers.max_all_replicas` says how many."""
MOST_AT_LEAST: Final = 256
_MEASURED: Final = 5.0  # seconds after which the memory of workers is measured again


class WorkerDescription(TypedDict):
    """A worker: process, cores, instances, and its memory: present, and by its share of what
    several map.
    """

    name: str
    pid: int
    cores: list[int]
    instances: list[str]
    resident_bytes: int
    pss_bytes: int
    own_bytes: int
    started_at: float


class WorkerPool:
    """All workers. In mode `inprocess` there are none, and models run on threads of the server.

    `groups`: with isolation `packed`, groups of cores with one worker each; `wide`: all cores, for
    replicas with more threads than a group has cores. With isolation `model` each replica has a
    worker of its own on all cores.
    """

    def __init__(self, config: Workers, journal: EventLog) -> None:
        self.journal = journal
        self.config = config
        self.cores = sorted(os.sched_getaffinity(0))[: config.cores or available_cpus()]
        self.workers: list[WorkerProcess] = []
        self.replicas: list[Replica] = []
        awake = config.mode == "process" and config.awake_ms / 1000
        self.waiting = BusyPoller(awake) if awake else Waiting()
        self.lost = 0
        self.budget = Budget(limit_of(config.memory_mb))
        self.wide = Group("all", self.cores, self.waiting, self._came)
        self.groups: list[Group] = []
        if self.packed:
            parts = split(self.cores, config.groups)
            self.groups = [
                Group(f"group-{number}", part, self.waiting, self._came)
                for number, part in enumerate(parts)
            ]
        self.balancer = Balancer(self.groups, self.replicas, journal)

    @property
    def packed(self) -> bool:
        """Whether replicas share the worker of their group."""
        return self.config.isolation == "packed" and self.config.mode == "process"

    def shares(self, group: Group) -> bool:
        """Whether several replicas share the worker of this group."""
        return self.packed and (group is self.wide or group in self.groups)

    def threads(self, asked: int, replicas: int = 0) -> int:
        """Threads of a replica that asks for so many; 0 means as many as its worker has cores.

        That is all cores, or those of a group when so many `replicas` are asked for and packed.
        """
        if asked:
            return min(asked, len(self.cores))
        return (
            min(len(group.cores) for group in self.groups)
            if self.packed and replicas
            else len(self.cores)
        )

    # -- places ------------------------------------------------------------------------------------

    def choose(self, need: Need) -> Group:
        """The group for one more replica: a worker of its own, that of all cores, or of the group
        it fits best.
        """
        if not self.packed:
            return Group("own", self.cores, self.waiting, self._came)
        if need.threads > min(len(group.cores) for group in self.groups):
            return self.wide
        item = Item("new", need.name, need.threads, 0.0, need.weights_bytes, self._own_bytes(need))
        return self.balancer.best(item)

    async def open(self, need: Need, group: Group) -> ProcessExecutor | LocalExecutor:
        """An instance of a version in a group's worker, or in the server itself. Raises what
        loading raises.
        """
        if self.config.mode == "inprocess":
            return await asyncio.to_thread(LocalExecutor, need.name, need.folder, need.threads)
        memory = self.config.memory_mb if self.packed else need.memory_mb
        began = time.monotonic()
        executor = await group.open(need, memory, self.config.start_seconds)
        executor.start_seconds = time.monotonic() - began
        return executor

    async def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.expected = True
        await asyncio.gather(*(worker.close() for worker in list(self.workers)))

    # -- memory ------------------------------------------------------------------------------------

    async def admit(self, replica: Replica) -> None:
        """Take a replica in, with a group and memory for it. NoRoomError says what it needs and
        what is there.
        """
        most = self.config.max_all_replicas or max(MOST_AT_LEAST, MOST_PER_CORE * len(self.cores))
        if len(self.replicas) >= most:
            raise NoRoomError(
                f"{len(self.replicas)} replicas of all models run, and there may be {most} here, "
                "which has "
                f"{len(self.cores)} processors",
                hint=(
                    "lower replicas, unload a model, or set workers.max_all_replicas in the "
                    "server's configuration"
                ),
            )
        await self.measure()
        need = replica.need
        replica.group = replica.group or self.choose(need)
        shared = need.folder in {other.need.folder for other in self.replicas}
        needed = self._own_bytes(need) + (0 if shared else need.weights_bytes)
        if self.config.mode == "process" and replica.group.worker is None:
            needed += PROCESS_BYTES
        self.budget.promise(replica, needed, self.taken())
        self.replicas.append(replica)

    async def settle(self, replicas: Sequence[Replica]) -> None:
        """Measure replicas that have run for the first time. NoRoomError when they take more than
        there is.
        """
        await self.measure()
        for replica in replicas:
            self.budget.keep(replica)
            if replica.executor is not None:
                replica.executor.load = Load()  # the runs of the warm-up are no load
            if isinstance(replica.executor, ProcessExecutor):
                replica.own_bytes = self._measured(replica, replica.executor)
        limit, taken = self.budget.limit, self.taken()
        if limit is not None and taken > limit and replicas:
            need = replicas[0].need
            own = sum(replica.own_bytes for replica in replicas) + need.weights_bytes
            raise no_room(own, max(0, limit - (taken - own)))

    def forget(self, replica: Replica) -> None:
        """A replica has ended, or could not be started."""
        self.budget.keep(replica)
        if replica in self.replicas:
            self.replicas.remove(replica)

    async def measure(self) -> None:
        """Measure the memory of all workers."""
        await self.budget.measure(worker.pid for worker in self.workers)

    def memory(self) -> Mapping[str, Memory]:
        """The memory of each worker, as it was last measured."""
        return self.budget.look({worker.name: worker.pid for worker in self.workers})

    def taken(self) -> int:
        """Bytes that models take: what is their workers' own, and each version's weights once."""
        weights = {
            replica.need.folder: replica.need.weights_bytes
            for replica in self.replicas
            if replica.executor
        }
        return sum(memory.own for memory in self.memory().values()) + sum(weights.values())

    def has_room(self, replicas: Sequence[Replica]) -> bool:
        """Whether replicas could take as much memory again as they did when it was last
        measured.
        """
        own = sum(
            self._measured(r, r.executor)
            for r in replicas
            if isinstance(r.executor, ProcessExecutor)
        )
        left = self.budget.left(self.taken())
        return left is None or own <= left

    def _own_bytes(self, need: Need) -> int:
        """What a replica takes besides the weights, as another one of its version has shown."""
        return max(
            (each.own_bytes for each in self.replicas if each.need.folder == need.folder), default=0
        )

    def _measured(self, replica: Replica, executor: ProcessExecutor) -> int:
        """What its worker has, less what it had before it loaded anything and what is other
        instances'.
        """
        worker = executor.worker
        numbers = {number for number in worker.instances if number != executor.number}
        others = sum(
            r.own_bytes
            for r in self.replicas
            if isinstance(r.executor, ProcessExecutor) and r.executor.number in numbers
        )
        return (
            max(0, self.memory()[worker.name].own - worker.base_bytes - others)
            if worker.alive
            else 0
        )

    async def watch(self) -> None:
        """Measure memory every few seconds, and rebalance every `rebalance_seconds`."""
        every = self.config.rebalance_seconds
        due = time.monotonic() + every
        while True:
            await asyncio.sleep(min(_MEASURED, every or _MEASURED))
            await self.measure()
            if every and len(self.groups) > 1 and time.monotonic() >= due:
                await self.balancer.rebalance()
                due = time.monotonic() + every

    # -- seeing ------------------------------------------------------------------------------------

    def describe(self) -> list[WorkerDescription]:
        """The workers."""
        memory = self.memory()
        return [
            {
                "name": worker.name,
                "pid": worker.pid,
                "cores": list(worker.cores),
                "instances": list(
                    dict.fromkeys(executor.label for executor in worker.instances.values())
                ),
                "resident_bytes": resident_bytes(worker.pid),
                "pss_bytes": memory[worker.name].pss,
                "own_bytes": memory[worker.name].own,
                "started_at": worker.started_at,
            }
            for worker in self.workers
        ]

    def _came(self, worker: WorkerProcess) -> None:
        worker.on_exit.append(self._gone)
        self.workers.append(worker)

    def _gone(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        if worker.given_up:
            labels = ", ".join(dict.fromkeys(executor.label for executor in worker.carried))
            self.journal.emit("run_given_up", model=labels, reason=worker.farewell)
        elif not worker.expected:
            self.lost += 1
            models = ", ".join(dict.fromkeys(executor.label for executor in worker.carried))
            self.journal.emit(
                "worker_hung" if worker.hung else "worker_lost",
                model=models,
                reason=worker.farewell,
            )
