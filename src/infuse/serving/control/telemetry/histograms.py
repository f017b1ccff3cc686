"""Histograms of durations with fixed buckets, narrow enough for quantiles and equal everywhere, so
that they add up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

# Renard's preferred numbers R20: twenty bounds a decade, neighbours at most 13.5 % apart.
_R20: Final = (
    100,
    112,
    125,
    140,
    160,
    180,
    200,
    224,
    250,
    280,
    315,
    355,
    400,
    450,
    500,
    560,
    630,
    710,
    800,
    900,
)
_FIRST_DECADE: Final = 3  # a microsecond
_LAST_DECADE: Final = 12  # a thousand seconds
BOUNDS: Final[tuple[int, ...]] = (
    *(
        mantissa * 10**decade // 100
        for decade in range(_FIRST_DECADE, _LAST_DECADE)
        for mantissa in _R20
    ),
    10**_LAST_DECADE,
)
"""Upper bounds of the buckets in nanoseconds, each included; one more bucket takes what is larger.
"""
BUCKETS: Final = len(BOUNDS) + 1
_SHOWN: Final = tuple(
    index
    for index, bound in enumerate(BOUNDS)
    if str(bound)[0] in "125" and not str(bound)[1:].strip("0")
)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Upper bounds of the buckets of a histogram of batch sizes."""


def bucket_of(nanoseconds: int) -> int:
    """The index of the bucket that a duration belongs to."""
    return bisect_left(BOUNDS, nanoseconds)


def quantile(counts: Sequence[int], share: float) -> float:
    """The duration in seconds that `share` of the durations do not exceed, within its bucket's
    width.

    `counts` are those of the buckets. Positions within a bucket are taken as evenly spread. 0 where
    nothing was counted; what lies above the last bound counts as the last bound.
    """
    total = sum(counts)
    if total == 0:
        return 0.0
    rank = max(share * total, 1e-9)
    below = 0
    for index, count in enumerate(counts):
        if below + count >= rank and count:
            low = BOUNDS[index - 1] if index else 0
            high = BOUNDS[min(index, len(BOUNDS) - 1)]
            return (low + (high - low) * (rank - below) / count) / 1e9
        below += count
    return BOUNDS[-1] / 1e9


def shown(counts: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Bounds (in seconds, 1–2–5 a decade) and how many durations do not exceed them, as Prometheus
    wants buckets.
    """
    sums = list(accumulate(counts))
    for index in _SHOWN:
        yield repr(BOUNDS[index] / 1e9), sums[index]
    yield "+Inf", sums[-1]
