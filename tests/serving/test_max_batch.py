"""The largest batch is found out while the model serves, where warming up had no time to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ModelFailureError
from infuse.serving.config import Workers
from infuse.serving.engine.batching.max_batch import MaxBatchTuner
from infuse.serving.engine.batching.timing import TimeModel
from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.batcher_stage import Asked, Bench, HeldExecutor, SameTimes

pytestmark = pytest.mark.row("S4")

QUEUED = 100  # requests that wait all the time


class Priced(TimeModel):
    """Batches take what a formula says, whatever the clock shows."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        super().__init__()
        self.seconds = seconds

    def observe(self, rows: int, seconds: float) -> None:
        super().observe(rows, self.seconds(rows))


class ContentionDetector:
    """Requests of one row that wait all the time, on a bench."""

    def __init__(
        self,
        seconds: Callable[[int], float],
        most: int,
        largest: int = 64,
        room: Callable[[int], bool] | None = None,
    ) -> None:
        self.bench = Bench(most=most)
        self.asked: list[Asked] = []
        self.rooms: list[int] = []
        self.room = room
        self.times = Priced(seconds)
        self.bench.batcher.places.times = SameTimes(self.times)
        for rows in {1, most}:
            self.times.observe(rows, 0.0)
        self.max_batch = self.bench.batcher.max_batch = MaxBatchTuner(most, largest, self._has_room)

    async def _has_room(self) -> bool:
        self.rooms.append(self.max_batch.most)
        return self.room is None or self.room(self.max_batch.most)

    @property
    def running(self) -> HeldExecutor | None:
        places = [*self.bench.batcher.places.core_instances, *self.bench.executors]
        return next(
            (place for place in places if isinstance(place, HeldExecutor) and place.runs), None
        )

    async def serve(
        self, batches: int, queued: int = QUEUED, breaks: Callable[[int], bool] | None = None
    ) -> list[int]:
        """Let so many batches run; their sizes."""
        sizes = []
        for _ in range(batches):
            while self.bench.batcher.waiting < queued or self.running is None:
                self.asked.append(self.bench.ask(1, mark=len(self.asked)))
            sizes.append(len(self.running.runs[0][0][0]))
            broken = breaks is not None and breaks(sizes[-1])
            self.running.finish(error=ModelFailureError("out of memory") if broken else None)
            for _ in range(3):
                await asyncio.sleep(0)
        return sizes

    async def end(self) -> None:
        """All requests have their own answers."""
        while self.running is not None:
            self.running.finish()
        for asked in self.asked:
            await asked.check()


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(play())


def test_it_grows_to_what_pays() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3 + 1e-4 * rows, 1)
        sizes = await crowd.serve(100)
        assert sorted(set(sizes)) == [1, 2, 4, 8, 16, 32, 64]
        assert sizes[-1] == crowd.bench.batcher.most == 64
        assert not crowd.max_batch.open
        assert crowd.rooms == [1, 2, 4, 8, 16, 32]
        await crowd.end()

    played(play)


def test_a_larger_batch_that_does_not_pay_is_given_up() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: (1e-3 + 1e-4 * rows) * (3 if rows > 8 else 1), 4)
        sizes = await crowd.serve(1000)
        assert set(sizes) == {1, 4, 8, 16}
        assert sizes.count(16) < 1000 / 32
        assert crowd.bench.batcher.most <= 16
        await crowd.end()

    played(play)


@pytest.mark.parametrize(("seconds", "most"), [(0.26, 4), (0.2, 64)])
def test_a_batch_that_takes_too_long_is_the_last_one(seconds: float, most: int) -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: seconds, 4)
        await crowd.serve(100)
        assert crowd.bench.batcher.most == most
        await crowd.end()

    played(play)


def test_it_does_not_grow_where_there_is_no_memory() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3, 2, room=lambda most: most < 8)
        await crowd.serve(100)
        assert set(crowd.rooms) == {2, 4, 8}
        assert crowd.bench.batcher.most == 8
        crowd.room = None
        await crowd.serve(400)
        assert crowd.bench.batcher.most == 64
        await crowd.end()

    played(play)


def test_a_measurement_that_was_chance_is_taken_again() -> None:
    async def play() -> None:
        slow = 4
        crowd = ContentionDetector(lambda rows: 1e-3 * (10 if rows == slow else 1), 2, largest=8)
        await crowd.serve(300, queued=16)
        assert crowd.bench.batcher.most <= 4
        slow = 0
        await crowd.serve(2000, queued=16)
        assert crowd.bench.batcher.most == 8
        await crowd.end()

    played(play)


def test_a_size_that_fails_is_not_tried_again_and_costs_no_answer() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3, 2)
        sizes = await crowd.serve(200, breaks=lambda rows: rows > 8)
        assert sizes.count(16) == 1
        assert crowd.bench.batcher.most == 8
        await crowd.end()

    played(play)


def test_what_fails_alone_says_nothing_of_batches() -> None:
    max_batch = MaxBatchTuner(4, 64)
    max_batch.failed(4)
    max_batch.failed(1)
    assert max_batch.open
    max_batch.failed(8)
    assert (max_batch.most, max_batch.open) == (4, False)


def test_without_more_that_waits_nothing_grows() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3, 4)
        assert set(await crowd.serve(40, queued=0)) == {1}
        for _ in range(20):
            held = crowd.bench.ask(1, width=3)
            asked = [crowd.bench.ask(1, mark=mark) for mark in range(4)]
            crowd.bench.finish()
            for each in (held, *asked):
                await each.check()
        assert crowd.bench.executors[0].sizes.count(4) == 20
        assert crowd.bench.batcher.most == 4

    played(play)


def test_a_size_that_is_set_or_was_found_stays() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3, 4, largest=4)
        assert set((await crowd.serve(100))[1:]) == {4}
        assert crowd.rooms == []
        await crowd.end()

    played(play)


def test_core_instances_are_judged_by_their_own_times() -> None:
    """On all cores larger batches pay, in lanes they do not: that is where they run."""

    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3, 4)
        crowd.bench.batcher.places.add_core_instances(HeldExecutor(), HeldExecutor())
        crowd.bench.batcher.places.core_times = SameTimes(Priced(lambda rows: 1e-3 * rows))
        await crowd.serve(800)
        assert crowd.bench.batcher.most == 4
        crowd.bench.batcher.places.core_times = SameTimes(Priced(lambda rows: 1e-3))
        crowd.max_batch = crowd.bench.batcher.max_batch = MaxBatchTuner(4, 64)
        await crowd.serve(400)
        assert crowd.bench.batcher.most == 64
        await crowd.end()

    played(play)


def test_a_version_that_ends_asks_no_more() -> None:
    async def play() -> None:
        crowd = ContentionDetector(lambda rows: 1e-3, 4)
        asked, answer = asyncio.Event(), asyncio.Event()

        async def has_room() -> bool:
            asked.set()
            return await answer.wait()

        crowd.max_batch = crowd.bench.batcher.max_batch = MaxBatchTuner(4, 64, has_room)
        await crowd.serve(20)
        assert asked.is_set()
        crowd.bench.batcher.close("it was unloaded")
        answer.set()
        await asyncio.sleep(0)
        assert (crowd.max_batch.most, crowd.max_batch.open) == (4, False)
        for each in crowd.asked:
            each.entry.future.exception() if each.done else each.entry.future.cancel()

    played(play)


async def crowded(engine: Engine, until: Callable[[], bool]) -> None:
    """Sixty-four callers ask until it holds; each gets its own answers."""
    done = False

    async def caller(number: int) -> None:
        while not done:
            assert await models.ask(engine, "add", float(number)) == number + 1

    callers = [asyncio.ensure_future(caller(number)) for number in range(64)]
    try:
        await models.until(until, "the batch grows")
    finally:
        done = True
        await asyncio.gather(*callers)


@pytest.mark.parametrize("mode", ["inprocess", "process"])
def test_a_model_that_was_hardly_warmed_up_gets_its_batches(mode: Any, tmp_path: Path) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))
    defaults = {"warmup": {"seconds": 0}, "threads": 1}

    async def play() -> None:
        given = models.config(tmp_path, workers=Workers(mode=mode), model_defaults=defaults)
        async with Engine(given) as engine:
            (version,) = engine.versions()
            assert version.most_rows == 1
            assert version._execution.warmup_report.open
            await crowded(engine, lambda: version.most_rows >= 8)
            assert max(version.times) >= 4

    played(play)


def test_a_models_batches_stay_as_they_are_where_no_memory_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))
    defaults = {"warmup": {"seconds": 0}, "threads": 1}

    async def play() -> None:
        given = models.config(tmp_path, workers=Workers(), model_defaults=defaults)
        async with Engine(given) as engine:
            (version,) = engine.versions()
            asked: list[bool] = []
            has_room = engine.pool.has_room
            monkeypatch.setattr(
                engine.pool,
                "has_room",
                lambda replicas: asked.append(has_room(replicas)) or asked[-1],
            )
            engine.pool.budget.limit = engine.pool.taken()
            await crowded(engine, lambda: len(asked) > 1)
            assert not any(asked)
            assert version.most_rows == 1

    played(play)
