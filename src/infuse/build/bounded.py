"""A folder of folders that may take so many bytes together: what was used longest ago goes."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

NEW: Final = ".new-"
"""How the name of a folder begins that is being filled."""
_OLD: Final = ".old-"  # a folder being removed
_SIZES: Final = ".sizes"
_COUNTED_SECONDS: Final = 3600
_ABANDONED_SECONDS: Final = 24 * 3600
_KEPT: Final = 0.9


class Bounded:
    """The folders in `root` whose names begin with no dot. The time of change of one says when it
    was used last; its size does not change.

    Sizes are added up in a file as folders come. All folders are looked at only where the sum
    passes `limit` bytes, and once an hour, since whoever likes may remove some. Then the ones that
    were used longest ago are removed until a tenth of the limit is free.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root, self.limit = root, limit

    def added(self, name: str) -> None:
        """A folder has come: it stays, whatever others must go."""
        try:
            size = _bytes_of(self.root / name)
        except FileNotFoundError:  # another process has removed it
            return
        taken = self._taken()
        if taken is None or taken + size > self.limit:
            self.evict(keep=name)
            return
        # where a full disk takes no more, the sum is too small for an hour
        with contextlib.suppress(OSError), (self.root / _SIZES).open("a", encoding="ascii") as file:
            file.write(f"{size}\n")

    def evict(self, keep: str = "") -> None:
        """Look at all folders, and remove what was used longest ago where they take more than the
        limit; not the one named `keep`. What a process left half-done a day ago goes, too.
        """
        aged: list[tuple[float, int, Path]] = []
        taken = 0
        for folder in _folders(self.root):
            with contextlib.suppress(FileNotFoundError):  # another process is removing it too
                used = folder.stat().st_mtime
                if not folder.name.startswith("."):
                    aged.append((used, _bytes_of(folder), folder))
                    taken += aged[-1][1]
                elif (
                    folder.name.startswith((NEW, _OLD)) and time.time() - used > _ABANDONED_SECONDS
                ):
                    discard(folder)
        if taken > self.limit:
            for _, size, folder in sorted(aged):
                if taken <= _KEPT * self.limit:
                    break
                if folder.name != keep:
                    self.remove(folder)
                    taken -= size
        self._state(taken)

    def remove(self, folder: Path) -> None:
        """Remove a folder so that nobody ever sees half of it."""
        try:
            leaving = Path(tempfile.mkdtemp(prefix=_OLD, dir=self.root))
            folder.chmod(stat.S_IRWXU)  # a folder that is moved into another must be writable
            folder.rename(leaving / folder.name)
        except FileNotFoundError:
            leaving.rmdir()
            return
        discard(leaving)

    def _taken(self) -> int | None:
        """The sum of the sizes; None where all folders are to be looked at."""
        try:
            counted, *sizes = map(int, (self.root / _SIZES).read_text("ascii").split())
        except (OSError, ValueError):
            return None
        return None if abs(int(time.time()) - counted) > _COUNTED_SECONDS else sum(sizes)

    def _state(self, taken: int) -> None:
        """All folders were looked at just now, and take so many bytes."""
        with contextlib.suppress(OSError):  # they are looked at again the next time
            handle, path = tempfile.mkstemp(prefix=_SIZES, dir=self.root)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(f"{time.time():.0f}\n{taken}\n")
            Path(path).replace(self.root / _SIZES)


def _bytes_of(folder: Path) -> int:
    """What the files of a folder have."""
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())


def _folders(parent: Path) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []


def discard(folder: Path) -> None:
    """Remove a folder, and sealed ones in it."""
    with contextlib.suppress(OSError):  # another process is removing it too
        for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            place.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
