"""Elements of 4 and 2 bits as files hold them: side by side, the first one in the lowest bits."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.ir.equality import raw_bytes
from infuse.ir.graph import Array

_BITS = {dtype.numpy: dtype.bits for dtype in dtypes.ALL if dtype.bits in (2, 4)}
_CHUNK = 1 << 22


def stored_size(array: Array) -> int:
    """Bytes that a file has for an array."""
    bits = _BITS.get(array.dtype)
    return array.nbytes if bits is None else -(-array.size * bits // 8)


def stored_bytes(array: Array) -> Array:
    """The bytes uint8 [n] that a file has for an array."""
    elements, bits = raw_bytes(array), _BITS.get(array.dtype)
    if bits is None:
        return elements
    together = 8 // bits
    result = np.zeros(-(-len(elements) // together), np.uint8)
    for place in range(together):
        part = elements[place::together] & ((1 << bits) - 1)
        result[: len(part)] |= part << (place * bits)
    return result


def element_bytes(stored: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The elements of a constant in memory, as read-only bytes, from those that a file has: the
    same object where they lie alike. ModelFileError where these are not of the constant's size.
    """
    bits = _BITS.get(dtype.numpy)
    if bits is None:
        return stored
    count, together = math.prod(shape), 8 // bits
    if -(-count // together) != len(stored):
        raise ModelFileError(
            f"{count} elements of {dtype} are stored in {len(stored)} bytes",
            hint="the file is damaged or was not written by Infuse",
        )
    codes = np.arange(256, dtype=np.uint8)[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)
    codes &= (1 << bits) - 1
    elements = np.empty((len(stored), together), np.uint8)
    for start in range(0, len(stored), _CHUNK):  # an index of a chunk takes 8 bytes for each byte
        elements[start : start + _CHUNK] = codes[stored[start : start + _CHUNK]]
    result = elements.reshape(-1)[:count]
    result.flags.writeable = False
    return result
