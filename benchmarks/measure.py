"""How a figure is taken: repeated runs, their summary, and the distance of an answer from the right
one.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

WARM_UP = 2


def repeat(run: Callable[[], object], seconds: float, least: int = 1) -> list[float]:
    """Seconds of each run, for at least that long and that often, after a warm-up."""
    for _ in range(WARM_UP):
        run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


@dataclass
class Timing:
    """All runs of one engine: seconds."""

    best: float
    median: float
    runs: int

    @staticmethod
    def of(times: list[float]) -> "Timing":
        """Summary of the seconds of each run."""
        return Timing(min(times), statistics.median(times), len(times))


def difference(ours: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> float:
    """Largest |ours - reference| over the largest |reference|, of the worst output.

    Infinite where names or shapes differ, or where one is finite and the other is not.
    """
    if ours.keys() != reference.keys():
        return math.inf
    return max(
        (_difference(ours[name], expected) for name, expected in reference.items()), default=0.0
    )


def _difference(ours: np.ndarray, expected: np.ndarray) -> float:
    finite = np.isfinite(expected)
    if ours.shape != expected.shape or not np.array_equal(
        ours[~finite], expected[~finite], equal_nan=True
    ):
        return math.inf
    if not finite.any():
        return 0.0
    largest = float(np.abs(expected[finite]).max()) or 1.0
    error = float(np.abs(ours[finite].astype(np.float64) - expected[finite]).max()) / largest
    return math.inf if math.isnan(error) else error


def geomean(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))
