"""FlatBuffers tables of a described schema as dictionaries, every offset checked against the file.

A field of a table is described as `name:type`, with `=default`; fields stand in the order of their
slots, `-` for one that is not read. Types are numbers (`i32`), texts (`str`), tables by name, and
vectors of these (`[u8]`). A vector of numbers is an array in its place of the file. The table of a
union is left as its position (`union`), to be read by whoever knows which it is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse.budgets import check_time
from infuse.errors import ModelFileError

_NUMBERS: Final = {
    "i8": "<b",
    "u8": "<B",
    "bool": "<?",
    "u16": "<H",
    "i32": "<i",
    "u32": "<I",
    "i64": "<q",
    "u64": "<Q",
    "f32": "<f",
}
_OFFSET: Final = struct.Struct("<I")
_SIGNED: Final = struct.Struct("<i")
_SHORT: Final = struct.Struct("<H")

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """A field of a table: its slot, name, type, and value where a table lacks it."""

    slot: int
    name: str
    type: str
    default: Any


Schema = Mapping[str, tuple[Field, ...]]


def schema(text: str) -> Schema:
    """The tables that `text` describes, each by its name and then its fields."""
    described: dict[str, list[str]] = {}
    fields: list[str] = []
    for part in text.split():
        if ":" in part or part == "-":
            fields.append(part)
        else:
            fields = described[part] = []
    return {
        table: tuple(_field(slot, part) for slot, part in enumerate(parts) if part != "-")
        for table, parts in described.items()
    }


def _field(slot: int, text: str) -> Field:
    name, _, rest = text.partition(":")
    kind, _, default = rest.partition("=")
    if kind in _NUMBERS:
        value: Any = float(default or 0) if kind == "f32" else int(default or 0)
        return Field(slot, name, kind, bool(value) if kind == "bool" else value)
    return Field(slot, name, kind, "" if kind == "str" else None)


class Wire:
    """Reads tables of one file. A table or vector that several places point to is read once."""

    def __init__(self, data: memoryview, tables: Schema) -> None:
        self._data, self._tables = data, tables
        self._read: dict[tuple[str, int], Any] = {}

    def root(self, table: str) -> Record:
        """The outermost table."""
        return self.table(table, self._follow(0))

    def table(self, name: str, position: int) -> Record:
        """The table at a position."""
        key = (name, position)
        if key not in self._read:
            if not len(self._read) & 1023:
                check_time("reading the model")
            self._read[key] = self._table(name, position)
        record: Record = self._read[key]
        return record

    def _table(self, name: str, position: int) -> Record:
        slots = position - _SIGNED.unpack(self._bytes(position, 4))[0]
        size = _SHORT.unpack(self._bytes(slots, 2))[0]
        places = self._bytes(slots, size)
        record = {}
        for field in self._tables[name]:
            begin = 4 + 2 * field.slot
            place = _SHORT.unpack(places[begin : begin + 2])[0] if begin + 2 <= size else 0
            record[field.name] = self._value(field, position + place) if place else field.default
        return record

    def _value(self, field: Field, position: int) -> Any:
        kind = field.type
        if kind in _NUMBERS:
            number = _NUMBERS[kind]
            return struct.unpack(number, self._bytes(position, struct.calcsize(number)))[0]
        target = self._follow(position)
        if kind == "union":
            return target
        if kind == "str":
            return str(self._bytes(target + 4, self._count(target)), "utf-8", "replace")
        if kind.startswith("["):
            key = (kind, target)
            if key not in self._read:
                self._read[key] = self._vector(kind[1:-1], target)
            return self._read[key]
        return self.table(kind, target)

    def _vector(self, kind: str, position: int) -> Any:
        count = self._count(position)
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self._bytes(position + 4, count * dtype.itemsize), dtype)
        self._bytes(position + 4, 4 * count)
        places = range(position + 4, position + 4 + 4 * count, 4)
        return [self.table(kind, self._follow(place)) for place in places]

    def _count(self, position: int) -> int:
        count: int = _OFFSET.unpack(self._bytes(position, 4))[0]
        return count

    def _follow(self, position: int) -> int:
        return position + self._count(position)

    def _bytes(self, begin: int, size: int) -> memoryview:
        if begin < 0 or begin + size > len(self._data):
            raise ModelFileError(
                f"it points to the bytes {begin} to {begin + size}, and has {len(self._data)}",
                hint="the file was cut off or damaged; fetch it again",
            )
        return self._data[begin : begin + size]
