"""A weight as bytes that are fewer: its coded form.

| bytes                      | what                                                               |
|----------------------------|--------------------------------------------------------------------|
| 16                         | 0 or the number of clusters (2 bytes), bytes of an element (2), 0  |
|                            | (4), and how many elements there are (8)                           |
| clusters · bytes           | the values of clusters, where there are any                        |
| planes                     | the clusters of all elements; or their first bytes, their second …  |

A plane begins with 8 bytes, of which the first says what follows: 0 its bytes as they are, 1 a
stream, 2 a bit for each BLOCK of symbols, whether any is not 0, and a stream of the blocks for
which it is set. A stream (`rans.py`) is 256 bits that say which symbols occur, their frequencies,
states, numbers of words and words; it ends where its numbers say. All is little-endian.

Nothing decodes to more than LARGEST times its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from infuse.errors import ModelFileError
from infuse.ir.coding import rans
from infuse.ir.coding.rans import STEPS, Stream
from infuse.ir.graph import Array

LARGEST = 1024
SMALLEST = 1024
"""Bytes from which a weight is coded: less saves nothing that counts."""
BLOCK = 16
CLUSTERS = 256
_HEADER = struct.Struct("<HHIQ")
_PLANE = struct.Struct("<B7x")
_RAW, _STREAM, _BLOCKS = range(3)
_SAMPLE = 8192
_WORTH = 0.97
"""Of its bytes: what is not smaller is left as it is, and stays mapped."""


def encoded(array: Array) -> bytes | None:
    """The coded form of a contiguous array of numbers; None where it saves less than 3 %."""
    parted = _parted(array)
    if parted is None:
        return None
    head, planes = parted
    parts = [head, *map(_plane, planes)]
    if sum(map(len, parts)) > _WORTH * array.nbytes:
        return None
    return b"".join(parts)


def coded_size(array: Array) -> float:
    """About how many bytes a coded file has for a contiguous array of numbers."""
    parted = _parted(array)
    if parted is None:
        return float(array.nbytes)
    head, planes = parted
    size = len(head) + sum(_PLANE.size + min(_sizes(*_blocks(p)).values()) for p in planes)
    return float(array.nbytes) if size > _WORTH * array.nbytes else size


def _parted(array: Array) -> tuple[bytes, list[Array]] | None:
    """The header of a coded form and its planes; None where an array is too small for one."""
    if array.nbytes < SMALLEST:
        return None
    width = array.itemsize if array.itemsize in (1, 2, 4) else 8
    if array.nbytes % width:
        return None
    elements = np.ascontiguousarray(array).reshape(-1).view(f"<u{width}")
    values = _few_values(elements) if width > 1 else None
    if values is None:
        planes = list(elements.view(np.uint8).reshape(-1, width).T)
        head = _HEADER.pack(0, width, 0, len(elements))
    else:
        planes = [np.searchsorted(values, elements).astype(np.uint8)]
        head = _HEADER.pack(len(values), width, 0, len(elements)) + values.tobytes()
    return head, [np.ascontiguousarray(plane) for plane in planes]


def _few_values(elements: Array) -> Array | None:
    """The values of elements in order, if they are few."""
    if len(np.unique(elements[:_SAMPLE])) > CLUSTERS:
        return None
    values = np.unique(elements)
    return values if len(values) <= CLUSTERS else None


def _blocks(symbols: Array) -> tuple[Array, Array, Array]:
    """Symbols, which of their blocks are not zero, and the symbols of these."""
    blocks = np.zeros((-(-len(symbols) // BLOCK), BLOCK), np.uint8)
    blocks.reshape(-1)[: len(symbols)] = symbols
    used = np.any(blocks != 0, axis=1)
    return symbols, used, blocks[used].reshape(-1)


def _sizes(symbols: Array, used: Array, rest: Array) -> dict[int, float]:
    """About how many bytes each form of symbols takes."""
    return {
        _RAW: float(len(symbols)),
        _STREAM: _stream_size(symbols),
        _BLOCKS: len(used) / 8 + _stream_size(rest),
    }


def _plane(symbols: Array) -> bytes:
    """The smallest form of symbols."""
    symbols, used, rest = _blocks(symbols)
    sizes = _sizes(symbols, used, rest)
    form = min(sizes, key=lambda form: (sizes[form], form))
    if form == _RAW:
        return _PLANE.pack(form) + symbols.tobytes()
    if form == _STREAM:
        return _PLANE.pack(form) + _stream(symbols)
    return _PLANE.pack(form) + np.packbits(used).tobytes() + _stream(rest)


def _stream_size(symbols: Array) -> float:
    """About how many bytes a stream takes."""
    if not len(symbols):
        return 0.0
    counts = np.bincount(symbols, minlength=256)
    share = rans.frequencies_of(counts)[counts > 0] / rans.TOTAL
    bits = -float(np.dot(counts[counts > 0], np.log2(share)))
    return bits / 8 + 32 + 2 * int(np.count_nonzero(counts)) + 5 * -(-len(symbols) // STEPS)


def _stream(symbols: Array) -> bytes:
    if not len(symbols):
        return b""
    stream = rans.encoded(symbols)
    used = stream.frequencies > 0
    parts = (
        np.packbits(used),
        stream.frequencies[used].astype("<u2"),
        stream.states.astype("<u4"),
        stream.counts.astype("<u2"),
        stream.words.astype("<u2"),
    )
    return b"".join(part.tobytes() for part in parts)


# -- decoding --------------------------------------------------------------------------------------


@dataclass
class _Plane:
    """`size` symbols: those of `raw`, or of a stream, whose blocks lie where `used` says."""

    size: int
    raw: Array | None = None
    stream: Stream | None = None
    used: Array | None = None

    def symbols(self, decoded: Array | None) -> Array:
        """The symbols [size], with those of the stream."""
        if self.raw is not None:
            return self.raw
        if self.used is None:
            assert decoded is not None
            return decoded[: self.size]
        blocks = np.zeros((len(self.used), BLOCK), np.uint8)
        if decoded is not None:
            count = int(self.used.sum())
            blocks[self.used] = decoded[: count * BLOCK].reshape(count, BLOCK)
        return blocks.reshape(-1)[: self.size]


@dataclass
class _Weight:
    """The parts of a coded form."""

    width: int
    count: int
    values: Array | None
    planes: list[_Plane]

    def content(self, symbols: Sequence[Array]) -> Array:
        """The bytes of the weight, from the symbols of its planes."""
        if self.values is not None:
            (clusters,) = symbols
            if len(clusters) and int(clusters.max()) >= len(self.values):
                _fail("an element of a coded weight is in no cluster")
            return self.values.take(clusters).view(np.uint8)
        if self.width == 1:
            return np.ascontiguousarray(symbols[0])
        result = np.empty((self.count, self.width), np.uint8)
        for position, plane in enumerate(symbols):
            result[:, position] = plane
        return result.reshape(-1)


def decoded(forms: Sequence[Array]) -> list[Array]:
    """The bytes of weights, read-only uint8 [n], from their coded forms; all streams together.

    ModelFileError where a form contradicts itself; nothing larger than LARGEST times the forms is
    made.
    """
    weights = [_parsed(form) for form in forms]
    streams = [p.stream for weight in weights for p in weight.planes if p.stream is not None]
    coded = iter(rans.decoded(streams))
    results = []
    for weight in weights:
        symbols = [
            plane.symbols(None if plane.stream is None else next(coded)) for plane in weight.planes
        ]
        content = weight.content(symbols)
        content.flags.writeable = False
        results.append(content)
    return results


def _parsed(form: Array) -> _Weight:
    reader = _Bytes(form)
    clusters, width, zero, count = _HEADER.unpack(reader.take(_HEADER.size).data)
    if width not in (1, 2, 4, 8) or clusters > CLUSTERS or zero or (clusters and width == 1):
        _fail("the header of a coded weight contradicts itself")
    values = reader.take(clusters * width).view(f"<u{width}") if clusters else None
    planes = [_parsed_plane(reader, count) for _ in range(1 if clusters else width)]
    if reader.place != len(form):
        _fail("a coded weight is longer than its parts")
    return _Weight(width, count, values, planes)


def _parsed_plane(reader: _Bytes, size: int) -> _Plane:
    (form,) = _PLANE.unpack(reader.take(_PLANE.size).data)
    if form == _RAW:
        return _Plane(size, raw=reader.take(size))
    if form == _STREAM:
        return _Plane(size, stream=_parsed_stream(reader, size))
    if form != _BLOCKS:
        _fail(f"a plane of a coded weight has the form {form}")
    blocks = -(-size // BLOCK)
    used = np.unpackbits(reader.take(-(-blocks // 8)), count=blocks).astype(bool)
    count = BLOCK * int(used.sum())
    return _Plane(size, stream=_parsed_stream(reader, count) if count else None, used=used)


def _parsed_stream(reader: _Bytes, size: int) -> Stream:
    lanes = -(-size // STEPS)
    if not lanes:
        _fail("a coded weight has a stream of nothing")
    used = np.unpackbits(reader.take(32)).astype(bool)
    frequencies = np.zeros(256, np.uint16)
    frequencies[used] = reader.take(2 * int(used.sum())).view("<u2")
    states = reader.take(4 * lanes).view("<u4")
    counts = reader.take(2 * lanes).view("<u2")
    if counts.max() > STEPS:
        _fail("a lane of a coded weight has more words than symbols")
    words = reader.take(2 * int(counts.sum(dtype=np.int64))).view("<u2")
    return Stream(frequencies, states, counts, words)


class _Bytes:
    """The bytes of a form, from first to last."""

    def __init__(self, form: Array) -> None:
        self.form = form
        self.place = 0

    def take(self, count: int) -> Array:
        """The next bytes; ModelFileError where there are not so many."""
        end = self.place + count
        if end > len(self.form):
            _fail("a coded weight is cut off")
        part = self.form[self.place : end]
        self.place = end
        return part


def _fail(what: str) -> NoReturn:
    raise ModelFileError(what, hint="the file is damaged or was not written by Infuse")
