"""Memory of workers that is that requests are received in: never copied, always right, always
given back.
"""

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from infuse.serving.engine.tuner import run_once
from infuse.serving.workers.memory import Slot
from infuse.serving.workers.process import WorkerProcess
from infuse.serving.workers.slots import MOST_BUFFER_BYTES, RECEIVE_BUFFERS
from tests.serving import models
from tests.serving.receive_stage import BYTES, ROWS, copies, taken
from tests.serving.workers_stage import add, folders, run, worked

__all__ = ["add", "copies", "folders"]
pytestmark = pytest.mark.row("S5")


def filled(buffer: np.ndarray, first: float, rows: int = ROWS, start: int = 0) -> np.ndarray:
    """A tensor in a receive buffer, as a request has it."""
    array = np.frombuffer(buffer.data, np.float32, rows * 4, start).reshape(rows, 4)
    buffer[start : start + array.nbytes] = np.arange(
        first, first + rows * 4, dtype=np.float32
    ).view(np.uint8)
    return array


def test_a_loan_is_given_back_with_the_last_view_of_it() -> None:
    slot, back = Slot(), []
    buffer = slot.receive_buffer(1000, lambda: back.append(1))
    view = np.frombuffer(buffer[8:40].data, np.float32)
    reshaped = view.reshape(2, 4)[1:]
    del buffer, view
    assert back == []
    assert reshaped.shape == (1, 4)
    del reshaped
    assert back == [1]
    slot.close()


def test_inputs_in_a_loan_run_where_they_lie(add: Path, copies: list[int]) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        for first, start in (
            (0.0, 64),
            (7.0, 0),
            (-3.0, 4),
            (2.0, 1),
        ):  # the last one: not even aligned as floats are
            buffer = executor.receive_buffer(BYTES + 64)
            assert buffer is not None
            array = filled(buffer, first, start=start)
            del buffer
            assert taken(executor) == 1
            (found,) = await run(executor, array)
            np.testing.assert_array_equal(found, array + 1)
            assert taken(executor) == 1  # until nobody looks at the inputs any more
            del array
            assert taken(executor) == 0
        assert copies == []

    worked(work)


def test_what_does_not_lie_in_one_loan_is_copied(
    add: Path, folders: Callable[[str, bytes], Path], copies: list[int]
) -> None:
    folder = folders("BYTES", models.identity(TensorProto.STRING))

    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        other = await worker.add("add too", add, 1, 60)
        buffer = executor.receive_buffer(BYTES)
        assert buffer is not None
        array = filled(buffer, 1.0)
        for place, part in ((other, array), (executor, array[::2]), (executor, array.copy())):
            (found,) = await run(place, part)
            np.testing.assert_array_equal(found, part + 1)
        (found,) = await run_once(executor, [[array[:5], array[5:9]]], 60.0)
        np.testing.assert_array_equal(found, array[:9] + 1)
        assert copies == [1] * 4
        texts = await worker.add("BYTES", folder, 1, 60)
        words = np.array([[b"a", b"", b"c", b"\xff"]], object)
        held = texts.receive_buffer(BYTES)
        assert (await run(texts, words))[0].tolist() == words.tolist()
        del held

    worked(work)


def test_receive_buffers_are_few_and_not_too_large(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        assert executor.receive_buffer(MOST_BUFFER_BYTES + 1) is None
        loans = [executor.receive_buffer(BYTES) for _ in range(RECEIVE_BUFFERS)]
        assert all(buffer is not None for buffer in loans)
        assert executor.receive_buffer(BYTES) is None
        (found,) = await run(executor, np.ones((3, 4), np.float32))  # others run as ever
        assert (found == 2).all()
        loans.clear()
        assert taken(executor) == 0
        assert executor.receive_buffer(BYTES) is not None

    worked(work)


def test_a_loan_whose_worker_died_can_still_be_read_and_runs_elsewhere(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        buffer = executor.receive_buffer(BYTES)
        assert buffer is not None
        array = filled(buffer, 5.0)
        del buffer
        os.kill(worker.pid, signal.SIGKILL)
        await models.until(lambda: not worker.alive, "the worker's end is noticed")
        assert executor.receive_buffer(BYTES) is None
        other = WorkerProcess(())
        await other.start()
        try:
            (found,) = await run(await other.add("add", add, 1, 60), array)
            np.testing.assert_array_equal(
                found, np.arange(6, 6 + 4 * ROWS, dtype=np.float32).reshape(ROWS, 4)
            )
        finally:
            await other.close()
        del array
        gc.collect()

    worked(work)


def test_a_loan_that_is_dropped_during_its_run_comes_back_after_it(add: Path) -> None:
    async def work(worker: WorkerProcess) -> None:
        executor = await worker.add("add", add, 1, 60)
        done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        buffer = executor.receive_buffer(BYTES)
        assert buffer is not None
        executor.submit(
            [[filled(buffer, 1.0)]],
            60.0,
            lambda result: done.set_result(float(result.outputs[0][0, 0])),
        )
        del buffer
        assert taken(executor) == 1
        assert await done == 2.0
        await asyncio.sleep(0)
        assert taken(executor) == 0

    worked(work)
