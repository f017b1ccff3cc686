"""Files that models have in common: the pool of threads, and instances of kernels that no model
changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from infuse import dtypes
from infuse.ir.graph import Graph
from infuse.lowering.program import Function
from infuse.targets import KERNELS
from infuse.targets.cpu.emit.functions import headers_of, shared_of
from infuse.targets.cpu.emit.shared import Shared

POOL: Final = "threads.cpp"
_POOL_TEXT: Final = """// The threads of all models.
#define INFUSE_POOL_HERE
#include "threads.hpp"
"""
APART: Final = "#define INFUSE_POOL_APART"
"""What files begin with that are linked with the pool."""
_BY_HEADER: Final = {
    "gemm.hpp": Shared("gemm_shared.hpp", "INFUSE_SHARED_GEMM"),
    "gemm_blocks.hpp": Shared("gemm_shared.hpp", "INFUSE_SHARED_GEMM_BLOCKS"),
    "sparse.hpp": Shared("sparse_shared.hpp", "INFUSE_SHARED_SPARSE"),
    "transpose.hpp": Shared("transpose_shared.hpp", "INFUSE_SHARED_TRANSPOSE"),
}
"""What every user of a header shares."""
_INCLUDE: Final = re.compile(r'^#include "(\w+\.h(?:pp)?)"', re.MULTILINE)
_MULTIPLYING: Final = frozenset(["Conv", "Gemm", "MatMul"])
"""Kinds of nodes that most often use the products of `gemm.hpp`."""


def shared_by(functions: Iterable[Function]) -> list[Shared]:
    """What these functions have in common with those of other models."""
    result: dict[Shared, None] = {}
    for function in functions:
        headers = set().union(*map(included, headers_of(function)))
        result.update((s, None) for name, s in _BY_HEADER.items() if name in headers)
        result.update((s, None) for s in sorted(shared_of(function)))
    return list(result)


def shared_files(shared: Sequence[Shared]) -> dict[str, str]:
    """Names and texts of the files with what is shared, the pool of threads among it."""
    return {POOL: _POOL_TEXT, **{s.file: _text(s) for s in shared}}


def _text(shared: Shared) -> str:
    """A file with what is shared, which has the rest from other files."""
    headers = included(shared.header)
    others = [s for header, s in _BY_HEADER.items() if header in headers and s != shared]
    lines = [f'#include "{header}"' for header in sorted({s.header for s in others})]
    declared = [s.declaration for s in others]
    return "\n".join([APART, *lines, *declared, shared.text])


@lru_cache(maxsize=256)
def included(header: str) -> frozenset[str]:
    """A kernel header and all that it includes."""
    result, waiting = {header}, [header]
    while waiting:
        new = set(_INCLUDE.findall((KERNELS / waiting.pop()).read_text("utf-8"))) - result
        result |= new
        waiting += new
    return frozenset(result)


def usual_files(graph: Graph) -> dict[str, str]:
    """The shared files that models such as this graph, which need not be optimized, most often
    have.
    """
    products = any(
        node.kind in _MULTIPLYING and node.outputs[0].dtype == dtypes.float32
        for node in graph.nodes
    )
    headers = included("conv.hpp") if products else frozenset()
    return shared_files([s for header, s in _BY_HEADER.items() if header in headers])
