"""The part of the wire format of protocol buffers that is read and written by hand, so that tensors are not copied.

A message is a row of fields: a tag (number · 8 + kind) and a value, whose kind is 0 (a varint), 1 (8 bytes), 2 (a
length and so many bytes) or 5 (4 bytes). The order of fields with different numbers has no meaning.
"""

from __future__ import annotations

from typing import Final

from infuse.errors import RequestError

MOST_FIELDS: Final = 1 << 14
"""Fields of a message for inference, those of its parts left out."""
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}


def split(data: bytes, number: int) -> tuple[bytes, list[memoryview]] | None:
    """A message without its fields `number`, and those fields, which are bytes, as views of it.

    None when the message holds what this does not know (groups); RequestError when it is cut off.
    """
    view, end, start, position = memoryview(data), len(data), 0, 0
    rest: list[memoryview] = []
    found: list[memoryview] = []
    fields = 0
    while position < end:
        before = position
        fields += 1
        if fields > MOST_FIELDS:
            raise RequestError(f"the message has more than {MOST_FIELDS} fields")
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _BYTES:
            size, position = _varint(data, position)
            first, position = position, position + size
            if tag >> 3 == number and position <= end:
                found.append(view[first:position])
                rest.append(view[start:before])
                start = position
        elif kind == 0:
            _, position = _varint(data, position)
        elif kind in _FIXED:
            position += _FIXED[kind]
        else:
            return None
    if position > end:
        raise RequestError("the message is cut off")
    rest.append(view[start:end])
    return b"".join(rest), found


def field(number: int, size: int) -> bytes:
    """What comes before the `size` bytes of the field `number`."""
    head = number << 3 | _BYTES
    if size < 128 and head < 128:
        return bytes((head, size))
    return varint(head) + varint(size)


def varint(value: int) -> bytes:
    """A natural number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while shift < 70:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, position
            shift += 7
    except IndexError:
        raise RequestError("the message is cut off") from None
    raise RequestError("a number of the message has more than 64 bits")
