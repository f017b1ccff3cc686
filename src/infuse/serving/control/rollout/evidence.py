"""When a difference between two versions is more than chance.

Bounds of a rate are the exact ones of Clopper and Pearson, which hold for small counts. The
difference of two rates has a bound made of the two (Newcombe's way). A quantile lies between the
latencies at the bounds of its rank, whatever their distribution (how many of a sample lie below a
quantile is binomial), taken to the outer edge of their bucket. Each bound errs with a chance of
0.05 % at one look; `Looks` keeps the number of looks small, since every look is another chance to
err.
"""

from __future__ import annotations

import math
from typing import Final

from infuse.serving.control.rollout.windows import Tally

_ERROR: Final = 0.0005
_PRECISION: Final = 1e-4
_GROWTH: Final = 1.05


def bounds(errors: int, count: int) -> tuple[float, float]:
    """Between what the true rate lies, where `errors` of `count` were seen; (0, 1) without any."""
    if not count:
        return 0.0, 1.0
    return _lower(errors, count), 1 - _lower(count - errors, count)


def rate_excess(
    bad: int, count: int, reference_bad: int, reference_count: int, fewest: int
) -> float:
    """By how much a rate exceeds the reference's at least.

    With fewer than `fewest` trials of the reference, its rate is taken as seen (0 without any):
    whoever cannot be compared is held to the limit itself.
    """
    rate = bad / count if count else 0.0
    low, _ = bounds(bad, count)
    base = reference_bad / reference_count if reference_count else 0.0
    if reference_count < fewest:
        return low - base
    _, high = bounds(reference_bad, reference_count)
    return rate - base - math.hypot(rate - low, high - base)


def latency_ratio(tally: Tally, reference: Tally, part: float) -> float:
    """How many times the reference's latency at the quantile `part` is exceeded at least; 0 if one
    has no answers.
    """
    if not tally.answered or not reference.answered:
        return 0.0
    low, _ = bounds(math.floor(part * tally.answered), tally.answered)
    _, high = bounds(math.ceil(part * reference.answered), reference.answered)
    return tally.quantile(low)[0] / reference.quantile(high)[1]


def outside(count: int, part: float) -> bool:
    """Whether it is more than chance that `count` latencies, each of them, are beyond the quantile
    `part`.
    """
    return (1 - part) ** count <= _ERROR


class Looks:
    """When to look at evidence again: only after it has grown by a twentieth."""

    def __init__(self) -> None:
        self._next = 0

    def due(self, count: int, last: bool = False) -> bool:
        """Whether `count` pieces are worth a look, or it is the last one; a look that is due is
        taken for taken.
        """
        if count < self._next and not last:
            return False
        self._next = max(count + 1, math.ceil(count * _GROWTH))
        return True


def _lower(errors: int, count: int) -> float:
    """The rate at which `errors` or more of `count` would be a chance of `_ERROR`."""
    if not errors:
        return 0.0
    low, high = 0.0, errors / count
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if _chance(errors, count, middle) < _ERROR:
            low = middle
        else:
            high = middle
    return low


def _chance(errors: int, count: int, rate: float) -> float:
    """The chance of `errors` or more of `count` at a rate below errors / count, so that terms
    fall.
    """
    ways = math.lgamma(count + 1) - math.lgamma(errors + 1) - math.lgamma(count - errors + 1)
    term = math.exp(ways + errors * math.log(rate) + (count - errors) * math.log1p(-rate))
    odds, total = rate / (1 - rate), 0.0
    for number in range(errors, count + 1):
        total += term
        term *= (count - number) / (number + 1) * odds
        if term <= total * _PRECISION**2:
            break
    return total
