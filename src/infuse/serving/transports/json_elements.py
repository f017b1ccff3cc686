"""The elements of tensors as JSON: lists of numbers and texts, flat or nested."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import GenericAlias
from typing import Final, TypeAlias

import msgspec
import numpy as np

from infuse.errors import RequestError
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY
from infuse.serving.messages import JSON
from infuse.serving.transports.elements import MOST_DIMENSIONS, check, check_texts, texts_array

_CODES: Final[Mapping[str, str]] = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP32": "f",
    "FP64": "d",
}
_Element: TypeAlias = bool | int | float | str
_Nested: TypeAlias = "_Element | list[_Nested]"
_ELEMENTS: Final[Mapping[str, type[_Element]]] = {BYTES: str, "BOOL": bool}
_WHITESPACE: Final = b" \t\r\n"
_MOST_TOGETHER: Final = 1 << 16  # elements of which Python makes objects at a time


def from_json(name: str, datatype: str, shape: Sequence[int], data: msgspec.Raw | JSON) -> Array:
    """The tensor whose elements are JSON (raw, or lists already): flat, or nested as the shape is.

    RequestError for elements of another type, out of range, of another number, or nested otherwise.
    """
    count = check(name, datatype, shape)
    if datatype == BYTES:
        check_texts(name, count)
    if datatype in RAW_ONLY:
        raise RequestError(
            f"{datatype} has no form in JSON",
            where=f"input {name!r}",
            hint="send it as binary data (binary_data_size)",
        )
    depth = _depth_of(data)
    rank = len(shape)
    ends = list(shape).index(0) + 1 if count == 0 else rank  # lists of no lists end the nesting
    if depth not in (1, rank, ends):
        raise RequestError(
            f"its data is nested {depth} deep, its shape {list(shape)} {rank}",
            where=f"input {name!r}",
        )
    values = _flattened(name, _values_of(name, datatype, depth, data), depth, shape)
    if len(values) != count:
        raise _wrong_number(name, shape, count, len(values))
    return _array(name, datatype, values).reshape(shape)


def _wrong_number(name: str, shape: Sequence[int], count: int, actual: int) -> RequestError:
    """The error of a tensor that does not have as many elements as its shape."""
    what = f"its shape {list(shape)} needs {count} elements, but {actual} are given"
    return RequestError(what, where=f"input {name!r}")


def _depth_of(data: msgspec.Raw | JSON) -> int:
    """How many lists are around the first element."""
    depth = 0
    if isinstance(data, msgspec.Raw):
        for byte in memoryview(data):
            if byte == ord("["):
                depth += 1
            elif byte not in _WHITESPACE:
                break
            if depth > MOST_DIMENSIONS:
                break
        return depth
    while isinstance(data, list):
        depth += 1
        if not data or depth > MOST_DIMENSIONS:
            break
        data = data[0]
    return depth


def _values_of(name: str, datatype: str, depth: int, data: msgspec.Raw | JSON) -> _Nested:
    """The elements of a datatype in so many lists around each; RequestError when they are
    others.
    """
    try:
        if isinstance(data, msgspec.Raw):
            return _decoder(datatype, depth).decode(data)
        return msgspec.convert(data, _type(datatype, depth))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(
            f"its data is not {datatype}: {error}", where=f"input {name!r}"
        ) from error


@lru_cache(maxsize=512)
def _decoder(datatype: str, depth: int) -> msgspec.json.Decoder[_Nested]:
    return msgspec.json.Decoder(_type(datatype, depth))


def _type(datatype: str, depth: int) -> type[_Nested] | GenericAlias:
    """The type of elements in so many lists around each."""
    kind: type[_Element] | GenericAlias = _ELEMENTS.get(datatype) or (
        float if datatype[0] == "F" else int
    )
    for _ in range(depth):
        kind = GenericAlias(list, (kind,))
    return kind


def _flattened(name: str, values: _Nested, depth: int, shape: Sequence[int]) -> list[_Nested]:
    """The elements in `depth` lists around each, which have the sizes of a shape where they are
    nested.
    """
    level: list[_Nested] = [values]
    for size in shape[:depth] if depth > 1 else [None] * depth:
        lists = [part for part in level if isinstance(part, list)]
        if size is not None and any(len(part) != size for part in lists):
            raise _unlike(name)
        level = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
    return level


def _unlike(name: str) -> RequestError:
    """The error of a tensor whose lists do not have the sizes of its shape."""
    return RequestError("its data is not nested as its shape is", where=f"input {name!r}")


def _array(name: str, datatype: str, values: Sequence[_Nested]) -> Array:
    if datatype == BYTES:
        try:
            return texts_array([str(value).encode() for value in values], (len(values),))
        except UnicodeEncodeError as error:
            raise RequestError(
                f"its data is not Unicode text: {error.reason}", where=f"input {name!r}"
            ) from error
    return np.frombuffer(_packed(name, datatype, values), NUMPY[datatype])


def _packed(name: str, datatype: str, values: Sequence[_Nested]) -> bytes:
    """Numbers as the elements of a datatype; RequestError when one is out of its range."""
    try:
        return struct.pack(f"<{len(values)}{_CODES[datatype]}", *values)
    except (struct.error, OverflowError) as error:
        raise RequestError(
            f"an element is out of the range of {datatype}", where=f"input {name!r}"
        ) from error


def to_json(name: str, array: Array, datatype: str) -> msgspec.Raw:
    """An array's elements as a flat JSON list; NaN and infinities as `NaN`, `Infinity` and
    `-Infinity`.

    RequestError for a type that JSON has no form of, and for BYTES that are no UTF-8.
    """
    if datatype in RAW_ONLY:
        raise RequestError(
            f"{datatype} has no form in JSON",
            where=f"output {name!r}",
            hint="ask for it with binary_data: true",
        )
    values = array.reshape(-1)
    if datatype == BYTES:
        try:
            return msgspec.Raw(
                msgspec.json.encode([element.decode() for element in values.tolist()])
            )
        except UnicodeDecodeError as error:
            raise RequestError(
                "its elements are not UTF-8 text",
                where=f"output {name!r}",
                hint="ask for it with binary_data: true",
            ) from error
    text = bytearray(b"[")
    for start in range(0, len(values), _MOST_TOGETHER):
        part = values[start : start + _MOST_TOGETHER]
        numbers = msgspec.json.encode(part.tolist())[1:-1]
        if datatype[0] == "F" and not np.isfinite(part).all():
            numbers = _with_literals(numbers, part)
        text += b"," if start else b""
        text += numbers
    text += b"]"
    return msgspec.Raw(text)


def _with_literals(text: bytes, values: Array) -> bytes:
    """Numbers and the commas between them, with the names of those that JSON has none for."""
    numbers = text.split(b",")
    for place in np.flatnonzero(~np.isfinite(values)).tolist():
        value = values[place]
        numbers[place] = b"NaN" if np.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"
    return b",".join(numbers)
