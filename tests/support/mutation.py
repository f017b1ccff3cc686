"""Damaged files: bytes changed at random, and ONNX models whose fields are changed so that they
still parse.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from onnx import ModelProto

INTERESTING: Final = (0, 1, 2, 8, 0x7F, 0x80, 0xFE, 0xFF)
SMALL: Final = (0, 1, -1, 2, 3, 7, 8, 16, 127, 255)
NUMBERS: Final = (
    *SMALL,
    1 << 15,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
"""Integers that break assumptions about sizes, axes, types and counts."""


def mutated_bytes(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """`data` after one to eight random edits; pieces of `others` may come in."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        rng.choice(_EDITS)(result, others, rng)
    return bytes(result)


def _flip(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(INTERESTING)


def _number(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    size = rng.choice((4, 8))
    if len(data) >= size:
        at = rng.randrange(len(data) - size + 1)
        data[at : at + size] = struct.pack("<q", rng.choice(NUMBERS))[:size]


def _cut(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if data:
        start = rng.randrange(len(data))
        del data[start : start + rng.choice((1, 2, 8, 64, len(data)))]


def _repeat(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if data:
        start = rng.randrange(len(data))
        piece = data[start : start + rng.choice((1, 4, 32, 256))]
        data[start:start] = piece * rng.choice((1, 2, 16))


def _splice(data: bytearray, others: Sequence[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    if other:
        start = rng.randrange(len(other))
        piece = other[start : start + rng.choice((4, 32, 256, len(other)))]
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.choice((0, len(piece)))] = piece


_EDITS: Final[tuple[Callable[[bytearray, Sequence[bytes], random.Random], None], ...]] = (
    _flip,
    _flip,
    _set,
    _number,
    _cut,
    _repeat,
    _splice,
)


def mutate_message(message: Any, rng: random.Random, names: Sequence[str]) -> None:
    """Change one to three fields somewhere in a protocol buffer; `names` are texts that mean
    something in it.
    """
    for _ in range(rng.choice((1, 1, 2, 3))):
        parts = list(_parts(message))
        part = rng.choice(parts)
        fields = part.ListFields()
        if fields:
            field, value = rng.choice(fields)
            _change(part, field, value, rng, names)


def _parts(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                if hasattr(inner, "ListFields"):
                    yield from _parts(inner)


def _change(part: Any, field: Any, value: Any, rng: random.Random, names: Sequence[str]) -> None:
    if rng.random() < 0.15:
        part.ClearField(field.name)
    elif field.is_repeated:
        _change_list(value, field, rng, names)
    elif field.message_type is None:
        setattr(part, field.name, _other(value, field, rng, names))


def _change_list(values: Any, field: Any, rng: random.Random, names: Sequence[str]) -> None:
    place = rng.randrange(len(values))
    what = rng.choice(("remove", "repeat", "swap", "change"))
    if what == "remove":
        del values[place]
    elif what == "repeat":
        values.append(values[place])
    elif field.message_type is None and what == "change":
        values[place] = _other(values[place], field, rng, names)
    else:
        copies = list(values)
        rng.shuffle(copies)
        del values[:]
        values.extend(copies)


_FIELD: Any = ModelProto.DESCRIPTOR.fields[0]
_RANGES: Final = {
    _FIELD.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    _FIELD.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    _FIELD.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    _FIELD.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


def _other(value: Any, field: Any, rng: random.Random, names: Sequence[str]) -> Any:
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    if isinstance(value, int):
        number = rng.choice((*NUMBERS, value + 1, value - 1, rng.randrange(64)))
        least, most = _RANGES[field.cpp_type]
        return min(max(number, least), most)
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    if isinstance(value, str):
        return rng.choice((*names, "", value + "_", "\u2603" * 40, "../../etc/passwd"))
    return mutated_bytes(value, [value], rng)


def with_checksum(data: bytes) -> bytes:
    """An .infuse file with the checksum that its table should have, so that damage to the table
    reaches the reader.
    """
    head = struct.Struct("<8sIIQQQQ")
    if len(data) < head.size:
        return data
    magic, version, _, start, size, *rest = head.unpack_from(data)
    table = data[start : start + size] if start < len(data) else b""
    return head.pack(magic, version, zlib.crc32(table), start, size, *rest) + data[head.size :]
