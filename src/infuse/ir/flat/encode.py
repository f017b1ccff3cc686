"""Records to FlatBuffers bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import flatbuffers
import numpy as np

from infuse.ir.flat.records import IDENTIFIER, SCALARS, STRUCTS, TABLES, Net, field_types, storage

_NUMPY = {
    "ubyte": "<u1",
    "int": "<i4",
    "uint": "<u4",
    "long": "<i8",
    "ulong": "<u8",
    "double": "<f8",
}
_SLOTS = {"bool": "Bool", "ubyte": "Uint8", "uint": "Uint32", "long": "Int64"}


def encode(net: Net) -> bytes:
    """The table of a file."""
    encoder = _Encoder()
    root = encoder.table("Net", net)
    encoder.builder.Finish(root, file_identifier=IDENTIFIER)
    return bytes(encoder.builder.Output())


class _Field(NamedTuple):
    type: str
    default: Any


@cache
def _fields(table: str) -> list[_Field]:
    record = TABLES[table]
    defaults: dict[str, Any] = record._field_defaults  # type: ignore[attr-defined]
    return [_Field(storage(type), defaults[name]) for name, type in field_types(record).items()]


class _Encoder:
    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)

    def table(self, name: str, record: tuple[Any, ...]) -> int:
        """Write a table; what it points to is written before."""
        builder, fields = self.builder, _fields(name)
        present: list[tuple[int, _Field, Any]] = []
        for slot, (field, value) in enumerate(zip(fields, record)):
            if field.type in _SLOTS:
                if value != field.default:
                    present.append((slot, field, value))
            elif value:
                present.append((slot, field, self.child(field.type, value)))
        builder.StartObject(len(fields))
        for slot, field, value in present:
            if field.type in _SLOTS:
                getattr(builder, f"Prepend{_SLOTS[field.type]}Slot")(slot, value, field.default)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(builder.EndObject())

    def child(self, type: str, value: Any) -> int:
        """Write what a field of this type points to."""
        if type == "string":
            return int(self.builder.CreateSharedString(value))
        if type in TABLES:
            return self.table(type, value)
        element = type.strip("[]")
        if element in SCALARS:
            data = (
                np.frombuffer(value, np.uint8)
                if isinstance(value, bytes)
                else np.array(value, _NUMPY[element])
            )
            return int(self.builder.CreateNumpyVector(data))
        if element in STRUCTS:
            return self.structs(element, value)
        return self.offsets([self.child(element, item) for item in value])

    def offsets(self, offsets: Sequence[int]) -> int:
        return self.vector(4, 4, offsets, self.builder.PrependUOffsetTRelative)

    def structs(self, name: str, items: Sequence[tuple[int, ...]]) -> int:
        types = list(field_types(STRUCTS[name]).values())
        layout = struct.Struct("<" + "".join(SCALARS[t] for t in types))
        width = struct.calcsize(SCALARS[types[0]])
        prepend = self.builder.PrependUint32 if width == 4 else self.builder.PrependUint64

        def write(item: tuple[int, ...]) -> None:
            self.builder.Prep(width, layout.size)
            for number in reversed(item):
                prepend(number)

        return self.vector(layout.size, width, items, write)

    def vector(
        self, size: int, alignment: int, items: Sequence[Any], write: Callable[[Any], None]
    ) -> int:
        self.builder.StartVector(size, len(items), alignment)
        for item in reversed(items):
            write(item)
        return int(self.builder.EndVector())
