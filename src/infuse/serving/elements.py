"""The elements of tensors: between arrays and JSON, and between arrays and the binary tensor
extension's bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any, Final

import msgspec
import numpy as np

from infuse.errors import RequestError, TooLargeError, UnsupportedRequestError
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY, pack_bytes, unpack_bytes
from infuse.serving.messages import Tensor
from infuse.serving.plain import JsonObject

Buffer = bytes | bytearray | memoryview

# Both NumPy's limits, so that no shape reaches it that it would refuse.
MOST_DIMENSIONS: Final = 32
_MOST_BYTES: Final = 1 << 62
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
MOST_TENSORS: Final = 4096
"""Inputs, or outputs, of one request."""
MOST_NAME: Final = 4096
"""Characters of the name of a tensor."""
MOST_PARAMETERS: Final = 4096
"""Parameters of one request, those of its tensors included."""
MOST_TEXT: Final = 1 << 16
"""Characters of a parameter that is a text."""
MOST_TEXTS: Final = 1 << 20
"""Elements of BYTES in one tensor."""
_WHITESPACE: Final = b" \t\r\n"
_INTEGERS: Final = range(-(1 << 63), 1 << 64)


def check(name: str, datatype: str, shape: Sequence[int]) -> int:
    """How many elements a tensor of this type and shape has; RequestError for what no tensor can
    be.
    """
    dtype = NUMPY.get(datatype)
    if dtype is None:
        raise RequestError(
            f"{datatype!r} is no datatype",
            where=f"input {name!r}",
            hint=f"use one of {', '.join(NUMPY)}",
        )
    if len(shape) > MOST_DIMENSIONS:
        raise RequestError(
            f"it has {len(shape)} dimensions, at most {MOST_DIMENSIONS} are taken",
            where=f"input {name!r}",
        )
    count = 1
    extent = dtype.itemsize
    for size in shape:
        if size < 0:
            raise RequestError(
                f"its shape {list(shape)} has a negative size", where=f"input {name!r}"
            )
        count *= size
        extent *= size or 1
    if extent > _MOST_BYTES:
        raise RequestError(f"its shape {list(shape)} is too large", where=f"input {name!r}")
    return count


def check_texts(name: str, count: int) -> None:
    """TooLargeError for more elements of BYTES than one tensor may have."""
    if count > MOST_TEXTS:
        what = f"it has {count} elements of BYTES, at most {MOST_TEXTS} are taken"
        raise TooLargeError(what, where=f"input {name!r}", hint="send them in several requests")


def check_names(kind: str, parts: Sequence[Any]) -> None:
    """RequestError for more inputs or outputs than one request may have, or longer names, before
    any is read.
    """
    if len(parts) > MOST_TENSORS:
        raise RequestError(
            f"the request has {len(parts)} {kind}s, at most {MOST_TENSORS} are taken"
        )
    for number, part in enumerate(parts):
        if len(part.name) > MOST_NAME:
            what = f"its name has {len(part.name)} characters, at most {MOST_NAME} are taken"
            raise RequestError(what, where=f"{kind} {number}")


def check_id(id: str) -> None:
    """RequestError for a longer id of a request than any caller needs."""
    if len(id) > MOST_NAME:
        raise RequestError(f"its id has {len(id)} characters, at most {MOST_NAME} are taken")


def check_parameters(several: Sequence[JsonObject]) -> None:
    """RequestError for more or longer parameters, of a request and its tensors, than are taken."""
    count = sum(map(len, several))
    if count > MOST_PARAMETERS:
        raise RequestError(
            f"the request has {count} parameters, at most {MOST_PARAMETERS} are taken"
        )
    for parameters in several:
        for name, value in parameters.items():
            if len(name) > MOST_NAME:
                what = (
                    f"the name of a parameter has {len(name)} characters, at most {MOST_NAME} are "
                    "taken"
                )
                raise RequestError(what)
            if isinstance(value, str) and len(value) > MOST_TEXT:
                what = f"it has {len(value)} characters, at most {MOST_TEXT} are taken"
                raise RequestError(what, where=f"parameter {name[:100]!r}")
            if isinstance(value, int) and value not in _INTEGERS:
                raise RequestError("it has more than 64 bits", where=f"parameter {name[:100]!r}")


# -------------------------------------------------------------------------------------------- bytes


def from_bytes(
    name: str, datatype: str, shape: Sequence[int], buffer: Buffer, start: int, size: int
) -> Array:
    """The tensor in `size` bytes of `buffer` from `start`, without a copy except for BYTES.

    RequestError when the bytes are not exactly as many as the shape needs, or no elements of the
    type.
    """
    count = check(name, datatype, shape)
    if datatype == BYTES:
        if size >= 4 * count:
            check_texts(name, count)
        try:
            return unpack_bytes(memoryview(buffer)[start : start + size], tuple(shape))
        except RequestError as error:
            error.within(f"input {name!r}")
            raise
    dtype = NUMPY[datatype]
    if size != count * dtype.itemsize:
        raise RequestError(
            f"its shape {list(shape)} of {datatype} needs {count * dtype.itemsize} bytes, but "
            f"{size} are given",
            where=f"input {name!r}",
        )
    if count == 0:
        return np.empty(shape, dtype)
    array = np.frombuffer(buffer, dtype, count, start)
    if datatype == "BOOL" and array.view(np.uint8).max() > 1:
        raise RequestError("an element of BOOL is neither 0 nor 1", where=f"input {name!r}")
    return array.reshape(shape)


def _filled(elements: Sequence[bytes], shape: Sequence[int]) -> Array:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)


def to_bytes(array: Array, datatype: str) -> bytes | memoryview:
    """An array's elements as the extension sends them; a view of the array where that can be."""
    if datatype == BYTES:
        return pack_bytes(array)
    flat = np.ascontiguousarray(array, NUMPY[datatype]).reshape(-1)
    return flat.view(np.uint8).data


# --------------------------------------------------------------------------------------------- JSON


def are_long(tensors: Sequence[Tensor], many: int, large: int) -> bool:
    """Whether tensors have more than so many elements together, or texts of more than so many
    bytes.
    """
    if sum(tensor.data.size for tensor in tensors) > many:
        return True
    return (
        sum(
            len(text) for tensor in tensors if tensor.datatype == BYTES for text in tensor.data.flat
        )
        > large
    )


def from_json(name: str, datatype: str, shape: Sequence[int], data: msgspec.Raw | Any) -> Array:
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
    values = _values_of(name, datatype, depth, data)
    if depth == 0:
        values = [values]
    elif depth > 1:
        values = _flattened(name, values, shape[:depth])
    if len(values) != count:
        raise _wrong_number(name, shape, count, len(values))
    return _array(name, datatype, values).reshape(shape)


def _wrong_number(name: str, shape: Sequence[int], count: int, actual: int) -> RequestError:
    """The error of a tensor that does not have as many elements as its shape."""
    what = f"its shape {list(shape)} needs {count} elements, but {actual} are given"
    return RequestError(what, where=f"input {name!r}")


def _depth_of(data: msgspec.Raw | Any) -> int:
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


def _values_of(name: str, datatype: str, depth: int, data: msgspec.Raw | Any) -> Any:
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
def _decoder(datatype: str, depth: int) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_type(datatype, depth))


def _type(datatype: str, depth: int) -> Any:
    kind: Any = (
        str
        if datatype == BYTES
        else bool
        if datatype == "BOOL"
        else float
        if datatype[0] == "F"
        else int
    )
    for _ in range(depth):
        kind = list[kind]
    return kind


def _flattened(name: str, values: list[Any], shape: Sequence[int]) -> list[Any]:
    if len(values) != shape[0]:
        raise _unlike(name)
    for size in shape[1:]:
        if any(len(part) != size for part in values):
            raise _unlike(name)
        values = list(chain.from_iterable(values))
    return values


def _unlike(name: str) -> RequestError:
    """The error of a tensor whose lists do not have the sizes of its shape."""
    return RequestError("its data is not nested as its shape is", where=f"input {name!r}")


def _array(name: str, datatype: str, values: list[Any]) -> Array:
    if datatype == BYTES:
        try:
            return _filled([value.encode() for value in values], (len(values),))
        except UnicodeEncodeError as error:
            raise RequestError(
                f"its data is no Unicode text: {error.reason}", where=f"input {name!r}"
            ) from error
    return np.frombuffer(_packed(name, datatype, values), NUMPY[datatype])


def _packed(name: str, datatype: str, values: Sequence[Any]) -> bytes:
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
                "its elements are no UTF-8 text",
                where=f"output {name!r}",
                hint="ask for it with binary_data: true",
            ) from error
    text = msgspec.json.encode(values.tolist())
    if datatype[0] == "F" and not np.isfinite(values).all():
        text = _with_literals(text, values)
    return msgspec.Raw(text)


def _with_literals(text: bytes, values: Array) -> bytes:
    """`text` with the names of the numbers that JSON has none for."""
    numbers = text[1:-1].split(b",")
    for place in np.flatnonzero(~np.isfinite(values)).tolist():
        value = values[place]
        numbers[place] = b"NaN" if np.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"
    return b"[" + b",".join(numbers) + b"]"


def classified(
    name: str, array: Array, datatype: str, most: int, labels: Sequence[bytes] = ()
) -> Array:
    """The `most` largest elements of each row as BYTES `value:index`, the largest first.

    Where `labels` has a name for an index that is not empty, it is `value:index:name`. The first
    dimension counts rows where there are two or more. RequestError for BYTES.
    """
    if datatype == BYTES:
        raise RequestError("BYTES cannot be classified", where=f"output {name!r}")
    rows = (
        array.reshape(array.shape[0], prod(array.shape[1:]))
        if array.ndim > 1
        else array.reshape(1, -1)
    )
    exact = datatype in ("BOOL",) or datatype[0] in "IU"
    keys = rows if exact else np.where(np.isnan(rows), -np.inf, rows.astype(np.float64))
    width = keys.shape[1]
    # Sorting the reversed row keeps the earlier of two equal elements first.
    order = width - 1 - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :most]
    best = [
        (f"{int(value)}:{place}" if exact else f"{float(value):f}:{place}").encode()
        + _suffix(labels, place)
        for row, places in zip(rows, order)
        for place, value in zip(places.tolist(), row[places].tolist())
    ]
    return _filled(best, order.shape if array.ndim > 1 else order.shape[1:])


def _suffix(labels: Sequence[bytes], place: int) -> bytes:
    """What the name of a class adds to its text."""
    return b":" + labels[place] if place < len(labels) and labels[place] else b""


def refuse_shared_memory(parameters: JsonObject, where: str) -> None:
    """UnsupportedRequestError when a tensor is said to lie in shared memory."""
    if "shared_memory_region" in parameters:
        raise UnsupportedRequestError(
            "shared memory between client and server is not supported",
            where=where,
            hint="send the tensor as binary data",
        )
