"""Worker processes: every datatype through shared memory, and what it takes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from infuse.errors import InfuseError, ModelFailureError, RuntimeFailure
from infuse.serving.engine.tuner import run_once
from infuse.serving.workers import wire
from infuse.serving.workers.memory import Slot
from infuse.serving.workers.process import WorkerProcess
from tests.serving import models
from tests.serving.workers_stage import add, folders, run, worked

__all__ = ["add", "folders"]

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


@pytest.mark.parametrize("name", KINDS)
def test_every_type_of_numbers_goes_there_and_back(
    name: str, folders: Callable[[str, bytes], Path]
) -> None:
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
    given = np.array(
        [
            [b"", b"a\0b", "ü—\U0001f600".encode(), b"\xff\xfe no text"],
            [b"x" * 100_000, b"1", b"2", b"3"],
        ]
    )
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
