"""Names of classes: text files in a model's folder with one name a line, by the outputs that they
belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository.files import FileEntry, Labels

_MOST_BYTES: Final = 4 << 20


def read_labels(
    config: ModelConfig, files: Sequence[FileEntry], read: Callable[[FileEntry], bytes]
) -> Labels:
    """The labels that `label_files` asks for, out of the files of the model's folder.

    ConfigurationError, which names the file, when it is not there, lies elsewhere, is no UTF-8 or
    too large, or is not the one whose hash is in the configuration.
    """
    if not config.label_files:
        return Labels()
    named = {file.name: file for file in files}
    outputs, prints = {}, []
    for output, name in sorted(config.label_files.items()):
        file = _find(output, name, named)
        content = read(file)
        digest = sha256(content).hexdigest()
        if config.sha256.get(file.name, digest).lower() != digest:
            raise ConfigurationError(
                "it is not the file that the model's configuration expects: its SHA-256 is "
                f"{digest}",
                where=file.path,
            )
        outputs[output] = _lines(content, file.path)
        prints.append(f"{output}\0{digest}")
    paths = frozenset(str(PurePosixPath(name)) for name in config.label_files.values())
    return Labels(outputs, paths, sha256("\n".join(prints).encode()).hexdigest())


def _find(output: str, name: str, named: Mapping[str, FileEntry]) -> FileEntry:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise ConfigurationError(
            f"the labels of the output {output!r} lie outside of the model's folder: {name!r}"
        )
    file = named.get(str(path))
    if file is None:
        raise ConfigurationError(
            f"there is no {name!r}, which its configuration names as labels of {output!r}"
        )
    if file.bytes > _MOST_BYTES:
        raise ConfigurationError(
            f"it has {file.bytes} bytes, and at most {_MOST_BYTES} are read", where=file.path
        )
    return file


def _lines(content: bytes, where: str) -> tuple[bytes, ...]:
    """A name per line, however lines end; a line feed at the end begins no other."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"it is not UTF-8 text: {error.reason}", where=where) from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return tuple([line.removesuffix("\r").encode() for line in lines])
