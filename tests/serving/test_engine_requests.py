"""Requests to an engine: late, urgent, ragged, not finite, or to a pipeline without its parts."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import DeadlineError, ModelFailureError, OverloadError, UnavailableError
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.serving import models
from tests.serving.engine_stage import served
from tests.serving.models import ask, request, rows, write

pytestmark = pytest.mark.row("S2")


def loop(turns: int, **fields: Any) -> InferRequest:
    inputs = [Tensor("turns", "INT64", np.array(turns, np.int64)), Tensor("x", "FP64", np.zeros(1))]
    return InferRequest("loop", inputs=inputs, **fields)


TURNS = 3000  # some tenth of a second


@pytest.mark.row("S4")
def test_queued_work_is_dropped_when_its_time_is_over_or_nobody_waits(tmp_path: Path) -> None:
    write(tmp_path / "models", "loop", models.looping())

    async def work(engine: Engine) -> None:
        (version,) = engine.versions()
        running = asyncio.ensure_future(engine.infer(loop(TURNS)))
        await models.until(lambda: version.running == 1, "one runs")
        now = asyncio.get_running_loop().time()
        late = [
            asyncio.ensure_future(engine.infer(loop(TURNS, deadline=now + 0.01))) for _ in range(5)
        ]
        left = [asyncio.ensure_future(engine.infer(loop(TURNS))) for _ in range(5)]
        kept = asyncio.ensure_future(engine.infer(loop(5)))
        await asyncio.sleep(0)
        for task in left:
            task.cancel()
        found = await asyncio.gather(*late, *left, return_exceptions=True)
        assert all(isinstance(each, DeadlineError | OverloadError) for each in found[:5]), found
        assert all(isinstance(each, asyncio.CancelledError) for each in found[5:])
        await running
        assert models.first(await kept) == 5
        assert version.statistics.as_triton()["execution_count"] == 2  # no other one has run
        assert engine.inflight == 0

    served(tmp_path, work)


@pytest.mark.row("S4")
def test_urgent_requests_go_first_and_the_queue_is_bounded(tmp_path: Path) -> None:
    settings = "batching: {priority_levels: 3, max_queue: 6}\n"
    write(tmp_path / "models", "loop", models.looping(), config=settings)

    async def work(engine: Engine) -> None:
        order: list[int] = []
        (version,) = engine.versions()

        async def one(priority: int, number: int) -> None:
            await engine.infer(loop(100, priority=priority))
            order.append(number)

        first = asyncio.ensure_future(engine.infer(loop(TURNS)))
        await models.until(lambda: version.running == 1, "one runs")
        work = [asyncio.ensure_future(one(p, n)) for n, p in enumerate((3, 0, 1, 2, 1, 3))]
        await asyncio.sleep(0)
        with pytest.raises(OverloadError) as refused:
            await engine.infer(loop(1))
        assert refused.value.retry_after > 0
        await asyncio.gather(first, *work)
        assert order == [2, 4, 1, 3, 0, 5]

    served(tmp_path, work)


@pytest.mark.row("S4")
@pytest.mark.parametrize("pad", [False, True])
def test_ragged_requests_are_grouped_or_padded(pad: bool, tmp_path: Path) -> None:
    settings = "batching: {max_size: 64, pad: {x: -1.0}}\n" if pad else "batching: {max_size: 64}\n"
    write(tmp_path / "models", "add", models.adder(1, ("rows", "length")), config=settings)

    async def work(engine: Engine) -> None:
        batches: list[int] = []
        engine.observers.append(lambda outcome: batches.append(outcome.batch))
        arrays = [np.full((1 + n % 2, 3 + n % 3), n, np.float32) for n in range(30)]
        for _ in range(50):  # how many run at once depends on the times that were measured
            found = await asyncio.gather(*(engine.infer(request("add", array)) for array in arrays))
            for array, response in zip(arrays, found):
                np.testing.assert_array_equal(response.outputs[0].data, array + 1)
            if max(batches) > 15:
                break
        assert (max(batches) > 15) == pad  # there are 15 rows of each length

    served(tmp_path, work)


@pytest.mark.row("S7")
def test_numbers_that_are_not_finite_are_an_error_if_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "models", "free", models.adder(1))
    write(tmp_path / "models", "finite", models.adder(1), config="finite: true\n")

    async def work(engine: Engine) -> None:
        for value in (np.nan, np.inf, -np.inf):
            np.testing.assert_equal(await ask(engine, "free", rows(value)), value)
            with pytest.raises(ModelFailureError, match="not finite"):
                await ask(engine, "finite", rows(value))
        assert await ask(engine, "finite", 1) == 2

    served(tmp_path, work)


PIPELINE = """
pipeline:
  inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]
  outputs: [{name: y, datatype: FP32, shape: [-1, 4]}]
  steps:
    - {model: add, inputs: {x: x}, outputs: {y: between}}
    - {model: add, inputs: {x: between}, outputs: {y: y}}
"""


@pytest.mark.row("S7")
def test_a_pipeline_whose_part_is_unloaded_says_so_and_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    place = tmp_path / "models" / "twice" / "1"
    place.mkdir(parents=True)
    (place / "_SUCCESS").touch()
    (place.parent / "config.yaml").write_text(PIPELINE)

    async def work(engine: Engine) -> None:
        assert await ask(engine, "twice", 1) == 3
        await engine.admin.unload("add")
        with pytest.raises(UnavailableError, match="add"):
            await ask(engine, "twice", 1)
        await engine.admin.load("add")
        assert await ask(engine, "twice", 1) == 3

    served(tmp_path, work, control="explicit", models=("add", "twice"))
