"""The element types of the Open Inference Protocol and NumPy's."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from infuse.errors import RequestError, UnsupportedRequestError
from infuse.runtime.session import Array
from infuse.serving.tuning import PIECE_ELEMENTS

BYTES: Final = "BYTES"
_LENGTH: Final = struct.Struct("<I")
# Little-endian, as the protocol sends them.
_NUMPY: Final[Mapping[str, type]] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    BYTES: object,
}
ElementType: TypeAlias = np.dtype[Any]
NUMPY: Final[Mapping[str, ElementType]] = {name: np.dtype(kind) for name, kind in _NUMPY.items()}
_NAMES: Final[Mapping[ElementType, str]] = {dtype: name for name, dtype in NUMPY.items()}
# These travel as raw bytes only: the protocol gives them no place in JSON and in typed gRPC
# contents.
RAW_ONLY: Final = frozenset({"FP16", "BF16"})


def name_of(dtype: ElementType) -> str:
    """The protocol's name of an element type; UnsupportedRequestError when it has none."""
    try:
        return _NAMES[dtype]
    except KeyError:
        raise UnsupportedRequestError(f"the protocol has no element type for {dtype}") from None


def packed_size(array: Array) -> int:
    """Bytes of BYTES elements in the protocol's raw form."""
    return sum(4 + len(element) for element in array.flat)


def pack_bytes(array: Array) -> bytes:
    """BYTES elements in the protocol's raw form: each after its length as a little-endian
    uint32.
    """
    return b"".join(packed_pieces(array))


def packed_pieces(array: Array, elements: int = PIECE_ELEMENTS) -> Iterator[bytes]:
    """The raw form of BYTES in pieces, each of so many elements."""
    rest = iter(array.flat)
    while piece := list(islice(rest, elements)):
        yield b"".join(
            [part for element in piece for part in (_LENGTH.pack(len(element)), element)]
        )


def unpack_bytes(raw: bytes | bytearray | memoryview, shape: tuple[int, ...]) -> Array:
    """The BYTES elements of a raw form; RequestError when they are not as many as `shape` says, or
    are cut off.
    """
    count = 1
    for size in shape:
        count *= size
    if count * 4 > len(raw):
        raise RequestError(f"{len(raw)} bytes are too few for {count} elements of BYTES")
    elements = np.empty(count, object)
    view, position, end = memoryview(raw), 0, len(raw)
    for number in range(count):
        if position + 4 > end:
            raise RequestError(f"the elements of BYTES are cut off: {number} of {count} are there")
        (length,) = _LENGTH.unpack_from(view, position)
        position += 4
        if position + length > end:
            there = end - position
            raise RequestError(
                f"element {number} of BYTES is cut off: it has {length} bytes, {there} are there"
            )
        elements[number] = bytes(view[position : position + length])
        position += length
    if position != len(view):
        raise RequestError(
            f"{len(view) - position} bytes follow after the {count} elements of BYTES"
        )
    return elements.reshape(shape)
