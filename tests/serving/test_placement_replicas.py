"""How many replicas a model has: measured, or as configured."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from infuse.serving.engine.batching.timing import GAIN
from infuse.serving.engine.tuner import Tuner, Way
from infuse.serving.workers.budget import NoRoomError
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.replicas import Replica
from tests.serving import placement_stage as stage
from tests.serving.placement_stage import keep_busy

pytestmark = [pytest.mark.row("S5"), stage.needs_two_cores]


@pytest.mark.parametrize("grouped", [True, False])
def test_the_faster_of_one_replica_and_one_per_group_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    stage.put(tmp_path / "models", "a", stage.dense(8))

    async def rates(_: Tuner, *ways: Way, **__: Any) -> list[float]:
        return [102.0 + 2 * grouped if len(way.executors) == 2 else 100.0 for way in ways]

    monkeypatch.setattr(Tuner, "rates", rates)

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            replicas = opened.models["a"].versions[1].instances
            assert [replica.need.threads for replica in replicas] == (
                [1, 1] if grouped else [len(opened.pool.cores)]
            )
            assert [r.group for r in replicas] == (
                opened.pool.groups if grouped else [opened.pool.wide]
            )
            assert len(opened.pool.workers) == len(replicas)
            assert await stage.ask(opened, "a", 8) == 1
            reason = next(
                event["reason"] for event in opened.events if event["kind"] == "replicas_chosen"
            )
            assert reason.endswith("rows/s in groups, 100 rows/s on all cores")

    asyncio.run(check())


def test_without_memory_for_more_it_stays_on_all_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.put(tmp_path / "models", "a", stage.dense(8))
    admit = WorkerPool.admit

    async def admitted(pool: WorkerPool, replica: Replica) -> None:
        if len(pool.replicas) == 2:
            raise NoRoomError("it needs 7 MiB of memory, and 1 MiB are left for models")
        await admit(pool, replica)

    monkeypatch.setattr(WorkerPool, "admit", admitted)

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            version = opened.models["a"].versions[1]
            assert [replica.group for replica in version.instances] == [opened.pool.wide]
            (note,) = version.notes
            assert note.endswith(
                "not possible: it needs 7 MiB of memory, and 1 MiB are left for models"
            )
            assert len(opened.pool.workers) == 1
            assert await stage.ask(opened, "a", 8) == 1

    asyncio.run(check())


def test_the_choice_is_measured(tmp_path: Path) -> None:
    stage.put(tmp_path / "models", "a", stage.dense(512))

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            reason = next(
                event["reason"] for event in opened.events if event["kind"] == "replicas_chosen"
            )
            found = re.fullmatch(
                r"(\d) replicas of (\d+) threads: (\d+) rows/s in groups, (\d+) rows/s on all "
                r"cores",
                reason,
            )
            assert found is not None
            count, threads, grouped, wide = map(int, found.groups())
            if abs(grouped - GAIN * wide) > 2:  # both are rounded
                assert (count == 2) == (grouped > GAIN * wide)
            replicas = opened.models["a"].versions[1].instances
            assert [replica.need.threads for replica in replicas] == [threads] * count
            assert await stage.ask(opened, "a", 512) == pytest.approx(1)

    asyncio.run(check())


def test_the_numbers_of_the_configuration_are_kept(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    stage.put(tmp_path / "models", "three", stage.dense(8), replicas=3)
    stage.put(tmp_path / "models", "wide", stage.dense(8), replicas=1, threads=cores)

    async def check() -> None:
        async with stage.engine(tmp_path, cores=2) as opened:
            three = opened.models["three"].versions[1].instances
            assert len(three) == 3
            assert {replica.group for replica in three} == set(opened.pool.groups)
            assert stage.replica(opened, "wide").group is opened.pool.wide
            keep_busy(stage.replica(opened, "wide"), 1.0)
            assert opened.pool.balancer.loads() == pytest.approx([0.5, 0.5])
            assert "replicas_chosen" not in stage.kinds(opened)

    asyncio.run(check())
