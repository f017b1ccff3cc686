"""How long a batch takes, learned while it serves."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

_WEIGHT: Final = 0.1  # of a new measurement
SAMPLES: Final = 8
"""Measurements that tell something: until then the plain mean of them is taken."""
GAIN: Final = 1.03
"""Times as many rows per second that a larger batch, or more instances, must bring."""


class TimeModel:
    """Seconds by rows of a batch: a moving mean for each size that was seen, straight lines between
    them.

    Below and beyond what was seen, the line through the two nearest sizes goes on (never below a
    time per row of the nearest size's where only one is known).
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._means: dict[int, float] = {}
        self._counts: dict[int, int] = {}

    @property
    def measured(self) -> bool:
        """Whether anything was measured."""
        return bool(self._sizes)

    def observe(self, rows: int, seconds: float) -> None:
        """A batch of so many rows took so long; ten times the usual and more counts as twice the
        usual.
        """
        count = self._counts.get(rows, 0)
        if not count:
            insort(self._sizes, rows)
            self._means[rows] = seconds
        else:
            mean = self._means[rows]
            if seconds > 10 * mean and count >= SAMPLES:
                seconds = 2 * mean
            self._means[rows] = mean + max(_WEIGHT, 1 / (count + 1)) * (seconds - mean)
        self._counts[rows] = min(count + 1, SAMPLES)

    def predict(self, rows: int) -> float:
        """Expected seconds of a batch of so many rows; 0 while nothing is known."""
        sizes, means = self._sizes, self._means
        if rows in means:
            return means[rows]
        if not sizes:
            return 0.0
        if len(sizes) == 1:
            return means[sizes[0]] * (rows / sizes[0] if rows > sizes[0] else 1.0)
        place = min(max(bisect_left(sizes, rows), 1), len(sizes) - 1)
        low, high = sizes[place - 1], sizes[place]
        slope = max(0.0, (means[high] - means[low]) / (high - low))
        return max(means[low] + slope * (rows - low), means[sizes[0]] * 0.1)

    def best(self, most: int, seconds: float | None = None) -> int:
        """Rows of the batch to run when `most` wait: as many as raise the rows per second, and no
        more.

        With `seconds`, the most rows that are expected to take no longer, if that is fewer, and at
        least one.
        """
        if most <= 1 or not self._sizes:
            return max(1, most)
        candidates = [size for size in self._sizes if size < most] + [most]
        rates = [(size / max(self.predict(size), 1e-9)) for size in candidates]
        top = max(rates)
        chosen = next(size for size, rate in zip(candidates, rates) if GAIN * rate >= top)
        while seconds is not None and chosen > 1 and self.predict(chosen) > seconds:
            chosen = max((size for size in candidates if size < chosen), default=1)
        return chosen

    def table(self) -> dict[int, float]:
        """Mean seconds by rows, for those who want to see."""
        return {size: self._means[size] for size in self._sizes}
