"""How a version runs of which nobody has said how many replicas: one on all cores, or one on each
group of cores.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from infuse.serving.control.model_config import ModelConfig
from infuse.serving.engine.batching.max_batch import LARGEST
from infuse.serving.engine.batching.timing import GAIN
from infuse.serving.engine.tuner import Tuner, WarmupReport, Way
from infuse.serving.workers.budget import NoRoomError
from infuse.serving.workers.executor import Executor, WorkerLostError
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.replicas import Changed, Replica


class Deployment:
    """Starts the replicas of a version and warms them up.

    `replicas` and `warmup_report` are there when `start` has returned; a version that fails leaves
    nothing behind.
    """

    def __init__(
        self,
        pool: WorkerPool,
        need: Need,
        config: ModelConfig,
        tuner: Tuner,
        changed: Changed,
    ) -> None:
        self.replicas: list[Replica] = []
        self.warmup_report = WarmupReport()
        self._pool = pool
        self._need = need
        self._config = config
        self._tuner = tuner
        self._changed = changed

    async def start(self) -> None:
        """Start what the configuration says; what it does not say is measured.

        Raises what loading and warming up raise, and NoRoomError when the memory does not suffice.
        """
        config = self._config
        count = config.replicas or 1
        await self._add(count, self._need)
        self.warmup_report = await self._warmed(self.replicas[0])
        decides = (
            self._pool.packed
            and not config.replicas
            and not config.threads
            and len(self._pool.groups) > 1
        )
        if decides and self.warmup_report.seconds:
            await self._spread()
        await self._pool.settle(self.replicas)

    async def close(self) -> None:
        """End all replicas."""
        replicas, self.replicas = self.replicas, []
        await asyncio.gather(*(replica.close() for replica in replicas))

    async def _add(self, count: int, need: Need) -> None:
        for _ in range(count):
            replica = Replica(self._pool, need, self._changed)
            await replica.start()
            self.replicas.append(replica)

    async def _warmed(self, replica: Replica) -> WarmupReport:
        config, executor = self._config, _running(replica)
        if config.warmup.enabled:
            return await self._tuner.warm_up(executor, config.batching.max_size)
        report = WarmupReport(most=config.batching.max_size or LARGEST // 2)
        if not self._tuner.together.allowed or await self._tuner.contradicted(executor, report):
            report.most = 1
        return report

    async def _spread(self) -> None:
        """Try one replica per group beside the one on all cores, and keep what answers more rows
        per second.
        """
        wide, wide_report = self.replicas, self.warmup_report
        threads = self._pool.threads(0, replicas=len(self._pool.groups))
        self.replicas = []
        try:
            await self._add(len(self._pool.groups), replace(self._need, threads=threads))
            report = await self._warmed(self.replicas[0])
            rates = await self._tuner.rates(
                Way([_running(each) for each in wide], _best(wide_report)),
                Way([_running(each) for each in self.replicas], _best(report)),
            )
        except (NoRoomError, WorkerLostError) as error:
            await self.close()
            self.replicas = wide
            self.warmup_report.notes.append(
                f"it runs on all cores, for one replica per group was not possible: {error.what}"
            )
            return
        except BaseException:
            self.replicas += wide
            raise
        surplus = wide
        if rates[1] > GAIN * rates[0] and not self._too_slow(wide_report, report):
            self.warmup_report = report
        else:
            surplus, self.replicas = self.replicas, wide
        shape = f"{len(self.replicas)} replicas of {self.replicas[0].need.threads} threads"
        model, _, version = self._need.name.rpartition("/")
        self._pool.journal.emit(
            "replicas_chosen",
            model=model,
            version=int(version),
            reason=f"{shape}: {rates[1]:.0f} rows/s in groups, {rates[0]:.0f} rows/s on all cores",
        )
        await asyncio.gather(*(replica.close() for replica in surplus))

    def _too_slow(self, wide: WarmupReport, narrow: WarmupReport) -> bool:
        """Whether a single row misses the latency target in a group, and does not on all cores."""
        target = self._config.batching.latency_target_ms
        if target is None:
            return False
        return min(narrow.seconds.values()) * 1e3 > target >= min(wide.seconds.values()) * 1e3


def _running(replica: Replica) -> Executor:
    if replica.executor is None:
        raise WorkerLostError(f"its worker was lost while it was loaded: {replica.reason}")
    return replica.executor


def _best(report: WarmupReport) -> int:
    """The rows of the batch with the highest rate."""
    return max(report.seconds, key=lambda rows: rows / report.seconds[rows])
