"""A repository that is a folder."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infuse.errors import RepositoryError
from infuse.serving.control.repository.files import FileEntry, Listing
from infuse.serving.tuning import PIECE_BYTES

_MOST_DEPTH: Final = 16
_IGNORED: Final = frozenset({"lost+found", "__pycache__"})


class LocalFolder:
    """The files below a folder. Links are followed as long as they stay in it."""

    by_content = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root)

    def listing(self) -> Listing:
        """All that is there; RepositoryError when the folder itself cannot be read."""
        real = os.path.realpath(self.root)
        walk = _Walk(real)
        try:
            walk.enter("", real, (real,))
        except OSError as error:
            raise _unreadable(error, self.address) from error
        return Listing(tuple(walk.files), walk.folders, walk.problems)

    def place(self, path: str) -> str:
        """Where `path` is, for messages and for what is allowed."""
        return str(self.root / path) if path else self.address

    def identity(self, path: str) -> str:
        """What tells a file apart from all others of this machine."""
        return os.path.realpath(self.place(path))

    def read(self, file: FileEntry) -> bytes:
        """A small file's content; RepositoryError when it cannot be read or is not the one that was
        listed.
        """
        return b"".join(self.chunks(file))

    def chunks(self, file: FileEntry) -> Iterator[bytes]:
        """The content of a file, piece by piece; RepositoryError, also at the end, when it changes
        meanwhile.
        """
        where = self.place(file.path)
        real = os.path.realpath(where)
        if not _inside(real, os.path.realpath(self.root)):
            raise RepositoryError(_LEAVES, where=where)
        try:
            handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb", buffering=0) as source:
                _expect(os.fstat(handle), file, where)
                while chunk := source.read(PIECE_BYTES):
                    yield chunk
                _expect(os.fstat(handle), file, where)
        except OSError as error:
            raise _unreadable(error, where) from error

    def unchanged(self, file: FileEntry) -> bool:
        """Whether the file is still the one that was listed."""
        try:
            return _stamp(Path(self.place(file.path)).stat()) == file.stamp
        except OSError:
            return False


class _Walk:
    """One pass over a repository's folders."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: list[FileEntry] = []
        self.folders: dict[str, float] = {}
        self.problems: dict[str, str] = {}

    def enter(self, path: str, real: str, above: tuple[str, ...]) -> None:
        """List the folder `real`, which has the name `path` in the repository; `above`: the folders
        on the way.
        """
        with os.scandir(real) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
        for entry in entries:
            inner = f"{path}/{entry.name}" if path else entry.name
            if entry.name.startswith("."):
                self._notice_hidden(path, entry)
                continue
            if entry.name in _IGNORED:
                continue
            try:
                self._take(inner, entry, above)
            except OSError as error:
                self.problems[inner] = f"it cannot be read: {error.strerror or error}"

    def _notice_hidden(self, path: str, entry: os.DirEntry[str]) -> None:
        """A hidden file is none of the repository's, but may be one that a copy is being written
        to, as rsync does.
        """
        with contextlib.suppress(FileNotFoundError, PermissionError):
            status = entry.stat(follow_symlinks=False)
            if path and stat.S_ISREG(status.st_mode):
                self.folders[path] = max(self.folders[path], status.st_mtime, status.st_ctime)

    def _take(self, path: str, entry: os.DirEntry[str], above: tuple[str, ...]) -> None:
        real = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        status = entry.stat()
        changed = max(status.st_mtime, status.st_ctime)
        if not _inside(real, self.root):
            self.problems[path] = _LEAVES
        elif stat.S_ISREG(status.st_mode):
            self.files.append(FileEntry(path, status.st_size, _stamp(status), path, changed))
        elif not stat.S_ISDIR(status.st_mode):
            self.problems[path] = "it is neither a file nor a folder"
        elif real in above or len(above) > _MOST_DEPTH:
            self.problems[path] = (
                "its folders have no end: a link leads back, or there are too many in one another"
            )
        else:
            self.folders[path] = changed
            self.enter(path, real, (*above, real))


_LEAVES: Final = "it is a link that leaves the repository"


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_ino}-{status.st_size}"


def _expect(status: os.stat_result, file: FileEntry, where: str) -> None:
    if not stat.S_ISREG(status.st_mode) or _stamp(status) != file.stamp:
        raise changed_error(where)


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _unreadable(error: OSError, where: str) -> RepositoryError:
    return RepositoryError(f"it cannot be read: {error.strerror or error}", where=where)


def changed_error(where: str) -> RepositoryError:
    """What is raised when a file is not, or no longer, the one that was listed."""
    error = RepositoryError(
        "it changed while it was being read",
        where=where,
        hint="write new versions into new folders",
    )
    error.transient = True
    return error
