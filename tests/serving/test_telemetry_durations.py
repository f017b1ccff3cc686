"""Counters never fall, whatever the workers' clocks say, in whatever order requests end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from google.protobuf.json_format import ParseDict

from infuse.errors import ModelFailureError
from infuse.runtime.shapes import TensorSpec
from infuse.serving.control.model_config import Batching
from infuse.serving.control.telemetry.statistics import Counts, VersionStatistics
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.batching.max_batch import MaxBatchTuner
from infuse.serving.engine.batching.padding import Padding
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Tensor
from infuse.serving.transports.rpc.schema import message
from infuse.serving.workers.executor import Result, WorkerLostError
from tests.serving.batcher_stage import HeldExecutor

pytestmark = pytest.mark.row("S6")
_SPEC = TensorSpec("x", np.dtype(np.float32), ("n", 2))


class OddClock(HeldExecutor):
    """A worker whose clock says anything, which fails now and then, and takes two runs at once."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(places=2)
        self.chance = chance

    def end(self) -> None:
        (x,), done = self.runs.pop(0)
        skew = self.chance.choice((0, -(10**6), 10**6, -(10**12), 10**12))
        began = time.perf_counter_ns() + skew
        error = self.chance.choice(
            (None, None, None, WorkerLostError("lost"), ModelFailureError("x"))
        )
        done(Result([x], began, began + self.chance.randint(-(10**7), 10**7), error))
        if self.freed is not None:
            self.freed()


def _flat(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _flat(each)
    elif isinstance(value, list):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, int):
        yield value


def _figures(statistics: VersionStatistics) -> dict[str, Any]:
    total = statistics.total()
    return {
        **{name: getattr(total, name) for name in Counts.__slots__},
        **{f"triton {k}": v for k, v in statistics.as_triton()["inference_stats"].items()},
        **{
            f"batch {size}": [
                batch.compute_input_ns,
                batch.compute_infer_ns,
                batch.compute_output_ns,
            ]
            for size, batch in statistics.batches.items()
        },
    }


@pytest.mark.parametrize("seed", range(4))
def test_counters_never_fall(seed: int) -> None:
    chance = random.Random(seed)
    statistics = VersionStatistics("m", 1)

    def observe(entries: Sequence[Entry], rows: int, reason: str, result: Result) -> None:
        if result.error is None:
            spans = (
                result.began - entries[0].request.timeline.dispatched,
                result.ended - result.began,
                time.perf_counter_ns() - result.ended,
            )
            assert min(spans) >= 0
            statistics.observe_batch(rows, len(entries), *spans, reason)

    async def main() -> None:
        executor = OddClock(chance)
        batcher = Batcher(
            "m",
            Batching(),
            MaxBatchTuner(4),
            padding=Padding([_SPEC], [_SPEC], {}),
            retries=1,
            timeout=None,
            observe=observe,
        )
        batcher.places.add(executor)

        async def ask() -> None:
            array = np.zeros((chance.randint(1, 3), 2), np.float32)
            request = InferRequest("m", inputs=[Tensor("x", "FP32", array)])
            entry = Entry(request, [array], len(array), (2,), [0], asyncio.Future())
            batcher.submit(entry, None)
            error: BaseException | None = None
            response = None
            try:
                await entry.future
                response = InferResponse("m", "1", "", request.inputs)
            except (WorkerLostError, ModelFailureError, asyncio.CancelledError) as caught:
                error = caught
            request.timeline.finished = time.perf_counter_ns()
            statistics.observe(Outcome(request, 1, response, error))
            request.timeline.sent = time.perf_counter_ns()

        async def call() -> None:
            for _ in range(12):
                task = asyncio.ensure_future(ask())
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
                await asyncio.wait([task])

        calls = asyncio.gather(*(call() for _ in range(24)))
        before = _figures(statistics)
        while not calls.done():
            if executor.runs:
                executor.end()
            await asyncio.sleep(0)
            now = _figures(statistics)
            ParseDict(
                {"model_stats": [statistics.as_triton()]}, message("ModelStatisticsResponse")()
            )
            for name, value in before.items():
                for one, other in zip(_flat([value]), _flat([now[name]]), strict=True):
                    assert 0 <= one <= other, name
            before = now
        await calls

    asyncio.run(main())
    assert statistics.total().successes > 50
