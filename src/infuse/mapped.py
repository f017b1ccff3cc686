"""The bytes of files in memory, shared with other processes where nobody else can take them away.

Who reads a mapped page of a file that was cut off meanwhile is ended by the system (SIGBUS), and no
process can turn that into an error. So a file is mapped only when nobody but this process's user
and root may write to it, and it is large enough for sharing to pay; any other is copied.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

SMALL: Final = 1 << 20
"""Bytes up to which a file is copied in any case."""

_CHUNK: Final = 1 << 26
_AROUND: Final = max(1 << 16, mmap.PAGESIZE)
"""Bytes of the window around a page that is read that come into memory with it."""


class MappedFile(mmap.mmap):
    """The bytes of a file, mapped read-only: its pages come again when somebody reads them."""

    @classmethod
    def of(cls, descriptor: int, size: int) -> MappedFile:
        """The first bytes of an open file, which may be closed then."""
        return cls(descriptor, size, access=mmap.ACCESS_READ)


def contents(descriptor: int) -> mmap.mmap | bytes:
    """All bytes of an open regular file, read-only; OSError when they cannot be had.

    A copy has the bytes and the size of the moment; a file that shrinks while it is copied is an
    OSError, too.
    """
    status = os.fstat(descriptor)
    if status.st_size > SMALL and is_ours(status):
        return MappedFile.of(descriptor, status.st_size)
    return _copy(descriptor, status.st_size)


def give_back(array: npt.NDArray[Any]) -> None:
    """Let the pages of an array leave the memory of this process until somebody reads them again,
    where it lies in a `MappedFile`; nothing happens to any other.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, MappedFile) or not array.size or not hasattr(mmap, "MADV_DONTNEED"):
        return
    place = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    ends = [(size - 1) * stride for size, stride in zip(array.shape, array.strides)]
    low = place + sum(end for end in ends if end < 0)
    high = place + sum(end for end in ends if end > 0) + array.itemsize
    start = low // _AROUND * _AROUND
    end = min(-(-high // _AROUND) * _AROUND, len(owner))
    owner.madvise(mmap.MADV_DONTNEED, start, end - start)


def is_ours(status: os.stat_result) -> bool:
    """Whether nobody may write to a file but this process's user and root."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _copy(descriptor: int, size: int) -> mmap.mmap | bytes:
    """The bytes in memory of this process alone; a large copy is on pages of its own, as a mapping
    is.
    """
    if not size:
        return b""
    room = mmap.mmap(-1, size)
    place = 0
    with memoryview(room) as view:
        while place < size:
            count = os.preadv(descriptor, [view[place : place + _CHUNK]], place)
            if not count:
                raise OSError(f"it was cut off at byte {place} of {size} while it was read")
            place += count
    return room
