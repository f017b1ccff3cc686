"""Python's cyclic garbage collector, held back while graphs are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let nothing be searched for unreachable cycles meanwhile; what is unreachable is freed
    afterwards.

    A graph is all cycles, and each full collection visits every object of the process: while
    thousands of nodes are made, that takes longer than making them. Arrays are freed at once all
    the same, since removed nodes let go of them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
