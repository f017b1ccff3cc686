"""Objects of the files that models share, by all that they were compiled from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from infuse.build.bounded import NEW, Bounded, discard

OBJECTS: Final = "objects"
"""Their folder in that of a cache."""
_PART: Final = 10
"""The objects of a cache may take one part of so many of its limit."""
_SEALED: Final = 0o500


class Objects:
    """Object files by key: a folder each, which appears whole or not at all, with one file that is
    named by the hash of its content, and is not used where it has another.

    `root` belongs to a `Cache`, which has checked that nobody else may write to it.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root = root / OBJECTS
        self._bounded = Bounded(self.root, limit // _PART)

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
            filling = Path(tempfile.mkdtemp(prefix=NEW, dir=self.root))
            try:
                (filling / hashlib.sha256(content).hexdigest()).write_bytes(content)
                filling.rename(self.root / key)
                (self.root / key).chmod(_SEALED)
            finally:
                if filling.exists():
                    discard(filling)
            self._bounded.added(key)
