"""What a repository holds, as data: files, versions, models, and the local copies that are
served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infuse.errors import ConfigurationError, RepositoryError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.messages import Tensor

_MOST_NAME_BYTES = 255
_ENDPOINTS = ("endpoint", "aws_endpoint", "endpoint_url", "aws_endpoint_url")


@dataclass(frozen=True)
class FileEntry:
    """A file of a version or a model.

    `name` is its path in the version's folder, `path` the one in the repository; both use "/".
    `stamp` changes when the content does (modification time and inode, or an object's etag).
    `changed`: when it did, in seconds since 1970.
    """

    name: str
    bytes: int
    stamp: str
    path: str = ""
    changed: float = 0.0


@dataclass(frozen=True)
class VersionFiles:
    """A version as it lies in the repository.

    `source`: folder or address, for messages. `fingerprint` changes when any file does. `main` is
    the file to load (`model.onnx`, `model.infuse`), or the compiled folder in the version's ("":
    its own); a pipeline has none. `changed`: when anything in it last did. `finished`: it holds the
    mark `_SUCCESS`. `unfinished`: a file that says that a copy is under way (`.part`, `.tmp`).
    `problem`: why it cannot be served, or "".
    """

    number: int
    source: str
    files: tuple[FileEntry, ...]
    fingerprint: str
    main: str
    compiled: bool
    changed: float = 0.0
    finished: bool = False
    unfinished: str = ""
    problem: str = ""

    @property
    def bytes(self) -> int:
        """The sum of its files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Labels:
    """The names of a model's classes.

    `outputs`: by output, the names in the order of the classes, in UTF-8; b"" for a class that has
    none. `files`: the paths in the model's folder that they were read from. `fingerprint` changes
    when a name does; "" without files.
    """

    outputs: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    fingerprint: str = ""

    def check(self, outputs: Collection[str]) -> None:
        """ConfigurationError when there are names for an output that is not among the model's
        `outputs`.
        """
        for name in self.outputs:
            if name not in outputs:
                raise ConfigurationError(
                    f"its configuration names labels of the output {name!r}, and its outputs are "
                    f"{', '.join(outputs)}"
                )

    def put(self, tensors: Iterable[Tensor]) -> None:
        """Give the outputs their labels."""
        if self.outputs:
            for tensor in tensors:
                tensor.labels = self.outputs.get(tensor.name, tensor.labels)


@dataclass(frozen=True)
class ModelFiles:
    """A model as it lies in the repository.

    `config_text` is what was read; `fingerprint` changes when it or a label does; `config` has the
    server's defaults in it, `labels` the names of its classes. `files` lie in the model's folder
    and in no version (inputs of a warm-up, a tokenizer). `problem`: why none of it can be served,
    or "". `notes`: what its configuration asks for without an effect here, and files that were
    passed over.
    """

    name: str
    config: ModelConfig
    config_text: str
    versions: Mapping[int, VersionFiles]
    fingerprint: str
    problem: str = ""
    notes: tuple[str, ...] = ()
    files: tuple[FileEntry, ...] = ()
    source: str = ""
    labels: Labels = Labels()


@dataclass(frozen=True)
class LocalVersion:
    """A version's files on this machine: a folder of the cache that nobody changes, checked against
    its hashes.

    `main` is the file to load or the compiled folder; the folder itself, where there is neither.
    `digest`: SHA-256 over names and contents.
    """

    number: int
    folder: Path
    main: Path
    digest: str
    bytes: int


def check_name(name: str) -> None:
    """RepositoryError unless `name` can be a model's: one part of a path, printable, not hidden, at
    most 255 bytes.
    """
    what = ""
    if not name:
        what = "a model's name is empty"
    elif "/" in name or "\\" in name:
        what = f"the name {name!r} holds a path separator"
    elif name.startswith("."):
        what = f"the name {name!r} begins with a dot"
    elif not name.isprintable():
        what = f"the name {name!r} holds characters that cannot be printed"
    elif len(name.encode("utf-8", "surrogateescape")) > _MOST_NAME_BYTES:
        what = f"the name {name[:40]!r}… is longer than {_MOST_NAME_BYTES} bytes"
    if what:
        raise RepositoryError(what, hint="name the model with letters, digits, '-', '_' and '.'")


@dataclass(frozen=True)
class Listing:
    """All that was found in a repository: files and folders by their paths, and what went wrong at
    which path.

    Hidden names are left out. `folders`: path → when it changed, in seconds since 1970.
    """

    files: tuple[FileEntry, ...]
    folders: Mapping[str, float]
    problems: Mapping[str, str] = field(default_factory=dict)


def identity_of(repository: str, options: Mapping[str, str]) -> str:
    """What tells a repository apart from all others of this machine: its real path, or its address
    and its server.

    `options`: those of its store.
    """
    if "://" in repository:
        address = repository.rstrip("/")
        endpoint = next((options[name] for name in _ENDPOINTS if options.get(name)), "")
        return f"{address} at {endpoint.rstrip('/')}" if endpoint else address
    return str(Path(repository).expanduser().resolve())
