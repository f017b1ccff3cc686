"""When a difference between two versions is more than chance.

Bounds are Wilson's score bounds of a proportion, which hold for small counts too. The difference of two rates has
Newcombe's bound, made of the two. A quantile has the latencies at Wilson's bounds of its rank (distribution-free: the
rank of a quantile in a sample is binomial), taken to the outer edge of their bucket. Each bound errs with a chance of
0.05 % at one look; `Looks` keeps the number of looks small, since every look is another chance to err.
"""

from __future__ import annotations

import math
from typing import Final

from infuse.serving.rollout.windows import Tally

# The normal deviate that is exceeded with a chance of 0.05 %.
_Z: Final = 3.29
_GROWTH: Final = 1.05


def wilson(rate: float, count: int) -> tuple[float, float]:
    """Between what the true rate lies, where `rate` was seen in `count` trials; (0, 1) without any."""
    if not count:
        return 0.0, 1.0
    squared = _Z * _Z / count
    middle = rate + squared / 2
    reach = _Z * math.sqrt(rate * (1 - rate) / count + squared / (4 * count))
    return max(0.0, (middle - reach) / (1 + squared)), min(1.0, (middle + reach) / (1 + squared))


def rate_excess(bad: int, count: int, reference_bad: int, reference_count: int, fewest: int) -> float:
    """By how much a rate exceeds the reference's at least.

    With fewer than `fewest` trials of the reference, its rate is taken as seen (0 without any): whoever cannot be
    compared is held to the limit itself.
    """
    rate = bad / count if count else 0.0
    low, _ = wilson(rate, count)
    base = reference_bad / reference_count if reference_count else 0.0
    if reference_count < fewest:
        return low - base
    _, high = wilson(base, reference_count)
    return rate - base - math.hypot(rate - low, high - base)


def latency_ratio(found: Tally, reference: Tally, part: float) -> float:
    """How many times the reference's latency at the quantile `part` is exceeded at least; 0 if one has no answers."""
    if not found.answered or not reference.answered:
        return 0.0
    low, _ = wilson(part, found.answered)
    _, high = wilson(part, reference.answered)
    return found.quantile(low)[0] / reference.quantile(high)[1]


class Looks:
    """When to look at evidence again: only after it has grown by a twentieth."""

    def __init__(self) -> None:
        self._next = 0

    def due(self, count: int, last: bool = False) -> bool:
        """Whether `count` pieces are worth a look, or it is the last one; a look that is due is taken for taken."""
        if count < self._next and not last:
            return False
        self._next = max(count + 1, math.ceil(count * _GROWTH))
        return True
