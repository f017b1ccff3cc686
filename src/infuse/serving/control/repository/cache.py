"""The copies of models that are served: kept by their content, found again after a restart, shared
by servers.

blobs/ab/abcd…      a file's content, under its SHA-256; never changed
index/….json        which content a file of a repository has, by address, stamp and size
versions/abcd…/     a version's files, as hard links to contents
uses/abcd…          locked by every process that serves the version
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from infuse.errors import RepositoryError
from infuse.runtime.folder import digest as digest_of
from infuse.serving.control.repository.cache_disk import CacheDisk, sync
from infuse.serving.control.repository.contents import Contents

_NO_LINKS: Final = (
    errno.EXDEV,
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EMLINK,
    errno.ENOSYS,
)
_FRESH_SECONDS: Final = 600.0  # what another process may be about to use, or to complete


class Cache:
    """Folders made of `contents`, and how much of both stays on the `disk`.

    `limit`: bytes of all contents, above which those go that were used longest ago (0: none go);
    what a process serves stays in any case. `closing` ends waiting for other processes. Methods
    block, may be called in any thread, and raise RepositoryError.
    """

    def __init__(
        self,
        root: Path,
        limit: int = 0,
        fresh_seconds: float = _FRESH_SECONDS,
        closing: threading.Event | None = None,
    ) -> None:
        self.disk = CacheDisk(root, closing)
        self.contents = Contents(self.disk)
        self.limit = limit
        self.fresh_seconds = fresh_seconds
        self._uses: dict[
            str, tuple[int, int]
        ] = {}  # hash of a folder → handle of its lock, times it is used
        self._mutex = threading.Lock()
        self._stored = -1  # contents that were stored when the limit was last kept

    def assemble(self, files: Mapping[str, str]) -> tuple[Path, str]:
        """A folder with `files` (path in it → hash of the content), and its hash. It stays until
        `release` of that.
        """
        self.disk.prepare()
        lines = (
            f"{name}\0{files[name]}\n".encode("utf-8", "surrogateescape") for name in sorted(files)
        )
        digest = sha256(b"".join(lines)).hexdigest()
        folder = self.disk.root / "versions" / digest
        if outside := [name for name in files if name.startswith("/") or ".." in name.split("/")]:
            raise RepositoryError(f"{outside[0]!r} is not a path in a folder")
        self._use(digest)
        try:
            with self.disk.mapped(), self.disk.lock(digest):
                if folder.is_dir():
                    self._repair(folder, files)
                else:
                    self._fill(folder, files)
                os.utime(folder)
            if self._stored != self.contents.stored:
                self.evict()
        except RepositoryError:
            self.release(digest)
            raise
        return folder, digest

    def release(self, digest: str) -> None:
        """One use less of the folder of that hash; after the last one, this process no longer needs
        it.
        """
        with self._mutex:
            handle, count = self._uses.pop(digest, (-1, 0))
            if count > 1:
                self._uses[digest] = handle, count - 1
            elif count:
                os.close(handle)

    def in_use(self) -> set[str]:
        """The hashes of the folders that this process holds."""
        with self._mutex:
            return set(self._uses)

    def close(self) -> None:
        """Release everything."""
        with self._mutex:
            for handle, _ in self._uses.values():
                os.close(handle)
            self._uses.clear()

    # -------------------------------------------------------------------------------------- folders

    def _fill(self, folder: Path, files: Mapping[str, str]) -> None:
        new = Path(tempfile.mkdtemp(dir=self.disk.root / "new"))
        try:
            for name, digest in files.items():
                self._place(new / name, digest)
            new.rename(folder)
            sync(folder.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _repair(self, folder: Path, files: Mapping[str, str]) -> None:
        """Replace what is not the content that it must be, file by file: others may be reading the
        folder.
        """
        for name, digest in files.items():
            path = folder / name
            same = path.is_file() and (
                path.samefile(self.disk.blob(digest)) or digest_of(path) == digest
            )
            if not same:
                self._place(path, digest)

    def _place(self, path: Path, digest: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=self.disk.root / "new"))
        try:
            try:
                os.link(self.disk.blob(digest), beside / "file")
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                shutil.copyfile(self.disk.blob(digest), beside / "file")
            (beside / "file").replace(path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _use(self, digest: str) -> None:
        """Lock the folder of that hash against removal, until `release` or the end of the
        process.
        """
        with self._mutex:
            handle, count = self._uses.get(digest, (-1, 0))
            try:
                if not count:
                    handle = os.open(
                        self.disk.root / "uses" / digest,
                        os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                        0o600,
                    )
                    fcntl.flock(handle, fcntl.LOCK_SH)
            except OSError as error:
                raise self.disk.failure(error) from error
            self._uses[digest] = handle, count + 1

    # -------------------------------------------------------------------------------------- removal

    def evict(self) -> None:
        """Remove what was used longest ago and is not in use, until `limit` is kept; and what was
        left half-done.
        """
        if not self.limit:
            return
        self._stored = self.contents.stored
        with self.disk.mapped(), self.disk.lock("evict"):
            self._sweep()
            excess = sum(status.st_size for _, status in self.contents.files()) - self.limit
            excess = self._drop_unlinked(excess)
            for folder in sorted(
                (self.disk.root / "versions").iterdir(), key=lambda path: path.stat().st_mtime
            ):
                if excess <= 0:
                    break
                if self._aged(folder.stat()) and self._drop(folder):
                    excess = self._drop_unlinked(excess)

    def _drop_unlinked(self, excess: int) -> int:
        """Remove contents that no folder holds, oldest first; the excess that is left."""
        for path, status in self.contents.files():
            if excess <= 0:
                break
            if status.st_nlink == 1 and self._aged(status):
                path.unlink(missing_ok=True)
                excess -= status.st_size
        return excess

    def _drop(self, folder: Path) -> bool:
        """Remove the folder of a version, unless a process uses it."""
        use = self.disk.root / "uses" / folder.name
        handle = os.open(use, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old = Path(tempfile.mkdtemp(dir=self.disk.root / "new"))
            folder.rename(old / "old")
            shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def _sweep(self) -> None:
        """Remove what a process left behind that was ended while it wrote."""
        for path in (self.disk.root / "new").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _FRESH_SECONDS:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()

    def _aged(self, status: os.stat_result) -> bool:
        return time.time() - status.st_mtime >= self.fresh_seconds
