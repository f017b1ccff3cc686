"""Weights that only who has their key can read (AES-256-GCM).

A file begins with 64 bytes: MAGIC, the version, the bytes of a chunk (4 each, little-endian), those
of the weights (8), a salt (32), zeros. Chunks follow, each with the tag of 16 bytes behind it.
Their key is HMAC-SHA256(key, LABEL + the 64 bytes), so that no two files share one; the nonce of a
chunk is its number (12 bytes, big-endian). So a byte that was changed, a chunk that was moved and
an end that was cut off are seen.
"""

from __future__ import annotations

import hashlib
import hmac
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from infuse.errors import CompiledModelError, OptionError
from infuse.mapped import contents
from infuse.runtime.folder import ENCRYPTED, WEIGHTS
from infuse.runtime.library import map_weights

KEY_VARIABLE: Final = "INFUSE_KEY"
"""Names the file with the key, where a program names none."""
KEY_BYTES: Final = 32
MAGIC: Final = b"INFUSEEN"
VERSION: Final = 1
CHUNK: Final = 1 << 24
SALT: Final = 32
TAG: Final = 16
LABEL: Final = b"infuse weights"
HEAD: Final = struct.Struct("<8sIIQ32s8x")
Key = bytes | str | os.PathLike[str]


def weights_of(
    folder: Path, metadata: Mapping[str, Any], key: Key | None = None
) -> npt.NDArray[np.uint8]:
    """The weights of a compiled model: its file, or what is in it when it is decrypted by `key`
    (default: the file that `$INFUSE_KEY` names). CompiledModelError where they cannot be had.
    """
    if not metadata.get("encrypted"):
        if key is not None:
            raise OptionError(
                "the weights are not encrypted", where=str(folder), hint="leave the key out"
            )
        return map_weights(folder / WEIGHTS)
    path = folder / ENCRYPTED
    if key is None and not (key := os.environ.get(KEY_VARIABLE)):
        raise CompiledModelError(
            "the weights are encrypted",
            where=str(path),
            hint=f"load_compiled(folder, key=FILE), or name the key's file in {KEY_VARIABLE}",
        )
    with path.open("rb") as file:
        return decrypted(contents(file.fileno()), read_key(key), path)


def read_key(key: Key) -> bytes:
    """The 32 bytes of a key: themselves, or the content of a file. OptionError for others."""
    where, content = "", key
    if not isinstance(key, bytes):
        where = os.fspath(key)
        try:
            content = Path(key).read_bytes()
        except OSError as error:
            raise OptionError(f"the key cannot be read: {error.strerror}", where=where) from error
    assert isinstance(content, bytes)
    if len(content) != KEY_BYTES:
        raise OptionError(
            f"a key has {KEY_BYTES} bytes, and this one {len(content)}",
            where=where,
            hint="make one with: openssl rand -out key 32",
        )
    return content


def chunk_cipher(key: bytes, head: bytes) -> Any:
    """What encrypts and decrypts the chunks of a file with this head."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise OptionError(
            "encrypted weights need the package cryptography", hint="pip install cryptography"
        ) from error
    return AESGCM(hmac.digest(key, LABEL + head, hashlib.sha256))


def nonce(number: int) -> bytes:
    """That of a chunk."""
    return number.to_bytes(12, "big")


def decrypted(data: Any, key: bytes, path: Path) -> npt.NDArray[np.uint8]:
    """The weights in a file's content, in memory that no core dump has and that starts at a page;
    CompiledModelError where the file is broken or the key another one.
    """
    from cryptography.exceptions import InvalidTag

    size, total = len(data), 0
    magic, version = b"", 0
    if size >= HEAD.size:
        magic, version, chunk, total, _ = HEAD.unpack_from(data)
    if magic != MAGIC:
        _broken("it is not a file of encrypted weights", path)
    if version != VERSION or not chunk:
        _broken(f"its version is {version}, and this release reads {VERSION}", path)
    count = -(-total // chunk)
    if size != HEAD.size + total + TAG * count:
        _broken(f"it has {size} bytes, and its {total} of weights do not end there", path)
    cipher = chunk_cipher(key, bytes(data[: HEAD.size]))
    room = mmap.mmap(-1, max(1, total))
    if hasattr(mmap, "MADV_DONTDUMP"):
        room.madvise(mmap.MADV_DONTDUMP)
    place = HEAD.size
    for number in range(count):
        length = min(chunk, total - number * chunk)
        try:
            plain = cipher.decrypt(nonce(number), bytes(data[place : place + length + TAG]), None)
        except InvalidTag:
            _broken("the key is another one, or the file was changed", path)
        room[number * chunk : number * chunk + length] = plain
        place += length + TAG
    return np.frombuffer(memoryview(room).toreadonly(), np.uint8)[:total]


def _broken(what: str, path: Path) -> NoReturn:
    raise CompiledModelError(
        f"the weights cannot be decrypted: {what}",
        where=str(path),
        hint="use the key that they were encrypted by, or compile and encrypt the model again",
    )
