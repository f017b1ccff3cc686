"""Applying the expansions to a graph until none is left to apply."""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.broadcasting import open_broadcasts
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.relations import Relation
from infuse.ir.types import TensorType
from infuse.lowering.expand.composer import (
    EARLY,
    EXPANSIONS,
    FILES,
    SPELLINGS,
    Composer,
    Expansion,
    Expansions,
    Results,
)
from infuse.lowering.kernel_table import kernels_of
from infuse.lowering.liveness import relations_of
from infuse.ops.core.composite import Composite
from infuse.targets import Machine

Relied = dict[Graph, list[tuple[Node, Relation]]]
"""By graph, what operators rely on that were expressed in simpler ones, which need not rely on it.
"""


@np.errstate(all="ignore")
def expand(graph: Graph, machine: Machine | None = None) -> tuple[Graph, Relied]:
    """`graph`, or a copy in which operators that need it are expressed in simpler ones, also in its
    bodies; and what those operators relied on. Without a machine, as for one that has every unit.
    """
    relied: Relied = {}
    nodes = [node for inner in graph.all_graphs() for node in inner.unordered_nodes]
    if not any(
        (n.op.domain, n.kind) in FILES or isinstance(n.op, Composite) or open_broadcasts(n)
        for n in nodes
    ):
        return graph, relied
    copy = clone(graph)
    for inner in copy.all_graphs():
        relied[inner] = []
        for table in (SPELLINGS, EARLY, EXPANSIONS):
            _expand(inner, table, relied[inner], machine)
    return copy, relied


def _expand(
    graph: Graph,
    table: Expansions,
    relied: list[tuple[Node, Relation]],
    machine: Machine | None,
) -> None:
    pending = graph.nodes[::-1]
    wide: dict[Value, Value] = {}
    while pending:
        node = pending.pop()
        if not node.outputs:  # as an LSTM may be, whose outputs are all optional
            graph.remove(node)
            continue
        if table is EXPANSIONS:
            _repeat_inputs(graph, node, relied)
        for expansion in _expansions(node, table):
            try:
                results = expansion(make := Composer(graph, node, wide, machine), node)
            except UnsupportedOperatorError as error:
                error.serial = _outermost(graph, node).serial
                raise
            if results is not None:
                relied += [(node, relation) for relation in relations_of(node)]
                _replace(graph, node, [results] if isinstance(results, Value) else list(results))
                pending += reversed(make.made)
                break


def _expansions(node: Node, table: Expansions) -> list[Expansion]:
    """How a node may be expressed, the body of a composite operator last."""
    FILES.import_for((node.op.domain, node.kind))
    expansions = [each for *_, each in table.get((node.op.domain, node.kind), [])]
    if isinstance(node.op, Composite):
        stage = SPELLINGS if node.op.is_spelling else EXPANSIONS
        return [*expansions, _body] if table is stage else expansions
    return expansions


def _body(make: Composer, node: Node) -> Results:
    """The body of a composite operator, but where a kernel takes it."""
    assert isinstance(node.op, Composite)
    if kernels_of(make.machine).takes(node):
        return None
    return node.op.results(make, node.inputs)[: len(node.outputs)]


def _repeat_inputs(graph: Graph, node: Node, relied: list[tuple[Node, Relation]]) -> None:
    """Give an operator inputs that have their common size, where only the run knows whether they
    are repeated.
    """
    wide = open_broadcasts(node)
    if not wide:
        return
    relied += [(node, relation) for relation in relations_of(node)]
    make = Composer(graph, node)
    values = list(node.inputs)
    for number, shape in wide.items():
        result = values[number] = make("Expand", values[number], make.ints(*shape))
        result.type = TensorType(result.dtype, shape)
    node.set_inputs(values)


def _outermost(graph: Graph, node: Node) -> Node:
    """The node of the outermost graph that holds `node`, or is it."""
    while graph.parent is not None and graph.parent.graph is not None:
        node, graph = graph.parent, graph.parent.graph
    return node


def _replace(graph: Graph, node: Node, results: list[Value | None]) -> None:
    for old, new in zip(node.outputs, results):
        assert new is not None or not old.uses, f"{node.kind} gives no output {old.index}"
        if new is None:
            continue
        assert new.dtype == old.dtype, f"{node.kind} became {new.dtype} in place of {old.dtype}"
        if new.producer is not None and new.shape != old.shape:
            new.type = old.type
        old.replace_by(new)
    graph.remove(node)
