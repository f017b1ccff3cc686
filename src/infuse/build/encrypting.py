"""Compiled folders whose weights are encrypted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from infuse.build.build import copy_files
from infuse.build.packing import add_sums
from infuse.errors import OptionError
from infuse.lowering.emitter import emitter_of
from infuse.mapped import contents
from infuse.options import PREFIX
from infuse.runtime.encrypted import (
    CHUNK,
    HEAD,
    MAGIC,
    SALT,
    VERSION,
    Key,
    chunk_cipher,
    nonce,
    read_key,
)
from infuse.runtime.folder import (
    ENCRYPTED,
    HEADER,
    METADATA,
    WEIGHTS,
    digest,
    publish,
    read_metadata,
    verify,
)
from infuse.targets import Target
from infuse.targets.platforms import WEB


def encrypt(
    folder: str | os.PathLike[str], key: Key, output: str | os.PathLike[str] | None = None
) -> Path:
    """Replace the weights of a compiled folder by the same encrypted with `key`: 32 bytes, or a
    file that holds them; with `output`, there, and the folder stays as it is.
    `infuse.load_compiled` needs the key then; for programs in C, `decrypt.h`
    is put beside the header.

    The cache of compiled models on this machine still has the weights as they are. OptionError for
    another key, for a model with weights inside of the library, and for one of which Python runs a
    part.
    """
    path, secret = Path(folder), read_key(key)
    metadata = read_metadata(path)
    if metadata.get("embedded") or metadata.get("encrypted"):
        is_part = metadata.get("embedded")
        state = "are a part of its code" if is_part else "are encrypted already"
        hint = (
            "compile it without embed and single" if is_part else "compile it again for another key"
        )
        raise OptionError(f"the weights of the model {state}", where=str(path), hint=hint)

    verify(path, metadata)
    if WEB.library in metadata["files"]:
        raise OptionError(
            "weights of pages are not encrypted: who has the page has the key", where=str(path)
        )

    def write(new: Path) -> None:
        copy_files(path, new)
        (new / WEIGHTS).unlink()
        _write_weights(path / WEIGHTS, new / ENCRYPTED, secret)
        files = {name: entry for name, entry in metadata["files"].items() if name != WEIGHTS}
        size = (new / ENCRYPTED).stat().st_size
        files[ENCRYPTED] = {"bytes": size, "sha256": digest(new / ENCRYPTED)}
        described = {**metadata, "encrypted": True, "files": files}
        (new / METADATA).write_text(json.dumps(described, indent=1), "utf-8")
        if (new / HEADER).is_file():
            _write_interface(new, described)

    return publish(path if output is None else Path(output), write)


def _write_weights(source: Path, target: Path, key: bytes) -> None:
    with source.open("rb") as file, target.open("wb") as output:
        data: Any = contents(file.fileno())
        head = HEAD.pack(MAGIC, VERSION, CHUNK, len(data), os.urandom(SALT))
        cipher = chunk_cipher(key, head)
        output.write(head)
        for number, start in enumerate(range(0, len(data), CHUNK)):
            chunk = bytes(data[start : start + CHUNK])
            output.write(cipher.encrypt(nonce(number), chunk, None))


def _write_interface(folder: Path, metadata: dict[str, Any]) -> None:
    """What programs in C need for such weights."""
    target = Target.resolve(metadata["target"])
    library = target.system.library_name(metadata.get("prefix", PREFIX))
    emitter = emitter_of(target.machine)
    for name, text in emitter.interface_files({**metadata, "library": library}).items():
        (folder / name).write_text(text, "utf-8")
    add_sums(folder)
