"""Memory that a worker and the server share: what one writes the other reads, with no copy
between.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFailureError
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY, name_of, packed_pieces, unpack_bytes
from infuse.serving.workers.wire import Where

_ALIGNMENT: Final = 64
_PAGE: Final = 1 << 16
# <linux/fcntl.h>; a peer that shrinks the memory would end the other one by SIGBUS.


def aligned(size: int) -> int:
    """`size`, rounded up so that what follows starts at a cache line."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class ReceiveBuffer(np.ndarray[Any, Any]):
    """Bytes of a slot that somebody fills. `back` is called when nobody refers to them, or to a
    view, any more.
    """

    back: Callable[[], None] | None = None

    def __del__(self) -> None:
        if self.back is not None:
            self.back()


def address_of(array: Array) -> int:
    """Where its first element lies in this process."""
    return int(array.__array_interface__["data"][0])


class Slot:
    """Shared memory for the inputs and outputs of one run. It grows as it must and never
    shrinks.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("infuse-slot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.descriptor = descriptor
        self.size = 0
        self._map: mmap.mmap | None = None

    def reserve(self, size: int) -> None:
        """Make room for so many bytes. ModelFailureError when there is no memory for them."""
        if size <= self.size:
            return
        extent = -(-size // _PAGE) * _PAGE
        try:
            if os.fstat(self.descriptor).st_size < extent:
                os.ftruncate(self.descriptor, extent)
            self._map = mmap.mmap(self.descriptor, extent)
        except (OSError, ValueError) as error:
            raise ModelFailureError(
                f"there is no memory for {size} bytes of tensors: {error}"
            ) from error
        self.size = extent

    def view(self, where: Where) -> Array:
        """The tensor that lies there, without a copy; BYTES are unpacked. The peer's figures are
        not trusted.
        """
        datatype, shape, offset, length = where
        dtype = NUMPY.get(datatype)
        if dtype is None:
            raise ModelFailureError(f"a worker's message has a tensor of the type {datatype!r}")
        count = 1
        for size in shape:
            count *= size
        if offset < 0 or length < 0 or offset + length > self.size or min(shape, default=0) < 0:
            raise ModelFailureError("a worker's message points outside of its memory")
        if datatype == BYTES:
            return unpack_bytes(memoryview(self._mapped())[offset : offset + length], shape)
        if length != count * dtype.itemsize:
            raise ModelFailureError("a worker's message gives a tensor another size than its shape")
        array: Array = np.ndarray(shape, dtype, self._mapped(), offset)
        return array

    def write(self, arrays: Sequence[Array], start: int) -> list[Where]:
        """Copy arrays into the memory, from `start` on; where they lie."""
        places: list[Where] = []
        for array in arrays:
            start = aligned(start)
            datatype = name_of(array.dtype)
            length = self._put(array, start) if datatype == BYTES else array.nbytes
            self.reserve(start + length)
            if datatype != BYTES and length:
                np.copyto(np.ndarray(array.shape, array.dtype, self._mapped(), start), array)
            places.append((datatype, array.shape, start, length))
            start += length
        return places

    def _put(self, texts: Array, start: int) -> int:
        """Write elements of BYTES, while other threads go on; how many bytes they take."""
        end = start
        try:
            for piece in packed_pieces(texts):
                rest = memoryview(piece)
                while rest:
                    size = os.pwrite(self.descriptor, rest, end)
                    rest, end = rest[size:], end + size
        except OSError as error:
            raise ModelFailureError(
                f"there is no memory for {end} bytes of tensors: {error}"
            ) from error
        return end - start

    def stack(self, parts: Sequence[Array], start: int, shape: tuple[int, ...]) -> Where:
        """Copy arrays one below the other (along the first axis) into one tensor of `shape` at
        `start`.
        """
        first = parts[0]
        if first.dtype == object:
            return self.write([np.concatenate(parts)], start)[0]
        start = aligned(start)
        length = first.itemsize
        for size in shape:
            length *= size
        self.reserve(start + length)
        target: Array = np.ndarray(shape, first.dtype, self._mapped(), start)
        row = 0
        for part in parts:
            end = row + part.shape[0]
            target[row:end] = part
            row = end
        return (name_of(first.dtype), shape, start, length)

    def receive_buffer(self, size: int, back: Callable[[], None]) -> ReceiveBuffer:
        """The first `size` bytes; ModelFailureError when there is no memory for them."""
        self.reserve(size)
        buffer: ReceiveBuffer = ReceiveBuffer((size,), np.uint8, self._mapped())
        buffer.back = back
        return buffer

    def close(self) -> None:
        """Give the memory back, once nobody looks at it any more."""
        self._map = None
        self.size = 0
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _mapped(self) -> Any:
        if self._map is None:
            self.reserve(1)
        return self._map
