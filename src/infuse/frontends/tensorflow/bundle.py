"""Checkpoints of TensorFlow: a sorted table of tensors by name, and files of their elements.

The table (`PREFIX.index`) is LevelDB's: blocks of entries whose keys are written without what they
share with the key before, each block with a checksum, and a block of blocks at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import map_file
from infuse.frontends.protobuf import parse
from infuse.frontends.tensorflow.messages import MESSAGES
from infuse.frontends.tensorflow.tensors import dtype_of, from_bytes, static_shape
from infuse.ir.graph import Array

_MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER: Final = 48
_TRAILER: Final = 5
_MOST: Final = 1 << 28
"""Bytes that a compressed block may have."""


class Bundle:
    """The tensors of a checkpoint by name, mapped from its files."""

    def __init__(self, prefix: Path) -> None:
        self.where = f"{prefix}.index"
        self._prefix = prefix
        data = map_file(Path(self.where), "index of variables")
        try:
            entries = dict(_entries(data))
        except (IndexError, ValueError) as error:
            raise self._damaged(str(error)) from error
        header = parse(MESSAGES["BundleHeader"], entries.pop(b"", b""), self.where, "its header")
        if header.endianness:
            raise UnsupportedOperatorError("variables of big-endian machines are not supported")
        self._shards = max(int(header.num_shards), 1)
        self._entries = {key.decode("utf-8", "replace"): entry for key, entry in entries.items()}
        self._files: dict[int, memoryview] = {}

    def tensor(self, name: str) -> Array:
        """The elements of a tensor."""
        data = self._entries.get(name)
        if data is None:
            raise ModelFileError(f"there is no variable {name!r}", where=self.where)
        entry = parse(MESSAGES["BundleEntry"], data, self.where, f"the entry of {name!r}")
        if entry.slices:
            raise UnsupportedOperatorError(
                f"the variable {name!r}, which is written in parts, is not supported"
            )
        shard = self._shard(entry.shard_id)
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > len(shard):
            raise ModelFileError(
                f"the {entry.size} bytes of {name!r} begin at byte {entry.offset} of a file of "
                f"{len(shard)}",
                where=self.where,
                hint="the file of variables was cut off, or is of another model",
            )
        part = shard[entry.offset : entry.offset + entry.size]
        dtype, shape = dtype_of(entry.dtype), static_shape(entry.shape)
        if dtype == dtypes.string:
            return _texts(part, math.prod(shape), name).reshape(shape)
        return from_bytes(part, dtype, shape)

    def _shard(self, number: int) -> memoryview:
        if not 0 <= number < self._shards:
            raise self._damaged(f"there is no file {number} of {self._shards}")
        if number not in self._files:
            name = f"{self._prefix}.data-{number:05}-of-{self._shards:05}"
            self._files[number] = map_file(Path(name), "file of variables")
        return self._files[number]

    def _damaged(self, why: str) -> ModelFileError:
        return ModelFileError(
            f"the index of variables is damaged: {why}",
            where=self.where,
            hint="fetch or export the model again",
        )


def _texts(part: memoryview, count: int, name: str) -> Array:
    """Strings: the length of each, a checksum of these, and their bytes one after another."""
    texts = np.empty(count, object)
    place, lengths = 0, []
    try:
        for _ in range(count):
            length, place = _varint(part, place)
            lengths.append(length)
    except (IndexError, ValueError) as error:
        raise ModelFileError(f"the lengths of the strings of {name!r} are damaged") from error
    place += 4
    if place + sum(lengths) != len(part):
        raise ModelFileError(
            f"the strings of {name!r} have {sum(lengths)} bytes of {len(part) - place}",
            hint="the file of variables was cut off, or is of another model",
        )
    for index, length in enumerate(lengths):
        texts[index] = bytes(part[place : place + length]).decode("utf-8", "surrogateescape")
        place += length
    return texts


def _entries(data: memoryview) -> Iterator[tuple[bytes, bytes]]:
    if len(data) < _FOOTER or data[-8:] != _MAGIC:
        raise ValueError("it does not end as such a table does")
    footer = data[-_FOOTER:]
    _, place = _handle(footer, 0)
    index, _ = _handle(footer, place)
    for _, handle in _block(data, *index):
        (offset, size), _ = _handle(memoryview(handle), 0)
        yield from _block(data, offset, size)


def _handle(data: memoryview, place: int) -> tuple[tuple[int, int], int]:
    offset, place = _varint(data, place)
    size, place = _varint(data, place)
    return (offset, size), place


def _varint(data: Any, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _block(data: memoryview, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    end = offset + size
    if end + _TRAILER > len(data):
        raise ValueError("a block lies outside")
    stored = data[offset : end + 1]
    if _checksum(stored) != int.from_bytes(data[end + 1 : end + _TRAILER], "little"):
        raise ValueError("a checksum does not fit")
    if stored[size] > 1:
        raise ValueError(f"compression {stored[size]} is not known")
    block = memoryview(_unpacked(stored[:size])) if stored[size] else stored[:size]
    last = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    place, key = 0, b""
    while place < last:
        shared, place = _varint(block, place)
        fresh, place = _varint(block, place)
        length, place = _varint(block, place)
        if shared > len(key) or place + fresh + length > last:
            raise ValueError("an entry lies outside of its block")
        key = key[:shared] + bytes(block[place : place + fresh])
        place += fresh
        yield key, bytes(block[place : place + length])
        place += length


def _unpacked(data: memoryview) -> bytes:
    """What Snappy made shorter."""
    size, place = _varint(data, 0)
    if size > _MOST:
        raise ValueError(f"a block of {size} bytes")
    out = bytearray()
    while place < len(data):
        tag = data[place]
        place += 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                extra = length - 60
                length = int.from_bytes(data[place : place + extra], "little") + 1
                place += extra
            out += data[place : place + length]
            place += length
        else:
            if kind == 1:
                length, back = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[place]
                place += 1
            else:
                wide = 2 if kind == 2 else 4
                back = int.from_bytes(data[place : place + wide], "little")
                place += wide
            if not 0 < back <= len(out):
                raise ValueError("a copy from before its block")
            # A copy may read what it writes itself.
            source = bytes(out[len(out) - back :])
            out += (source * (length // back + 1))[:length]
        if len(out) > size:
            raise ValueError("a block is longer than it says")
    if len(out) != size:
        raise ValueError("a block is shorter than it says")
    return bytes(out)


@cache
def _remainders() -> tuple[int, ...]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return tuple(table)


def _checksum(data: memoryview) -> int:
    """CRC-32C as LevelDB masks it."""
    table, crc = _remainders(), 0xFFFFFFFF
    for byte in bytes(data):
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
