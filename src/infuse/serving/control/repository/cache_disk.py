"""The folder of the cache of models: where things lie in it, locks between processes, and what its
disk refuses.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import filelock

from infuse.errors import RepositoryError
from infuse.serving.tuning import LOOK_SECONDS

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FOLDERS: Final = ("blobs", "index", "versions", "uses", "locks", "new")


class CacheDisk:
    """Places under `root`. `closing` ends waiting for other processes. Methods block, may be called
    in any thread, and raise RepositoryError.
    """

    def __init__(self, root: Path, closing: threading.Event | None = None) -> None:
        self.root = root.expanduser().absolute()
        self.prepared = False
        self._closing = closing or threading.Event()

    def prepare(self) -> None:
        """Make the folders; RepositoryError when others could put files there."""
        if self.prepared:
            return
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = self.root.stat()
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise RepositoryError(
                    "other users may write to the cache of models",
                    where=str(self.root),
                    hint=(
                        "give it to the server's user alone (chmod 700), or name another, or one "
                        "in it, with `cache`"
                    ),
                )
            for name in _FOLDERS:
                (self.root / name).mkdir(exist_ok=True)
        except OSError as error:
            raise self.failure(error) from error
        self.prepared = True

    def blob(self, digest: str) -> Path:
        """Where the content with that hash lies, if it does."""
        return self.root / "blobs" / digest[:2] / digest

    def index(self, key: str) -> Path:
        """Where it is written which content `key` stands for."""
        return (
            self.root
            / "index"
            / f"{sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}.json"
        )

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """One thread of one process at a time, for a key (or another that happens to share its
        lock).
        """
        name = sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:3]
        lock = filelock.FileLock(self.root / "locks" / name)
        with self.mapped():
            while not lock.is_locked:
                with contextlib.suppress(filelock.Timeout):
                    lock.acquire(timeout=LOOK_SECONDS)
                if self._closing.is_set():
                    lock.release()
                    raise RepositoryError("the server ends")
        try:
            yield
        finally:
            lock.release()

    def write(self, target: Path, content: bytes) -> None:
        """Make or replace a file, at once and so that it lasts."""
        with self.new_file() as path:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            path.replace(target)

    @contextmanager
    def new_file(self) -> Iterator[Path]:
        """A name for a file being written; what is still there at the end is removed."""
        with self.mapped():
            handle, name = tempfile.mkstemp(dir=self.root / "new")
            os.close(handle)
            try:
                yield Path(name)
            finally:
                Path(name).unlink(missing_ok=True)

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """What the system refuses becomes RepositoryError."""
        try:
            yield
        except OSError as error:
            raise self.failure(error) from error

    def failure(self, error: OSError) -> RepositoryError:
        """The error of a caller for one of the system."""
        if error.errno in _FULL:
            return self.full(error.strerror or str(error))
        hint = "`cache` in the server's configuration can name another folder"
        what = f"the cache of models cannot be used: {error.strerror or error}"
        return _trouble(what, str(error.filename or self.root), hint)

    def full(self, why: str) -> RepositoryError:
        """The error of a disk that has no room."""
        hint = "free some space, lower `cache_bytes`, or name another folder with `cache`"
        return _trouble(f"the disk of the cache of models is full: {why}", str(self.root), hint)


def _trouble(what: str, where: str, hint: str) -> RepositoryError:
    """The machine is in trouble, and not the model: a later try may succeed."""
    error = RepositoryError(what, where=where, hint=hint)
    error.transient = True
    return error


def sync(folder: Path) -> None:
    """Make the names in a folder last."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
