"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back_freed_memory() -> None:
    """Let the C library return pages that hold nothing any more. glibc holds on to the holes that
    arrays of many sizes leave, as much as all that is in use; other libraries need no such call.
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    if trim is not None:
        trim.argtypes = [ctypes.c_size_t]
        trim(0)
