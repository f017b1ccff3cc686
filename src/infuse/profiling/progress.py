"""How far a measurement is, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage, what of it is done, and all of it."""


def silent(stage: str, done: int, total: int) -> None:
    """The progress of a caller who asked for none."""
