"""The runs before a version is ready: it works, batches take so long, and rows do not see each
other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from infuse.errors import ConfigurationError, InputError, ModelFailureError, RuntimeFailure
from infuse.runtime.session import Array
from infuse.runtime.shapes import Formula, TensorSpec
from infuse.serving.control.model_config import Warmup
from infuse.serving.engine.batching.max_batch import LARGEST, PATIENCE
from infuse.serving.engine.batching.timing import GAIN
from infuse.serving.engine.signature import Checker
from infuse.serving.workers.executor import Executor, Result, WorkerLostError

_USUAL: Final = 32  # the size of a symbol that nobody has set
_SHORT: Final = (
    5e-3  # seconds of a batch below which it need not pay: there, the clock's noise decides
)
_TURNS: Final = 3
_MOST_BYTES: Final = 1 << 30  # of random inputs
_TOLERANCE: Final = (
    2e-2  # of the largest magnitude: lower precision, other order of sums; dependence is far above
)


@dataclass
class WarmupReport:
    """What warming up found: seconds by rows, rows of the largest batch that pays, and remarks.

    `open`: the time was over before a larger batch was found not to pay.
    """

    seconds: dict[int, float] = field(default_factory=dict)
    most: int = 1
    open: bool = False
    notes: list[str] = field(default_factory=list)


async def run_once(
    executor: Executor, parts: Sequence[Sequence[Array]], seconds: float
) -> list[Array]:
    """One run and its outputs, which are the caller's. Raises what the run raised."""
    future: asyncio.Future[list[Array]] = asyncio.get_running_loop().create_future()

    def done(result: Result) -> None:
        if future.done():
            return
        if result.error is not None:
            future.set_exception(result.error)
        else:
            future.set_result(
                [output if result.owned else np.array(output) for output in result.outputs]
            )

    executor.submit(parts, seconds, done)
    return await future


async def warm_up(
    executor: Executor, checker: Checker, config: Warmup, most: int, folder: Path, hang: float
) -> WarmupReport:
    """Run the model with batches of 1, 2, 4 … rows while that pays, at most `config.seconds` long.

    `most`: rows that the configuration sets (0: find out). Raises WorkerLostError and
    ModelFailureError when the model crashes, ConfigurationError when the configured inputs are not
    there. A model that refuses random inputs is no failure: a remark says that it was not warmed
    up.
    """
    report = WarmupReport(most=max(1, most) if checker.batch else 1)
    feeds = (
        await asyncio.to_thread(_given, folder, config.inputs, checker) if config.inputs else None
    )
    try:
        inputs = await _random(checker, config, 1) if feeds is None else feeds
        await run_once(
            executor, [[array] for array in inputs], hang
        )  # the first one reads the weights
        limit = time.monotonic() + config.seconds
        if feeds is not None:
            report.seconds[feeds[0].shape[0] if checker.batch else 1] = await _timed(
                executor, feeds, hang, limit
            )
            return report
        report.seconds[1] = await _timed(executor, inputs, hang, limit)
        if not checker.batch or most == 1:
            return report
        dependent = await _dependent_output(executor, checker, config, hang)
        if dependent:
            report.notes.append(
                f"{dependent} of a row changes with the other rows of a batch"
                + (
                    "; they are batched because max_size says so"
                    if most
                    else ": requests run one by one"
                )
            )
            if not most:
                return report
        await _grow(executor, checker, config, most, hang, limit, report)
    except WorkerLostError as error:
        raise ModelFailureError(
            f"the model crashed while it was warmed up: {error.what}"
        ) from error
    except (InputError, RuntimeFailure, ModelFailureError) as error:
        if feeds is not None:
            raise
        report.notes.append(f"it was not warmed up: it refuses random inputs ({error.what})")
    return report


async def rate(
    executors: Sequence[Executor],
    checker: Checker,
    config: Warmup,
    rows: int,
    folder: Path,
    hang: float,
) -> float:
    """Rows per second when all of them run batches of so many rows at once, again and again."""
    if config.inputs:
        inputs = await asyncio.to_thread(_given, folder, config.inputs, checker)
        rows = inputs[0].shape[0] if checker.batch else 1
    else:
        inputs = await _random(checker, config, rows)
    parts = [[array] for array in inputs]

    async def several(executor: Executor) -> None:
        for _ in range(_TURNS):
            await run_once(executor, parts, hang)

    await asyncio.gather(*(run_once(executor, parts, hang) for executor in executors))
    start = time.perf_counter()
    await asyncio.gather(*map(several, executors))
    return rows * _TURNS * len(executors) / (time.perf_counter() - start)


async def _grow(
    executor: Executor,
    checker: Checker,
    config: Warmup,
    most: int,
    hang: float,
    limit: float,
    report: WarmupReport,
) -> None:
    """Measure batches of 2, 4, 8 … rows, up to `most`, or as far as they pay."""
    rows = 1
    while rows < (most or LARGEST):
        if time.monotonic() >= limit:
            report.open = not most
            return
        smaller = report.seconds[rows] / rows
        rows = min(2 * rows, most or LARGEST)
        inputs = await _random(checker, config, rows)
        seconds = await _timed(executor, inputs, hang, limit)
        report.seconds[rows] = seconds
        if not most:
            if seconds > _SHORT and seconds / rows * GAIN > smaller:
                report.open = time.monotonic() >= limit  # it was not timed as often as it should be
                return
            report.most = rows
            if seconds > PATIENCE:
                return


async def _timed(executor: Executor, inputs: Sequence[Array], hang: float, limit: float) -> float:
    """Seconds of a run, the best of a few."""
    best = float("inf")
    for _ in range(_TURNS):
        start = time.perf_counter()
        await run_once(executor, [[array] for array in inputs], hang)
        best = min(best, time.perf_counter() - start)
        if time.monotonic() > limit:
            break
    return best


async def _dependent_output(
    executor: Executor, checker: Checker, config: Warmup, hang: float
) -> str:
    """An output of which a row changes with the other rows of the batch: two rows, run apart and
    together; or "".
    """
    inputs = await _random(checker, config, 2)
    together = await run_once(executor, [[array] for array in inputs], hang)
    for row in (0, 1):
        alone = await run_once(executor, [[array[row : row + 1]] for array in inputs], hang)
        for spec, one, both in zip(checker.outputs, alone, together):
            if both.shape[:1] != (2,) or not await asyncio.to_thread(
                _alike, one[:1], both[row : row + 1]
            ):
                return spec.name
    return ""


def _alike(one: Array, other: Array) -> bool:
    if one.dtype == object or not np.issubdtype(one.dtype, np.floating):
        return one.dtype != object or bool(np.array_equal(one, other))
    if one.size == 0:
        return True
    first, second = one.astype(np.float64), other.astype(np.float64)
    if not np.array_equal(np.isfinite(first), np.isfinite(second)):
        return False
    finite = np.isfinite(first)
    scale = max(float(np.max(np.abs(second[finite]), initial=0.0)), 1e-6)
    return float(np.max(np.abs(first[finite] - second[finite]), initial=0.0)) <= _TOLERANCE * scale


async def _random(checker: Checker, config: Warmup, rows: int) -> list[Array]:
    """Random inputs, made beside the loop: there may be much of them."""
    return await asyncio.to_thread(_drawn, checker.inputs, config.sizes, checker.batch, rows)


def _drawn(
    specs: Sequence[TensorSpec], sizes: Mapping[str, int], batch: str, rows: int
) -> list[Array]:
    """Inputs of usual sizes: floats of a normal distribution, integers and truth values 0 or 1,
    short texts.
    """
    generator = np.random.default_rng(0)
    symbols = {
        s for spec in specs for n in spec.shape if isinstance(n, str) for s in Formula(n).symbols
    }
    values = {symbol: sizes.get(symbol, _USUAL) for symbol in symbols} | (
        {batch: rows} if batch else {}
    )
    arrays: list[Array] = []
    shapes = [
        tuple(n if isinstance(n, int) else Formula(n)(values) for n in spec.shape) for spec in specs
    ]
    if sum(prod(shape) * spec.dtype.itemsize for shape, spec in zip(shapes, specs)) > _MOST_BYTES:
        raise InputError(f"random inputs of its sizes have more than {_MOST_BYTES >> 20} MiB")
    for spec, shape in zip(specs, shapes):
        if spec.dtype == object:
            arrays.append(np.full(shape, b"warm", object))
        elif np.issubdtype(spec.dtype, np.floating) or spec.dtype.kind == "V":
            arrays.append(generator.standard_normal(shape).astype(spec.dtype))
        else:
            arrays.append(generator.integers(0, 2, shape).astype(spec.dtype))
    return arrays


def _given(folder: Path, name: str, checker: Checker) -> list[Array]:
    """The inputs of a .npz file in the model's folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigurationError(f"the warm-up inputs {name!r} are outside of the model's folder")
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = [np.asarray(content[spec.name], spec.dtype) for spec in checker.inputs]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"the warm-up inputs cannot be read: {error}", where=str(path)
        ) from error
    return arrays
