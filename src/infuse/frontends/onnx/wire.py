"""Protobuf's wire format, read only far enough to take large tensors and lists out of a model.

`split` walks a serialized ModelProto and returns a small copy of it in which the elements of every
large tensor and of every long list of an attribute are replaced by a ticket. Those of tensors stay
where they are and come back as memory views, those of lists come back as arrays. A model whose
weights lie in the file is so opened at the cost of its structure alone, and may be larger than the
2 GB that protobuf can parse.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from onnx import AttributeProto

from infuse.errors import ModelFileError
from infuse.frontends.onnx.lists import FLOATS, INTS, TEXTS, Array, read_packed, read_run

LARGE: Final = 1024
"""Elements from this many bytes on are left where they are."""
LIMIT: Final = 2**31 - 1
"""What protobuf can parse."""
_DEPTH: Final = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA = 9, 4, 10
_TEXT, _TYPE = 4, 20
_LONG: Final = 1 << 14
"""Bytes of an attribute from which on its list is left out."""
_LISTS: Final = {
    FLOATS: (AttributeProto.FLOATS, _FIXED32),
    INTS: (AttributeProto.INTS, _VARINT),
    TEXTS: (AttributeProto.STRINGS, _BYTES),
}
"""The type of an attribute that has this list, and the wire type of its elements."""

_INSIDE: Final[dict[str, dict[int, str]]] = {
    "Model": {7: "Graph", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 15: "Sparse"},
    "Function": {7: "Node"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
}


class Field(NamedTuple):
    """One field of a message: its number and wire type, where it begins, and where its payload
    lies.
    """

    number: int
    wire: int
    begin: int
    start: int
    end: int


@dataclass
class Payloads:
    """The elements taken out of a model; `take` turns a tensor's raw_data into what it stands for,
    `take_list` the text of an attribute of a list type.
    """

    views: list[memoryview] = field(default_factory=list)
    lists: list[Array | tuple[str, ...]] = field(default_factory=list)
    mark: bytes = field(default_factory=lambda: b"infuse" + secrets.token_bytes(18))

    def leave(self, view: memoryview) -> bytes:
        """Remember `view`; the ticket for it."""
        self.views.append(view)
        return self.mark + (len(self.views) - 1).to_bytes(8, "little")

    def take(self, raw: bytes) -> bytes | memoryview:
        """The elements that a ticket stands for, or `raw` itself."""
        if len(raw) == len(self.mark) + 8 and raw.startswith(self.mark):
            return self.views[int.from_bytes(raw[-8:], "little")]
        return raw

    def leave_list(self, elements: Array | tuple[str, ...]) -> bytes:
        """Remember `elements`; the ticket for them."""
        self.lists.append(elements)
        return self.mark + (len(self.lists) - 1).to_bytes(8, "little")

    def take_list(self, text: bytes) -> Array | tuple[str, ...] | None:
        """The list that a ticket stands for: numbers or texts; None where it is no ticket."""
        if len(text) == len(self.mark) + 8 and text.startswith(self.mark):
            return self.lists[int.from_bytes(text[-8:], "little")]
        return None


def split(data: memoryview, where: str) -> tuple[bytes, Payloads]:
    """A serialized ModelProto without its large tensors, and those tensors' elements.

    ModelFileError when the bytes are not a protobuf message or are cut off; `where` names them in
    the error.
    """
    splitter = _Splitter(data, where)
    chunks: list[memoryview | bytes] = []
    size = splitter.message("Model", 0, len(data), chunks, 0)
    if size > LIMIT:
        raise ModelFileError(
            f"the model's structure takes {size} bytes without its large tensors; protobuf reads "
            f"at most {LIMIT}",
            where=where,
        )
    return b"".join(chunks), splitter.payloads


class _Splitter:
    def __init__(self, data: memoryview, where: str) -> None:
        self.data, self.where = data, where
        self.payloads = Payloads()

    def message(
        self, kind: str, start: int, end: int, out: list[memoryview | bytes], depth: int
    ) -> int:
        """Append the reduced message to `out`; its size."""
        if depth > _DEPTH:
            raise ModelFileError(f"messages are nested more than {_DEPTH} deep", where=self.where)
        if kind == "Attribute" and end - start >= _LONG:
            length = self.listed(start, end, out)
            if length:
                return length
        inside = _INSIDE[kind]
        size, copied = 0, start
        for item in self.fields(start, end):
            deeper = inside.get(item.number)
            if deeper is None or item.end - item.start < LARGE or item.wire != _BYTES:
                continue
            parts: list[memoryview | bytes] = []
            if deeper == "Tensor":
                length = self.tensor(item.start, item.end, parts)
            else:
                length = self.message(deeper, item.start, item.end, parts, depth + 1)
            if length == item.end - item.start:
                continue
            head = _varint(item.number << 3 | _BYTES) + _varint(length)
            out += [self.data[copied : item.begin], head, *parts]
            size += item.begin - copied + len(head) + length
            copied = item.end
        out.append(self.data[copied:end])
        return size + end - copied

    def listed(self, start: int, end: int, out: list[memoryview | bytes]) -> int:
        """Append the attribute with a ticket in place of its list; its size. 0, and nothing
        appended, where it has none that is one run of fields.
        """
        data, items = self.data, self.fields(start, end)
        first = next((f for f in items if f.number in (*_LISTS, 5, 6, 10, 11, 22, 23)), None)
        if first is None or first.number not in _LISTS:
            return 0
        kind, wire = _LISTS[first.number]
        if first.wire == wire:
            elements, after = read_run(data, first.number, first.begin, end)
        elif first.wire == _BYTES:
            packed = read_packed(data[first.start : first.end], first.number)
            if packed is None:
                return 0
            elements, after = packed, first.end
        else:
            return 0
        if after - first.begin < _LONG:
            return 0
        before, rest = list(self.fields(start, first.begin)), list(self.fields(after, end))
        if any(f.number in (*_LISTS, _TEXT) for f in before + rest):
            return 0
        if [data[f.start] for f in before + rest if f.number == _TYPE] != [kind]:
            return 0
        ticket = self.payloads.leave_list(elements)
        head = _varint(_TEXT << 3 | _BYTES) + _varint(len(ticket))
        out += [data[start : first.begin], head, ticket, data[after:end]]
        return (first.begin - start) + len(head) + len(ticket) + (end - after)

    def tensor(self, start: int, end: int, out: list[memoryview | bytes]) -> int:
        """Append the tensor to `out`, with a ticket in place of large elements; its size."""
        fields = list(self.fields(start, end))
        elements = [f for f in fields if f.number in (_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA)]
        if (
            len(elements) != 1
            or elements[0].wire != _BYTES
            or elements[0].end - elements[0].start < LARGE
        ):
            out.append(self.data[start:end])
            return end - start
        field = elements[0]
        ticket = self.payloads.leave(self.data[field.start : field.end])
        head = _varint(_RAW_DATA << 3 | _BYTES) + _varint(len(ticket))
        out += [self.data[start : field.begin], head, ticket, self.data[field.end : end]]
        return (field.begin - start) + len(head) + len(ticket) + (end - field.end)

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """The fields of the message between two positions."""
        data, position = self.data, start
        while position < end:
            begin = position
            tag = data[position]
            position += 1
            if tag >= 0x80:
                tag, position = self.varint(begin, end)
            wire = tag & 7
            if wire == _BYTES:
                length = data[position] if position < end else 0x80
                position += 1
                if length >= 0x80:
                    length, position = self.varint(position - 1, end)
                stop = position + length
            elif wire == _VARINT:
                _, stop = self.varint(position, end)
            elif wire in (_FIXED32, _FIXED64):
                stop = position + (4 if wire == _FIXED32 else 8)
            else:
                raise self.malformed(begin)
            if tag < 8:
                raise self.malformed(begin)
            if stop > end:
                raise self.cut_off(begin, stop - end, end)
            yield Field(tag >> 3, wire, begin, position, stop)
            position = stop

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """A variable-length number and where it ends."""
        value = shift = 0
        for at in range(position, min(position + 10, end)):
            byte = self.data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at + 1
            shift += 7
        raise self.malformed(position) if position + 10 <= end else self.cut_off(position, 1, end)

    def malformed(self, position: int) -> ModelFileError:
        return ModelFileError(
            f"the bytes at position {position} are not a protobuf message", where=self.where
        )

    def cut_off(self, position: int, missing: int, end: int) -> ModelFileError:
        whole = end == len(self.data)
        return ModelFileError(
            f"the field at byte {position} reaches {missing} bytes past the end of "
            + (f"the file, which has {end} bytes" if whole else f"its message at byte {end}"),
            where=self.where,
            hint="the file was cut off or damaged; fetch or export it again" if whole else None,
        )


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
