"""How long a batch takes, by its rows and by the size of a row, learned while it serves."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

from infuse.runtime.session import Array

_WEIGHT: Final = 0.1  # of a new measurement
SAMPLES: Final = 8
"""Measurements that tell something: until then the plain mean of them is taken."""
GAIN: Final = 1.03
"""Times as many rows per second that a larger batch, or more instances, must bring."""


class TimeModel:
    """Seconds by rows of a batch: a moving mean for each size that was seen, straight lines between
    them.

    Below and beyond what was seen, the line through the two nearest sizes goes on (never below a
    time per row of the nearest size's where only one is known). With a `base`, what was not seen is
    as there: times `scale` while nothing was seen, then times what the nearest size takes more.
    """

    def __init__(self, base: TimeModel | None = None, scale: float = 1.0) -> None:
        self._base = base if base is not None and base.measured else None
        self._scale = scale
        self._sizes: list[int] = []
        self._means: dict[int, float] = {}
        self._counts: dict[int, int] = {}

    @property
    def measured(self) -> bool:
        """Whether anything was measured."""
        return bool(self._sizes or self._base)

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
        if self._base is not None:
            return self._base.predict(rows) * self._ratio(self._base, rows)
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
        if most <= 1 or not self.measured:
            return max(1, most)
        candidates = [size for size in self._known() if size < most] + [most]
        rates = [(size / max(self.predict(size), 1e-9)) for size in candidates]
        top = max(rates)
        chosen = next(size for size, rate in zip(candidates, rates) if GAIN * rate >= top)
        while seconds is not None and chosen > 1 and self.predict(chosen) > seconds:
            chosen = max((size for size in candidates if size < chosen), default=1)
        return chosen

    def table(self) -> dict[int, float]:
        """Mean seconds by rows, for those who want to see."""
        return {size: self._means[size] for size in self._sizes}

    def _known(self) -> list[int]:
        """Rows of which something is known, ascending."""
        if self._base is None:
            return self._sizes
        return sorted({*self._sizes, *self._base._known()})

    def _ratio(self, base: TimeModel, rows: int) -> float:
        """Times as long as in `base` that so many rows take."""
        if not self._sizes:
            return self._scale
        near = min(self._sizes, key=lambda size: abs(size - rows))
        return self._means[near] / max(base.predict(near), 1e-9)


class SizedTimes:
    """Models of time by the size class of a row (`size_class`), since a long text takes longer than
    a short one.

    The class that is measured first is the base of the others. The model of a class that was never
    seen scales the nearest one with the size: a guess, which its first run corrects.
    """

    def __init__(self) -> None:
        self._models: dict[int, TimeModel] = {}
        self._base = TimeModel()

    @property
    def measured(self) -> bool:
        """Whether anything was measured."""
        return self._base.measured

    def observe(self, size: int, rows: int, seconds: float) -> None:
        """A batch of so many rows of a size class took so long."""
        if not self._models:
            self._models[size] = self._base
        elif size not in self._models:
            self._models[size] = self.of(size)
        self._models[size].observe(rows, seconds)

    def of(self, size: int) -> TimeModel:
        """The model of time of a size class."""
        if size in self._models or not self._models:
            return self._models.get(size, self._base)
        near = min(self._models, key=lambda known: abs(known - size))
        return TimeModel(self._models[near], 2.0 ** (size - near))

    def table(self) -> dict[int, float]:
        """Mean seconds by rows in the class that was measured first."""
        return self._base.table()


def size_class(arrays: Sequence[Array], rows: int) -> int:
    """The size class of inputs of so many rows: twice the elements a row, one class further."""
    elements = sum([array.size for array in arrays])
    return (elements // max(rows, 1)).bit_length()
