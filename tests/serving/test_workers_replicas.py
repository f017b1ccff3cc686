"""Replicas: lost workers are replaced, runs in process, and what is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import InfuseError, ModelFailureError
from infuse.serving.config import Workers
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.workers.executor import Executor, LocalExecutor
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import Replica, WorkerPool
from infuse.serving.workers.process import WorkerProcess
from infuse.serving.workers.process_executor import ProcessExecutor
from tests.serving import models
from tests.serving.workers_stage import add, folders, run, worked

__all__ = ["add", "folders"]

pytestmark = pytest.mark.row("S5")


def pool(**fields: Any) -> WorkerPool:
    return WorkerPool(Workers(**fields), Journal())


def test_a_lost_worker_is_replaced(add: Path) -> None:
    async def check() -> None:
        workers = pool()
        told: list[Executor | None] = []
        replica = Replica(workers, Need("add", add, 1), lambda executor, _: told.append(executor))
        first = await replica.start()
        assert isinstance(first, ProcessExecutor)
        for turn in (1, 2):
            os.kill(workers.workers[0].pid, signal.SIGKILL)
            await models.until(
                lambda turn=turn: replica.restarts == turn and replica.executor, "it is replaced"
            )
            assert replica.executor is not None
            (found,) = await run(replica.executor, models.rows(1))
            np.testing.assert_array_equal(found, models.rows(2))
        assert [executor is None for executor in told] == [True, False, True, False]
        assert workers.lost == 2
        await replica.close()
        assert workers.workers == []

    asyncio.run(check())


def test_only_workers_that_end_no_run_are_replaced_later_and_later(add: Path) -> None:
    async def check() -> None:
        workers = pool()
        replica = Replica(workers, Need("add", add, 1), lambda *_: None)
        await replica.start()
        waits = []
        for turn, runs in enumerate((False, False, True, True), 1):
            if runs:
                assert replica.executor is not None
                await run(replica.executor, models.rows(1))
            os.kill(workers.workers[0].pid, signal.SIGKILL)
            await models.until(
                lambda turn=turn: replica.restarts == turn and replica.executor, "it is replaced"
            )
            waits.append(replica.wait)
        assert waits[0] < waits[1] > waits[2] == waits[3] == waits[0]
        await replica.close()

    asyncio.run(check())


def test_a_replica_that_cannot_come_back_says_so_and_tries_on(add: Path, tmp_path: Path) -> None:
    async def check() -> None:
        workers = pool()
        folder = tmp_path / "compiled"
        folder.symlink_to(add)
        replica = Replica(workers, Need("add", folder, 1), lambda *_: None)
        await replica.start()
        folder.unlink()
        os.kill(workers.workers[0].pid, signal.SIGKILL)
        await models.until(lambda: replica.failures >= 2, "it has failed")
        assert "does not exist" in replica.reason
        assert replica.executor is None
        folder.symlink_to(add)
        await models.until(lambda: replica.executor, "it is back")
        assert (replica.failures, replica.restarts, replica.reason) == (0, 1, "")
        await replica.close()

    asyncio.run(check())


def test_a_replica_is_closed_while_it_is_being_replaced(add: Path) -> None:
    async def check() -> None:
        workers = pool()
        replica = Replica(workers, Need("add", add, 1), lambda *_: None)
        await replica.start()
        os.kill(workers.workers[0].pid, signal.SIGKILL)
        await models.until(lambda: not workers.workers, "it is lost")
        await models.until(lambda: workers.workers, "it is being replaced")
        await replica.close()
        assert workers.workers == []

    asyncio.run(check())


def test_runs_in_process_are_right_and_a_hang_is_told(
    add: Path, folders: Callable[[str, bytes], Path]
) -> None:
    async def check() -> None:
        executor = LocalExecutor("add", add, 1)
        (found,) = await run(executor, models.rows(1, 3))
        np.testing.assert_array_equal(found, models.rows(2, 3))
        with pytest.raises(InfuseError):
            await run(executor, np.zeros((1, 5), np.float32))
        await executor.close()
        assert not executor.alive

        slow = LocalExecutor("loop", folders("loop", models.looping()), 1)
        with pytest.raises(ModelFailureError, match="not answered within"):
            await run(slow, np.array(30_000, np.int64), np.zeros(1), seconds=0.01)
        assert slow.free == 0  # its thread is still at it
        freed: list[bool] = []
        slow.freed = lambda: freed.append(True)
        await models.until(lambda: slow.free, "the run has ended")
        assert freed == [True]
        with pytest.raises(ModelFailureError, match="not answered within"):
            await run(slow, np.array(models.FOREVER, np.int64), np.zeros(1), seconds=0.01)
        await slow.close()  # does not wait for it
        assert not slow.alive

    asyncio.run(check())


# ------------------------------------------------------------------------------------- what is left


def descriptors() -> list[str]:
    """What this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return found


def children() -> set[int]:
    """The processes that this one has started, those that have ended and were not waited for among
    them.
    """
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def test_nothing_is_left_of_workers(add: Path) -> None:
    async def cycle(workers: WorkerPool, turn: int) -> None:
        replica = Replica(workers, Need("add", add, 1), lambda *_: None)
        executor = await replica.start()
        await run(executor, models.rows(turn))
        if turn % 3 == 0:
            os.kill(workers.workers[0].pid, signal.SIGKILL)
            await workers.workers[0].ended
        await replica.close()

    async def check() -> None:
        others = [name for name in descriptors() if "memfd" in name]  # of tests before
        workers = pool()
        await cycle(workers, 1)
        before = descriptors()
        for turn in range(12):
            await cycle(workers, turn)
        after = descriptors()
        assert len(after) == len(before), set(after) - set(before)
        assert len([name for name in after if "memfd" in name]) <= len(others)
        assert workers.workers == []

    others = children()  # of tests before
    asyncio.run(check())
    assert children() <= others


_SERVER = """
import asyncio, sys
from pathlib import Path
from infuse.serving.workers.process import WorkerProcess

async def main():
    worker = WorkerProcess(())
    await worker.start()
    await worker.add("loop", Path(sys.argv[1]), 1, 60)
    print(worker.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_workers_end_with_the_server_however_it_ends(add: Path) -> None:
    command = [sys.executable, "-c", _SERVER, str(add)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        worker = os.pidfd_open(pid)
        server.kill()
        server.wait()
        os.set_blocking(worker, False)
        limit = time.monotonic() + 60
        while _lives(worker):
            assert time.monotonic() < limit, "the worker outlives its server"
            time.sleep(0.01)
        os.close(worker)


def _lives(descriptor: int) -> bool:
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    pid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Pid:"))
    return pid > 0 and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_signals_for_the_server_do_not_end_workers(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid, number)
        (found,) = await run(executor, models.rows(1))
        np.testing.assert_array_equal(found, models.rows(2))
        assert worker.alive

    worked(work)
