"""Deadlines beside estimates of time: these order a queue and shed one, and refuse nobody where a
worker is idle.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from infuse.errors import DeadlineError
from infuse.serving.engine.batching.timing import SizedTimes, TimeModel, size_class
from tests.serving.batcher_stage import Bench, SameTimes, ShiftedLoop, forward, run

pytestmark = pytest.mark.row("S4")


class Second(TimeModel):
    """Every batch takes a second."""

    @property
    def measured(self) -> bool:
        return True

    def predict(self, rows: int) -> float:
        return 1.0

    def observe(self, rows: int, seconds: float) -> None:
        """Nothing is learned."""


def test_an_idle_worker_runs_whatever_the_estimate_says() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(default_timeout_ms=500)
        bench.batcher.places.times = SameTimes(Second())
        for asked in (bench.ask(1, seconds=0.1), bench.ask(1, width=3)):
            bench.finish()
            await asked.check()

    run(main)


def test_a_wrong_estimate_is_mended_by_the_requests_that_it_concerns() -> None:
    """One run of 3.3 s, and then short ones with a deadline of 1 s."""

    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        times = bench.batcher.places.times = SizedTimes()
        size = size_class([np.zeros(16)], 1)
        for _number in range(20):
            times.observe(size, 1, 3.3)
        for _number in range(100):
            asked = bench.ask(1, seconds=1)
            bench.finish()
            await asked.check()
        assert times.of(size).predict(1) < 0.01

    run(main)


def test_what_can_be_in_time_goes_before_what_cannot() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench()
        bench.batcher.places.times = SameTimes(Second())
        bench.hold()
        late = bench.ask(1, mark=1, seconds=1.5)
        good = bench.ask(1, mark=2, seconds=9)
        loop.shift += 1
        bench.finish()
        assert bench.sizes == [1, 1]
        await good.check()
        await late.check()  # its time was not over when nothing else waited
        assert bench.answered.index(2) < bench.answered.index(1)

    run(main)


def test_what_cannot_be_in_time_is_tried_now_and_then() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=1)
        bench.batcher.places.times = SameTimes(Second())
        bench.hold()
        late = bench.ask(1, mark=99, seconds=1.5)
        others = [bench.ask(1, mark=number, seconds=1000) for number in range(20)]
        loop.shift += 1
        bench.finish()
        for one in (late, *others):
            await one.check()
        assert bench.answered.index(99) < 12

    run(main)


def test_what_is_over_is_told_and_not_run() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        late = bench.ask(1, mark=1, seconds=1.5)
        good = bench.ask(1, mark=2, seconds=9)
        loop.shift += 2  # its timer has not run yet
        bench.finish()
        assert bench.sizes == [1]
        await late.refused(DeadlineError)
        await good.check()

    run(main)


def test_times_know_the_size_of_a_row() -> None:
    times = SizedTimes()
    assert not times.measured
    assert times.of(5).predict(4) == 0
    for rows, seconds in ((1, 0.001), (2, 0.0011), (4, 0.0012)):
        times.observe(4, rows, seconds)
    times.observe(10, 1, 1.0)
    assert times.of(4).predict(1) == 0.001
    assert times.of(10).predict(1) == 1.0
    assert times.of(10).predict(4) == pytest.approx(1.2)  # as much more as in the class before
    assert times.of(10).best(4) == times.of(4).best(4) == 4
    assert times.of(9).predict(1) == pytest.approx(0.5)
    assert times.of(11).predict(1) == pytest.approx(2.0)
    times.observe(9, 1, 0.1)
    assert times.of(9).predict(1) == 0.1
    assert times.table() == {1: 0.001, 2: 0.0011, 4: 0.0012}


def test_long_requests_do_not_count_against_short_ones() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(most=1)
        times = bench.batcher.places.times = SizedTimes()
        for _number in range(9):
            times.observe(size_class([np.zeros(1024)], 1), 1, 5.0)
            times.observe(size_class([np.zeros(2)], 1), 1, 0.001)
        bench.hold()
        waiting = bench.ask(1, width=2)
        assert bench.batcher.expected_wait() == pytest.approx(0.001)
        short = bench.ask(1, width=2, seconds=1)
        long = bench.ask(1, width=1024)
        assert bench.batcher.expected_wait() == pytest.approx(5.002)
        bench.finish()
        for one in (waiting, short, long):
            await one.check()

    run(main)


def test_a_run_that_nobody_waits_for_is_given_up_when_it_holds_up_others() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=1)
        (executor,) = bench.executors
        gone = bench.ask(1)
        gone.entry.future.cancel()
        bench.batcher.cancel(gone.entry)
        await forward(loop, 2)
        assert not executor.given_up  # it holds up nobody
        next_one = bench.ask(1, mark=1)
        await forward(loop, 0.5)
        assert not executor.given_up  # a start takes longer
        await forward(loop, 0.6)
        assert executor.given_up == [executor.runs[0][1]]
        bench.finish()
        await next_one.check()

    run(main)


def test_a_run_whose_time_is_over_is_given_up_when_it_holds_up_others() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=1)
        late = bench.ask(1, seconds=5)
        next_one = bench.ask(1, mark=1)
        await forward(loop, 4.5)
        assert not bench.executors[0].given_up
        await forward(loop, 0.6)
        await late.refused(DeadlineError)
        await forward(loop, 1.1)
        assert len(bench.executors[0].given_up) == 1
        bench.finish()
        await next_one.check()

    run(main)


def test_a_run_that_somebody_waits_for_goes_on() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=2)
        (executor,) = bench.executors
        held = bench.hold()
        both = [bench.ask(1, mark=number) for number in (1, 2)]
        executor.finish()
        both[0].entry.future.cancel()
        bench.batcher.cancel(both[0].entry)
        waiting = bench.ask(1, mark=3)
        await forward(loop, 5)
        assert not executor.given_up
        bench.finish()
        for one in (held, both[1], waiting):
            await one.check()
        await asyncio.sleep(0)

    run(main)
