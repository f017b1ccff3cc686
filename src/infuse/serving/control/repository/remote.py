"""A repository in an object store: S3, Google Cloud Storage, Azure, or what speaks their
protocols.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import obstore
from obstore import exceptions
from obstore.store import from_url

from infuse.errors import ConfigurationError, RepositoryError
from infuse.serving.control.repository.files import FileEntry, Listing
from infuse.serving.control.repository.local import changed_error
from infuse.serving.tuning import PIECE_BYTES, RETRY_SECONDS

_T = TypeVar("_T")

_SCHEMES: Final = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss")
_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "root_certificate",
        "timeout",
    }
)
_TRIES: Final = 5
_LASTING: Final = (
    FileNotFoundError,
    exceptions.InvalidPathError,
    exceptions.NotFoundError,
    exceptions.NotSupportedError,
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.UnknownConfigurationKeyError,
    exceptions.PreconditionError,
)
_LASTING_STATUSES: Final = ("301 ", "400 ", "401 ", "403 ", "404 ")


class ObjectStore:
    """The objects below an address such as `s3://bucket/prefix`.

    `options`: those of the store (`endpoint`, `region`, `access_key_id`, …) and of its HTTP client
    (`allow_http`, `timeout`, …); credentials also come from the environment. What fails and may
    pass is tried again, after waits that grow, until `closing` is set; a transfer that broke off
    goes on where it ended. `wait` sleeps, for tests.
    """

    by_content = True

    def __init__(
        self,
        address: str,
        options: Mapping[str, str],
        closing: threading.Event,
        *,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        self._closing = closing
        self._wait = wait or closing.wait
        self._store = _connect(self.address, options)
        self._identity = options.get("endpoint", "")

    def listing(self) -> Listing:
        """All objects; RepositoryError when they cannot be listed."""
        problems: dict[str, str] = {}
        try:
            entries = self._retry(lambda: self._objects(None), self.address)
        except exceptions.InvalidPathError:
            entries = self._each_folder(problems)
        return _listing(entries, problems)

    def place(self, path: str) -> str:
        """The address of an object."""
        return f"{self.address}/{path}" if path else self.address

    def identity(self, path: str) -> str:
        """What tells an object apart from all others: its address, and the server that has it."""
        return f"{self._identity} {self.place(path)}"

    def read(self, file: FileEntry) -> bytes:
        """A small object's content."""
        return b"".join(self.chunks(file))

    def chunks(self, file: FileEntry) -> Iterator[bytes]:
        """An object's content, piece by piece; RepositoryError when it is not the one that was
        listed.
        """
        where, offset, failures = self.place(file.path), 0, 0
        while offset < file.bytes:
            before = offset
            try:
                for chunk in self._from(file, offset):
                    offset += len(chunk)
                    yield chunk
                if offset == before:
                    raise exceptions.GenericError("the object ended too early")
            except Exception as error:
                if isinstance(
                    error,
                    (exceptions.PreconditionError, FileNotFoundError, exceptions.NotFoundError),
                ):
                    raise changed_error(where) from error
                failures = failures + 1 if offset == before else 1
                self._pause(error, failures, where)
        if offset > file.bytes:
            raise changed_error(where)

    def unchanged(self, file: FileEntry) -> bool:
        """Whether the object is still the one that was listed."""
        try:
            meta = self._retry(lambda: obstore.head(self._store, file.path), self.place(file.path))
        except RepositoryError:
            return False
        return _entry(meta).stamp == file.stamp

    # ------------------------------------------------------------------------------------- requests

    def _from(self, file: FileEntry, offset: int) -> Iterator[bytes]:
        """The rest of an object from `offset` on."""
        options: Any = {"range": {"offset": offset}} if offset else {}
        if file.stamp.startswith(_ETAG):
            options["if_match"] = file.stamp[len(_ETAG) :]
        result = obstore.get(self._store, file.path, options=options)
        if _entry(result.meta).stamp != file.stamp or result.range != (offset, file.bytes):
            raise exceptions.PreconditionError("it is another object than the one that was listed")
        for chunk in result.stream(PIECE_BYTES):
            yield bytes(chunk)

    def _objects(self, prefix: str | None) -> list[FileEntry]:
        return [
            _entry(meta)
            for chunk in obstore.list(self._store, prefix, chunk_size=1000)
            for meta in chunk
        ]

    def _each_folder(self, problems: dict[str, str]) -> list[FileEntry]:
        """Objects by the folders of the root, so that a name that cannot be listed spoils one of
        them only.
        """
        top = self._retry(lambda: obstore.list_with_delimiter(self._store), self.address)
        entries = [_entry(meta) for meta in top["objects"]]
        for prefix in top["common_prefixes"]:
            try:
                entries += self._retry(partial(self._objects, prefix), self.place(prefix))
            except exceptions.InvalidPathError as error:
                problems[prefix] = f"an object has a name that is not a path: {_first_line(error)}"
        return entries

    def _retry(self, work: Callable[[], _T], where: str) -> _T:
        """The result of a request, which is tried again while that may help."""
        failures = 0
        while True:
            try:
                return work()
            except exceptions.InvalidPathError:
                raise
            except Exception as error:
                failures += 1
                self._pause(error, failures, where)

    def _pause(self, error: Exception, failures: int, where: str) -> None:
        """Wait before the next try, or raise RepositoryError if there is none."""
        if not isinstance(error, (exceptions.BaseError, OSError, TimeoutError)):
            raise error
        text = _first_line(error)
        lasting = isinstance(error, _LASTING) or any(
            f"status code: {status}" in text for status in _LASTING_STATUSES
        )
        wait = RETRY_SECONDS * 2 ** (failures - 1) * random.uniform(0.5, 1.0)  # noqa: S311  no secret
        if lasting or failures >= _TRIES or self._closing.is_set() or self._wait(wait):
            raised = RepositoryError(f"the store does not give it: {text}", where=where, hint=_HINT)
            raised.transient = not lasting
            raise raised from error


_HINT: Final = "check address, credentials and `store_options`, and that the store can be reached"
_ETAG: Final = "etag:"


def _connect(address: str, options: Mapping[str, str]) -> obstore.store.ObjectStore:
    scheme = address.partition("://")[0]
    if scheme not in _SCHEMES:
        raise ConfigurationError(
            f"the repository {address!r} is at no store that is known",
            hint="use a folder, s3://, gs:// or az://",
        )
    client: dict[str, Any] = {
        key: value for key, value in options.items() if key in _CLIENT_OPTIONS
    }
    config: dict[str, Any] = {
        key: value for key, value in options.items() if key not in _CLIENT_OPTIONS
    }
    retries: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}
    client = {"connect_timeout": "10s", "timeout": "300s", **client}
    connect: Any = from_url  # its types know the options of each store one by one
    try:
        store: obstore.store.ObjectStore = connect(
            address, config=config, client_options=client, retry_config=retries
        )
    except (exceptions.BaseError, ValueError, TypeError) as error:
        raise ConfigurationError(
            _first_line(error), where=address, hint="check `store_options`"
        ) from error
    return store


def _entry(meta: obstore.ObjectMeta) -> FileEntry:
    modified = meta["last_modified"].timestamp()
    tag = meta.get("e_tag")
    stamp = f"{_ETAG}{tag}" if tag else f"{modified}-{meta['size']}"
    return FileEntry(meta["path"], meta["size"], stamp, meta["path"], modified)


def _listing(entries: list[FileEntry], problems: dict[str, str]) -> Listing:
    """Objects as files in folders. An empty object with others below it, or with a number for a
    name, is a folder.
    """
    visible = [
        file for file in entries if not any(part.startswith(".") for part in file.name.split("/"))
    ]
    folders: dict[str, float] = {}
    for file in visible:
        parts = file.name.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            folders[above] = max(folders.get(above, 0.0), file.changed)
    marks = {file.name for file in visible if not file.bytes and _is_mark(file.name, folders)}
    for mark in marks:
        folders.setdefault(mark, 0.0)
    files = []
    for file in visible:
        if file.name in marks:
            continue
        if file.name in folders:
            problems[file.name] = "it is an object, and others lie below it as if it were a folder"
        elif not file.name.isprintable() or "\\" in file.name:
            problems[file.name.rpartition("/")[0] or file.name] = (
                f"an object has a name that is not a path: {file.name!r}"
            )
        else:
            files.append(file)
    return Listing(tuple(files), folders, problems)


def _is_mark(name: str, folders: Mapping[str, float]) -> bool:
    return name in folders or name.rpartition("/")[2].isdigit()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].partition(": <?xml")[0]
