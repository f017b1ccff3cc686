"""The parts of the placement: groups of cores, loads, the memory's budget, and which replica gets
the next batch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from infuse.runtime.session import Array
from infuse.runtime.shapes import TensorSpec
from infuse.serving.config import Workers
from infuse.serving.control.model_config import Batching, ModelConfig
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.batching.max_batch import MaxBatchTuner
from infuse.serving.engine.batching.padding import Padding
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.engine.batching.together import Together
from infuse.serving.engine.replica_layout import Deployment
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.tuner import Tuner, WarmupReport
from infuse.serving.messages import InferRequest
from infuse.serving.workers.budget import Budget, NoRoomError, limit_of, memory_of, mib
from infuse.serving.workers.executor import Callback, Result
from infuse.serving.workers.groups import split
from infuse.serving.workers.host import Host
from infuse.serving.workers.load import WINDOW, Load
from infuse.serving.workers.need import Need
from infuse.serving.workers.pool import WorkerPool
from infuse.serving.workers.replicas import Replica

pytestmark = pytest.mark.row("S5")

MIB = 1 << 20


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20, unique=True), st.integers(0, 30))
def test_cores_are_split_into_nearly_equal_groups(cores: list[int], groups: int) -> None:
    parts = split(cores, groups)
    assert [core for part in parts for core in part] == cores
    assert len(parts) == min(groups or len(cores), len(cores))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_load_forgets_what_is_long_ago() -> None:
    now = 100.0
    load = Load(lambda: now)
    load.add(0.5)
    assert load.recent() == (1.0, 0.5)  # less than a second counts as one
    now += 9.5
    load.add(1.5)
    now += 0.5
    assert load.recent() == (pytest.approx(0.2), pytest.approx(0.2))
    now += WINDOW - 5
    assert load.recent() == (pytest.approx(1 / WINDOW), pytest.approx(1.5 / WINDOW))
    now += 10
    assert load.recent() == (0.0, 0.0)


def test_the_budget_is_what_is_configured_or_there(tmp_path: Path) -> None:
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    for folder in (proc, cgroup):
        folder.mkdir()
    (proc / "meminfo").write_text("MemTotal: 2048 kB\nMemFree: 512 kB\nMemAvailable: 1024 kB\n")
    assert limit_of(0, Host(proc, cgroup)) == 2 * MIB
    (cgroup / "memory.max").write_text("1000000\n")
    (cgroup / "memory.current").write_text("10\n")
    assert limit_of(0, Host(proc, cgroup)) == 1000000
    assert limit_of(3, Host(proc, cgroup)) == 3 * MIB
    assert limit_of(0, Host(tmp_path / "nothing", cgroup)) is None


def test_memory_is_promised_until_it_is_measured() -> None:
    budget = Budget(100 * MIB)
    budget.promise("a", 60 * MIB, 10 * MIB)
    assert budget.left(10 * MIB) == 30 * MIB
    with pytest.raises(NoRoomError, match=r"it needs 31 MiB of memory, and 30 MiB are left"):
        budget.promise("b", 31 * MIB, 10 * MIB)
    budget.keep("a")
    budget.promise("b", 31 * MIB, 69 * MIB)
    assert Budget(None).left(1 << 60) is None
    assert (mib(3 * MIB // 2), mib(100 * MIB)) == ("1.5 MiB", "100 MiB")


def test_the_memory_of_a_process_is_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "smaps_rollup").write_text(
        "00400000-7fff [rollup]\nRss: 100 kB\nPss: 50 kB\nPss_Anon: 20 kB\nPss_File: 25 "
        "kB\nPss_Shmem: 5 kB\n"
        "SwapPss: 3 kB\n"
    )
    memory = memory_of(7, tmp_path)
    assert (memory.resident, memory.pss, memory.own) == (100 << 10, 50 << 10, 28 << 10)
    assert memory_of(8, tmp_path).resident == 0
    own = memory_of(os.getpid())
    assert 0 < own.own <= own.pss <= own.resident


def pool(**fields: object) -> WorkerPool:
    return WorkerPool(Workers(**fields), Journal())  # type: ignore[arg-type]


def test_replicas_have_the_threads_of_their_cores() -> None:
    one = pool(cores=1)
    every = pool()
    cores = len(every.cores)
    assert (one.threads(0), one.threads(7)) == (1, 1)
    assert (every.threads(0), every.threads(0, replicas=2), every.threads(1)) == (cores, cores, 1)
    packed = pool(isolation="packed")
    assert (packed.threads(0), packed.threads(0, replicas=2), packed.threads(cores)) == (
        cores,
        1,
        cores,
    )
    assert pool(isolation="packed", groups=1).threads(0, replicas=1) == cores
    assert pool(isolation="packed", mode="inprocess").groups == []


def test_replicas_of_all_models_together_have_a_limit() -> None:
    async def work(some: WorkerPool, most: int) -> None:
        need = Need("m/1", Path(), 1)
        for _ in range(most):
            await some.admit(Replica(some, need, lambda *_: None))
        with pytest.raises(
            NoRoomError, match=rf"{most} replicas of all models run.*max_all_replicas"
        ):
            await some.admit(Replica(some, need, lambda *_: None))

    asyncio.run(work(pool(max_all_replicas=3), 3))
    asyncio.run(work(pool(cores=1, mode="inprocess"), 256))


def test_a_target_that_only_all_cores_reach_decides() -> None:
    need = Need("m/1", Path(), 1)
    wide, narrow = WarmupReport({1: 0.004, 8: 0.01}), WarmupReport({1: 0.008, 8: 0.02})

    def too_slow(target: float | None) -> bool:
        config = ModelConfig(batching=Batching(latency_target_ms=target))
        tuner = Tuner(Checker([], [], [], {}), config.warmup, Path(), 60.0, Together(), 1 << 26)
        deployment = Deployment(pool(), need, config, tuner, lambda *_: None)
        return deployment._too_slow(wide, narrow)

    assert [too_slow(target) for target in (None, 3.0, 5.0, 9.0)] == [False, False, True, False]


class Place:
    """A replica that holds up what it is given."""

    alive = True
    freed: Callable[[], None] | None = None
    start_seconds = 1.0

    def __init__(self, name: str, depth: int) -> None:
        self.name = name
        self.depth = depth
        self.waiting: list[tuple[Sequence[Sequence[Array]], Callback]] = []
        self.taken = 0

    @property
    def free(self) -> int:
        return self.depth - len(self.waiting)

    def submit(self, parts: Sequence[Sequence[Array]], seconds: float, done: Callback) -> None:
        self.taken += 1
        self.waiting.append((parts, done))

    def finish(self) -> None:
        parts, done = self.waiting.pop(0)
        done(Result([np.concatenate(part) for part in parts], 1, 2))

    def give_up(self, done: Callback) -> None:
        """Nothing is given up."""

    async def close(self) -> None:
        """Nothing is to be ended."""


@pytest.mark.parametrize("depth", [1, 2])
def test_the_least_busy_replica_gets_the_next_batch(depth: int) -> None:
    spec = TensorSpec("x", np.dtype(np.float32), ("rows", 2), False)

    async def main() -> None:
        places = [Place(name, depth) for name in "abc"]
        batcher = Batcher(
            "m",
            Batching(max_size=1),
            MaxBatchTuner(1),
            padding=Padding([spec], [spec], {}),
            retries=1,
            timeout=None,
            observe=lambda *_: None,
        )
        batcher.places.add(*places)
        futures = []

        def ask() -> None:
            future = asyncio.get_running_loop().create_future()
            futures.append(future)
            array = np.ones((1, 2), np.float32)
            batcher.submit(Entry(InferRequest("m"), [array], 1, ("k",), [0], future), None)

        for number in range(3 * depth):
            ask()
            counts = [len(place.waiting) for place in places]
            assert max(counts) - min(counts) <= 1, number
        ask()
        assert batcher.pending == 1
        places[1].finish()  # who has become idle gets what waits
        assert batcher.pending == 0
        assert [place.taken for place in places] == [depth, depth + 1, depth]
        places[2].finish()
        ask()
        assert places[2].taken == depth + 1
        for place in places:
            while place.waiting:
                place.finish()
        for future in futures:
            np.testing.assert_array_equal((await future)[0], np.ones((1, 2)))

    asyncio.run(main())
