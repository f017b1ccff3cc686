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
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import filelock

from infuse.errors import RepositoryError
from infuse.runtime.folder import digest as digest_of

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS: Final = (
    errno.EXDEV,
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EMLINK,
    errno.ENOSYS,
)
_FOLDERS: Final = ("blobs", "index", "versions", "uses", "locks", "new")
_ABANDONED_SECONDS: Final = 24 * 3600
_LOCK_SECONDS: Final = 0.5  # between looks at whether the server ends
_FRESH_SECONDS: Final = 600.0  # what another process may be about to use


class Cache:
    """Contents of files by their hashes, and folders made of them.

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
        self.root = root.expanduser().absolute()
        self.limit = limit
        self.fresh_seconds = fresh_seconds
        self._closing = closing or threading.Event()
        self._verified: set[tuple[str, int]] = (
            set()
        )  # hash and inode of contents that were read by this process
        self._uses: dict[
            str, tuple[int, int]
        ] = {}  # hash of a folder → handle of its lock, times it is used
        self._mutex = threading.Lock()
        self._prepared = False
        self._grown = True  # since the limit was last kept
        self.hits = self.misses = self.fetched_bytes = 0

    def find(self, key: str) -> str:
        """The hash of the content that `key` had when it was kept, if that is still here and whole;
        else "".
        """
        self._prepare()
        try:
            entry = json.loads(self._index(key).read_bytes())
            digest, size = str(entry["sha256"]), int(entry["bytes"])
        except FileNotFoundError:
            return ""
        except (OSError, ValueError, KeyError, TypeError):
            with contextlib.suppress(FileNotFoundError):
                self._index(key).unlink()
            return ""
        return digest if self.holds(digest, size) else ""

    def holds(self, digest: str, size: int | None = None) -> bool:
        """Whether a content is here and whole; one that is not is removed. Every content is read
        once by a process.
        """
        blob = self._blob(digest)
        try:
            status = blob.stat()
            verified = (digest, status.st_ino) in self._verified
            whole = size in (None, status.st_size) and (verified or digest_of(blob) == digest)
            if whole:
                self._verified.add((digest, status.st_ino))
                os.utime(blob)
            else:
                blob.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failure(error) from error
        return whole

    def obtain(self, key: str, size: int, chunks: Iterable[bytes], *, remember: bool = True) -> str:
        """The hash of the content that `key` stands for; `chunks` is read when it is not here.

        Processes that ask for the same key at once read it once. RepositoryError when `chunks` does
        not have `size` bytes, or the disk is full; then nothing is left behind. `remember`: find it
        by `key` later.
        """
        self._prepare()
        with self._lock(key):
            if remember and (digest := self.find(key)):
                with self._mutex:
                    self.hits += 1
                return digest
            digest = self._store(chunks, size)
            with self._mutex:
                self.misses += 1
                self.fetched_bytes += size
            if remember:
                self._write(
                    self._index(key), json.dumps({"sha256": digest, "bytes": size}).encode()
                )
            return digest

    @property
    def stored_bytes(self) -> int:
        """What all copies take on disk; 0 before the first use."""
        return sum(status.st_size for _, status in self._blobs()) if self._prepared else 0

    def add(self, content: bytes) -> str:
        """Keep a content; its hash."""
        self._prepare()
        digest = sha256(content).hexdigest()
        return digest if self.holds(digest, len(content)) else self._store([content], len(content))

    def assemble(self, files: Mapping[str, str]) -> tuple[Path, str]:
        """A folder with `files` (path in it → hash of the content), and its hash. It stays until
        `release` of that.
        """
        self._prepare()
        lines = (
            f"{name}\0{files[name]}\n".encode("utf-8", "surrogateescape") for name in sorted(files)
        )
        digest = sha256(b"".join(lines)).hexdigest()
        folder = self.root / "versions" / digest
        if outside := [name for name in files if name.startswith("/") or ".." in name.split("/")]:
            raise RepositoryError(f"{outside[0]!r} is no path in a folder")
        self._use(digest)
        try:
            with self._mapped(), self._lock(digest):
                if folder.is_dir():
                    self._repair(folder, files)
                else:
                    self._fill(folder, files)
                os.utime(folder)
            if self._grown:
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

    # ------------------------------------------------------------------------------------- contents

    def _store(self, chunks: Iterable[bytes], size: int) -> str:
        free = shutil.disk_usage(self.root).free
        if size > free:
            raise self._full(f"{size} bytes are needed and {free} are free")
        digest_, count = sha256(), 0
        with self._new() as path:
            with path.open("wb") as target:
                for chunk in chunks:
                    target.write(chunk)
                    digest_.update(chunk)
                    count += len(chunk)
                target.flush()
                os.fsync(target.fileno())
                os.fchmod(target.fileno(), stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
                inode = os.fstat(target.fileno()).st_ino
            if count != size:
                raise RepositoryError(f"it has {count} bytes where {size} were listed")
            blob = self._blob(digest := digest_.hexdigest())
            blob.parent.mkdir(exist_ok=True)
            path.replace(blob)
            _sync(blob.parent)
        self._verified.add((digest, inode))
        self._grown = True
        return digest

    def _write(self, target: Path, content: bytes) -> None:
        with self._new() as path:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            path.replace(target)

    @contextmanager
    def _new(self) -> Iterator[Path]:
        """A name for a file being written; what is still there at the end is removed."""
        with self._mapped():
            handle, name = tempfile.mkstemp(dir=self.root / "new")
            os.close(handle)
            try:
                yield Path(name)
            finally:
                Path(name).unlink(missing_ok=True)

    # -------------------------------------------------------------------------------------- folders

    def _fill(self, folder: Path, files: Mapping[str, str]) -> None:
        new = Path(tempfile.mkdtemp(dir=self.root / "new"))
        try:
            for name, digest in files.items():
                self._place(new / name, digest)
            new.rename(folder)
            _sync(folder.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _repair(self, folder: Path, files: Mapping[str, str]) -> None:
        """Replace what is not the content that it must be, file by file: others may be reading the
        folder.
        """
        for name, digest in files.items():
            path = folder / name
            same = path.is_file() and (
                path.samefile(self._blob(digest)) or digest_of(path) == digest
            )
            if not same:
                self._place(path, digest)

    def _place(self, path: Path, digest: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=self.root / "new"))
        try:
            try:
                os.link(self._blob(digest), beside / "file")
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                shutil.copyfile(self._blob(digest), beside / "file")
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
                        self.root / "uses" / digest, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
                    )
                    fcntl.flock(handle, fcntl.LOCK_SH)
            except OSError as error:
                raise self._failure(error) from error
            self._uses[digest] = handle, count + 1

    # -------------------------------------------------------------------------------------- removal

    def evict(self) -> None:
        """Remove what was used longest ago and is not in use, until `limit` is kept; and what was
        left half-done.
        """
        if not self.limit:
            return
        self._grown = False
        with self._mapped(), self._lock("evict"):
            self._sweep()
            excess = sum(status.st_size for _, status in self._blobs()) - self.limit
            excess = self._drop_unlinked(excess)
            for folder in sorted(
                (self.root / "versions").iterdir(), key=lambda path: path.stat().st_mtime
            ):
                if excess <= 0:
                    break
                if self._aged(folder.stat()) and self._drop(folder):
                    excess = self._drop_unlinked(excess)

    def _blobs(self) -> list[tuple[Path, os.stat_result]]:
        blobs = []
        for path in (self.root / "blobs").glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                blobs.append((path, path.stat()))
        return sorted(blobs, key=lambda pair: pair[1].st_mtime)

    def _drop_unlinked(self, excess: int) -> int:
        """Remove contents that no folder holds, oldest first; the excess that is left."""
        for path, status in self._blobs():
            if excess <= 0:
                break
            if status.st_nlink == 1 and self._aged(status):
                path.unlink(missing_ok=True)
                excess -= status.st_size
        return excess

    def _drop(self, folder: Path) -> bool:
        """Remove the folder of a version, unless a process uses it."""
        use = self.root / "uses" / folder.name
        handle = os.open(use, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old = Path(tempfile.mkdtemp(dir=self.root / "new"))
            folder.rename(old / "old")
            shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def _sweep(self) -> None:
        """Remove what a process left behind that was ended while it wrote."""
        for path in (self.root / "new").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()

    def _aged(self, status: os.stat_result) -> bool:
        return time.time() - status.st_mtime >= self.fresh_seconds

    # --------------------------------------------------------------------------------------- places

    def _prepare(self) -> None:
        """Make the folders; RepositoryError when others could put files there."""
        if self._prepared:
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
            raise self._failure(error) from error
        self._prepared = True

    def _blob(self, digest: str) -> Path:
        return self.root / "blobs" / digest[:2] / digest

    def _index(self, key: str) -> Path:
        return (
            self.root
            / "index"
            / f"{sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}.json"
        )

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """One thread of one process at a time, for a key (or another that happens to share its
        lock).
        """
        name = sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:3]
        lock = filelock.FileLock(self.root / "locks" / name)
        with self._mapped():
            while not lock.is_locked:
                with contextlib.suppress(filelock.Timeout):
                    lock.acquire(timeout=_LOCK_SECONDS)
                if self._closing.is_set():
                    lock.release()
                    raise RepositoryError("the server ends")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """What the system refuses becomes RepositoryError."""
        try:
            yield
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> RepositoryError:
        if error.errno in _FULL:
            return self._full(error.strerror or str(error))
        hint = "`cache` in the server's configuration can name another folder"
        what = f"the cache of models cannot be used: {error.strerror or error}"
        return _trouble(what, str(error.filename or self.root), hint)

    def _full(self, why: str) -> RepositoryError:
        hint = "free some space, lower `cache_bytes`, or name another folder with `cache`"
        return _trouble(f"the disk of the cache of models is full: {why}", str(self.root), hint)


def _trouble(what: str, where: str, hint: str) -> RepositoryError:
    """The machine is in trouble, and not the model: a later try may succeed."""
    error = RepositoryError(what, where=where, hint=hint)
    error.transient = True
    return error


def _sync(folder: Path) -> None:
    """Make the names in a folder last."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
