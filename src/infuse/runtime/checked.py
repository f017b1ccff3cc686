"""Which content a file has, and whether that is what it should be: read once, and remembered for as
long as it stays the same file.

A file is the same while device, inode, size and times of change are; the last of them (ctime)
nobody can set. Records lie in the user's cache, so that the next process knows, too; where that
cannot be written, each process reads once.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from infuse.runtime.places import cache_root
from infuse.runtime.records import Records

_MOST: Final = 4096  # records, of some 200 bytes
_CHUNK: Final = 1 << 23
"""Bytes that are hashed without the interpreter's lock, which is waited for after each."""
_RACY_SECONDS: Final = (
    2.0  # a file that changed within this of being read may change again with the same times
)

_seen: dict[str, tuple[str, list[int]]] = {}


def has_content(path: Path, sha256: str, *, again: bool = False) -> bool:
    """Whether the SHA-256 of a file is this; OSError when it cannot be read. `again`: read it in
    any case.
    """
    return sha256_of(path, again=again) == sha256


def sha256_of(path: Path, *, again: bool = False) -> str:
    """The SHA-256 of a file; OSError when it cannot be read. `again`: read it in any case."""
    place = os.path.realpath(path)
    with Path(place).open("rb", buffering=0) as file:
        identity = _identity(os.fstat(file.fileno()))
        seen = None if again else _seen.get(place) or _recalled(place)
        if seen is not None and seen[1] == identity:
            _seen[place] = seen
            return seen[0]
        hashed = hashlib.sha256()
        chunk = memoryview(bytearray(min(identity[2], _CHUNK) + 1))
        while count := file.readinto(chunk):
            hashed.update(chunk[:count])
        after = os.fstat(file.fileno())
    sha256 = hashed.hexdigest()
    if _identity(after) == identity and _is_settled(after):
        _seen[place] = sha256, identity
        _record(place, sha256, identity)
    return sha256


def settled_identity(path: Path) -> list[int] | None:
    """What stays as it is while a file has the same content; None for a file that changed so lately
    that it may change again without that, and for none. No content is read.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return _identity(status) if _is_settled(status) else None


def note_written(path: Path, sha256: str) -> None:
    """Tell that this process has written a file with this SHA-256, which it need not read to know
    so.
    """
    place = os.path.realpath(path)
    with suppress(OSError):  # the file is read where it is opened, and fails there
        _seen[place] = sha256, _identity(Path(place).stat())


def _is_settled(status: os.stat_result) -> bool:
    return time.time() - status.st_ctime > _RACY_SECONDS


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _records() -> Records:
    return Records(cache_root() / "checked", _MOST)


def _name(place: str) -> str:
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def _recalled(place: str) -> tuple[str, list[int]] | None:
    """What another process of this user has recorded; nothing where others could have written
    it.
    """
    try:
        sha256, identity = _records().read(_name(place))
    except (ValueError, TypeError):
        return None
    return sha256, identity


def _record(place: str, sha256: str, identity: list[int]) -> None:
    _records().write(_name(place), [sha256, identity])
