"""Memory that nobody needs any more, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys

from infuse.ir.graph import Graph
from infuse.mapped import give_back


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


def give_back_after_compiling(graph: Graph) -> None:
    """Free what compiling a graph has left: programs, which refer to themselves, with the arrays
    that were made for them, and the pages of constants in mapped files.
    """
    gc.collect()
    give_back_freed_memory()
    give_back_constants(graph)


def give_back_constants(graph: Graph) -> None:
    """Let the constants of a graph that lie in mapped files leave the memory until they are read
    again.
    """
    for inner in graph.all_graphs():
        for value in inner.constants():
            assert value.const is not None
            give_back(value.const)
