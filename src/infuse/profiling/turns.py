"""Times of several runs that take turns, so that what else the machine does disturbs all alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WARM_UP = 2
PERCENTILES = (50, 90, 95, 99)
SPREAD = ("min", *(f"p{percent}" for percent in PERCENTILES), "max")
"""The times of a `distribution`, from the least to the longest."""


def alternate(
    runs: Mapping[str, Callable[[], Any]], rounds: int, seconds: float, done: Callable[[int], None]
) -> dict[str, list[float]]:
    """Seconds of every call; in each round, each of `runs` has a turn of at least `seconds` and one
    call.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        done(number)
        for name, run in runs.items():
            for _ in range(WARM_UP):
                run()
            end = time.perf_counter() + seconds
            while True:
                started = time.perf_counter()
                run()
                stopped = time.perf_counter()
                times[name].append(stopped - started)
                if stopped >= end:
                    break
    return times


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """The least and the median time in milliseconds, and the number of runs."""
    return {
        "min_ms": min(seconds) * 1e3,
        "median_ms": statistics.median(seconds) * 1e3,
        "runs": len(seconds),
    }


def distribution(seconds: Sequence[float]) -> dict[str, float]:
    """What `summary` has, with percentiles (the least time that so many of a hundred runs do not
    exceed) and the longest time in milliseconds.
    """
    ordered = sorted(seconds)
    spread = {
        f"p{percent}_ms": ordered[math.ceil(percent / 100 * len(ordered)) - 1] * 1e3
        for percent in PERCENTILES
    }
    return {**summary(seconds), **spread, "max_ms": ordered[-1] * 1e3}
