"""Long lists of numbers and texts in attributes, read from protobuf's wire format as arrays.

A list that is not packed is a run of fields of one number: four bytes after each tag, a
variable-length number, or a text of less than 128 bytes. A run is read up to the first field that
is none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from infuse.mapped import give_back
from infuse.ops.domains.ml import narrowed

Array = npt.NDArray[Any]

FLOATS, INTS, TEXTS = 7, 8, 9
"""The fields of an AttributeProto that are lists of numbers or texts."""
_CHUNK: Final = 1 << 17  # bytes that are read at once: what that needs stays in the cache
_FIXED, _VARINT, _BYTES = 5, 0, 2
_LONGEST: Final = 10  # bytes of a number
_DISTINCT: Final = 16  # texts that are looked for in all rows
_LONG_TEXT: Final = 0x80  # bytes from which on a length has two bytes itself


class Run(NamedTuple):
    """Elements, and the position after them."""

    elements: Array | tuple[str, ...]
    end: int


def read_run(data: memoryview, number: int, start: int, end: int) -> Run:
    """The elements of the run of fields `number` that begins at `start`: float32, the smallest
    integers that have them all, or texts; none where it is none of these.
    """
    parts, position = list[Any](), start
    while position < end:
        chunk = np.frombuffer(data[position : min(position + _CHUNK, end)], np.uint8)
        elements, length = _READERS[number](chunk)
        if not length:
            break
        parts.append(elements if number == TEXTS else _thin(elements))
        position += length
        give_back(chunk)
    if number == TEXTS:
        return Run(tuple(chain.from_iterable(parts)), position)
    return Run(_joined(parts, np.float32 if number == FLOATS else np.int8), position)


def _thin(numbers: Array) -> Array:
    """The same numbers; in the memory of one where all have the same bits."""
    return np.broadcast_to(numbers[:1], numbers.shape) if _are_one(numbers) else numbers


def _are_one(numbers: Array) -> bool:
    bits = numbers.view(f"u{numbers.itemsize}")
    return bits.size > 0 and bool((bits == bits[0]).all())


def _joined(parts: list[Array], dtype: Any) -> Array:
    """All numbers of some parts, which are thin; so is the result, which may be read-only."""
    if not parts:
        return np.empty(0, dtype)
    firsts = np.concatenate([part[:1] for part in parts])
    if _are_one(firsts) and all(part.strides == (0,) or len(part) == 1 for part in parts):
        return np.broadcast_to(firsts[:1], (sum(map(len, parts)),))
    return np.concatenate(parts)


def read_packed(data: memoryview, number: int) -> Array | None:
    """The numbers of a packed list: float32, or the smallest integers that have them all; None
    where it is none.
    """
    if number == FLOATS:
        return None if len(data) % 4 else np.frombuffer(data, "<f4").astype(np.float32, copy=False)
    whole = np.frombuffer(data, np.uint8)
    parts, position = [], 0
    while position < len(whole):
        ends = np.flatnonzero(whole[position : position + _CHUNK] < 0x80) + position
        if not ends.size:
            return None
        starts = np.concatenate([[position], ends[:-1] + 1])
        values = _numbers(whole, starts, ends + 1)
        if values is None:
            return None
        parts.append(_thin(narrowed(values)))
        give_back(whole[position : position + _CHUNK])
        position = int(ends[-1]) + 1
    return _joined(parts, np.int64)


def _floats(chunk: Array) -> tuple[Array, int]:
    whole = chunk[: len(chunk) // 5 * 5].reshape(-1, 5)
    count = _leading(whole[:, 0] == (FLOATS << 3 | _FIXED))
    return whole[:count, 1:].copy().view("<f4").reshape(-1).astype(np.float32), count * 5


def _ints(chunk: Array) -> tuple[Array, int]:
    pairs = chunk[: len(chunk) // 2 * 2].reshape(-1, 2)
    if (pairs[:, 0] == (INTS << 3 | _VARINT)).all() and (pairs[:, 1] < 0x80).all():
        return pairs[:, 1].astype(np.int8), pairs.size
    # Every second byte below 128 is a tag: it has one byte, as those of all fields below 16 do.
    last = np.flatnonzero(chunk < 0x80)
    ends = last[: len(last) // 2 * 2].reshape(-1, 2)
    tags = np.concatenate([[0], ends[:-1, 1] + 1]) if len(ends) else np.empty(0, np.int64)
    fits = (ends[:, 0] == tags) & (chunk[tags] == (INTS << 3 | _VARINT))
    fits &= ends[:, 1] - tags <= _LONGEST
    count = _leading(fits)
    if not count:
        return np.empty(0, np.int64), 0
    values = _numbers(chunk, tags[:count] + 1, ends[:count, 1] + 1)
    assert values is not None
    return narrowed(values), int(ends[count - 1, 1]) + 1


def _numbers(data: Array, starts: Array, ends: Array) -> Array | None:
    """The variable-length numbers between these positions; None where one is too long."""
    lengths = ends - starts
    if lengths.max(initial=1) > _LONGEST:
        return None
    values = (data[starts] & 0x7F).astype(np.uint64)
    for place in range(1, int(lengths.max(initial=1))):
        longer = np.flatnonzero(lengths > place)
        bits = (data[starts[longer] + place] & 0x7F).astype(np.uint64)
        values[longer] |= bits << np.uint64(7 * place)
    return values.view(np.int64)


def _texts(chunk: Array) -> tuple[list[str], int]:
    """Texts by the bytes that may be tags: where each lies behind the text of the one before, they
    are.
    """
    tag = TEXTS << 3 | _BYTES
    tags = np.flatnonzero(chunk[:-1] == tag)
    if not tags.size or tags[0]:
        return [], 0
    lengths = chunk[tags + 1].astype(np.int64)
    follows = np.concatenate([tags[1:], [len(chunk)]]) >= tags + 2 + lengths
    follows &= lengths < _LONG_TEXT
    follows[1:] &= tags[1:] == (tags + 2 + lengths)[:-1]
    count = _leading(follows)
    tags, lengths = tags[:count], lengths[:count]
    texts = np.empty(count, np.object_)
    for length in np.flatnonzero(np.bincount(lengths)):
        same = np.flatnonzero(lengths == length)
        rows = np.zeros((len(same), -(-int(length) // 8) * 8), np.uint8)
        rows[:, :length] = chunk[(tags[same] + 2)[:, None] + np.arange(length)]
        texts[same] = _decoded(rows, int(length))
    return texts.tolist(), int(tags[-1] + 2 + lengths[-1]) if count else 0


def _decoded(rows: Array, length: int) -> Array:
    """The text in the first bytes of each row; one object for equal texts, where few differ."""
    words = rows.view(np.uint64)
    texts = np.empty(len(rows), np.object_)
    left = np.arange(len(rows))
    for _ in range(_DISTINCT):
        if not left.size:
            break
        first = left[0]
        same = np.ones(len(left), bool)
        for column in range(words.shape[1]):
            same &= words[left, column] == words[first, column]
        texts[left[same]] = _text(rows[first, :length])
        left = left[~same]
    for row in left:
        texts[row] = _text(rows[row, :length])
    return texts


def _text(raw: Array) -> str:
    return raw.tobytes().decode("utf-8", "surrogateescape")


def _leading(flags: Array) -> int:
    """How many are true from the start on."""
    wrong = np.flatnonzero(~flags)
    return int(wrong[0]) if wrong.size else len(flags)


_READERS: Final[dict[int, Callable[[Array], tuple[Any, int]]]] = {
    FLOATS: _floats,
    INTS: _ints,
    TEXTS: _texts,
}
