"""The part of the wire format of protocol buffers that is read and written by hand, so that tensors
are not copied.

A message is a row of fields: a tag (number · 8 + kind) and a value, whose kind is 0 (a varint), 1
(8 bytes), 2 (a length and so many bytes), 3 and 4 (around a group of fields) or 5 (4 bytes). The
order of fields with different numbers has no meaning.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from infuse.errors import RequestError
from infuse.serving.transports.limits import MOST_TENSORS

MOST_FIELDS: Final = 1 << 14
"""Fields of a message for inference, those of its parts left out."""
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_GROUPS: Final = {3: 1, 4: -1}  # where one begins, and where it ends
_MOST_KIND: Final = 5


class Split(NamedTuple):
    """A message in two: `rest` are views of all that is not a field of the number that was asked
    for, and `size` the bytes of it; `fields` are views of those. `name` is the last field of the
    number that names something.
    """

    rest: list[memoryview]
    size: int
    fields: list[memoryview]
    name: memoryview


def split(data: bytes, number: int, naming: int = 1) -> Split:
    """Take the fields `number`, which are bytes, out of a message. RequestError when it is cut off,
    or has too many.
    """
    view, end, start, position = memoryview(data), len(data), 0, 0
    rest: list[memoryview] = []
    pieces: list[memoryview] = []
    name = view[:0]
    fields = depth = size = 0
    while position < end:
        before = position
        fields += 1
        if fields > MOST_FIELDS:
            raise RequestError(f"the message has more than {MOST_FIELDS} fields")
        tag = data[position]  # mostly a byte, as lengths are
        position += 1
        if tag > 127:
            tag, position = _varint(data, position - 1)
        kind = tag & 7
        if kind == _BYTES:
            length = data[position] if position < end else 128
            position += 1
            if length > 127:
                length, position = _varint(data, position - 1)
            first, position = position, position + length
            if depth or position > end:
                continue
            if tag >> 3 == number:
                if len(pieces) == MOST_TENSORS:
                    raise RequestError(f"the message has more than {MOST_TENSORS} tensors")
                pieces.append(view[first:position])
                rest.append(view[start:before])
                size += before - start
                start = position
            elif tag >> 3 == naming:
                name = view[first:position]
        elif kind == 0:
            _, position = _varint(data, position)
        elif kind in _FIXED:
            position += _FIXED[kind]
        elif kind in _GROUPS:
            depth += _GROUPS[kind]
        if kind > _MOST_KIND or depth < 0:
            raise RequestError("the message has a field of no kind that there is")
    if position > end or depth:
        raise RequestError("the message is cut off")
    rest.append(view[start:end])
    return Split(rest, size + end - start, pieces, name)


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
