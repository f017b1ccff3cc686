"""What the cache folder holds, and how it is emptied."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infuse.build.bounded import Bounded
from infuse.build.cache import Cache
from infuse.errors import CompiledModelError, OptionError
from infuse.runtime.folder import read_metadata

MODELS: Final = "compiled"
PARTS: Final = {
    MODELS: "compiled models",
    "objects": "object files that models share",
    "tuning": "which kernels were fastest",
    "precision": "precisions that were chosen",
    "compress": "measurements of compressions",
    "machines": "peaks of this machine",
    "sessions": "which model a session had",
    "checked": "hashes of files that were checked",
    "serving": "copies of served models",
}
"""The folders of a cache, and what is in them. Nothing else is counted or removed."""
SERVED: Final = "serving"
"""What running servers use, and remove themselves."""
CLEARED: Final = tuple(name for name in PARTS if name != SERVED)
_FOLDERS: Final = (MODELS, "objects")
"""Parts whose entries are folders."""
_DAY: Final = 24 * 3600
_OURS: Final = re.compile(r"(failed-)?[0-9a-f]+(-[0-9a-f]+)?(\.json)?")
"""How what we make is called."""


@dataclass(frozen=True)
class Part:
    """A folder of the cache: how many entries it has, and their bytes."""

    name: str
    about: str
    entries: int
    bytes: int


@dataclass(frozen=True)
class CompiledEntry:
    """A compiled model: its key, its name and target (empty for one that cannot be read), its bytes
    and the days since it was used.
    """

    key: str
    name: str
    target: str
    precision: str
    bytes: int
    days: float


def parts_of(root: Path) -> list[Part]:
    """What is in the folders of a cache; those that are not there are left out."""
    result = []
    for name, about in PARTS.items():
        folder = root / name
        if folder.is_dir():
            entries = [each for each in folder.iterdir() if not each.name.startswith(".")]
            result.append(Part(name, about, len(entries), sum(map(_bytes_of, entries))))
    return result


def models_of(root: Path) -> list[CompiledEntry]:
    """The compiled models of a cache, the one that was used last first."""
    entries = [_entry(folder) for folder in _entries(root / MODELS) if folder.is_dir()]
    return sorted(entries, key=lambda each: each.days)


def _entry(folder: Path) -> CompiledEntry:
    facts: dict[str, Any] = {}
    with suppress(CompiledModelError):  # of an earlier release, or in stages
        facts = read_metadata(folder)
    days = 0.0
    with suppress(FileNotFoundError):
        days = max((time.time() - folder.stat().st_mtime) / _DAY, 0.0)
    name, target, precision = (str(facts.get(k, "")) for k in ("name", "target", "precision"))
    return CompiledEntry(folder.name, name, target, precision, _bytes_of(folder), days)


def clear(root: Path, parts: Sequence[str] = (), older_than_days: float = 0) -> int:
    """Remove what was used longer ago than so many days from these parts of a cache (by default
    all), and tell how many bytes that had. A model that runs keeps running, and a process that
    looks one up has it whole or not at all. OptionError for a part that there is not.
    """
    chosen = list(parts) or list(CLEARED)
    if unknown := sorted({*chosen} - {*CLEARED}):
        served = unknown[0] == SERVED
        raise OptionError(
            f"{unknown[0]!r} is no part of the cache that can be cleared",
            hint="servers remove their copies themselves"
            if served
            else f"its parts are {', '.join(CLEARED)}",
        )
    latest = time.time() - older_than_days * _DAY
    freed = 0
    for name in chosen:
        bounded = Bounded(root / name, Cache(root).limit)
        for path in _entries(root / name):
            with suppress(FileNotFoundError):  # another process has removed it
                if path.stat().st_mtime > latest:
                    continue
                freed += _bytes_of(path)
            if path.is_dir():
                bounded.remove(path)
            else:
                path.unlink(missing_ok=True)
        if name in _FOLDERS and (root / name).is_dir():
            bounded.evict()  # so that the sum of sizes is counted anew
    return freed


def _entries(folder: Path) -> Iterator[Path]:
    """What we made in a folder of the cache."""
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if _OURS.fullmatch(path.name))


def _bytes_of(path: Path) -> int:
    """What a file has, or all files below a folder."""
    total = 0
    for each in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):
            total += each.stat().st_size if each.is_file() else 0
    return total
