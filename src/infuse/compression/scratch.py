"""Arrays in temporary files: what all layers of a large network have together would take more
memory than its weights.
"""

from __future__ import annotations

import io
import os
import tempfile
import weakref

import numpy as np

from infuse.errors import RuntimeFailure
from infuse.ir.graph import Array
from infuse.mapped import MappedFile, give_back

SEGMENT = 1 << 28
"""Bytes that are mapped at once; a file takes room only where something was written."""
ALIGNMENT = 64
LEAST = 1 << 16
"""Bytes of an array below which it stays in memory."""


class ScratchArrays:
    """Read-only arrays in temporary files without a name, mapped into memory; a file ends with its
    last array.
    """

    def __init__(self) -> None:
        self._file: io.FileIO | None = None
        self._mapping: MappedFile | None = None
        self._end = 0

    def store(self, array: Array) -> Array:
        """A copy of an array in a file, an array that is small as it is. RuntimeFailure where there
        is no room.
        """
        if array.nbytes < LEAST:
            return array
        if self._mapping is None or self._end + array.nbytes > len(self._mapping):
            self._begin(max(SEGMENT, array.nbytes))
        assert self._file is not None
        assert self._mapping is not None
        place = self._end
        write_at(self._file, place, array)
        self._end = place + -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        flat = np.frombuffer(self._mapping, array.dtype, array.size, place)
        stored: Array = flat.reshape(array.shape)
        give_back(stored)
        return stored

    def _begin(self, size: int) -> None:
        """A new file, whose holes take no room."""
        if self._file is not None:
            self._file.close()  # the mapping goes on
        self._file, self._end = scratch_file(), 0
        weakref.finalize(self, self._file.close)
        self._file.truncate(size)
        self._mapping = MappedFile.of(self._file.fileno(), size)


def scratch_file() -> io.FileIO:
    """A temporary file without a name."""
    return tempfile.TemporaryFile(prefix="infuse-", buffering=0)


def write_at(file: io.FileIO, place: int, array: Array) -> None:
    """Write the elements of an array into a temporary file; RuntimeFailure where there is no
    room.
    """
    left = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    try:
        while left:
            count = os.pwrite(file.fileno(), left, place)
            left, place = left[count:], place + count
    except OSError as error:
        raise RuntimeFailure(
            f"arrays cannot be stored: {error.strerror or error}",
            where=tempfile.gettempdir(),
            hint="free some room there, or name another folder in $TMPDIR",
        ) from error
