"""How far a measurement is, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

Progress = Callable[[str, int, int], None]
"""Called with the stage, what of it is done, and all of it."""
PHASE: Final = "phase: "
"""How the name of a stage begins that is a phase of a job: then the numbers say which of how many
it is, from 1 on.
"""


class Phases:
    """The progress of a job in phases, which are entered in this order; some may be left out."""

    def __init__(self, progress: Progress, names: Sequence[str]) -> None:
        self._progress, self._names = progress, list(names)
        self._entered = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        self._progress(stage, done, total)

    def enter(self, name: str) -> None:
        """Begin a phase, if the job has it; earlier ones do not come again."""
        number = self._names.index(name) + 1 if name in self._names else 0
        if number > self._entered:
            self._entered = number
            self._progress(f"{PHASE}{name}", number, len(self._names))


def enter(progress: Progress | None, name: str) -> None:
    """Begin a phase of a job that has phases."""
    if isinstance(progress, Phases):
        progress.enter(name)


def silent(stage: str, done: int, total: int) -> None:
    """The progress of a caller who asked for none."""
