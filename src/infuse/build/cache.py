"""The folder where compiled models are kept, found again by the hash of all that they were made
from.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import filelock

from infuse.build.bounded import NEW, Bounded, discard
from infuse.build.objects import OBJECTS
from infuse.errors import CacheError, CompiledModelError, CompileError, OptionError
from infuse.runtime.folder import WEIGHTS, read_metadata, verify
from infuse.runtime.places import FOLDER_VARIABLE, cache_root

SIZE_VARIABLE: Final = "INFUSE_CACHE_SIZE"

_DEFAULT_SIZE: Final = 10 * 10**9
_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FAILED: Final = "failed-"  # the sources of a compilation that failed
_LOCKS: Final = ".locks"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_READ_ONLY_FILE: Final = 0o444
_READ_ONLY_FOLDER: Final = 0o500
_ELSEWHERE: Final = f"set {FOLDER_VARIABLE} to a folder on a disk with space, or free some"


class Cache:
    """Compiled model folders by key. A folder appears whole or not at all, is read-only, and is
    checked before use.

    `root` (default: `$INFUSE_CACHE`, else the user's cache folder) must belong to this user, and
    nobody else may write to it, since code from it is run. When it grows over `limit` bytes
    (default: `$INFUSE_CACHE_SIZE`, else 10 GB), the folders that were used longest ago are removed
    until a tenth of that is free.
    """

    def __init__(self, root: Path | None = None, limit: int | None = None) -> None:
        self.root = cache_root() if root is None else root.expanduser().absolute()
        self.limit = _size_limit() if limit is None else limit
        self._entries = self.root / "compiled"
        self._bounded = Bounded(self._entries, self.limit)

    def obtain(self, key: str, make: Callable[[Path], None]) -> Path:
        """The folder of `key`; if there is none, `make` fills an empty one, which then becomes it.

        Two processes that ask for the same key at once make it once: the second waits for the
        first. Where the cache cannot be written, the folder is a temporary one of this process, and
        a warning says so.
        """
        writable = self._prepare()
        self._check_safe()
        folder = self._find(key)
        if folder is not None:
            return folder
        if not writable:
            return self._make_private(key, make)
        with self._lock(key):
            folder = self._find(key)
            if folder is None:
                folder = self._make(key, make)
                self._bounded.added(key)
        return folder

    def evict(self) -> None:
        """Look at all that is there, and remove what was used longest ago where that is more than
        `limit`.
        """
        self._bounded.evict()

    def _find(self, key: str) -> Path | None:
        """The folder of `key` if it is there and whole."""
        folder = self._entries / key
        if not folder.is_dir():
            return None
        try:
            verify(folder, read_metadata(folder))
        except CompiledModelError:
            return None
        with contextlib.suppress(OSError):  # in a read-only cache the time of use cannot be kept
            os.utime(folder)
        return folder

    def _make(self, key: str, make: Callable[[Path], None]) -> Path:
        folder = self._entries / key
        with _full_disk_named(self._entries):
            filling = Path(tempfile.mkdtemp(prefix=NEW, dir=self._entries))
            try:
                make(filling)
                if folder.exists():
                    self._bounded.remove(folder)
                _seal(filling)
                filling.rename(folder)
            except CompileError as error:
                self._keep_sources(filling, key, error)
                raise
            finally:
                discard(filling)
        return folder

    def _make_private(self, key: str, make: Callable[[Path], None]) -> Path:
        private = Path(tempfile.mkdtemp(prefix="infuse-"))
        warnings.warn(
            f"the cache {self._entries} cannot be written, so the model is compiled into {private} "
            "and will be "
            f"compiled again by the next process; set {FOLDER_VARIABLE} to a folder of your own to "
            "keep it",
            stacklevel=4,
        )
        with _full_disk_named(private):
            try:
                make(private)
            except CompileError:  # its sources stay, for the report
                raise
            except BaseException:
                shutil.rmtree(private, ignore_errors=True)
                raise
        _remove_at_exit(private)
        return private

    def _keep_sources(self, filling: Path, key: str, error: CompileError) -> None:
        """Leave the sources that did not compile where the error says they are."""
        sources = self._entries / f"{_FAILED}{key}"
        self._bounded.remove(sources)
        (filling / WEIGHTS).unlink(missing_ok=True)
        filling.rename(sources)
        self._bounded.added(sources.name)
        if error.where is not None:
            error.where = error.where.replace(str(filling), str(sources))

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Held by one process at a time; the system gives it free when its holder dies."""
        locks = self._entries / _LOCKS
        locks.mkdir(mode=0o700, exist_ok=True)
        with filelock.FileLock(locks / f"{key}.lock"):
            yield

    def _prepare(self) -> bool:
        """Make the folders that are not there yet; False when the cache cannot be written."""
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.root, self._entries):
                folder.mkdir(mode=0o700, exist_ok=True)
            return os.access(self._entries, os.W_OK | os.X_OK)
        except OSError as error:
            if error.errno in _FULL:
                raise _full(self._entries) from error
            return False

    def _check_safe(self) -> None:
        """CacheError when somebody else could put code into the cache."""
        if not hasattr(os, "getuid"):
            return
        for folder in (self.root, self._entries, self.root / OBJECTS):
            try:
                status = folder.stat()
            except OSError:  # not there yet, or not to be reached: nothing will be loaded from it
                continue
            if status.st_uid != os.getuid():
                raise CacheError(
                    f"the cache belongs to another user (number {status.st_uid}), and code is "
                    "loaded from it",
                    where=str(folder),
                    hint=f"set {FOLDER_VARIABLE} to a folder of your own",
                )
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise CacheError(
                    "others may write to the cache, and code is loaded from it",
                    where=str(folder),
                    hint=(
                        f"take the right away with chmod go-w, or set {FOLDER_VARIABLE} to a "
                        "folder of your own"
                    ),
                )


@contextmanager
def _full_disk_named(folder: Path) -> Iterator[None]:
    """Turns the system's error of a full disk into one that says which disk."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise _full(folder) from error
        raise CacheError(f"the cache cannot be written: {error}", where=str(folder)) from error
    except CacheError as error:
        if error.where is None:
            error.where, error.hint = str(folder), _ELSEWHERE
        raise


def _full(folder: Path) -> CacheError:
    return CacheError("the disk of the cache is full", where=str(folder), hint=_ELSEWHERE)


def _seal(folder: Path) -> None:
    """Make an entry read-only: whoever means it well does not change or cut off what a process has
    mapped.
    """
    for path in folder.iterdir():
        path.chmod(_READ_ONLY_FILE)
    folder.chmod(_READ_ONLY_FOLDER)


def _size_limit() -> int:
    """The bytes that `$INFUSE_CACHE_SIZE` allows: a number with K, M, G or T, and B if one
    likes.
    """
    text = os.environ.get(SIZE_VARIABLE, "").strip().upper()
    if not text:
        return _DEFAULT_SIZE
    number = text.removesuffix("B").rstrip("KMGT")
    unit = text.removesuffix("B")[len(number) :]
    try:
        return int(float(number) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise OptionError(
            f"{SIZE_VARIABLE} is {text!r}, which is not a size", hint='for example "20GB"'
        ) from None


def _remove_at_exit(folder: Path) -> None:
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child leaves its parent's folder alone
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
