"""Objects of the files that models share, by all that they were compiled from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

OBJECTS: Final = "objects"
"""Their folder in that of a cache."""
_PART: Final = 10
"""The objects of a cache may take one part of so many of its limit."""
_SWEEP_SECONDS: Final = 600
"""How often objects that were not used for long are looked for."""
_SWEPT: Final = ".swept"
_NEW: Final = ".new-"
_SEALED: Final = 0o500


class Objects:
    """Object files by key: a folder each, which appears whole or not at all, with one file that is
    named by the hash of its content, and is not used where it has another.

    `root` belongs to a `Cache`, which has checked that nobody else may write to it.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root, self.limit = root / OBJECTS, limit // _PART

    def __contains__(self, key: str) -> bool:
        """Whether there is an object of a key, which may be damaged."""
        return (self.root / key).is_dir()

    def find(self, key: str) -> bytes | None:
        """The object of a key; None where there is none, or one that is damaged."""
        folder = self.root / key
        try:
            (file,) = folder.iterdir()
            content = file.read_bytes()
        except (OSError, ValueError):
            return None
        if hashlib.sha256(content).hexdigest() != file.name:
            discard(folder)
            return None
        with contextlib.suppress(OSError):  # a read-only cache keeps no time of use
            os.utime(folder)
        return content

    def add(self, key: str, content: bytes) -> None:
        """Keep an object; where that cannot be, it is compiled again the next time."""
        with contextlib.suppress(OSError):
            self.root.mkdir(mode=0o700, exist_ok=True)
            filling = Path(tempfile.mkdtemp(prefix=_NEW, dir=self.root))
            try:
                (filling / hashlib.sha256(content).hexdigest()).write_bytes(content)
                filling.rename(self.root / key)
                (self.root / key).chmod(_SEALED)
            finally:
                if filling.exists():
                    discard(filling)
            self._sweep()

    def _sweep(self) -> None:
        """Now and then, remove what was used longest ago until the limit is kept."""
        mark, now = self.root / _SWEPT, time.time()
        with contextlib.suppress(FileNotFoundError):
            if now - mark.stat().st_mtime < _SWEEP_SECONDS:
                return
        mark.touch()
        aged: list[Aged] = []
        for folder in self.root.iterdir():
            with contextlib.suppress(OSError):  # another process removes it, too
                used = folder.stat().st_mtime
                if folder.name.startswith(_NEW):
                    if now - used > _SWEEP_SECONDS:
                        discard(folder)
                elif folder.is_dir():
                    aged.append((used, bytes_of(folder), folder))
        for folder in longest_unused(aged, sum(size for _, size, _ in aged) - self.limit):
            discard(folder)


Aged = tuple[float, int, Path]
"""When a folder was used last, its bytes, and the folder."""


def longest_unused(aged: Iterable[Aged], bytes: int) -> Iterator[Path]:
    """The folders that were used longest ago and have so many bytes together."""
    for _, size, folder in sorted(aged):
        if bytes <= 0:
            return
        yield folder
        bytes -= size


def bytes_of(folder: Path) -> int:
    """What the files of a folder have."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def discard(folder: Path) -> None:
    """Remove a folder, and sealed ones in it."""
    with contextlib.suppress(OSError):  # another process is removing it too
        for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            place.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
