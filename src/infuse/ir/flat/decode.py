"""FlatBuffers bytes to records; every offset and length is checked before it is followed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, NoReturn

from infuse.errors import ModelFileError
from infuse.ir.flat.records import IDENTIFIER, SCALARS, STRUCTS, TABLES, Net, field_types, storage

DEPTH_LIMIT = 64
_Read = Callable[["_Decoder", int, int], Any]
_U16 = struct.Struct("<H").unpack_from
_U32 = struct.Struct("<I").unpack_from
_I32 = struct.Struct("<i").unpack_from


def decode(data: bytes) -> Net:
    """The records of a table; ModelFileError when the bytes are not such a table."""
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        _fail("the table does not have its mark")
    try:
        net: Net = _Decoder(data).table(_U32(data, 0)[0], "Net", 0)
    except struct.error:
        _fail("a field lies outside of the table")
    return net


def _fail(what: str) -> NoReturn:
    raise ModelFileError(what, hint="the file is damaged or was not written by Infuse")


class _Field(NamedTuple):
    read: _Read
    default: Any


class _Layout(NamedTuple):
    """Size of a table's own bytes, values of absent fields, and slot, offset and reader of those
    that are present.
    """

    size: int
    defaults: list[Any]
    present: list[tuple[int, int, _Read]]


@cache
def _fields(table: str) -> list[_Field]:
    record = TABLES[table]
    defaults: dict[str, Any] = record._field_defaults  # type: ignore[attr-defined]
    return [
        _Field(_reader(storage(type)), defaults[name]) for name, type in field_types(record).items()
    ]


def _reader(type: str) -> _Read:
    """The function that reads a field of this type at a position, at some depth."""
    if type in SCALARS:
        unpack = struct.Struct("<" + SCALARS[type]).unpack_from
        return lambda decoder, position, depth: unpack(decoder.data, position)[0]
    if type == "string":
        return _Decoder.string
    if type in TABLES:
        return lambda decoder, position, depth: decoder.table(decoder.follow(position), type, depth)
    element = type.strip("[]")
    if element in SCALARS:
        letter, size = SCALARS[element], struct.calcsize(SCALARS[element])
        return lambda decoder, position, depth: decoder.scalars(position, letter, size)
    if element in STRUCTS:
        return _struct_reader(STRUCTS[element])
    if element == "string":
        return lambda decoder, position, depth: [
            decoder.string(at, 0) for at in decoder.elements(position)
        ]
    return lambda decoder, position, depth: [
        decoder.table(decoder.follow(at), element, depth) for at in decoder.elements(position)
    ]


def _struct_reader(record: type[tuple[int, ...]]) -> _Read:
    layout = struct.Struct("<" + "".join(SCALARS[t] for t in field_types(record).values()))

    def read(decoder: _Decoder, position: int, depth: int) -> list[tuple[int, ...]]:
        start, count = decoder.vector(position, layout.size)
        raw = decoder.data[start : start + count * layout.size]
        return [record(*item) for item in layout.iter_unpack(raw)]

    return read


class _Decoder:
    """Reads tables out of `data`.

    Positions only grow along a path, so there are no circles; `budget` bounds what is read in all,
    so that parts that share bytes cannot multiply.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = 2 * len(data)
        self.layouts: dict[tuple[int, str], _Layout] = {}
        self.strings: dict[int, str] = {}

    def spend(self, size: int) -> None:
        self.budget -= size
        if self.budget < 0:
            _fail("parts of the table overlap")

    def table(self, position: int, name: str, depth: int) -> Any:
        if depth > DEPTH_LIMIT:
            _fail(f"tables are nested more than {DEPTH_LIMIT} deep")
        vtable = position - _I32(self.data, position)[0]
        layout = self.layouts.get((vtable, name)) or self.layout(vtable, name)
        self.spend(layout.size)
        if position + layout.size > len(self.data):
            _fail("a table ends outside of the file")
        values = layout.defaults.copy()
        for slot, offset, read in layout.present:
            values[slot] = read(self, position + offset, depth + 1)
        return TABLES[name]._make(values)  # type: ignore[attr-defined]

    def layout(self, vtable: int, name: str) -> _Layout:
        """How the tables of this name that use this vtable are laid out."""
        if vtable < 0:
            _fail("a table has no layout")
        length = _U16(self.data, vtable)[0]
        if length < 4 or length % 2:
            _fail("the layout of a table has no possible size")
        size, *offsets = struct.unpack_from(f"<{length // 2 - 1}H", self.data, vtable + 2)
        if size < 4 or any(o >= size or 0 < o < 4 for o in offsets):
            _fail("a field lies outside of its table")
        fields = _fields(name)
        present = [
            (slot, o, field.read) for slot, (o, field) in enumerate(zip(offsets, fields)) if o
        ]
        layout = self.layouts[vtable, name] = _Layout(size, [f.default for f in fields], present)
        return layout

    def follow(self, position: int) -> int:
        """Where the offset at `position` leads."""
        offset: int = _U32(self.data, position)[0]
        if offset < 4:
            _fail("an offset leads to itself")
        return position + offset

    def vector(self, position: int, size: int) -> tuple[int, int]:
        """First byte and number of elements, each of `size` bytes, of the vector that is pointed to
        here.
        """
        start = self.follow(position)
        count: int = _U32(self.data, start)[0]
        if start + 4 + count * size > len(self.data):
            _fail("a list ends outside of the table")
        self.spend(4 + count * size)
        return start + 4, count

    def elements(self, position: int) -> range:
        """Positions of the offsets in a vector of tables or strings."""
        start, count = self.vector(position, 4)
        return range(start, start + 4 * count, 4)

    def scalars(self, position: int, letter: str, size: int) -> Any:
        start, count = self.vector(position, size)
        if letter == "B":
            return self.data[start : start + count]
        return struct.unpack_from(f"<{count}{letter}", self.data, start)

    def string(self, position: int, depth: int) -> str:
        at = self.follow(position)
        text = self.strings.get(at)
        if text is None:
            start, count = self.vector(position, 1)
            try:
                text = str(self.data[start : start + count], "utf-8")
            except UnicodeDecodeError:
                _fail("a name is not UTF-8 text")
            self.strings[at] = text
        return text
