"""After a worker is lost, whoever waits is answered, whatever is being measured or moved
meanwhile.
"""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from benchmarks import serving_recovery
from infuse.errors import DeadlineError
from tests.serving.batcher_stage import Bench, HeldExecutor, ShiftedLoop, forward, run
from tests.serving.test_batcher_faults import LOST

pytestmark = [  # runs of the model "slow" take 30 ms as compiled here, and 0.5 to 1 s at -O0
    pytest.mark.row("S7"),
    pytest.mark.usefixtures("product_compiler"),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("gain", [1e9, 0.0])
def test_all_who_wait_are_answered_after_losses(
    gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lanes that bring nothing, and with lanes, whatever the clock says here."""
    monkeypatch.setattr("infuse.serving.engine.executor_admission.GAIN", gain)
    monkeypatch.setattr("infuse.serving.engine.batching.batcher._HUNG_LEAST", 3.0)
    tally = asyncio.run(serving_recovery.torment(tmp_path, 6, 60.0, 5, 5, 0.0))
    assert not tally.faults
    assert tally.answered >= 60
    assert set(tally.deeds) == set(serving_recovery.DEEDS)


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_nobody_is_forgotten_for_minutes(tmp_path: Path) -> None:
    tally = asyncio.run(serving_recovery.torment(tmp_path, 8, 60.0, 1, 0, 300.0))
    assert not tally.faults


def test_what_a_measurement_held_up_runs_when_it_ends() -> None:
    """A run of somebody else ends, and nothing else happens: what waits is not forgotten."""

    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        (executor,) = bench.executors
        executor.submit([[np.ones((1, 16), np.float32)]], 60.0, lambda result: None)
        asked = [bench.ask(1, mark=mark) for mark in range(3)]
        assert bench.sizes == [1]
        executor.finish()
        bench.finish()
        for one in asked:
            await one.check()

    run(main)


def test_core_instances_of_a_lost_worker_hold_nobody_up() -> None:
    """They are added after they were lost: what waits runs elsewhere."""

    async def main(_: ShiftedLoop) -> None:
        bench = Bench()
        held = bench.hold()
        asked = bench.ask(1)
        instance = HeldExecutor(places=0)
        instance.alive = False
        bench.batcher.places.add_core_instances(instance)
        bench.finish()
        await held.check()
        await asked.check()

    run(main)


def test_what_waits_again_is_answered_at_its_deadline() -> None:
    """The default time of the model holds also where the first worker was lost, and no other
    comes.
    """

    async def main(loop: ShiftedLoop) -> None:
        bench = Bench(default_timeout_ms=1000)
        asked = bench.ask(1)
        (executor,) = bench.executors
        executor.alive, executor.places = False, 0
        executor.finish(error=LOST)
        assert not asked.done
        await forward(loop, 2.0)
        await asked.refused(DeadlineError)

    run(main)
