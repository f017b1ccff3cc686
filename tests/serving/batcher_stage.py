"""A batcher whose executors are held up by the test, so that what waits and what runs does not
depend on time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest

from infuse.errors import InfuseError
from infuse.runtime.shapes import TensorSpec
from infuse.serving.control.model_config import Batching
from infuse.serving.control.reading import convert
from infuse.serving.engine.batching.batcher import Batcher
from infuse.serving.engine.batching.max_batch import MaxBatchTuner
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.engine.batching.timing import SizedTimes, TimeModel
from infuse.serving.engine.signature import Checker
from infuse.serving.messages import InferRequest, RequestedOutput, Tensor
from infuse.serving.workers.executor import Callback, Result, stacked


class ShiftedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock the test puts forward."""

    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift


class SameTimes(SizedTimes):
    """One model of time, whatever the size of a row."""

    def __init__(self, model: TimeModel) -> None:
        super().__init__()
        self.model = model

    def of(self, size: int) -> TimeModel:
        return self.model

    def observe(self, size: int, rows: int, seconds: float) -> None:
        self.model.observe(rows, seconds)


class _NothingLearned(TimeModel):
    def observe(self, rows: int, seconds: float) -> None:
        """Nothing is learned."""


def unmeasured() -> SameTimes:
    """No times are known, so every batch is as large as it may be."""
    return SameTimes(_NothingLearned())


class HeldExecutor:
    """Doubles and negates, when the test lets it."""

    def __init__(self, places: int = 1) -> None:
        self.name = "held"
        self.places = places
        self.alive = True
        self.start_seconds = 1.0
        self.given_up: list[Callback] = []
        self.freed: Callable[[], None] | None = None
        self.runs: list[tuple[list[Any], Callback]] = []
        self.sizes: list[int] = []

    @property
    def free(self) -> int:
        return self.places - len(self.runs)

    def submit(self, parts: Sequence[Sequence[Any]], seconds: float, done: Callback) -> None:
        arrays = [stacked(part) for part in parts]
        self.sizes.append(len(arrays[0]))
        self.runs.append((arrays, done))

    def finish(self, number: int = 0, error: Exception | None = None) -> None:
        """End a run that is under way."""
        (x,), done = self.runs.pop(number)
        done(Result([x * 2, -x], error=error))
        if self.freed is not None:
            self.freed()

    def give_up(self, done: Callback) -> None:
        self.given_up.append(done)

    async def close(self) -> None:
        """Nothing is held."""


class Bench:
    """A batcher over executors that are held up."""

    def __init__(self, executors: int = 1, places: int = 1, most: int = 8, **config: Any) -> None:
        self.executors = [HeldExecutor(places) for _ in range(executors)]
        specs = [
            TensorSpec(name, np.dtype(np.float32), ("n", "w")) for name in ("x", "twice", "minus")
        ]
        batching = convert(Batching, config, "test")
        self.checker = Checker(specs[:1], specs[1:], ["n", "w"], batching.pad)
        self.batcher = Batcher(
            "test",
            batching,
            MaxBatchTuner(most),
            padding=self.checker.padding,
            retries=1,
            timeout=None,
            observe=self._observe,
        )
        self.batcher.places.times = unmeasured()
        self.batcher.places.add(*self.executors)
        self.reasons: list[str] = []
        self.answered: list[int] = []

    def _observe(self, entries: Sequence[Entry], rows: int, reason: str, result: Result) -> None:
        self.reasons.append(reason)

    @property
    def sizes(self) -> list[int]:
        return [size for executor in self.executors for size in executor.sizes]

    def hold(self) -> Asked:
        """A request that keeps the only executor busy."""
        held = self.ask(1, width=1)
        self.executors[0].sizes.clear()
        return held

    def ask(
        self,
        rows: int,
        *outputs: str,
        width: int = 16,
        seconds: float | None = None,
        priority: int = 0,
        mark: int = 0,
    ) -> Asked:
        data = np.arange(rows * width, dtype=np.float32).reshape(rows, width) + mark
        wanted = [RequestedOutput(name) for name in outputs]
        request = InferRequest(
            "m", inputs=[Tensor("x", "FP32", data)], outputs=wanted, priority=priority
        )
        loop = asyncio.get_running_loop()
        arrays = self.checker.arrays(request)
        key, lengths = self.checker.key(arrays)
        entry = Entry(
            request,
            arrays,
            rows,
            key,
            self.checker.requested_outputs(request),
            loop.create_future(),
        )
        entry.lengths = lengths
        entry.future.add_done_callback(lambda _: self.answered.append(mark))
        self.batcher.submit(entry, None if seconds is None else loop.time() + seconds)
        return Asked(data, outputs or ("twice", "minus"), entry)

    def finish(self) -> None:
        """Let everything run."""
        while any(executor.runs for executor in self.executors):
            for executor in self.executors:
                if executor.runs:
                    executor.finish()


class Asked:
    """A request, and what its answer must be."""

    def __init__(self, data: Any, outputs: Sequence[str], entry: Entry) -> None:
        self.entry = entry
        self._expected = [{"twice": data * 2, "minus": -data}[name] for name in outputs]

    async def check(self) -> None:
        found = await asyncio.wait_for(self.entry.future, 30)
        assert len(found) == len(self._expected)
        for one, other in zip(found, self._expected):
            np.testing.assert_array_equal(one, other)

    async def refused(self, kind: type[InfuseError]) -> InfuseError:
        with pytest.raises(kind) as caught:
            await asyncio.wait_for(self.entry.future, 30)
        return caught.value

    @property
    def done(self) -> bool:
        return self.entry.future.done()


def run(main: Callable[[ShiftedLoop], Coroutine[Any, Any, None]]) -> None:
    loop = ShiftedLoop()
    try:
        loop.run_until_complete(main(loop))
    finally:
        loop.close()


async def forward(loop: ShiftedLoop, seconds: float) -> None:
    """Put the clock forward, and let the timers that are due then run."""
    loop.shift += seconds
    for _ in range(3):
        await asyncio.sleep(0)
