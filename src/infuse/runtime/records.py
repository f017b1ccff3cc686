"""Small records by name in a folder of the cache."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


class Records:
    """Plain data by name, as JSON, in a folder that only this user may write; at most `most` of
    them, of which the older half goes first. A folder that cannot be written holds none.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most

    def read(self, name: str) -> Any:
        """What was written under a name; None for nothing, and where others could have written
        it.
        """
        try:
            folder = self._folder.stat()
            if folder.st_uid != os.geteuid() or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            return json.loads((self._folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    def has_any(self, prefix: str) -> bool:
        """Whether there is a record whose name begins so."""
        try:
            return any(path.name.startswith(prefix) for path in self._folder.iterdir())
        except OSError:
            return False

    def write(self, name: str, content: Any) -> None:
        """Put a record in, in place of an older one of its name."""
        with suppress(OSError):  # without a record, what it tells is made again
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room()
            descriptor, part = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(content, file)
                Path(part).replace(self._folder / name)
            except BaseException:
                Path(part).unlink(missing_ok=True)
                raise

    def _make_room(self) -> None:
        records = list(self._folder.iterdir())
        if len(records) < self._most:
            return
        for path in sorted(records, key=lambda path: path.stat().st_mtime)[: self._most // 2]:
            path.unlink(missing_ok=True)
