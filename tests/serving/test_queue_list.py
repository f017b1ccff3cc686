"""The behaviours that the lists `L0_model_queue` and `L0_priority` of another server's tests name.

`docs/serving_tests.md` says which test stands for which name. An executor that the test holds up
takes the place of a model, so what waits and what runs together does not depend on time.
"""

from __future__ import annotations

import pytest

from infuse.errors import DeadlineError, OverloadError
from tests.serving.batcher_stage import Bench, ShiftedLoop, forward, run

pytestmark = pytest.mark.row("S4")


def test_a_full_queue_refuses() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(max_queue=8)
        held = bench.hold()
        asked, refused = [], []
        for number in range(10):
            try:
                asked.append(bench.ask(1, mark=number))
            except OverloadError as error:
                refused.append(error)
        assert len(refused) == 2
        assert all("8 rows wait already, of 8 at most" in str(error) for error in refused)
        assert all(error.retry_after > 0 for error in refused)
        bench.finish()
        assert bench.sizes == [8]
        for one in (*asked, held):
            await one.check()

    run(main)


def test_late_requests_can_be_delayed() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=4, default_timeout_ms=100, timeout_action="delay")
        bench.hold()
        late = bench.ask(1)
        await forward(loop, 0.2)
        assert not late.done
        asked = [bench.ask(2, mark=number) for number in (1, 2)]
        bench.executors[0].finish()
        assert bench.sizes == [4]
        assert not late.done
        bench.finish()
        assert bench.sizes == [4, 1]
        for one in (*asked, late):
            await one.check()

    run(main)


def test_late_requests_are_refused() -> None:
    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=4, default_timeout_ms=100)
        bench.hold()
        late = bench.ask(1)
        await forward(loop, 0.2)
        error = await late.refused(DeadlineError)
        assert "not answered in time" in str(error)
        asked = [bench.ask(2, mark=number) for number in (1, 2)]
        bench.finish()
        assert bench.sizes == [4]
        for one in asked:
            await one.check()

    run(main)


@pytest.mark.parametrize(("own", "kept"), [(0.1, False), (10.0, True), (None, False)])
def test_a_request_sets_its_own_time(own: float | None, kept: bool) -> None:
    """The model's default, half a second, is for requests that bring none."""

    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(default_timeout_ms=500)
        bench.hold()
        asked = bench.ask(1, seconds=own)
        await forward(loop, 0.2)
        assert asked.done is (own == 0.1)
        await forward(loop, 0.4)
        assert asked.done is not kept
        bench.finish()
        if kept:
            await asked.check()
        else:
            await asked.refused(DeadlineError)
        assert bench.sizes == [1] * kept

    run(main)


def test_urgent_requests_go_first() -> None:
    async def main(_: ShiftedLoop) -> None:
        bench = Bench(most=4, priority_levels=2, default_priority=2)
        bench.hold()
        first, second = bench.ask(2, mark=1), bench.ask(1, mark=2)
        urgent = bench.ask(2, mark=3, priority=1)
        bench.executors[0].finish()
        assert bench.sizes == [4]
        bench.executors[0].finish()
        assert first.done
        assert urgent.done
        assert not second.done
        bench.finish()
        for one in (first, second, urgent):
            await one.check()

    run(main)


def test_priorities_and_times_work_together() -> None:
    """What is late is delayed behind all levels, or refused, whatever its level; the others run by
    level.
    """

    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(most=4, priority_levels=2, default_priority=2, timeout_action="delay")
        bench.hold()
        top = [bench.ask(2, mark=1, priority=1), bench.ask(2, mark=2, priority=1)]
        delayed = bench.ask(1, mark=3, priority=1, seconds=1)
        lower = [bench.ask(3, mark=4), bench.ask(4, mark=5)]
        await forward(loop, 2)
        bench.finish()
        assert bench.sizes == [4, 4, 4]  # the delayed one has room beside the three rows
        for one in (*top, *lower, delayed):
            await one.check()
        assert [mark for mark in bench.answered if mark] == [1, 2, 4, 3, 5]

    run(main)
