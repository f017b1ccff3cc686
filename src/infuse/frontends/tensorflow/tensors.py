"""Tensors in messages of TensorFlow → NumPy, and the numbers of element types."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Array

DTYPES: Final[dict[int, DType]] = {
    1: dtypes.float32, 2: dtypes.float64, 3: dtypes.int32, 4: dtypes.uint8, 5: dtypes.int16,
    6: dtypes.int8, 7: dtypes.string, 8: dtypes.complex64, 9: dtypes.int64, 10: dtypes.bool_,
    11: dtypes.int8, 12: dtypes.uint8, 13: dtypes.int32, 14: dtypes.bfloat16, 15: dtypes.int16,
    16: dtypes.uint16, 17: dtypes.uint16, 18: dtypes.complex128, 19: dtypes.float16,
    22: dtypes.uint32, 23: dtypes.uint64, 24: dtypes.float8e5m2, 25: dtypes.float8e4m3fn,
    29: dtypes.int4, 30: dtypes.uint4,
}  # fmt: skip
"""Element types by number; those of quantized integers are the integers."""
NAMES: Final[dict[str, int]] = {
    "FLOAT": 1, "DOUBLE": 2, "INT32": 3, "UINT8": 4, "INT16": 5, "INT8": 6, "STRING": 7,
    "COMPLEX64": 8, "INT64": 9, "BOOL": 10, "QINT8": 11, "QUINT8": 12, "QINT32": 13,
    "BFLOAT16": 14, "QINT16": 15, "QUINT16": 16, "UINT16": 17, "COMPLEX128": 18, "HALF": 19,
    "RESOURCE": 20, "VARIANT": 21, "UINT32": 22, "UINT64": 23, "FLOAT8_E5M2": 24,
    "FLOAT8_E4M3FN": 25, "INT4": 29, "UINT4": 30,
}  # fmt: skip
"""Numbers of element types by their names in JSON, without `DT_`."""
RESOURCE: Final = 20
VARIANT: Final = 21
_LISTS: Final = {
    dtypes.float32: "float_val", dtypes.float64: "double_val", dtypes.int64: "int64_val",
    dtypes.bool_: "bool_val", dtypes.uint32: "uint32_val", dtypes.uint64: "uint64_val",
    dtypes.complex64: "scomplex_val", dtypes.complex128: "dcomplex_val",
    dtypes.float16: "half_val", dtypes.bfloat16: "half_val",
}  # fmt: skip
_MOST: Final = 1 << 28
"""Elements that one element in a file may be repeated for."""


def dtype_of(number: int) -> DType:
    """The element type of this number; UnsupportedOperatorError for one that there is not here."""
    number = number - 100 if number > 100 else number
    dtype = DTYPES.get(number)
    if dtype is None:
        names = {value: name for name, value in NAMES.items()}
        raise UnsupportedOperatorError(
            f"tensors of type {names.get(number, number)} are not supported"
        )
    return dtype


def shape_of(message: Any) -> tuple[int | None, ...] | None:
    """Sizes that a message says, None for what it leaves open."""
    if message.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else int(dim.size) for dim in message.dim)


def static_shape(message: Any) -> tuple[int, ...]:
    """Sizes that a message says, all of which are fixed; else ModelFileError."""
    shape = shape_of(message)
    if shape is None or None in shape:
        raise ModelFileError(f"a tensor has the shape {shape}")
    return tuple(size for size in shape if size is not None)


def array_of(message: Any) -> Array:
    """The elements of a tensor; ModelFileError where they do not fit its shape."""
    dtype, shape = dtype_of(message.dtype), static_shape(message.tensor_shape)
    count = math.prod(shape)
    if dtype == dtypes.string:
        return _texts(message.string_val, count).reshape(shape)
    if message.tensor_content:
        return from_bytes(memoryview(message.tensor_content), dtype, shape)
    listed = getattr(message, _LISTS.get(dtype, "int_val"))
    elements = _elements(np.array(listed[:]), dtype)
    if elements.size == count:
        return elements.reshape(shape)
    if elements.size > count or count > _MOST:
        raise ModelFileError(f"a tensor of shape {list(shape)} has {elements.size} elements")
    # What is left out at the end repeats the last element, and is zero where there is none.
    last = elements[-1:] if elements.size else np.zeros(1, dtype.numpy)
    if elements.size <= 1:
        return np.broadcast_to(last.reshape(()), shape)
    return np.concatenate([elements, np.repeat(last, count - elements.size)]).reshape(shape)


def _elements(numbers: Array, dtype: DType) -> Array:
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return numbers.astype(np.uint16).view(dtype.numpy)
    if dtype.name.startswith("complex"):
        pairs = numbers[: numbers.size // 2 * 2].reshape(-1, 2).astype(np.float64)
        return (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype.numpy)
    return numbers.astype(dtype.numpy)


def from_bytes(data: memoryview, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Elements that lie in memory as little-endian numbers; not copied."""
    count = math.prod(shape)
    if dtype == dtypes.string:
        raise UnsupportedOperatorError("tensors of text in a file of numbers are not supported")
    if count * dtype.numpy.itemsize != len(data):
        raise ModelFileError(
            f"a tensor of {dtype}{list(shape)} has {len(data)} bytes, "
            f"and needs {count * dtype.numpy.itemsize}"
        )
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def _texts(listed: Any, count: int) -> Array:
    texts = np.empty(len(listed), object)
    for index, text in enumerate(listed):
        texts[index] = text.decode("utf-8", "surrogateescape")
    if len(listed) == 1 and count <= 1 << 20:
        texts = np.repeat(texts, count)
    if len(texts) != count:
        raise ModelFileError(f"a tensor of {count} texts has {len(listed)}")
    return texts
