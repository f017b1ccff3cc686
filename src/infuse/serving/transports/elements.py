"""The elements of tensors: how many there may be, their bytes in the binary tensor extension, and
the classes that they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from infuse.errors import RequestError, TooLargeError
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY, pack_bytes, unpack_bytes
from infuse.serving.messages import Tensor

Buffer = bytes | bytearray | memoryview

# Both NumPy's limits, so that no shape reaches it that it would refuse.
MOST_DIMENSIONS: Final = 32
_MOST_BYTES: Final = 1 << 62
MOST_TEXTS: Final = 1 << 20
"""Elements of BYTES in one tensor."""


def check(name: str, datatype: str, shape: Sequence[int]) -> int:
    """How many elements a tensor of this type and shape has; RequestError for what no tensor can
    be.
    """
    dtype = NUMPY.get(datatype)
    if dtype is None:
        raise RequestError(
            f"{datatype!r} is not a datatype",
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


def from_bytes(name: str, datatype: str, shape: Sequence[int], content: Buffer) -> Array:
    """The tensor whose bytes are `content`, without a copy except for BYTES.

    RequestError when the bytes are not exactly as many as the shape needs, or no elements of the
    type.
    """
    count, size = check(name, datatype, shape), len(content)
    if datatype == BYTES:
        if size >= 4 * count:
            check_texts(name, count)
        try:
            return unpack_bytes(content, tuple(shape))
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
    array = np.frombuffer(content, dtype, count)
    if datatype == "BOOL" and array.view(np.uint8).max() > 1:
        raise RequestError("an element of BOOL is neither 0 nor 1", where=f"input {name!r}")
    return array.reshape(shape)


def texts_array(elements: Sequence[bytes], shape: Sequence[int]) -> Array:
    """A tensor of BYTES."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)


def to_bytes(array: Array, datatype: str) -> bytes | memoryview:
    """An array's elements as the extension sends them; a view of the array where that can be."""
    if datatype == BYTES:
        return pack_bytes(array)
    flat = np.ascontiguousarray(array, NUMPY[datatype]).reshape(-1)
    return flat.view(np.uint8).data


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
    return texts_array(best, order.shape if array.ndim > 1 else order.shape[1:])


def _suffix(labels: Sequence[bytes], place: int) -> bytes:
    """What the name of a class adds to its text."""
    return b":" + labels[place] if place < len(labels) and labels[place] else b""
