"""Worker processes that are killed, hang, lie or do not load, and servers that end."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import CompiledModelError, InfuseError, ModelFailureError, RuntimeFailure
from infuse.serving.workers import process
from infuse.serving.workers.executor import Result, WorkerLostError
from infuse.serving.workers.process import WorkerProcess
from tests.serving import models
from tests.serving.workers_stage import add, folders, run, worked

__all__ = ["add", "folders"]

pytestmark = pytest.mark.row("S5")


def test_a_worker_that_is_killed_is_noticed_idle_or_busy(
    folders: Callable[[str, bytes], Path],
) -> None:
    folder = folders("loop", models.looping())

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("loop", folder, 1, 60)
        turns = np.array(models.FOREVER, np.int64)
        running = [asyncio.ensure_future(run(executor, turns, np.zeros(1)))]
        executor.depth = 2
        running.append(asyncio.ensure_future(run(executor, turns, np.zeros(1))))
        await asyncio.sleep(0.05)
        os.kill(worker.pid, signal.SIGKILL)
        first, second = await asyncio.gather(*running, return_exceptions=True)
        assert isinstance(first, WorkerLostError)
        assert isinstance(second, WorkerLostError)
        assert (first.begun, second.begun) == (True, False)
        assert "SIGKILL" in str(first)
        assert not executor.alive
        assert not worker.alive

    worked(work)

    async def idle(worker: WorkerProcess) -> None:
        executor = await worker.add("loop", folder, 1, 60)
        os.kill(worker.pid, signal.SIGKILL)
        await worker.ended
        assert not executor.alive
        assert executor.free == 0

    worked(idle)


def test_answers_that_a_worker_gave_before_its_end_count(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        answer = asyncio.ensure_future(run(executor, models.rows(5)))
        await asyncio.sleep(0)  # it is sent
        executor._loop.remove_reader(executor._ours.fileno())
        limit = time.monotonic() + 60
        while not _readable(executor._ours):
            assert time.monotonic() < limit
        os.kill(worker.pid, signal.SIGKILL)
        (found,) = await answer
        np.testing.assert_array_equal(found, models.rows(6))

    worked(work)


def _readable(channel: socket.socket) -> bool:
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_a_run_that_hangs_ends_its_worker(folders: Callable[[str, bytes], Path]) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("loop", folders("loop", models.looping()), 1, 60)
        with pytest.raises(WorkerLostError, match=r"hung .* longer than 0\.1 s"):
            await run(executor, np.array(models.FOREVER, np.int64), np.zeros(1), seconds=0.1)
        assert not worker.alive

    worked(work)


def test_a_worker_tells_why_it_cannot_load(tmp_path: Path, add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        with pytest.raises(CompiledModelError, match="does not exist"):
            await worker.add("none", tmp_path / "none", 1, 60)
        executor = await worker.add("add", add, 1, 60)  # it goes on
        (found,) = await run(executor, models.rows(1))
        np.testing.assert_array_equal(found, models.rows(2))

    worked(work)


def test_a_worker_that_ends_while_it_loads(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        os.kill(worker.pid, signal.SIGSTOP)
        loading = asyncio.ensure_future(worker.add("add", add, 1, 60))
        await asyncio.sleep(0.01)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerLostError, match="SIGKILL"):
            await loading
        with pytest.raises(WorkerLostError, match="not there"):
            await worker.add("add", add, 1, 60)

    worked(work)


def test_a_run_has_its_time_from_its_own_begin(add: Path) -> None:
    """However many are with a worker that has stopped, it is found after the time of one."""

    async def stop(worker: WorkerProcess) -> None:
        os.kill(worker.pid, signal.SIGSTOP)
        state = Path(f"/proc/{worker.pid}/stat")
        await models.until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "stop")

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        executor.depth = 3
        await stop(worker)
        results: list[Result] = []
        for seconds in (1000.0, 0.05, 1000.0):
            executor.submit([[models.rows(1)]], seconds, results.append)
        await asyncio.sleep(0.2)
        assert worker.alive, worker.farewell  # the first has its time yet
        os.kill(worker.pid, signal.SIGCONT)
        await models.until(lambda: len(results) == 3, "all are answered")
        assert [result.error for result in results] == [None] * 3
        await stop(worker)
        for seconds in (0.05, 1000.0, 1000.0):
            executor.submit([[models.rows(1)]], seconds, results.append)
        await worker.ended
        assert "hung (a run took longer than 0.05 s)" in str(results[3].error)

    worked(work)


def test_a_worker_that_does_not_load_in_time_is_ended(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(WorkerLostError, match="not loaded"):
            await worker.add("add", add, 1, 0.05)
        await worker.ended

    worked(work)


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    async def start() -> None:
        with pytest.raises(ModelFailureError, match="no worker process"):
            await WorkerProcess(()).start()

    monkeypatch.setattr(process.subprocess, "Popen", refuse)
    asyncio.run(start())


# A process in the place of a worker: it takes a model, and answers the first work as `{answer}`
# says.
_FAKE = """
import socket, sys, os
from infuse.serving.workers import wire
control = socket.socket(fileno=int(sys.argv[1]))
message, descriptors, _, _ = socket.recv_fds(control, 1 << 17, 64)
order = wire.to_worker.decode(message)
channel = socket.socket(fileno=descriptors[0])
control.send(wire.encode(wire.Started(order.instance)))
work = wire.to_instance.decode(channel.recv(1 << 17))
{answer}
control.recv(1)
"""


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("channel.close()", WorkerLostError),
        ("channel.send(b'garbage')", WorkerLostError),
        ("channel.send(os.urandom(100000))", WorkerLostError),
        ("channel.send(wire.encode(wire.Work(0, 0, 0, [])))", WorkerLostError),
        ("os._exit(3)", WorkerLostError),
        ("control.close(); os._exit(0)", WorkerLostError),
        ("channel.send(wire.encode(wire.Done(work.slot, 1 << 50, [], 0, 0)))", ModelFailureError),
        (
            (
                "channel.send(wire.encode(wire.Done("
                "work.slot, 64, [('FP32', (1 << 40,), 0, 4 << 40)], "
                "0, 0)))"
            ),
            InfuseError,
        ),
        (
            (
                "channel.send(wire.encode(wire.Done("
                "work.slot, 0, [], 0, 0, ('SystemExit', 'x', '', "
                "''))))"
            ),
            RuntimeFailure,
        ),
    ],
)
def test_a_worker_that_lies(
    answer: str, error: type[Exception], add: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake_worker.py").write_text(_FAKE.format(answer=answer))
    monkeypatch.setattr(process, "_MODULE", "fake_worker")
    monkeypatch.setattr(
        process, "child_environment", lambda: {**os.environ, "PYTHONPATH": str(tmp_path)}
    )

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        with pytest.raises(error):
            await run(executor, models.rows(1))

    worked(work)


def test_an_answer_to_what_nobody_asked_is_passed_over(
    add: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "[channel.send(wire.encode(wire.Done(n, 0, [], 0, 0))) for n in (99, -1, work.slot)]"
    (tmp_path / "fake_worker.py").write_text(_FAKE.format(answer=answer))
    monkeypatch.setattr(process, "_MODULE", "fake_worker")
    monkeypatch.setattr(
        process, "child_environment", lambda: {**os.environ, "PYTHONPATH": str(tmp_path)}
    )

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        assert await run(executor, models.rows(1)) == []

    worked(work)


def test_a_worker_takes_garbage_from_the_server_for_its_end(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        executor._ours.send(b"garbage")
        await asyncio.wait_for(worker.ended, 60)
        assert not executor.alive

    worked(work)


def test_runs_that_are_given_up_are_answered(folders: Callable[[str, bytes], Path]) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("loop", folders("loop", models.looping()), 1, 60)
        found: list[Result] = []
        executor.submit([[np.array(models.FOREVER, np.int64)], [np.zeros(1)]], 60, found.append)
        await worker.close(0.1)
        assert len(found) == 1
        assert isinstance(found[0].error, WorkerLostError)

    worked(work)
