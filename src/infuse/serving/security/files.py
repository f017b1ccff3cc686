"""Files of a model against the hashes that its configuration gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from infuse.errors import ConfigurationError, RepositoryError

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_BLOCK: Final = 1 << 20


def check_sha256(expected: Mapping[str, str], folder: Path, loaded: Iterable[str] = ()) -> None:
    """Hold the files of a model's folder against `expected`, SHA-256 by path in the folder (`1/model.onnx`).

    When there are hashes at all, every file of `loaded` (paths in the folder) must have one. RepositoryError for a file
    that is missing, another one than expected, not listed, or outside of the folder; ConfigurationError for a hash or
    a path that is none.
    """
    if not expected:
        return
    unlisted = sorted(set(loaded) - set(expected))
    if unlisted:
        raise RepositoryError(
            f"it has no entry in sha256, which lists {len(expected)} other files",
            where=str(folder / unlisted[0]),
            hint="add its hash, as `sha256sum` prints it",
        )
    for name, text in sorted(expected.items()):
        _check(folder, name, text.strip().lower())


def _check(folder: Path, name: str, wanted: str) -> None:
    where = str(folder / name)
    if not _HASH.fullmatch(wanted):
        raise ConfigurationError(f"sha256 of '{name}' is not 64 hexadecimal digits", where=str(folder))
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise RepositoryError("a path in sha256 leads out of the model's folder", where=where)
    digest = hashlib.sha256()
    try:
        with (folder / name).open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise RepositoryError(f"it is in sha256 and cannot be read: {error.strerror or error}", where=where) from error
    if digest.hexdigest() != wanted:
        raise RepositoryError(
            f"its SHA-256 is {digest.hexdigest()}, and sha256 says {wanted}",
            where=where,
            hint="it was changed or not copied whole; if the change was meant, change the hash",
        )
