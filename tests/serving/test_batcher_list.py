"""The behaviours that the list `L0_batcher` of another server's tests names, and some of ours.

`docs/serving_tests.md` says which test stands for which name. An executor that the test holds up
takes the place of a model, so what waits and what runs together does not depend on time.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest

from infuse.errors import DeadlineError
from infuse.serving.engine.batching.timing import TimeModel
from tests.serving.batcher_stage import Bench, SameTimes, ShiftedLoop, forward, run

pytestmark = pytest.mark.row("S4")


# --------------------------------------------------------------------------------------- L0_batcher


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 7, 8])
def test_a_lone_request_runs_at_once(rows: int) -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        asked = bench.ask(rows)
        assert bench.sizes == [rows]
        bench.finish()
        await asked.check()

    run(main)


@pytest.mark.parametrize(
    ("waiting", "most", "sizes"),
    [
        ([1, 3], 8, [4]),
        ([3, 7], 8, [3, 7]),
        ([3, 4], 6, [3, 4]),
        ([3, 4, 1], 8, [8]),
        ([1] * 6, 6, [6]),
        ([1, 1, 1], 2, [2, 1]),
        ([1] * 4, 4, [4]),
        ([1] * 5, 4, [4, 1]),
        ([1] * 7, 6, [6, 1]),
        ([1] * 3, 6, [3]),
        ([9, 1], 8, [9, 1]),
    ],
)
def test_what_waits_runs_together_up_to_the_largest_batch(
    waiting: list[int], most: int, sizes: list[int]
) -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(most=most)
        bench.hold()
        asked = [bench.ask(rows, mark=100 * number) for number, rows in enumerate(waiting)]
        bench.finish()
        assert bench.sizes == sizes
        for one in asked:
            await one.check()

    run(main)


def test_other_shapes_run_by_themselves() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        asked = [bench.ask(rows, width=width) for rows, width in ((1, 16), (1, 8))]
        bench.finish()
        assert bench.sizes == [1, 1]
        for one in asked:
            await one.check()

    run(main)


@pytest.mark.parametrize(
    ("waiting", "sizes"),
    [([(1, 16), (3, 16), (1, 8)], [4, 1]), ([(1, 16), (3, 16), (1, 8), (5, 8)], [4, 6])],
)
@pytest.mark.parametrize("mixed", [False, True])
def test_equal_shapes_run_together_among_others(
    waiting: list[tuple[int, int]], sizes: list[int], mixed: bool
) -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        order = sorted(waiting, key=lambda request: request[0]) if mixed else waiting
        asked = [bench.ask(rows, width=width) for rows, width in order]
        bench.finish()
        assert sorted(bench.sizes) == sorted(sizes)
        for one in asked:
            await one.check()

    run(main)


def test_ragged_requests_run_together_when_they_are_padded() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(pad={"x": 0.0})
        bench.hold()
        asked = [bench.ask(1, width=16), bench.ask(1, width=8)]
        bench.finish()
        assert bench.sizes == [2]
        for one in asked:
            await one.check()

    run(main)


@pytest.mark.parametrize(
    "outputs",
    [
        (("twice",), ("twice",)),
        (("minus",), ("minus",)),
        (("twice",), ("minus",)),
        (("twice", "minus"), ("minus", "twice")),
        ((), ("minus",)),
    ],
)
def test_requests_for_other_outputs_run_together(outputs: tuple[tuple[str, ...], ...]) -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        asked = [bench.ask(1, *names, mark=50 * number) for number, names in enumerate(outputs)]
        bench.finish()
        assert bench.sizes == [2]
        for one in asked:
            await one.check()

    run(main)


@pytest.mark.parametrize("keep", [False, True])
def test_answers_keep_their_order_if_asked_for(keep: bool) -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(executors=3, most=4, preserve_ordering=keep)
        asked = [bench.ask(1, mark=number) for number in range(12)]
        while any(executor.runs for executor in bench.executors):
            last = max(number for number, executor in enumerate(bench.executors) if executor.runs)
            bench.executors[last].finish()
            await asyncio.sleep(0)
        for one in asked:
            await one.check()
        assert sorted(bench.answered) == list(range(12))
        assert (bench.answered == list(range(12))) is keep

    run(main)


def test_nothing_waits_for_others_to_come() -> None:
    """Twelve requests to an idle model: the first runs at once, the others together when it has
    ended.
    """

    async def main(_: ShiftedLoop) -> None:
        bench = Bench(most=16)
        asked = [bench.ask(1, mark=number) for number in range(12)]
        assert bench.sizes == [1]
        bench.finish()
        assert bench.sizes == [1, 11]
        for one in asked:
            await one.check()

    run(main)


def test_a_request_whose_time_is_over_is_answered_while_the_model_is_busy() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(default_timeout_ms=1000)
        held = bench.hold()
        late = bench.ask(1)
        await forward(loop, 0.9)
        assert not late.done
        await forward(loop, 0.2)
        assert late.done
        await late.refused(DeadlineError)
        bench.finish()
        assert bench.sizes == []
        await held.check()  # it waited no second before it ran

    run(main)


@pytest.mark.parametrize("action", ["reject", "delay"])
def test_a_request_that_runs_is_answered_when_its_own_time_is_over(action: str) -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(timeout_action=action)
        asked = bench.ask(1, seconds=1)
        await forward(loop, 2)
        assert asked.done is (action == "reject")
        bench.finish()
        if action == "reject":
            await asked.refused(DeadlineError)
        else:
            await asked.check()
        again = bench.ask(1, mark=1)
        bench.finish()
        await again.check()

    run(main)


# ----------------------------------------------------------------------------- what is ours besides


class Proportional(TimeModel):
    """Every row takes as long as the first; nothing is learned."""

    def predict(self, rows: int) -> float:
        return float(rows)

    def observe(self, rows: int, seconds: float) -> None:
        """Only which sizes there were."""
        super().observe(rows, float(rows))


def test_larger_batches_than_the_best_are_tried_now_and_then() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(most=64)
        bench.batcher.places.times = SameTimes(Proportional())
        bench.batcher.places.times.observe(1, 1, 1.0)
        asked = [bench.ask(1) for _ in range(200)]
        bench.finish()
        for each in asked:
            await each.check()
        larger = {place + 1: size for place, size in enumerate(bench.sizes) if size > 1}
        assert larger == {32: 2, 64: 2, 96: 2, 128: 4, 160: 2, 192: 2}
        assert sum(bench.sizes) == 200

    run(main)


def test_a_run_that_waits_in_its_worker_has_its_time_counted_from_the_end_of_the_one_before() -> (
    None
):
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(places=2, most=1)
        first, second = bench.ask(1), bench.ask(1)
        (executor,) = bench.executors
        assert len(executor.runs) == 2
        both_sent = time.perf_counter_ns()
        executor.finish()
        ended = time.perf_counter_ns()
        executor.finish()
        await first.check()
        await second.check()
        timelines = [asked.entry.request.timeline for asked in (first, second)]
        assert timelines[0].dispatched <= both_sent <= timelines[1].dispatched <= ended

    run(main)


def test_the_batcher_needs_no_thread() -> None:
    async def main(_: ShiftedLoop) -> None:
        before = threading.active_count()
        bench = Bench()
        asked = [bench.ask(1) for _ in range(20)]
        bench.finish()
        for one in asked:
            await one.check()
        assert threading.active_count() == before

    run(main)


def test_an_idle_queue_holds_no_inputs() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        bench.hold()
        inputs = []
        for number in range(3):
            asked = bench.ask(1, mark=number)
            inputs.append(weakref.ref(asked.entry.inputs[0]))
        bench.finish()
        await asked.check()
        del asked
        gc.collect()
        assert [reference() for reference in inputs] == [None] * 3

    run(main)
