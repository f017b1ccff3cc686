"""The closed functions that graphs call, for a library of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from infuse.build.compile import generate
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.lowering.emitter import ClosedFunctions, emitter_of
from infuse.targets import Target

_THREADS: Final = (1, 2, 4, 8)
"""Numbers of threads, by which kernels are chosen."""


def collected(
    target: Target, graphs: Iterable[Graph], usual: Iterable[Graph] = ()
) -> ClosedFunctions:
    """The closed functions of graphs and of `usual` ones, whose elementwise work also gets code of
    its own: for several numbers of threads, by which kernels are chosen. Graphs that have no native
    code are left out.
    """
    functions = emitter_of(target.machine).closed()
    all_graphs = itertools.chain(((g, False) for g in graphs), ((g, True) for g in usual))
    for graph, is_usual in all_graphs:
        for threads in _THREADS if is_usual else _THREADS[:1]:
            try:
                functions.add(*generate(graph, target, threads), usual=is_usual)
            except UnsupportedOperatorError:
                continue
    return functions
