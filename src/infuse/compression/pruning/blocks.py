"""Residual blocks, x + f(x), whose branch f can be dropped: what is left is x, which has the same
shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from infuse.analysis.cost import node_cost
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Use, Value, captured

SUMS = ("Add", "Sum")


@dataclass(frozen=True, eq=False)
class Block:
    """A sum of a skip and a branch, which is computed from the skip, or from a term of it."""

    sum: Node
    skip: int
    """Which operand of the sum is the skip."""
    nodes: tuple[Node, ...]
    """Those that nobody needs without the branch, in order."""

    @property
    def name(self) -> str:
        """What the names of its nodes with weights have in common up to a dot or a slash, and how
        the first and the last of them go on.
        """
        names = [node.name for node in self.nodes if multiplies(node)]
        if len(names) == 1:
            return names[0]
        same = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*names))
        common = "".join(each[0] for each in same)
        cut = 1 + max(common.rfind("."), common.rfind("/"))
        ends = f"{names[0][cut:]} to {names[-1][cut:]}"
        return f"{common[: cut - 1].strip('/')} ({ends})" if cut > 1 else ends


def find_blocks(graph: Graph) -> list[Block]:
    """The blocks that can be dropped, in order: their branches multiply by weights, and nobody else
    reads a value of theirs that depends on the skip.
    """
    origins, blocks = _Origins(graph), []
    for node in graph.nodes:
        if node.op.domain or node.kind not in SUMS or len(node.inputs) != 2:
            continue
        for skip in (0, 1):
            nodes = _branch(node, skip, origins)
            order = tuple(each for each in graph.nodes if each in nodes)
            if any(map(multiplies, order)):
                blocks.append(Block(node, skip, order))
                break
    return blocks


def without_blocks(graph: Graph, blocks: Sequence[Block]) -> tuple[Graph, dict[Value, Value]]:
    """A copy of a graph with the skips of these blocks in the place of their sums, and the copies
    of its values, those among them that nobody reads any more.
    """
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    unneeded = set()
    for block in blocks:
        own = [values[node.outputs[0]].producer for node in (*block.nodes, block.sum)]
        unneeded |= {node for node in own if node is not None}
        total = values[block.sum.output]
        assert total.producer is not None
        skip = total.producer.inputs[block.skip]
        assert skip is not None
        total.replace_by(skip)
    for node in reversed(copy.nodes):
        if node in unneeded and not any(value.uses for value in node.outputs):
            copy.remove(node)
    return copy, values


def multiplies(node: Node) -> bool:
    """Whether a node multiplies by weights."""
    return node_cost(node).macs != 0 and any(value.is_const for value in node.operands())


class _Origins:
    """For each value the inputs and results that it is computed from, itself among them, as bits;
    constants have none.
    """

    def __init__(self, graph: Graph) -> None:
        self._own: dict[Value, int] = {}
        self._all: dict[Value, int] = {}
        for value in graph.inputs:
            self._add(value, 0)
        for node in graph.nodes:
            below = [value for each in _producers(node) for value in each.outputs]
            sources = 0
            for value in (*node.operands(), *below):
                sources |= self._all.get(value, 0)
            for value in node.outputs:
                self._add(value, sources)

    def _add(self, value: Value, sources: int) -> None:
        self._own[value] = 1 << len(self._own)
        self._all[value] = sources | self._own[value]

    def is_from(self, value: Value, source: Value) -> bool:
        """Whether a value is computed from another one, or is that one."""
        return bool(self._all.get(value, 0) & self._own.get(source, 0))


def _producers(node: Node) -> list[Node]:
    """The nodes whose values a node and its bodies read."""
    read = (*node.operands(), *captured(node))
    return [value.producer for value in read if value.producer is not None]


def _branch(node: Node, skip: int, origins: _Origins) -> set[Node]:
    """The nodes that nobody needs without the branch of a sum; none where that cannot be dropped,
    or the other operand is no skip of it.
    """
    branch, kept = node.inputs[1 - skip], node.inputs[skip]
    if branch is None or kept is None or branch.producer is None or branch is kept:
        return set()
    shape = node.output.tensor.shape
    if shape is None or not branch.tensor.shape == kept.tensor.shape == shape:
        return set()
    if node.output.is_graph_output and kept.producer is None:
        return set()  # An input would be an output.
    source = _source(kept, branch, origins)
    if source is None:
        return set()
    unneeded = _unneeded(node, skip, branch.producer)
    within = _from(source, branch.producer, origins)
    return unneeded if within <= unneeded else set()


def _source(kept: Value, branch: Value, origins: _Origins) -> Value | None:
    """What a branch is computed from: the operand beside it, or the nearest term of that."""
    pending = [kept]
    while pending:
        value = pending.pop(0)
        if origins.is_from(branch, value):
            return value
        made = value.producer
        if made is not None and made.kind in SUMS and not made.op.domain:
            pending += [each for each in made.operands() if each.tensor.shape == kept.tensor.shape]
    return None


def _unneeded(node: Node, skip: int, last: Node) -> set[Node]:
    """The nodes that are of no use once a sum does not read its branch, which `last` makes."""
    unneeded: set[Node] = set()
    pending = [last]
    while pending:
        each = pending.pop()
        uses = [use for value in each.outputs for use in value.uses]
        if each not in unneeded and all(
            use.user in unneeded or use == Use(node, 1 - skip) for use in uses
        ):
            unneeded.add(each)
            pending += _producers(each)
    return unneeded


def _from(source: Value, last: Node, origins: _Origins) -> set[Node]:
    """The nodes up to `last` whose results are computed from a value."""
    found: set[Node] = set()
    pending = [last]
    while pending:
        each = pending.pop()
        is_own = any(value is source for value in each.outputs)
        if each in found or is_own or not origins.is_from(each.outputs[0], source):
            continue
        found.add(each)
        pending += _producers(each)
    return found
