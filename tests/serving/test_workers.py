"""Worker processes: every datatype through shared memory, ends of all kinds, and what is left behind."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from infuse.errors import CompiledModelError, InfuseError, ModelFailureError, RuntimeFailure
from infuse.serving.config import Workers
from infuse.serving.telemetry.journal import Journal
from infuse.serving.warmup import run_once
from infuse.serving.workers import process, wire
from infuse.serving.workers.executor import Executor, LocalExecutor, Result, WorkerLostError
from infuse.serving.workers.memory import Slot
from infuse.serving.workers.pool import Need, Replica, WorkerPool
from infuse.serving.workers.process import RemoteExecutor, WorkerProcess
from tests.serving import models

pytestmark = pytest.mark.row("S5")

KINDS: dict[str, tuple[int, Any]] = {
    "BOOL": (TensorProto.BOOL, np.bool_),
    "INT8": (TensorProto.INT8, np.int8),
    "INT16": (TensorProto.INT16, np.int16),
    "INT32": (TensorProto.INT32, np.int32),
    "INT64": (TensorProto.INT64, np.int64),
    "UINT8": (TensorProto.UINT8, np.uint8),
    "UINT16": (TensorProto.UINT16, np.uint16),
    "UINT32": (TensorProto.UINT32, np.uint32),
    "UINT64": (TensorProto.UINT64, np.uint64),
    "FP16": (TensorProto.FLOAT16, np.float16),
    "FP32": (TensorProto.FLOAT, np.float32),
    "FP64": (TensorProto.DOUBLE, np.float64),
    "BF16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bytes], Path]:
    """Compiled models by name, each made once."""
    root = tmp_path_factory.mktemp("compiled")
    known: dict[str, Path] = {}

    def folder(name: str, content: bytes) -> Path:
        if name not in known:
            known[name] = models.compiled(root / name, content)
        return known[name]

    return folder


@pytest.fixture(scope="module")
def add(folders: Callable[[str, bytes], Path]) -> Path:
    return folders("add", models.adder(1.0))


def worked(work: Callable[[WorkerProcess], Awaitable[None]], memory_mb: int = 0) -> None:
    """Do something with a worker, which ends afterwards."""

    async def run() -> None:
        worker = WorkerProcess((), memory_mb)
        await worker.start()
        try:
            await work(worker)
        finally:
            await worker.close()

    asyncio.run(run())


async def run(executor: Executor, *arrays: Any, seconds: float = 60.0) -> list[Any]:
    return await run_once(executor, [[array] for array in arrays], seconds)


@pytest.mark.parametrize("name", KINDS)
def test_every_type_of_numbers_goes_there_and_back(name: str, folders: Callable[[str, bytes], Path]) -> None:
    kind, dtype = KINDS[name]
    folder = folders(name, models.identity(kind))
    values = np.frombuffer(np.random.default_rng(0).bytes(8 * 40), np.uint8).astype(dtype)
    given = values[: 4 * 10].reshape(10, 4)

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add(name, folder, 1, 60)
        for part in (given, given[:1], given[:0], given[::3]):
            (found,) = await run(executor, part)
            assert found.dtype == part.dtype
            np.testing.assert_array_equal(found, part)

    worked(work)


def test_texts_go_there_and_back(folders: Callable[[str, bytes], Path]) -> None:
    folder = folders("BYTES", models.identity(TensorProto.STRING))
    given = np.array([[b"", b"a\0b", "ü—\U0001f600".encode(), b"\xff\xfe no text"], [b"x" * 100_000, b"1", b"2", b"3"]])
    given = given.astype(object)

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("BYTES", folder, 1, 60)
        for part in (given, given[:1], given[:0]):
            (found,) = await run(executor, part)
            assert found.tolist() == part.tolist()

    worked(work)


def test_memory_grows_with_what_is_sent_and_small_things_follow_large_ones(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        for count in (1, 100_000, 3, 1_000_000, 2, 16_384, 16_385):
            given = np.arange(4 * count, dtype=np.float32).reshape(count, 4)
            (found,) = await run(executor, given)
            np.testing.assert_array_equal(found, given + 1)

    worked(work)


def test_arrays_are_stacked_in_the_memory(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        parts = [np.asfortranarray(models.rows(n, n)) for n in (1, 3, 2)]
        (found,) = await run_once(executor, [parts], 60)
        np.testing.assert_array_equal(found, np.concatenate(parts) + 1)

    worked(work)


def test_more_output_than_was_foreseen(folders: Callable[[str, bytes], Path]) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("fill", folders("fill", models.filler()), 1, 60)
        for count in (5, 3_000_000, 0, 7):
            (found,) = await run(executor, np.array([count], np.int64))
            np.testing.assert_array_equal(found, np.zeros(count, np.float32))

    worked(work)


def test_the_memory_cannot_be_made_smaller_by_the_other_side() -> None:
    slot = Slot()
    slot.reserve(100_000)
    other = Slot(os.dup(slot.descriptor))
    with pytest.raises(PermissionError):
        os.ftruncate(other.descriptor, 0)
    assert fcntl.fcntl(slot.descriptor, 1034) & 2  # F_GET_SEALS, F_SEAL_SHRINK
    other.close()
    slot.close()


@pytest.mark.parametrize(
    "where",
    [
        ("FP32", (1 << 40,), 0, 4 << 40),
        ("FP32", (4,), -16, 16),
        ("FP32", (4,), 0, 15),
        ("FP32", (-4,), 0, 16),
        ("FP32", (2, -2), 0, 16),
        ("FP32", (4,), (1 << 16) - 4, 16),
        ("FP33", (4,), 0, 16),
        ("BYTES", (4,), 0, 16),
        ("BYTES", (1 << 40,), 0, 1 << 12),
    ],
)
def test_figures_of_the_other_side_are_not_trusted(where: wire.Where) -> None:
    slot = Slot()
    slot.write([np.full(64, 255, np.uint8)], 0)
    with pytest.raises(InfuseError):
        slot.view(where)
    slot.close()


# ------------------------------------------------------------------------------------------------- ends of all kinds


def test_a_worker_that_is_killed_is_noticed_idle_or_busy(folders: Callable[[str, bytes], Path]) -> None:
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


def test_what_a_model_refuses_is_no_end(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        with pytest.raises(InfuseError):
            await run(executor, np.zeros((1, 5), np.float32))
        (found,) = await run(executor, models.rows(1))
        np.testing.assert_array_equal(found, models.rows(2))

    worked(work)


def test_too_much_memory_is_an_error_of_that_run(folders: Callable[[str, bytes], Path]) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("fill", folders("fill", models.filler()), 1, 60)
        for count in (1 << 30, 1 << 45, 1 << 61):
            with pytest.raises((RuntimeFailure, ModelFailureError)):
                await run(executor, np.array([count], np.int64))
        (found,) = await run(executor, np.array([3], np.int64))
        assert found.tolist() == [0, 0, 0]

    worked(work, memory_mb=2048)


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


# A process in the place of a worker: it takes a model, and answers the first work as `{answer}` says.
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
        ("channel.send(wire.encode(wire.Done(work.slot, 64, [('FP32', (1 << 40,), 0, 4 << 40)], 0, 0)))", InfuseError),
        ("channel.send(wire.encode(wire.Done(work.slot, 0, [], 0, 0, ('SystemExit', 'x', '', ''))))", RuntimeFailure),
    ],
)
def test_a_worker_that_lies(
    answer: str, error: type[Exception], add: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake_worker.py").write_text(_FAKE.format(answer=answer))
    monkeypatch.setattr(process, "_MODULE", "fake_worker")
    monkeypatch.setattr(process, "child_environment", lambda: {**os.environ, "PYTHONPATH": str(tmp_path)})

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
    monkeypatch.setattr(process, "child_environment", lambda: {**os.environ, "PYTHONPATH": str(tmp_path)})

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


# ------------------------------------------------------------------------------------------------- replicas


def pool(**fields: Any) -> WorkerPool:
    return WorkerPool(Workers(**fields), Journal())


def test_a_lost_worker_is_replaced(add: Path) -> None:
    async def check() -> None:
        workers = pool()
        told: list[Executor | None] = []
        replica = Replica(workers, Need("add", add, 1), lambda executor, _: told.append(executor))
        first = await replica.start()
        assert isinstance(first, RemoteExecutor)
        for turn in (1, 2):
            os.kill(workers.workers[0].pid, signal.SIGKILL)
            await models.until(lambda turn=turn: replica.restarts == turn and replica.executor, "it is replaced")
            assert replica.executor is not None
            (found,) = await run(replica.executor, models.rows(1))
            np.testing.assert_array_equal(found, models.rows(2))
        assert [executor is None for executor in told] == [True, False, True, False]
        assert workers.lost == 2
        await replica.close()
        assert workers.workers == []

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


def test_runs_in_process_are_right_and_a_hang_is_told(add: Path, folders: Callable[[str, bytes], Path]) -> None:
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


def test_runs_that_are_given_up_are_answered(folders: Callable[[str, bytes], Path]) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("loop", folders("loop", models.looping()), 1, 60)
        found: list[Result] = []
        executor.submit([[np.array(models.FOREVER, np.int64)], [np.zeros(1)]], 60, found.append)
        await worker.close(0.1)
        assert len(found) == 1
        assert isinstance(found[0].error, WorkerLostError)

    worked(work)


# ------------------------------------------------------------------------------------------------- what is left


def descriptors() -> list[str]:
    """What this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
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
        workers = pool()
        await cycle(workers, 1)
        before = descriptors()
        for turn in range(12):
            await cycle(workers, turn)
        after = descriptors()
        assert len(after) == len(before), set(after) - set(before)
        assert not [name for name in after if "memfd" in name]
        assert workers.workers == []

    asyncio.run(check())
    with pytest.raises(ChildProcessError):  # neither children nor zombies
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)


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
