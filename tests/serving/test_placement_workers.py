"""Replicas of models in shared workers: placed, crashed, isolated, refused."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import UnavailableError
from infuse.serving.engine.engine import Engine
from infuse.serving.transports.console.data import snapshot
from infuse.serving.workers.replicas import Replica
from tests.serving import placement_stage as stage
from tests.serving.placement_stage import remote, small_models

pytestmark = [pytest.mark.row("S5"), stage.needs_two_cores]


def pid(replica: Replica) -> int:
    return remote(replica).worker.pid


def begun(request: asyncio.Task[Any], replica: Replica, version: Any) -> bool:
    """Whether a request has been answered, or is being run."""
    return request.done() or replica.state == "busy" or bool(version.running)


def test_models_are_packed_into_one_worker_per_group(tmp_path: Path) -> None:
    small_models(tmp_path, "a", "b", "c", "d")

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            assert [await stage.ask(opened, name, 8) for name in "abcd"] == [1, 2, 3, 4]
            workers = opened.pool.workers
            assert sorted(len(worker.instances) for worker in workers) == [2, 2]
            for worker, group in zip(opened.pool.workers, opened.pool.groups):
                assert len(os.sched_getaffinity(worker.pid)) == len(group.cores)
            assert {core for worker in workers for core in os.sched_getaffinity(worker.pid)} == set(
                opened.pool.cores
            )
            await opened.admin.unload("a")
            await opened.admin.unload("b")
            assert [await stage.ask(opened, name, 8) for name in "cd"] == [3, 4]

    asyncio.run(check())


def test_the_placement_tells_cores_memory_workers_and_instances(tmp_path: Path) -> None:
    small_models(tmp_path, "a", "b")

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            for _ in range(10):
                await stage.ask(opened, "a", 8)
            told = json.loads(json.dumps(opened.placement()))
            assert [group["name"] for group in told["groups"]] == ["group-0", "group-1"]
            assert 0 < told["memory"]["taken_bytes"] < told["memory"]["limit_bytes"]
            worker = {worker["name"]: worker for worker in told["workers"]}
            for instance in told["instances"]:
                home = worker[instance["worker"]]
                assert f"{instance['model']}/1" in home["instances"]
                assert 0 < home["own_bytes"] <= home["pss_bytes"] <= home["resident_bytes"]
            first, second = told["instances"]
            assert (first["model"], first["replica"], first["threads"], first["state"]) == (
                "a",
                1,
                1,
                "idle",
            )
            assert first["milliseconds_by_rows"]["1"] > 0
            assert first["weights_bytes"] >= 256
            assert first["runs_per_second"] > second["runs_per_second"] == 0
            assert first["requests_per_second"] > 0
            assert first["busy"] > 0
            assert sum(group["load"] for group in told["groups"]) == pytest.approx(
                first["busy"], rel=0.5
            )
            assert told["plan"]["moves"] == []
            assert "by a fifth" in told["plan"]["reason"]
            assert {
                one["name"]
                for w in (await snapshot(opened))["placement"]["workers"]
                for one in w["instances"]
            } == {
                "a/1",
                "b/1",
            }

    asyncio.run(check())


def test_replicas_share_their_weights(tmp_path: Path) -> None:
    stage.put(tmp_path / "models", "large", stage.dense(2048), replicas=2, batching={"max_size": 1})
    weights = 4 * 2048 * 2048

    def mapped(replica: Replica, field: str) -> int:
        """Bytes of a field of the mapping of the weights."""
        text = Path(f"/proc/{pid(replica)}/smaps").read_text()
        mappings = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.MULTILINE)
        files = [m for m in mappings if str(replica.need.folder) in m.split("\n", 1)[0]]
        sizes = [int(re.findall(r"^Size: +(\d+)", m, re.MULTILINE)[0]) << 10 for m in files]
        (whole,) = [m for m, size in zip(files, sizes) if size >= weights]
        return int(re.findall(rf"^{field}: +(\d+)", whole, re.MULTILINE)[0]) << 10

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            first, second = (stage.replica(opened, "large", number) for number in (0, 1))
            assert first.group is not second.group
            for _ in range(20):
                await asyncio.gather(*(stage.ask(opened, "large", 2048) for _ in range(4)))
            assert remote(second).load.recent()[0] > 0
            for replica in (first, second):
                assert mapped(replica, "Rss") >= weights * 0.9
                assert mapped(replica, "Pss") < weights * 0.6
                assert (
                    mapped(replica, "Private_Clean") + mapped(replica, "Private_Dirty")
                    < weights / 10
                )
                assert replica.own_bytes < weights / 2
            assert (
                opened.pool.taken()
                < sum(memory.own for memory in opened.pool.memory().values()) + 1.1 * weights
            )

    asyncio.run(check())


def test_a_crash_costs_the_instances_of_one_worker_a_moment(tmp_path: Path) -> None:
    names = "abcd"
    small_models(tmp_path, *names)

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            killed = opened.pool.workers[0]
            inside = {executor.label for executor in killed.instances.values()}
            others = {
                name: pid(stage.replica(opened, name))
                for name in names
                if f"{name}/1" not in inside
            }
            answered = 0
            stop = False

            async def client(name: str, factor: int) -> None:
                nonlocal answered
                while not stop:
                    assert await stage.ask(opened, name, 8, 2.0) == 2.0 * factor
                    answered += 1

            clients = [
                asyncio.create_task(client(name, factor)) for factor, name in enumerate(names, 1)
            ]
            await stage.until(lambda: answered > 50, "requests are answered")
            os.kill(killed.pid, signal.SIGKILL)
            await stage.until(
                lambda: stage.kinds(opened).count("worker_started") == 2, "both instances are back"
            )
            before = answered
            await stage.until(lambda: answered > before + 50, "requests are answered again")
            stop = True
            await asyncio.gather(*clients)
            assert opened.pool.lost == 1
            assert {name: pid(stage.replica(opened, name)) for name in others} == others
            assert sorted(len(worker.instances) for worker in opened.pool.workers) == [2, 2]
            restarts = {name: stage.replica(opened, name).restarts for name in names}
            assert restarts == {name: int(name not in others) for name in names}

    asyncio.run(check())


def test_a_replica_that_runs_whenever_its_worker_is_lost_gets_one_of_its_own(
    tmp_path: Path,
) -> None:
    small_models(tmp_path, "a", "b", "c", "d")

    async def lose(opened: Engine, name: str) -> None:
        """End the worker while it runs a request of this model."""
        replica = stage.replica(opened, name)
        while True:
            await stage.until(lambda: replica.executor is not None, "it can run")
            process = pid(replica)
            os.kill(process, signal.SIGSTOP)
            request = asyncio.create_task(stage.ask(opened, name, 8))
            await stage.until(
                partial(begun, request, replica, opened.models[name].versions[1]), "it runs"
            )
            if not request.done():
                break
            os.kill(process, signal.SIGCONT)  # it has moved, and another worker has answered
            await request
        os.kill(process, signal.SIGKILL)
        await request

    async def check() -> None:
        async with stage.engine(tmp_path) as opened:
            guilty = stage.replica(opened, "a")
            group = guilty.group
            assert group is not None
            neighbours = [r for r in opened.pool.replicas if r.group is group and r is not guilty]
            assert len(neighbours) == 1
            for _ in range(2):
                await lose(opened, "a")
                await stage.until(
                    lambda: neighbours[0].executor is not None, "the neighbour is back"
                )
            assert guilty.group is not group
            assert neighbours[0].group is group
            assert pid(guilty) != pid(neighbours[0])
            assert os.sched_getaffinity(pid(guilty)) == set(group.cores)
            assert stage.kinds(opened).count("replica_isolated") == 1
            neighbour = pid(neighbours[0])
            await lose(opened, "a")
            assert pid(neighbours[0]) == neighbour
            assert [await stage.ask(opened, name, 8) for name in "abcd"] == [1, 2, 3, 4]

    asyncio.run(check())


def test_a_version_without_memory_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    small_models(tmp_path, "a")

    async def check() -> None:
        async with stage.engine(tmp_path, isolation="model", memory_mb=64) as opened:
            stage.put(tmp_path / "models", "large", stage.dense(3072))
            stage.put(tmp_path / "models", "a", stage.dense(3072), version=2)
            for name in ("large", "a"):
                with pytest.raises(
                    UnavailableError, match=r"it needs 60 MiB of memory, and \d+ MiB are left"
                ):
                    await opened.admin.load(name)
            assert await stage.ask(opened, "a", 8) == 1
            reasons = {
                (entry["name"], entry["version"]): entry for entry in await opened.admin.index()
            }
            assert reasons["a", "1"]["state"] == "READY"
            assert reasons["a", "2"]["state"] == reasons["large", "1"]["state"] == "UNAVAILABLE"
            assert "raise workers.memory_mb" in reasons["a", "2"]["reason"]
            assert len(opened.pool.workers) == 1

    asyncio.run(check())


def test_a_version_that_takes_more_than_it_seemed_to_is_refused_too(tmp_path: Path) -> None:
    batching = {"max_size": 64}
    stage.put(tmp_path / "models", "wide", stage.spread_out(1 << 18), replicas=1, batching=batching)

    async def check() -> None:
        async with stage.engine(tmp_path, isolation="model", memory_mb=48) as opened:
            (entry,) = await opened.admin.index()
            assert entry["state"] == "UNAVAILABLE"
            assert "of memory, and" in entry["reason"]
            assert opened.pool.workers == []

    asyncio.run(check())
