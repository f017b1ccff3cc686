"""What a batcher does when runs fail, workers are lost, callers leave or time is short."""

from __future__ import annotations

import asyncio

import pytest

from infuse.errors import (
    DeadlineError,
    InfuseError,
    ModelFailureError,
    OverloadError,
    RuntimeFailure,
    UnavailableError,
)
from infuse.serving.engine.batching.timing import TimeModel
from infuse.serving.workers.executor import WorkerLostError
from tests.serving.batcher_stage import Bench, SameTimes, ShiftedLoop, forward, run

pytestmark = pytest.mark.row("S7")
LOST = WorkerLostError("worker-1 was ended by SIGKILL")


def test_requests_of_a_lost_worker_are_tried_once_more_each_by_itself() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        held = bench.hold()
        asked = [bench.ask(1, mark=number) for number in (1, 2, 3)]
        bench.executors[0].finish()
        assert bench.sizes == [3]
        bench.executors[0].finish(error=LOST)
        later = bench.ask(1, mark=4)
        bench.finish()
        assert bench.sizes == [3, 1, 1, 1, 1]
        for one in (held, *asked, later):
            await one.check()
        assert [mark for mark in bench.answered if mark] == [1, 2, 3, 4]

    run(main)


def test_a_request_that_loses_two_workers_is_told() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        asked = bench.ask(1)
        bench.executors[0].finish(error=LOST)
        assert not asked.done
        bench.executors[0].finish(error=LOST)
        error = await asked.refused(ModelFailureError)
        assert "its worker was lost 2 times while it ran" in str(error)
        assert bench.sizes == [1, 1]
        again = bench.ask(1)
        bench.finish()
        await again.check()

    run(main)


def test_what_is_tried_again_goes_to_another_worker() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(executors=2)
        asked = bench.ask(1)
        first = next(executor for executor in bench.executors if executor.runs)
        first.alive = False
        first.places = 0
        first.finish(error=LOST)
        other = next(executor for executor in bench.executors if executor is not first)
        assert other.sizes == [1]
        bench.finish()
        await asked.check()

    run(main)


def test_without_any_worker_requests_wait_for_one() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        (lost,) = bench.executors
        bench.batcher.places.remove(lost)
        asked = bench.ask(1)
        assert bench.sizes == []
        bench.batcher.places.add(lost)
        bench.finish()
        await asked.check()

    run(main)


def test_one_bad_request_of_a_batch_harms_no_other() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        asked = [bench.ask(1, mark=number) for number in (1, 2, 3)]
        bench.executors[0].finish()
        bench.executors[0].finish(error=RuntimeFailure("an index is out of range"))
        for number in (1, 2, 3):
            bench.executors[0].finish(
                error=RuntimeFailure("an index is out of range") if number == 2 else None
            )
        assert bench.sizes == [3, 1, 1, 1]
        await asked[0].check()
        assert "out of range" in str(await asked[1].refused(RuntimeFailure))
        await asked[2].check()

    run(main)


def test_an_error_of_a_lone_request_is_its_answer() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        asked = bench.ask(1)
        bench.executors[0].finish(error=RuntimeFailure("out of memory"))
        assert bench.sizes == [1]
        await asked.refused(RuntimeFailure)

    run(main)


def test_what_nobody_waits_for_does_not_run() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        gone, stays = bench.ask(1, mark=1), bench.ask(1, mark=2)
        gone.entry.future.cancel()
        bench.batcher.cancel(gone.entry)
        assert bench.batcher.pending == 1
        bench.finish()
        assert bench.sizes == [1]
        await stays.check()

    run(main)


def test_a_caller_that_leaves_while_it_runs_harms_nobody() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        gone, stays = bench.ask(1, mark=1), bench.ask(1, mark=2)
        bench.executors[0].finish()
        gone.entry.future.cancel()
        bench.batcher.cancel(gone.entry)
        bench.finish()
        await stays.check()
        assert bench.batcher.pending == bench.batcher.waiting == bench.batcher.running == 0

    run(main)


def test_nobody_is_tried_again_for_whom_nobody_waits() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        asked = bench.ask(1)
        asked.entry.future.cancel()
        bench.batcher.cancel(asked.entry)
        bench.executors[0].finish(error=LOST)
        assert bench.sizes == [1]
        assert bench.batcher.pending == 0

    run(main)


@pytest.mark.parametrize("keep", [False, True])
def test_a_batcher_that_is_closed_answers_what_waits(keep: bool) -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(preserve_ordering=keep)
        held = bench.hold()
        asked = [bench.ask(1, mark=number) for number in (1, 2)]
        bench.batcher.close("it was unloaded")
        with pytest.raises(UnavailableError, match="it was unloaded"):
            bench.ask(1)
        bench.finish()
        await held.check()
        for one in asked:
            await one.refused(UnavailableError)
        assert bench.sizes == []
        await asyncio.wait_for(bench.batcher.drained(), 30)

    run(main)


def test_what_a_lost_worker_had_is_not_tried_again_after_the_end() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        asked = bench.ask(1)
        bench.batcher.close("it was unloaded")
        bench.executors[0].finish(error=LOST)
        await asked.refused(InfuseError)
        await asyncio.wait_for(bench.batcher.drained(), 30)

    run(main)


def test_order_is_kept_over_errors_and_retries() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(executors=2, most=1, preserve_ordering=True)
        asked = [bench.ask(1, mark=number) for number in (1, 2, 3, 4)]
        first, second = bench.executors
        second.finish()
        first.finish(error=LOST)
        await asyncio.sleep(0)
        assert bench.answered == []
        bench.finish()
        for one in asked:
            await one.check()
        assert bench.answered == [1, 2, 3, 4]

    run(main)


class Second(TimeModel):
    """Every batch takes a second."""

    @property
    def measured(self) -> bool:
        return True

    def predict(self, rows: int) -> float:
        return 1.0

    def observe(self, rows: int, seconds: float) -> None:
        """Nothing is learned."""


def test_a_deadline_that_cannot_be_met_is_refused_at_once() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(most=2)
        bench.batcher.places.times = SameTimes(Second())
        bench.hold()
        for _number in range(8):
            bench.ask(1)
        with pytest.raises(OverloadError, match="and the queue takes longer") as caught:
            bench.ask(1, seconds=0.5)
        assert caught.value.retry_after >= 1
        asked = bench.ask(1, seconds=100)
        bench.finish()
        await asked.check()

    run(main)


def test_a_time_that_was_over_on_arrival_is_refused() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        with pytest.raises(DeadlineError, match="before it was queued"):
            bench.ask(1, seconds=-1)
        assert bench.sizes == []

    run(main)


def test_timers_of_answered_requests_are_gone() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(default_timeout_ms=1000)
        asked = [bench.ask(1, mark=1, seconds=5), bench.ask(1, mark=2)]
        bench.finish()
        for one in asked:
            await one.check()
            assert one.entry.timer is None
        await forward(loop, 10)
        assert bench.batcher.pending == 0

    run(main)
