"""What a compression may lose, and how long it may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from infuse.errors import OptionError
from infuse.options.methods import part_or_number


@dataclass(frozen=True)
class Bound:
    """The loss of a score that is allowed: a part of the original's score, or in the score's own
    unit.
    """

    limit: float
    is_relative: bool

    @classmethod
    def parse(cls, text: str | float) -> Bound:
        """`"0.5%"` is a part of the original's score, `0.005` the score's own unit. OptionError for
        anything else.
        """
        number, is_relative = part_or_number(text)
        if not (math.isfinite(number) and number >= 0):
            raise OptionError(
                f"max_drop is {text!r}, which bounds nothing",
                hint="0.5% of the original's score, or 0.005 in the unit of the score",
            )
        return cls(number, is_relative)

    def allowed(self, reference: float) -> float:
        """The loss that is allowed, in the score's own unit."""
        return self.limit * abs(reference) if self.is_relative else self.limit

    def holds(self, reference: float, score: float, higher_is_better: bool) -> bool:
        """Whether a score is within the bound."""
        lost = reference - score if higher_is_better else score - reference
        return lost <= self.allowed(reference) + 1e-12 * abs(reference)

    def worst(self, reference: float, higher_is_better: bool) -> float:
        """The last score that is within the bound."""
        allowed = self.allowed(reference)
        return reference - allowed if higher_is_better else reference + allowed

    def left(self, reference: float, drop: float) -> float:
        """What may still be lost, in the score's own unit, where so much is lost already."""
        return max(self.allowed(reference) - drop, 0.0)

    def __str__(self) -> str:
        return f"{self.limit * 100:g}%" if self.is_relative else f"{self.limit:g}"


class Deadline:
    """The end of the time that a search may take; without minutes there is none."""

    def __init__(
        self, minutes: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if minutes is not None and not (math.isfinite(minutes) and minutes > 0):
            raise OptionError(
                f"{minutes} is not a valid number of minutes", hint="use a positive one"
            )
        self._clock = clock
        self._end = math.inf if minutes is None else clock() + 60 * minutes

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._end - self._clock()

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0
