"""The repository as the engine sees it: what is there, and verified copies of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final, Protocol, TypeVar

from infuse.errors import RepositoryError
from infuse.serving.config import ServerConfig
from infuse.serving.control.repository.cache import Cache
from infuse.serving.control.repository.files import (
    FileEntry,
    Listing,
    LocalVersion,
    ModelFiles,
    VersionFiles,
    check_name,
)
from infuse.serving.control.repository.layout import Known, Rules, arrange
from infuse.serving.control.repository.local import LocalFolder, changed_error
from infuse.serving.control.repository.remote import ObjectStore
from infuse.serving.tuning import UPKEEP_SECONDS

_T = TypeVar("_T")

_BY_CONTENT: Final = "sha256:"  # a stamp that is the hash itself: uploaded files
_ENDS: Final = "the server ends"
_RACY_SECONDS: Final = (
    2.0  # a file that changed within this of being read may change again under the same stamp
)


class Source(Protocol):
    """A place that models are read from. Its methods block and raise RepositoryError."""

    address: str
    by_content: bool  # stamps tell contents apart even if files were written a moment ago

    def listing(self) -> Listing: ...

    def place(self, path: str) -> str: ...

    def identity(self, path: str) -> str: ...

    def chunks(self, file: FileEntry) -> Iterator[bytes]: ...

    def read(self, file: FileEntry) -> bytes: ...

    def unchanged(self, file: FileEntry) -> bool: ...


class Repository:
    """A folder or an object store with models. Nothing is opened before the first call.

    `scan` lists it; `stable` says whether a version is whole; `fetch` gives a local copy that
    nobody changes, which `release` gives up. Reading is done in threads of its own, so the caller's
    loop is never held up.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self._closing = threading.Event()
        self.cache = Cache(config.cache_folder, config.cache_bytes, closing=self._closing)
        self._wall, self._clock = wall, clock
        self._source: Source | None = None
        self._scanner = ThreadPoolExecutor(1, thread_name_prefix="repository-scan")
        self._fetchers = ThreadPoolExecutor(
            config.parallel_loads, thread_name_prefix="repository-fetch"
        )
        self._known: Known = {}
        self._seen: dict[
            tuple[str, int], tuple[str, float]
        ] = {}  # what it was like, and since when
        self._scans = 0

    async def scan(self, configs: Mapping[str, str] | None = None) -> Mapping[str, ModelFiles]:
        """All models by name; those that are broken have a `problem`. RepositoryError when nothing
        can be listed.

        `configs`: configurations by model's name (YAML, JSON, or Triton's JSON) in place of the
        repository's.
        """
        models = await self._in(self._scanner, lambda: self._scan(configs or {}))
        self._remember(models)
        return models

    def stable(self, model: ModelFiles, number: int) -> bool:
        """Whether a version of the last scan is whole, as far as one can see from outside.

        It is, if it holds the mark `_SUCCESS`; or if nothing in it says that a copy is under way
        and it has not changed for a while: `poll_seconds` by its times (one second at the server's
        start), or between two scans.
        """
        version = model.versions[number]
        if version.finished:
            return True
        if version.unfinished:
            return False
        state, since = self._seen.get((model.name, number), ("", 0.0))
        enough = self.config.poll_seconds if self._scans > 1 else UPKEEP_SECONDS
        if self._wall() - version.changed >= enough:
            return True
        same = state == f"{version.fingerprint} {version.changed}"
        return same and self._clock() - since >= self.config.poll_seconds

    async def fetch(self, model: ModelFiles, number: int) -> LocalVersion:
        """A verified local copy of a version.

        RepositoryError when it cannot be served, is not what its hashes say, or changed since the
        scan (`transient`: try again after the next one).
        """
        return await self._in(self._fetchers, lambda: self._fetch(model, number))

    async def fetch_files(self, model: ModelFiles) -> LocalVersion:
        """A copy of the files that lie in the model's folder and in no version, as a version with
        the number 0.

        RepositoryError as for `fetch`.
        """
        hashes = model.config.sha256
        expected = {file.name: hashes[file.name] for file in model.files if file.name in hashes}
        return await self._in(self._fetchers, lambda: self._local(0, model.files, "", expected))

    async def fetch_uploaded(
        self, name: str, files: Mapping[str, bytes], config: str = ""
    ) -> ModelFiles:
        """A model made of files that a caller sent, by their paths in the model's folder
        (`1/model.onnx`).

        `config` stands for a configuration among them. The model can be fetched as any other.
        Compiled models are native code and are refused.
        """
        return await self._in(self._fetchers, lambda: self._upload(name, files, config))

    def release(self, version: LocalVersion) -> None:
        """The version's files are no longer used here; the cache may remove them when it needs
        room.
        """
        self.cache.release(version.digest)

    def close(self) -> None:
        """End what is under way with an error, and release everything."""
        self._closing.set()
        self._scanner.shutdown(wait=False, cancel_futures=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)
        self.cache.close()

    # -------------------------------------------------------------------------------------- listing

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        if self._closing.is_set():
            raise RepositoryError(_ENDS)
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    def _open(self) -> Source:
        if self._source is None:
            chosen = self.config.repository
            if not chosen:
                raise RepositoryError(
                    "no repository is named", hint="name a folder, or s3://bucket/prefix"
                )
            if "://" in chosen:
                self._source = ObjectStore(chosen, self.config.store_options, self._closing)
            else:
                self._source = LocalFolder(Path(chosen).expanduser().absolute())
        return self._source

    def _scan(self, configs: Mapping[str, str]) -> Mapping[str, ModelFiles]:
        source = self._open()
        models = arrange(source.listing(), self._rules(source, configs), self._known)
        self._known = {name: pair for name, pair in models.items() if name not in configs}
        return {name: model for name, (_, model) in models.items()}

    def _rules(self, source: Source, configs: Mapping[str, str]) -> Rules:
        trusted = any(
            _within(source.address, str(place)) for place in self.config.security.compiled_folders
        )
        return Rules(
            place=source.place,
            read=source.read,
            settled=self._settled,
            defaults=self.config.model_defaults,
            model_bytes=self.config.limits.model_bytes,
            compiled_allowed=trusted,
            configs=configs,
        )

    def _settled(self, file: FileEntry) -> bool:
        """Whether its stamp tells the file's content from any that it may get later."""
        return self._open().by_content or self._wall() - file.changed > _RACY_SECONDS

    def _remember(self, models: Mapping[str, ModelFiles]) -> None:
        now, seen = self._clock(), {}
        for model in models.values():
            for number, version in model.versions.items():
                state = f"{version.fingerprint} {version.changed}"
                stamp, since = self._seen.get((model.name, number), ("", now))
                seen[model.name, number] = state, since if stamp == state else now
        self._seen = seen
        self._scans += 1

    # --------------------------------------------------------------------------------------- copies

    def _fetch(self, model: ModelFiles, number: int) -> LocalVersion:
        version = model.versions.get(number)
        if model.problem or version is None:
            problem = model.problem or f"it has no version {number}"
            raise RepositoryError(problem, where=model.source or model.name)
        if version.problem:
            raise RepositoryError(version.problem, where=version.source)
        return self._local(number, version.files, version.main, _expected(model, version))

    def _local(
        self, number: int, files: tuple[FileEntry, ...], main: str, expected: Mapping[str, str]
    ) -> LocalVersion:
        digests = {file.name: self._content(file) for file in files}
        for name, digest in expected.items():
            if digests[name] != digest.lower():
                raise RepositoryError(
                    f"{name} is not the file that the model's configuration expects: its SHA-256 "
                    f"is {digests[name]}, "
                    f"expected {digest}",
                    where=next(self._place(file) for file in files if file.name == name),
                )
        stored = [file for file in files if not file.stamp.startswith(_BY_CONTENT)]
        if len(stored) > 1 and not all(self._open().unchanged(file) for file in stored):
            raise changed_error(self._place(stored[0]))
        folder, digest = self.cache.assemble(digests)
        return LocalVersion(
            number, folder, folder / main, digest, sum(file.bytes for file in files)
        )

    def _content(self, file: FileEntry) -> str:
        """The hash of a file's content, which is then in the cache."""
        if file.stamp.startswith(_BY_CONTENT):
            digest = file.stamp[len(_BY_CONTENT) :]
            if not self.cache.contents.holds(digest, file.bytes):
                raise RepositoryError(
                    "the uploaded file is no longer there", where=file.name, hint="send it again"
                )
            return digest
        source, where = self._open(), self._place(file)
        try:
            key = f"{source.identity(file.path)}\0{file.stamp}\0{file.bytes}"
            return self.cache.contents.obtain(
                key, file.bytes, self._watched(source.chunks(file)), remember=self._settled(file)
            )
        except RepositoryError as error:
            if error.where is None:
                error.within(where)
            raise

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if self._closing.is_set():
                raise RepositoryError(_ENDS)
            yield chunk

    def _place(self, file: FileEntry) -> str:
        return self._open().place(file.path)

    def _upload(self, name: str, files: Mapping[str, bytes], config: str) -> ModelFiles:
        check_name(name)
        entries = []
        for path, content in files.items():
            _check_path(path)
            entries.append(
                FileEntry(
                    f"{name}/{path}",
                    len(content),
                    f"{_BY_CONTENT}{self.cache.contents.add(content)}",
                    path,
                )
            )
        folders = {
            str(parent): 0.0 for file in entries for parent in PurePosixPath(file.name).parents
        }
        folders.pop(".", None)
        contents = dict(files)
        rules = Rules(
            place=lambda path: f"upload:{path}",
            read=lambda file: contents[file.path],
            settled=lambda _: True,
            defaults=self.config.model_defaults,
            model_bytes=self.config.limits.model_bytes,
            compiled_allowed=False,
            configs={name: config} if config else {},
        )
        return arrange(Listing(tuple(entries), {name: 0.0, **folders}), rules, {})[name][1]


def _expected(model: ModelFiles, version: VersionFiles) -> dict[str, str]:
    """The hashes that the configuration demands of a version's files; RepositoryError when such a
    file is missing.
    """
    names = {file.name for file in version.files}
    others = {file.name for file in model.files}
    digests: dict[str, str] = {}
    for path, digest in model.config.sha256.items():
        first, _, rest = path.partition("/")
        own = rest if first == str(version.number) else path
        if own in names:
            digests[own] = digest
        elif first == str(version.number) or not (first.isdigit() or path in others):
            raise RepositoryError(
                f"there is no {path!r}, whose sha256 is in the configuration", where=version.source
            )
    return digests


def _check_path(path: str) -> None:
    """RepositoryError unless an uploaded file's path stays in the model's folder."""
    parts = path.split("/")
    if not all(parts) or any(
        part.startswith(".") or "\\" in part or not part.isprintable() for part in parts
    ):
        raise RepositoryError(
            f"{path!r} is not a path in a model's folder", hint="send files as 1/model.onnx"
        )


def _within(address: str, folder: str) -> bool:
    """Whether a repository is, or lies in, a folder that is trusted with native code."""
    if "://" in address:
        parts, above = Path(address).parts, Path(folder).parts
    else:
        parts, above = Path(address).resolve().parts, Path(folder).expanduser().resolve().parts
    return parts[: len(above)] == above
