"""An engine whose workers die, hang and run out of memory: answers are right or honest, and none is
missing.
"""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import DeadlineError, InfuseError, ModelFailureError, UnavailableError
from infuse.serving.config import Security, ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.serving import models
from tests.serving.models import ask, first, write

pytestmark = pytest.mark.row("S7")


def config(folder: Path, **fields: Any) -> ServerConfig:
    return models.config(folder, **({"workers": Workers(), "control": "none"} | fields))


def pids(engine: Engine) -> list[int]:
    return [worker["pid"] for worker in engine.placement()["workers"]]


async def settled(engine: Engine, name: str) -> None:
    await models.until(lambda: engine.model_ready(name), f"{name} serves again")


def loop_request(turns: int, **fields: Any) -> InferRequest:
    inputs = [Tensor("turns", "INT64", np.array(turns, np.int64)), Tensor("x", "FP64", np.zeros(1))]
    return InferRequest("loop", inputs=inputs, **fields)


@pytest.mark.parametrize("replicas", [1, 2])
def test_workers_that_are_killed_under_load_lose_nothing(replicas: int, tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1), config=f"replicas: {replicas}\n")

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            counts: Counter[str] = Counter()
            done = asyncio.Event()

            async def client(number: int) -> None:
                value = float(1000 * number)
                while not done.is_set():
                    value += 1
                    try:
                        found = await asyncio.wait_for(ask(engine, "add", value), 60)
                    except ModelFailureError as error:  # lost twice: told, not answered wrongly
                        counts[type(error).__name__] += 1
                        continue
                    assert found == value + 1
                    counts["right"] += 1

            clients = [asyncio.ensure_future(client(number)) for number in range(16)]
            for kill in range(6):
                before = counts["right"]
                await models.until(
                    lambda before=before: counts["right"] > before + 200, "requests are answered"
                )
                os.kill(pids(engine)[0], signal.SIGKILL)
                await models.until(
                    lambda kill=kill: engine.pool.lost == kill + 1, "the loss is noticed"
                )
            await models.until(lambda: len(pids(engine)) == replicas, "all replicas are back")
            done.set()
            await asyncio.gather(*clients)
            assert counts["ModelFailureError"] == 0, counts
            (version,) = engine.versions()
            assert 1 <= version.restarts <= 6  # others were lost before they had loaded
            assert engine.inflight == 0

    asyncio.run(check())


def test_a_worker_that_is_killed_while_idle_is_replaced_and_requests_meanwhile_wait(
    tmp_path: Path,
) -> None:
    write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            assert await ask(engine, "add", 1) == 2
            os.kill(pids(engine)[0], signal.SIGKILL)
            await models.until(lambda: not engine.model_ready("add"), "the loss is noticed")
            assert engine.ready()
            assert await asyncio.wait_for(ask(engine, "add", 2), 60) == 3
            assert engine.ready()
            kinds = [event["kind"] for event in engine.events]
            assert kinds.index("worker_lost") < kinds.index("worker_started")

    asyncio.run(check())


def test_a_poison_request_fails_alone(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write(folder, "poison", b"", config="batching: {max_size: 16}\n")
    (folder / "poison" / "1" / "model.onnx").unlink()
    models.crashing(folder / "poison" / "1" / "compiled", 1.0)

    async def check() -> None:
        security = Security(compiled_folders=(folder,))
        async with Engine(config(tmp_path, security=security)) as engine:
            (version,) = engine.versions()
            for turn in range(2):
                values = [10.0 * turn + number for number in range(8)]
                bad = models.rows(models.POISON)
                work = [ask(engine, "poison", value) for value in values]
                work.insert(4, ask(engine, "poison", bad))
                found = await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), 60)
                failure = found.pop(4)
                assert isinstance(failure, ModelFailureError), failure
                assert "lost 2 times" in str(failure)
                assert "SIGABRT" in str(failure)
                assert found == [value + 1 for value in values]
            assert version.restarts == 4
            await settled(engine, "poison")

    asyncio.run(check())


def test_a_poison_request_harms_no_request_that_waits_in_its_worker(tmp_path: Path) -> None:
    """A fast model's worker has its next run before it ends the one under way: that one is
    innocent.
    """
    folder = tmp_path / "models"
    write(folder, "poison", b"", config="batching: {max_size: 1}\n")
    (folder / "poison" / "1" / "model.onnx").unlink()
    models.crashing(folder / "poison" / "1" / "compiled", 1.0)

    async def check() -> None:
        security = Security(compiled_folders=(folder,))
        defaults = {"threads": 1}  # warmed up: then it is known to be fast
        async with Engine(config(tmp_path, security=security, model_defaults=defaults)) as engine:
            (version,) = engine.versions()
            assert version.instances[0].executor.depth == 2
            work = [ask(engine, "poison", models.rows(models.POISON)) for _ in range(3)]
            work += [ask(engine, "poison", float(value)) for value in range(8)]
            found = await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), 60)
            assert [type(each) for each in found[:3]] == [ModelFailureError] * 3
            assert found[3:] == [value + 1 for value in range(8)]

    asyncio.run(check())


def test_a_model_that_hangs_is_ended_and_replaced(tmp_path: Path) -> None:
    write(tmp_path / "models", "loop", models.looping(), config="timeout_ms: 200\n")
    write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            hung = asyncio.ensure_future(engine.infer(loop_request(models.FOREVER)))
            assert await ask(engine, "add", 1) == 2  # another model's worker is not touched
            with pytest.raises(ModelFailureError, match="hung"):
                await asyncio.wait_for(hung, 60)
            response = await asyncio.wait_for(engine.infer(loop_request(5)), 60)
            assert first(response) == 5
            assert [event["kind"] for event in engine.events].count("worker_hung") == 2

    asyncio.run(check())


def test_a_request_leaves_a_hanging_model_when_its_time_is_over(tmp_path: Path) -> None:
    write(tmp_path / "models", "loop", models.looping(), config="timeout_ms: 3000\n")

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            deadline = asyncio.get_running_loop().time() + 0.1
            with pytest.raises(DeadlineError):
                await asyncio.wait_for(
                    engine.infer(loop_request(models.FOREVER, deadline=deadline)), 60
                )
            assert first(await asyncio.wait_for(engine.infer(loop_request(5)), 60)) == 5

    asyncio.run(check())


def test_a_long_run_whose_caller_has_gone_makes_room(tmp_path: Path) -> None:
    """Without a limit of its own: the run would hold its worker until it counts as hung."""
    write(tmp_path / "models", "loop", models.looping(), config="timeout_ms: 3600000\n")

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            for _time in range(4):  # more often than lost workers are borne
                gone = asyncio.create_task(engine.infer(loop_request(models.FOREVER)))
                version = engine.models["loop"].versions[1]
                await models.until(lambda version=version: version.running > 0, "it runs")
                gone.cancel()
                answer = await asyncio.wait_for(engine.infer(loop_request(5)), 60)
                assert first(answer) == 5
            assert engine.pool.lost == 0
            assert [event.kind for event in engine.journal.recent()].count("run_given_up") == 4

    asyncio.run(check())


def test_a_model_that_runs_out_of_memory_fails_that_request(tmp_path: Path) -> None:
    write(tmp_path / "models", "fill", models.filler(), config="memory_mb: 2048\n")

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            for count in (1 << 30, 1 << 45):
                inputs = [Tensor("shape", "INT64", np.array([count], np.int64))]
                with pytest.raises(InfuseError, match="memory"):
                    await asyncio.wait_for(engine.infer(InferRequest("fill", inputs=inputs)), 60)
            inputs = [Tensor("shape", "INT64", np.array([3], np.int64))]
            response = await asyncio.wait_for(engine.infer(InferRequest("fill", inputs=inputs)), 60)
            assert response.outputs[0].data.tolist() == [0, 0, 0]

    asyncio.run(check())


def test_requests_do_not_wait_for_workers_that_cannot_come_back(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        async with Engine(config(tmp_path)) as engine:
            assert await ask(engine, "add", 1) == 2
            (version,) = engine.versions()
            replica = version.instances[0]
            folder, gone = replica.need.folder, tmp_path / "gone"
            moved = tmp_path / "compiled"
            moved.symlink_to(folder)
            object.__setattr__(replica.need, "folder", gone)
            os.kill(pids(engine)[0], signal.SIGKILL)
            with pytest.raises(UnavailableError, match="cannot be started again"):
                await asyncio.wait_for(ask(engine, "add", 1), 60)
            with pytest.raises(UnavailableError, match="cannot be started again"):
                await asyncio.wait_for(ask(engine, "add", 1), 60)
            assert not engine.ready()
            gone.symlink_to(folder)
            await settled(engine, "add")
            assert await ask(engine, "add", 1) == 2

    asyncio.run(check())


def test_requests_that_hang_when_the_engine_stops_are_answered(tmp_path: Path) -> None:
    write(tmp_path / "models", "loop", models.looping())

    async def check() -> None:
        engine = Engine(config(tmp_path))
        await engine.start()
        work = [asyncio.ensure_future(engine.infer(loop_request(models.FOREVER))) for _ in range(3)]
        await models.until(lambda: engine.inflight == 3, "they are accepted")
        await engine.stop(0.1)
        found = await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), 60)
        assert all(isinstance(each, UnavailableError) for each in found), found
        assert pids(engine) == []

    asyncio.run(check())


def test_nothing_is_left_of_versions_that_were_loaded_and_unloaded(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))

    def counted() -> tuple[int, int]:
        names = [
            str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()
        ]
        return len(names), sum("memfd" in name for name in names)

    async def check() -> None:
        _, others = counted()  # of tests before
        async with Engine(config(tmp_path, control="explicit")) as engine:
            found = []
            for turn in range(6):
                await engine.admin.load("add")
                assert await ask(engine, "add", turn) == turn + 1
                await engine.admin.unload("add")
                found.append(counted())
                assert pids(engine) == []
            assert found[1:] == found[1:2] * 5
            assert found[-1][1] <= others

    asyncio.run(check())
