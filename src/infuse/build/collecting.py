"""The closed functions that graphs call, for a library of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from infuse.build.staged import generate
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.lowering.choice import Chooser, Key
from infuse.lowering.emitter import ClosedFunctions, emitter_of
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.lowering.weight_budget import budgeted, most_bytes
from infuse.targets import Target

_THREADS: Final = (1, 2, 4, 8)
"""Numbers of threads, by which kernels are chosen."""


def collected(
    target: Target,
    graphs: Iterable[Graph],
    usual: Iterable[Graph] = (),
    plain: Iterable[Graph] = (),
) -> ClosedFunctions:
    """The closed functions of graphs, whichever of several kernels is chosen, of `usual` ones,
    whose elementwise work also gets code of its own, and of `plain` ones, where it is data: both
    for several numbers of threads, by which kernels are chosen. Graphs that have no native code, or
    types that their operators do not take, are left out.
    """
    functions = emitter_of(target.machine).closed()
    for graph in graphs:
        for program in _programs(graph, target):
            functions.add(*program)
    for each, in_text in ((usual, True), (plain, False)):
        for graph, threads in itertools.product(each, _THREADS):
            for program in _chosen_programs(graph, target, threads):
                functions.add(*program, usual=in_text, fused=True)
    return functions


def _chosen_programs(graph: Graph, target: Target, threads: int) -> Iterator[tuple[Program, Plan]]:
    """The programs with fast and with balanced weights, where these differ."""
    chooser = Chooser(target.machine, threads, closed=True)
    fastest = generate(graph, target, threads, chooser=chooser)
    yield fastest
    programs = [fastest[0], *fastest[0].bodies]
    within = budgeted(chooser, programs, most_bytes(graph))
    if within is not chooser:
        yield generate(graph, target, threads, chooser=within)


def _programs(graph: Graph, target: Target) -> Iterator[tuple[Program, Plan]]:
    """The program of a graph, and those with each candidate of its choices."""
    names: dict[str | None, None] = {None: None}
    tried = 0
    while tried < len(names):
        name = [*names][tried]
        tried += 1

        def forced(key: Key, name: str | None = name) -> str | None:
            if len(key.names) > 1:
                names.update(dict.fromkeys(key.names))
            return name if name in key.names else None

        chooser = Chooser(target.machine, forced=forced, closed=True)
        try:
            yield generate(graph, target, chooser=chooser)
        except InfuseError:
            return
