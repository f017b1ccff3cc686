"""Warming up: which size of batch is measured to be best, and whether batching is right at all."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from infuse.errors import ConfigurationError, ModelFailureError, RuntimeFailure
from infuse.serving.control.model_config import Batching, Warmup
from infuse.serving.engine import tuner
from infuse.serving.engine.batching.together import Together
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.tuner import Tuner, run_once
from infuse.serving.workers.executor import Callback, Result, WorkerLostError
from tests.serving.batching_tools import spec
from tests.serving.clock import Clock

pytestmark = pytest.mark.row("S4")


class Formula:
    """An executor that computes a formula at once."""

    name = "formula"
    free = 1
    alive = True

    def __init__(self, formula: Any) -> None:
        self.formula = formula
        self.rows: list[int] = []
        self.owned = False

    def submit(
        self, parts: Sequence[Sequence[np.ndarray[Any, Any]]], seconds: float, done: Callback
    ) -> None:
        arrays = [np.concatenate(part) for part in parts]
        self.rows.append(len(arrays[0]))
        try:
            done(Result([self.formula(*arrays)], 1, 2, owned=self.owned))
        except Exception as error:
            done(Result(error=error))

    async def close(self) -> None:
        return None


def warmed(
    formula: Any,
    most: int = 0,
    config: Warmup | None = None,
    folder: Path = Path(),
    clock: Clock | None = None,
    together: Together | None = None,
) -> Any:
    """What warming up finds of a model that takes no time but what `formula` moves the clock on."""
    executor = Formula(formula)
    check = Checker([spec("x", "n", 4)], [spec("y", "n", 4)], ["n"], {})
    with mock.patch("infuse.serving.engine.tuner.time", clock or Clock()):
        measured = Tuner(check, config or Warmup(), folder, 60.0, together or Together(), 1 << 26)
        found = asyncio.run(measured.warm_up(executor, most))
    return found, executor


def test_rows_that_are_independent_are_batched() -> None:
    found, executor = warmed(lambda x: 2 * x)
    assert found.most == 64
    assert not found.notes
    assert set(found.seconds) == {1, 2, 4, 8, 16, 32, 64}
    assert max(executor.rows) == 64


def test_what_warming_up_reads_and_makes_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are drawn beside the loop; outputs that are the caller's are not copied on it, others
    are.
    """
    drawn = tuner.drawn
    threads = []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return drawn(*arguments)

    monkeypatch.setattr(tuner, "drawn", noted)
    warmed(lambda x: 2 * x)
    assert threads
    assert threading.main_thread() not in threads
    array = np.ones(4, np.float32)
    for owned in (True, False):
        executor = Formula(lambda x: array)
        executor.owned = owned
        (output,) = asyncio.run(run_once(executor, [[array]], 60.0))
        assert np.shares_memory(output, array) == owned


def test_outputs_of_a_warm_up_are_not_copied() -> None:
    outputs = np.broadcast_to(np.float32(1), (1, 1 << 40))
    found, executor = warmed(lambda x: outputs)
    assert max(executor.rows) == 64
    assert found.notes == []


def test_too_large_random_inputs_are_remarked() -> None:
    found, executor = warmed(lambda x: x, config=Warmup(sizes={"n": 1 << 40}))
    assert found.notes == []
    check = Checker([spec("x", 1 << 40)], [spec("y", 4)], [], {})
    found = asyncio.run(
        Tuner(check, Warmup(), Path(), 60.0, Together(), 1 << 26).warm_up(executor, 0)
    )
    assert found.notes == [
        (
            "it was not warmed up: it refuses random inputs (random inputs of its sizes "
            "have more than "
            "1024 MiB)"
        )
    ]


def test_warming_up_that_ran_out_of_time_leaves_the_size_open() -> None:
    found, _ = warmed(lambda x: 2 * x, config=Warmup(seconds=0))
    assert (found.most, found.open) == (1, True)
    found, _ = warmed(lambda x: 2 * x)
    assert not found.open
    found, _ = warmed(lambda x: 2 * x, most=6, config=Warmup(seconds=0))
    assert (found.most, found.open) == (6, False)
    found, _ = warmed(centred, config=Warmup(seconds=0), together=STATED)
    assert (found.most, found.open) == (1, False)


def test_a_size_that_was_measured_in_haste_is_not_settled() -> None:
    clock = Clock()

    def slow(x: Any) -> Any:
        clock.advance(0.006 * len(x) if len(x) > 2 else 0)
        return 2 * x

    found, executor = warmed(slow, config=Warmup(seconds=0.02), clock=clock)
    assert max(executor.rows) == 4
    assert (found.most, found.open) == (2, True)


def test_a_configured_size_is_measured_and_kept() -> None:
    found, executor = warmed(lambda x: 2 * x, most=6)
    assert found.most == 6
    assert max(executor.rows) == 6


STATED = Together(stated=True)


def centred(x: Any) -> Any:
    return x - x.mean(axis=0)


def test_what_is_not_proven_runs_one_by_one() -> None:
    mixes = Together.of(Batching(max_size=8), "CumSum ('sums'): it combines rows")
    assert not mixes.allowed
    assert mixes.unproven
    found, executor = warmed(lambda x: 2 * x, most=8, together=mixes)
    assert (found.most, found.notes) == (1, [])
    assert set(executor.rows) == {1}


def test_what_a_configuration_allows() -> None:
    def of(mixes: str = "", **fields: Any) -> tuple[bool, bool, bool]:
        found = Together.of(Batching(**fields), mixes)
        assert bool(found.reason) != found.allowed
        return found.allowed, found.stated, found.unproven

    assert of() == (True, False, False)
    assert of("CumSum") == (False, False, True)
    assert of("CumSum", independent_rows=True) == (True, True, False)
    assert of(independent_rows=True) == (True, False, False)
    assert of("CumSum", independent_rows=True, dynamic=False) == (False, False, False)
    assert of(max_size=1) == (False, False, False)


def stepped(x: Any) -> Any:
    """Shows itself with large numbers only."""
    return np.where(x.max() > 8, x / 255, x)


def summed(x: Any) -> Any:
    """Integers: of normal size they differ by one, which is little of the largest."""
    return np.cumsum(x.astype(np.int64) + 1000, axis=0)


@pytest.mark.parametrize("formula", [centred, stepped, summed])
@pytest.mark.parametrize("most", [0, 8])
def test_a_statement_that_rows_are_independent_is_tried(formula: Any, most: int) -> None:
    found, _ = warmed(formula, most=most, together=STATED)
    assert found.most == 1
    assert "y of a row changes with the other rows" in found.notes[0]
    found, _ = warmed(lambda x: 2 * x, most=most, together=STATED)
    assert found.most == (most or 64)
    assert not found.notes


def test_a_model_that_refuses_random_inputs_is_left_cold() -> None:
    def refuse(x: Any) -> Any:
        raise RuntimeFailure("an index is out of range")

    found, _ = warmed(refuse)
    assert found.most == 1
    assert "refuses random inputs" in found.notes[0]


def test_a_model_that_crashes_does_not_become_ready() -> None:
    def crash(x: Any) -> Any:
        raise WorkerLostError("worker-1 was ended by SIGSEGV")

    with pytest.raises(ModelFailureError, match="crashed while it was warmed up"):
        warmed(crash)


def test_given_inputs_are_run_and_must_be_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "warm.npz", x=np.ones((3, 4), np.float32))
    found, executor = warmed(lambda x: x, config=Warmup(inputs="warm.npz"), folder=tmp_path)
    assert set(executor.rows) == {3}
    assert set(found.seconds) == {3}
    for name in ("none.npz", "../warm.npz"):
        with pytest.raises(ConfigurationError):
            warmed(lambda x: x, config=Warmup(inputs=name), folder=tmp_path / "inner")
