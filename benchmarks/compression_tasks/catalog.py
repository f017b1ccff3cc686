"""All tasks by name."""

from __future__ import annotations

from pathlib import Path

from benchmarks.compression_tasks import (
    file_types,
    language,
    mails,
    mnist,
    pictures,
    reading,
    series,
    speech,
)
from benchmarks.compression_tasks.base import Task

_MODULES = (mnist, reading, file_types, speech, mails, series, pictures, language)
_RECIPES = {recipe.name: recipe for module in _MODULES for recipe in module.RECIPES}
NAMES: tuple[str, ...] = tuple(_RECIPES)


def task(name: str, folder: Path) -> Task:
    """The task of that name; packages are fetched and networks trained where `folder` does not
    have them yet, which takes minutes. KeyError for another name.
    """
    return _RECIPES[name].task(folder)
