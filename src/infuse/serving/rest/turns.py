"""Large JSON, read and written so that other requests get their turn meanwhile.

Reading a megabyte of numbers takes milliseconds, in which the loop that answers everybody would stand still. A thread
alone does not help: one call of the reader keeps Python's lock for all of a list. So lists of numbers are read, and
answers are written, in pieces, between which the loop goes on. Texts and lists with NaN or infinities are read by a
thread, one request at a time: there Python's own code does most of the work, and it gives the lock away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from infuse.errors import TooLargeError
from infuse.runtime.session import Array
from infuse.serving import elements
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY
from infuse.serving.elements import Buffer
from infuse.serving.messages import InferRequest, InferResponse, Tensor
from infuse.serving.rest import codec

_T = TypeVar("_T")

MOST_FIELDS: Final = 1 << 19
"""Colons of large JSON, in texts as well: reading fields cannot be cut into pieces."""
LARGE: Final = 256 << 10  # bytes of JSON, from which it is read by turns
MANY: Final = 16 << 10  # elements of an output, from which it is written by turns
_PIECE: Final = 128 << 10  # bytes
_VALUES: Final = 8 << 10


class Turns:
    """Reads requests and writes answers of an application."""

    def __init__(self) -> None:
        self._thread = asyncio.Semaphore(1)

    async def decode(self, body: Buffer, length: int | None, model: str, version: str = "") -> InferRequest:
        """As `codec.decode`."""
        head = codec.head_of(body, length)
        if bytes(head).count(b":") > MOST_FIELDS:
            raise TooLargeError(f"the JSON has more than {MOST_FIELDS} fields", hint="send texts as binary data")
        message = codec.read(head)
        if message is None:
            return await self._apart(lambda: codec.request_of(codec.loose(head), body, len(head), model, version))
        arrays: dict[int, Array] = {}
        for number, item in enumerate(message.inputs):
            if isinstance(item.data, msgspec.Raw) and len(memoryview(item.data)) > LARGE:
                await asyncio.sleep(0)
                arrays[number] = await self._array(item.name, item.datatype, item.shape, item.data)
        return codec.request_of(message, body, len(head), model, version, arrays)

    async def encode(
        self, request: InferRequest, response: InferResponse
    ) -> tuple[int | None, list[bytes | memoryview]]:
        """As `codec.encode`."""
        texts: dict[str, msgspec.Raw] = {}
        for tensor in codec.written_as_json(request, response):
            if tensor.data.size > MANY:
                texts[tensor.name] = await _written(tensor)
        return codec.encode(request, response, texts)

    async def _array(self, name: str, datatype: str, shape: Sequence[int], data: msgspec.Raw) -> Array:
        count = elements.check(name, datatype, shape)
        depth = elements.depth_of(data)
        if datatype in RAW_ONLY or not count or depth not in (1, len(shape)):
            return elements.from_json(name, datatype, shape, data)  # at most an error
        if datatype == BYTES:
            return await self._apart(lambda: elements.from_json(name, datatype, shape, data))
        return await _numbers(name, datatype, shape, depth, data)

    async def _apart(self, work: Callable[[], _T]) -> _T:
        async with self._thread:
            return await asyncio.to_thread(work)


async def _numbers(name: str, datatype: str, shape: Sequence[int], depth: int, data: msgspec.Raw) -> Array:
    """`elements.from_json` of a list of numbers, piece by piece."""
    count = elements.check(name, datatype, shape)
    nesting = _Nesting(name, shape if depth > 1 else ())
    found = bytearray()
    before = 0
    for piece, after in _pieces(memoryview(data)):
        whole = msgspec.Raw(b"[" * before + piece + b"]" * after)
        values = nesting.flattened(elements.values_of(name, datatype, depth, whole), before, after)
        found += elements.packed(name, datatype, values)
        before = after
        await asyncio.sleep(0)
    array = np.frombuffer(found, NUMPY[datatype])
    if len(array) != count:
        raise elements.wrong_number(name, shape, count, len(array))
    return array.reshape(shape)


def _pieces(view: memoryview) -> Iterator[tuple[bytes, int]]:
    """A list of numbers in pieces, cut at commas, which are left out; and how many lists are open behind each."""
    start = depth = 0
    while start < len(view):
        piece = bytes(view[start : start + _PIECE])
        cut = piece.rfind(b",")
        if start + _PIECE >= len(view) or cut < 0:
            yield bytes(view[start:]), 0
            return
        piece = piece[:cut]
        depth += piece.count(b"[") - piece.count(b"]")
        yield piece, depth
        start += cut + 1


class _Nesting:
    """The lists of a tensor, which come in pieces, against its shape; without sizes, nothing is checked."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self.name = name
        self.shape = shape
        self.counts = [0] * len(shape)  # elements of the lists that are open, the outermost first

    def flattened(self, values: list[Any], before: int, after: int) -> list[Any]:
        """The numbers of a piece; `before` and `after` lists are open at its beginning and at its end."""
        lists = [values]
        for level, size in enumerate(self.shape):
            counts = [len(part) for part in lists]
            if level < before:
                counts[0] += self.counts[level] - (level < before - 1)  # an open list inside it is counted already
            if level < after:
                self.counts[level] = counts.pop()
            if any(count != size for count in counts):
                raise elements.unlike(self.name)
            lists = list(chain.from_iterable(lists))
        return lists if self.shape else values


async def _written(tensor: Tensor) -> msgspec.Raw:
    """`elements.to_json`, piece by piece."""
    flat = tensor.data.reshape(-1)
    parts = []
    for start in range(0, len(flat), _VALUES):
        text = elements.to_json(tensor.name, flat[start : start + _VALUES], tensor.datatype)
        parts.append(memoryview(text)[1:-1])
        await asyncio.sleep(0)
    return msgspec.Raw(b"".join((b"[", b",".join(parts), b"]")))
