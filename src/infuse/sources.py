"""What a process runs: the files of Infuse, and packages that extend it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

EXTENSIONS: Final = "infuse.rules"
"""Where packages that extend Infuse register."""


@cache
def stamp() -> str:
    """A hash of the names, sizes and times of all files of Infuse but bytecode."""
    root = str(Path(__file__).parent)
    states = sorted((path[len(root) :], *state) for path, *state in _files(root))
    return hashlib.sha256(repr(states).encode()).hexdigest()


@cache
def announced() -> tuple[EntryPoint, ...]:
    """What installed packages announce, by name: whoever asks first looks at all that there are."""
    return tuple(sorted(entry_points(group=EXTENSIONS), key=lambda each: (each.name, each.value)))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
                continue
            with suppress(FileNotFoundError):  # of one that was there for a moment
                state = entry.stat()
                yield entry.path, state.st_size, state.st_mtime_ns
