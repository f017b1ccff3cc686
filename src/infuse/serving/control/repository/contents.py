"""The contents of models' files, each kept once under its hash."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from infuse.errors import RepositoryError
from infuse.runtime.folder import digest as digest_of
from infuse.serving.control.repository.cache_disk import CacheDisk, sync


class Contents:
    """Contents by their hashes, on a disk. Methods block, may be called in any thread, and raise
    RepositoryError.

    `hits`, `misses`: how often `obtain` had a content already or not; `fetched_bytes` of those that
    it had not; `stored`: how many contents were written.
    """

    def __init__(self, disk: CacheDisk) -> None:
        self.disk = disk
        self.hits = self.misses = self.fetched_bytes = 0
        self.stored = 0
        self._verified: set[tuple[str, int]] = (
            set()
        )  # hash and inode of contents that were read by this process
        self._mutex = threading.Lock()

    def find(self, key: str) -> str:
        """The hash of the content that `key` had when it was kept, if that is still here and whole;
        else "".
        """
        self.disk.prepare()
        try:
            entry = json.loads(self.disk.index(key).read_bytes())
            digest, size = str(entry["sha256"]), int(entry["bytes"])
        except FileNotFoundError:
            return ""
        except (OSError, ValueError, KeyError, TypeError):
            with contextlib.suppress(FileNotFoundError):
                self.disk.index(key).unlink()
            return ""
        return digest if self.holds(digest, size) else ""

    def holds(self, digest: str, size: int | None = None) -> bool:
        """Whether a content is here and whole; one that is not is removed. Every content is read
        once by a process.
        """
        blob = self.disk.blob(digest)
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
            raise self.disk.failure(error) from error
        return whole

    def obtain(self, key: str, size: int, chunks: Iterable[bytes], *, remember: bool = True) -> str:
        """The hash of the content that `key` stands for; `chunks` is read when it is not here.

        Processes that ask for the same key at once read it once. RepositoryError when `chunks` does
        not have `size` bytes, or the disk is full; then nothing is left behind. `remember`: find it
        by `key` later.
        """
        self.disk.prepare()
        with self.disk.lock(key):
            if remember and (digest := self.find(key)):
                with self._mutex:
                    self.hits += 1
                return digest
            digest = self._store(chunks, size)
            with self._mutex:
                self.misses += 1
                self.fetched_bytes += size
            if remember:
                self.disk.write(
                    self.disk.index(key), json.dumps({"sha256": digest, "bytes": size}).encode()
                )
            return digest

    @property
    def stored_bytes(self) -> int:
        """What all copies take on disk; 0 before the first use."""
        return sum(status.st_size for _, status in self.files()) if self.disk.prepared else 0

    def add(self, content: bytes) -> str:
        """Keep a content; its hash."""
        self.disk.prepare()
        digest = sha256(content).hexdigest()
        return digest if self.holds(digest, len(content)) else self._store([content], len(content))

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """The files of all contents, those that were used longest ago first."""
        blobs = []
        for path in (self.disk.root / "blobs").glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                blobs.append((path, path.stat()))
        return sorted(blobs, key=lambda pair: pair[1].st_mtime)

    def _store(self, chunks: Iterable[bytes], size: int) -> str:
        free = shutil.disk_usage(self.disk.root).free
        if size > free:
            raise self.disk.full(f"{size} bytes are needed and {free} are free")
        digest_, count = sha256(), 0
        with self.disk.new_file() as path:
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
            blob = self.disk.blob(digest := digest_.hexdigest())
            blob.parent.mkdir(exist_ok=True)
            path.replace(blob)
            sync(blob.parent)
        self._verified.add((digest, inode))
        with self._mutex:
            self.stored += 1
        return digest
