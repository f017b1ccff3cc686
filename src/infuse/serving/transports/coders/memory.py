"""Memory that the server shares with a coder for one message: written once from its beginning on,
then read.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Final

from infuse.errors import RuntimeFailure
from infuse.serving.transports.elements import Buffer

Place = tuple[int, int]
"""Where bytes lie: offset and length."""
_ALIGNMENT: Final = 64
# <linux/fcntl.h>; a peer that shrinks the memory would end the other one by SIGBUS.


class Memory:
    """Memory behind a descriptor, which it owns; a new one without any. RuntimeFailure where there
    is none left.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        try:
            if descriptor is None:
                descriptor = os.memfd_create(
                    "infuse-message", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
                )
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        except OSError as error:
            raise RuntimeFailure(f"there is no memory to share with a process: {error}") from error
        self.descriptor = descriptor
        self._end = 0
        self._view: memoryview | None = None

    def put(self, data: Buffer, alignment: int = _ALIGNMENT) -> Place:
        """Write bytes behind those that are there; other threads go on meanwhile."""
        offset = -(-self._end // alignment) * alignment
        rest = memoryview(data).cast("B")
        self._end = offset + len(rest)
        written = offset
        try:
            while rest:
                size = os.pwrite(self.descriptor, rest, written)
                rest, written = rest[size:], written + size
        except OSError as error:
            raise RuntimeFailure(
                f"there is no memory for {self._end} bytes of a message: {error}"
            ) from error
        return offset, self._end - offset

    def view(self, place: Place) -> memoryview:
        """The bytes at a place that the other side told; RuntimeFailure where it is none."""
        offset, size = place
        if self._view is None:
            whole = os.fstat(self.descriptor).st_size
            self._view = memoryview(mmap.mmap(self.descriptor, whole) if whole else b"")
        if offset < 0 or size < 0 or offset + size > len(self._view):
            raise RuntimeFailure("a message of a coder points outside of its memory")
        return self._view[offset : offset + size]

    def read(self, place: Place) -> bytes:
        """A copy of the bytes at a place, made while other threads go on."""
        size, parts = len(self.view(place)), list[bytes]()
        done = 0
        while done < size:
            parts.append(os.pread(self.descriptor, size - done, place[0] + done))
            done += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give it back, once nobody looks at it any more."""
        self._view = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def joined(parts: Sequence[Buffer]) -> bytes:
    """Bytes one behind the other, while other threads go on: `b"".join` would let them wait."""
    memory = Memory()
    try:
        for part in parts:
            memory.put(part, 1)
        return memory.read((0, sum(map(len, parts))))
    finally:
        memory.close()
