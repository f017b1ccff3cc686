"""How a version is run, as measured before it is ready: it works, rows that are stated to be
independent are found so, and of several ways (rows of a batch, replicas, instances per core) the
one with the best rate is taken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from infuse.errors import InputError, ModelFailureError, RuntimeFailure
from infuse.runtime.session import Array
from infuse.serving.control.model_config import Warmup
from infuse.serving.engine.batching.max_batch import LARGEST, PATIENCE
from infuse.serving.engine.batching.timing import GAIN, size_class
from infuse.serving.engine.batching.together import Together
from infuse.serving.engine.signature import Checker
from infuse.serving.engine.trial_inputs import drawn, stored
from infuse.serving.workers.executor import Executor, Result, WorkerLostError

T = TypeVar("T")

_SHORT: Final = (
    5e-3  # seconds of a batch below which it need not pay: there, the clock's noise decides
)
_TURNS: Final = 3
_TOLERANCE: Final = 2e-2  # of the row's largest magnitude: lower precision, other order of sums
_MAGNITUDES: Final = (1.0, 100.0, 1e-3, 1e4)


@dataclass
class WarmupReport:
    """What warming up found: seconds by rows, rows of the largest batch that pays, and remarks.

    `open`: the time was over before a larger batch was found not to pay. `size`: the size class of
    the rows that were run.
    """

    seconds: dict[int, float] = field(default_factory=dict)
    size: int = 0
    most: int = 1
    open: bool = False
    notes: list[str] = field(default_factory=list)


async def run_once(
    executor: Executor, parts: Sequence[Sequence[Array]], seconds: float
) -> list[Array]:
    """One run and its outputs, which are the caller's. Raises what the run raised."""
    return await _ended(executor, parts, seconds, _kept)


async def _ended(
    executor: Executor,
    parts: Sequence[Sequence[Array]],
    seconds: float,
    take: Callable[[Result], T],
) -> T:
    """What `take` makes of a run's outputs, as long as they lie where the run has left them."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: Result) -> None:
        if future.done():
            return
        if result.error is not None:
            future.set_exception(result.error)
        else:
            future.set_result(take(result))

    executor.submit(parts, seconds, done)
    return await future


def _kept(result: Result) -> list[Array]:
    return [output if result.owned else np.array(output) for output in result.outputs]


def _left(_: Result) -> None:
    """Outputs of a warm-up may be many, and nobody reads them."""


@dataclass(frozen=True)
class Way:
    """One way to run a version: executors at once, each with batches of so many rows."""

    executors: Sequence[Executor]
    rows: int


class Tuner:
    """Measures ways to run a version, and says which is better.

    Inputs are random, or those of `config` in `folder`, of at most `most_bytes`; a run that takes
    longer than `hang` seconds counts as hung. Batches are tried where requests may run `together`.
    """

    def __init__(
        self,
        checker: Checker,
        config: Warmup,
        folder: Path,
        hang: float,
        together: Together,
        most_bytes: int,
    ) -> None:
        self.together = together
        self._checker, self._config = checker, config
        self._folder, self._hang, self._most_bytes = folder, hang, most_bytes

    async def warm_up(self, executor: Executor, most: int) -> WarmupReport:
        """Run the model with batches of 1, 2, 4 … rows while that pays, at most `config.seconds`
        long.

        `most`: rows that the configuration sets (0: find out). Raises WorkerLostError and
        ModelFailureError when the model crashes, ConfigurationError when the configured inputs are
        not there. A model that refuses random inputs is no failure: a remark says that it was not
        warmed up.
        """
        batched = bool(self._checker.batch) and self.together.allowed
        report = WarmupReport(most=max(1, most) if batched else 1)
        try:
            inputs = await self._inputs(1)
            await self._run(executor, inputs)  # the first one reads the weights
            limit = time.monotonic() + self._config.seconds
            rows = self._rows(inputs, 1)
            report.size = size_class(inputs, rows)
            report.seconds[rows] = await self._timed(executor, inputs, limit)
            if not batched or most == 1:
                return report
            if await self.contradicted(executor, report):
                report.most = 1
                return report
            if self._config.inputs:
                return report
            await self._grow(executor, most, limit, report)
        except WorkerLostError as error:
            raise ModelFailureError(
                f"the model crashed while it was warmed up: {error.what}"
            ) from error
        except (InputError, RuntimeFailure, ModelFailureError) as error:
            if self._config.inputs:
                raise
            report.notes.append(f"it was not warmed up: it refuses random inputs ({error.what})")
        return report

    async def rates(self, *ways: Way, hang: float = 0) -> list[float]:
        """Rows per second of each way, one after the other, when all of its executors run batches
        again and again. `hang` above 0 stands for the tuner's own.
        """
        return [await self._rate(way, hang or self._hang) for way in ways]

    async def _rate(self, way: Way, hang: float) -> float:
        inputs = await self._inputs(way.rows)
        parts = [[array] for array in inputs]

        async def several(executor: Executor, times: int) -> None:
            for _ in range(times):
                await _ended(executor, parts, hang, _left)

        await asyncio.gather(*(several(executor, 1) for executor in way.executors))
        start = time.perf_counter()
        await asyncio.gather(*(several(executor, _TURNS) for executor in way.executors))
        runs = _TURNS * len(way.executors)
        return self._rows(inputs, way.rows) * runs / (time.perf_counter() - start)

    async def _grow(
        self, executor: Executor, most: int, limit: float, report: WarmupReport
    ) -> None:
        """Measure batches of 2, 4, 8 … rows, up to `most`, or as far as they pay."""
        rows, largest = 1, most or LARGEST
        while rows < largest:
            if time.monotonic() >= limit:
                report.open = not most
                return
            smaller = report.seconds[rows] / rows
            rows = min(2 * rows, largest)
            seconds = await self._timed(executor, await self._inputs(rows), limit)
            report.seconds[rows] = seconds
            if most:
                continue
            if seconds > _SHORT and seconds / rows * GAIN > smaller:
                report.open = time.monotonic() >= limit  # it was not timed as often as it should be
                return
            report.most = rows
            if seconds > PATIENCE:
                return

    async def _timed(self, executor: Executor, inputs: Sequence[Array], limit: float) -> float:
        """Seconds of a run, the best of a few."""
        best = float("inf")
        for _ in range(_TURNS):
            start = time.perf_counter()
            await self._run(executor, inputs)
            best = min(best, time.perf_counter() - start)
            if time.monotonic() > limit:
                break
        return best

    async def contradicted(self, executor: Executor, report: WarmupReport) -> bool:
        """Whether rows that are stated to be independent are found not to be; the report then says
        so. Two rows of several magnitudes are run apart and together.
        """
        if not self.together.stated or not self._checker.batch:
            return False
        for magnitude in _MAGNITUDES:
            try:
                output = await self._dependent_output(executor, magnitude)
            except (InputError, RuntimeFailure):
                continue  # such numbers are none that the model takes
            if output:
                report.notes.append(
                    f"requests run one by one: {output} of a row changes with the other rows of a "
                    "batch, although batching.independent_rows is set"
                )
                return True
        return False

    async def _dependent_output(self, executor: Executor, magnitude: float) -> str:
        """An output of which a row changes with the other one of a batch of two, whose numbers are
        up to `magnitude` times as large; or "".
        """
        small, large = await self._drawn(2), await self._drawn(2, magnitude)
        rows = [np.concatenate([a[:1], b[1:]]) for a, b in zip(small, large)]
        both = await run_once(executor, [[array] for array in rows], self._hang)
        for row in (0, 1):
            parts = [[array[row : row + 1]] for array in rows]
            alone = await run_once(executor, parts, self._hang)
            for spec, one, pair in zip(self._checker.outputs, alone, both):
                if pair.shape[:1] != (2,) or not await asyncio.to_thread(
                    _alike, one[:1], pair[row : row + 1]
                ):
                    return spec.name
        return ""

    async def _run(self, executor: Executor, inputs: Sequence[Array]) -> None:
        await _ended(executor, [[array] for array in inputs], self._hang, _left)

    async def _inputs(self, rows: int) -> list[Array]:
        """Inputs of so many rows, or those that the configuration names; made beside the loop:
        there may be much of them.
        """
        checker, config = self._checker, self._config
        if config.inputs:
            return await stored(self._folder, config.inputs, checker, self._most_bytes)
        return await self._drawn(rows)

    async def _drawn(self, rows: int, magnitude: float = 1.0) -> list[Array]:
        checker = self._checker
        return await asyncio.to_thread(
            drawn, checker.inputs, self._config.sizes, checker.batch, rows, magnitude
        )

    def _rows(self, inputs: Sequence[Array], rows: int) -> int:
        """Rows of inputs that were asked for with so many: the configuration's have their own."""
        if not self._config.inputs:
            return rows
        return inputs[0].shape[0] if self._checker.batch else 1


def _alike(one: Array, other: Array) -> bool:
    """Integers and texts that are equal; floats that are, but for rounding."""
    if one.dtype == object or not np.issubdtype(one.dtype, np.floating):
        return bool(np.array_equal(one, other))
    if one.size == 0:
        return True
    first, second = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(first)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return False
    scale = float(np.max(np.abs(first[finite]), initial=0.0))
    return float(np.max(np.abs(first[finite] - second[finite]), initial=0.0)) <= _TOLERANCE * scale
