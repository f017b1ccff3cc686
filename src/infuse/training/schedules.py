"""Factors of the learning rate over the steps of a training, from 0 to the last one."""

from __future__ import annotations

import math
from collections.abc import Callable

from infuse.errors import OptionError

Schedule = Callable[[int, int], float]
"""The factor at a step, of so many steps in all."""


def constant(step: int, steps: int) -> float:
    """The rate as it is."""
    return 1.0


def cosine(step: int, steps: int) -> float:
    """From 1 to 0 along half a wave of the cosine."""
    return 0.5 * (1 + math.cos(math.pi * step / steps))


def stepped(every: int, factor: float = 0.1) -> Schedule:
    """Times `factor` after `every` steps, and again."""
    if every < 1:
        raise OptionError(f"the rate can change after 1 step or more, found {every}")
    return lambda step, steps: factor ** (step // every)


def warmed_up(count: int, schedule: Schedule = constant) -> Schedule:
    """From nearly 0 to 1 along a line over the first `count` steps, then as another schedule."""
    if count < 0:
        raise OptionError(f"the number of steps to warm up cannot be negative, found {count}")

    def factor(step: int, steps: int) -> float:
        if step < count:
            return (step + 1) / (count + 1)
        return schedule(step - count, max(steps - count, 1))

    return factor
