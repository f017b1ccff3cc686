"""Replicas of models in shared workers are moved to even out the load."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import CompiledModelError
from infuse.serving.engine.engine import Engine
from infuse.serving.workers.process_executor import ProcessExecutor
from tests.serving import placement_stage as stage
from tests.serving.placement_stage import keep_busy, small_models

pytestmark = [pytest.mark.row("S5"), stage.needs_two_cores]


async def together(opened: Engine, *names: str) -> None:
    """Put the replicas of models into the first group."""
    for name in names:
        replica = stage.replica(opened, name)
        if replica.group is not opened.pool.groups[0]:
            assert await replica.move(opened.pool.groups[0])


def test_a_move_loses_no_request(tmp_path: Path) -> None:
    small_models(tmp_path, "a", "b")

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            await together(opened, "a", "b")
            assert len(opened.pool.workers) == 1
            answered = 0
            stop = False

            async def client() -> None:
                nonlocal answered
                while not stop:
                    assert await stage.ask(opened, "b", 8, 3.0) == 6.0
                    answered += 1

            clients = [asyncio.create_task(client()) for _ in range(8)]
            await stage.until(lambda: answered > 50, "requests are answered")
            for name in ("a", "b"):
                keep_busy(stage.replica(opened, name), 20.0)
            assert len(opened.placement()["plan"]["moves"]) == 1
            assert await opened.pool.balancer.rebalance() == 1
            assert len(opened.pool.workers) == 2
            before = answered
            await stage.until(
                lambda: answered > before + 50, "requests are answered after the move"
            )
            assert await opened.pool.balancer.rebalance() == 0
            stop = True
            await asyncio.gather(*clients)
            assert opened.pool.lost == 0
            assert stage.replica(opened, "a").restarts == stage.replica(opened, "b").restarts == 0
            event = next(event for event in opened.events if event["kind"] == "replica_moved")
            assert event["version"] == 1
            assert (
                "from group-0 to group-1: the highest load per core falls from" in event["reason"]
            )

    asyncio.run(check())


@pytest.mark.parametrize(
    ("loads", "moved"),
    [((1.0, 0.15, 0.9), 0), ((0.05, 0.04, 0.0), 0), ((0.6, 0.5, 0.1), 1)],
    ids=["small gain", "idle", "large gain"],
)
def test_nothing_moves_for_little(tmp_path: Path, loads: tuple[float, ...], moved: int) -> None:
    small_models(tmp_path, "a", "b", "c")

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            await together(opened, "a", "b")
            if stage.replica(opened, "c").group is opened.pool.groups[0]:
                await stage.replica(opened, "c").move(opened.pool.groups[1])
            for name, load in zip("abc", loads):
                keep_busy(stage.replica(opened, name), load)
            assert opened.pool.balancer.loads() == pytest.approx([loads[0] + loads[1], loads[2]])
            assert await opened.pool.balancer.rebalance() == moved
            assert stage.kinds(opened).count("replica_moved") == moved

    asyncio.run(check())


def test_loads_are_balanced_every_so_often(tmp_path: Path) -> None:
    small_models(tmp_path, "a", "b")

    async def check() -> None:
        async with stage.engine(tmp_path, rebalance_seconds=0.02) as opened:
            await together(opened, "a", "b")
            for name in "ab":
                keep_busy(stage.replica(opened, name), 20.0)
            await stage.until(lambda: "replica_moved" in stage.kinds(opened), "one is moved")
            await stage.until(lambda: len(opened.pool.workers) == 2, "each group has a worker")
            assert [await stage.ask(opened, name, 8) for name in "ab"] == [1, 2]

    asyncio.run(check())


def test_a_move_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_models(tmp_path, "a", "b")

    async def broken(*_: Any) -> ProcessExecutor:
        raise CompiledModelError("the folder is gone")

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            await together(opened, "a", "b")
            for name in "ab":
                keep_busy(stage.replica(opened, name), 20.0)
            with monkeypatch.context() as patch:
                patch.setattr(opened.pool.groups[1], "open", broken)
                assert await opened.pool.balancer.rebalance() == 0
            event = next(event for event in opened.events if event["kind"] == "move_failed")
            assert "from group-0 to group-1: [INF-501] The folder is gone" in event[
                "reason"
            ].replace(" the", " The")
            assert [await stage.ask(opened, name, 8) for name in "ab"] == [1, 2]
            assert len(opened.pool.workers) == 1

    asyncio.run(check())
