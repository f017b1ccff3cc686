"""Which nodes become one kernel, so that what lies between them need not go through memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value
from infuse.lowering.choice import usual
from infuse.lowering.groups import Group, cost, formula, is_vector_term
from infuse.lowering.kernel_table import KernelTable
from infuse.lowering.readers import Readers
from infuse.ops.core.base import Op
from infuse.ops.core.flops import Shapes
from infuse.ops.core.formula import Term

MOST_NODES = 64
"""Nodes of one group: a longer chain gains nothing from one loop and compiles slowly."""
CHEAP = 8
"""Operations that may run element by element to save a pass over memory."""
FEW = 8
"""Operations for an element of a kernel that waits for memory."""


def partition(nodes: Sequence[Node], kernels: KernelTable) -> list[Group]:
    """Groups in execution order, each with one result, for the machine of these kernels.

    From the last node on, a node joins the group of the nodes that read it where all of these are
    in one, so no circle can arise. All formulas of a group run on vectors, or none.
    """
    needed, position = set(nodes), {node: i for i, node in enumerate(nodes)}
    terms = {node: formula(node) for node in nodes}
    readers_of = {node: _readers(node, needed) for node in nodes}
    behind = _behind_anchors(terms, readers_of, kernels)
    groups: list[Group] = []
    member: dict[Node, Group] = {}
    claims: dict[int, Node] = {}
    for node in reversed(nodes):
        term, readers, own = terms[node], readers_of[node], behind.get(node)
        group = member.get(readers[0]) if readers else None
        claimed = own is not None and claims.get(id(group), own) is not own
        if group is None or claimed or not _joins(node, term, group, readers, kernels):
            group = Group([])
            groups.append(group)
        if own is not None:
            claims[id(group)] = own
        group.nodes.insert(0, node)
        if term is None:
            group.anchor = node
        else:
            group.formulas[node] = term
        member[node] = group
    for group in groups:
        group.nodes.sort(key=lambda node: node is not group.anchor)
    return sorted(groups, key=lambda g: position[g.nodes[-1]])


def _behind_anchors(
    terms: Mapping[Node, Term | None],
    readers_of: Mapping[Node, list[Node]],
    kernels: KernelTable,
) -> dict[Node, Node]:
    """The nodes that may be a part of the epilogue of a kernel, as each alone reads the one before,
    with the node that has the kernel, which is there, too. Of two kernels, the last operand's
    counts: the other one keeps the work behind it.
    """
    behind: dict[Node, Node] = {}
    for node, term in terms.items():
        if term is None and kernels.has_epilogue(node):
            behind[node] = node
        if term is None or not is_vector_term(term) or _widens(node):
            continue
        for value in node.operands():
            before = value.producer
            if before is None or before not in behind or readers_of[before] != [node]:
                continue
            if value.shape == node.output.shape:
                behind[node] = behind[before]
    return behind


def _readers(node: Node, needed: Collection[Node]) -> list[Node]:
    """The nodes that read the result of a node; none where the graph gives it."""
    value = node.outputs[0]
    if value.is_graph_output:
        return []
    return [user for user in value.users() if user in needed or user.graph is not node.graph]


def _joins(
    node: Node, term: Term | None, group: Group, readers: list[Node], kernels: KernelTable
) -> bool:
    """Whether a node may become a part of a group that computes what reads it."""
    members = set(group.nodes)
    inside = all(reader in members and reader is not group.anchor for reader in readers)
    if not inside or not _has_room(group, 1) or node.outputs[0].shape != group.result.shape:
        return False
    if any(map(_widens, readers)):
        return False
    if term is None:
        return group.anchor is None and group.is_vector and kernels.has_epilogue(node)
    return is_vector_term(term) == group.is_vector


def _has_room(group: Group, count: int) -> bool:
    return len(group.nodes) + count <= MOST_NODES


def _widens(node: Node) -> bool:
    """Whether a node only makes floats of narrow integers, which are better kept in memory as they
    are.
    """
    narrow = [v for v in node.operands() if v.dtype.is_integer and v.dtype.bits <= 16]
    return node.kind == "Cast" and bool(narrow) and node.output.dtype == dtypes.float32


def join_readers(
    graph: Graph, groups: Sequence[Group], readers: Readers, kernels: KernelTable
) -> list[Group]:
    """The groups, elementwise work joined with those that make what it reads.

    A value that others read later is stored, too: a further store in place of a kernel that reads
    the value again. What others need before stays a group of its own.
    """
    return _Joining(graph, groups, readers, kernels).run()


class _Joining:
    """Groups in execution order, of which later ones take in earlier ones."""

    def __init__(
        self, graph: Graph, groups: Sequence[Group], readers: Readers, kernels: KernelTable
    ) -> None:
        self._graph, self._groups, self._readers = graph, list(groups), readers
        self._kernels = kernels
        self._positions = {id(group): i for i, group in enumerate(groups)}
        self._member = {node: group for group in groups for node in group.all_nodes}

    def run(self) -> list[Group]:
        """The groups that are left."""
        for group in self._groups:
            if group.anchor is None:
                while earlier := self._joinable(group):
                    self._join(earlier, group)
        return [group for group in self._groups if group.nodes]

    def _joinable(self, group: Group) -> Group | None:
        """A group that makes an operand of another one, which can take it in."""
        for value in reversed(group.operands()):
            earlier = self._maker(value)
            if earlier is not None and self._fits(earlier, group, value):
                return earlier
        return None

    def _maker(self, value: Value) -> Group | None:
        """The group in whose results a value is."""
        group = None if value.producer is None else self._member.get(value.producer)
        return group if group is not None and value in group.results else None

    def _fits(self, earlier: Group, group: Group, value: Value) -> bool:
        if value.shape != group.result.shape or not _has_room(group, len(earlier.nodes)):
            return False
        inside = {*earlier.all_nodes, *group.formulas}
        made = [v for part in (*earlier.producers, earlier) for v in part.results]
        readers = (user for v in made for user in self._readers.of(v))
        if not all(user in inside or self._comes_after(user, group) for user in readers):
            return False
        if earlier.anchor is None:
            return _run_alike(earlier, group)
        inner = [u for u in group.formulas for v in earlier.results if v in u.inputs]
        return (
            group.anchor is None
            and group.is_vector
            and self._kernels.has_epilogue(earlier.anchor)
            and not any(map(_widens, inner))
            and _is_bound_by_memory(earlier.anchor)
        )

    def _comes_after(self, user: Node | Graph, group: Group) -> bool:
        """Whether a user needs nothing before a group ran."""
        if not isinstance(user, Node):
            return user is self._graph
        own = self._member.get(user)
        return own is not None and self._positions[id(own)] > self._positions[id(group)]

    def _join(self, earlier: Group, group: Group) -> None:
        """Let a group compute another one, too."""
        results = [*earlier.results, *group.stored]
        group.nodes[:0] = earlier.nodes
        group.formulas |= earlier.formulas
        if earlier.anchor is not None:
            group.anchor, group.producers = earlier.anchor, earlier.producers
        group.nodes.sort(key=lambda node: node is not group.anchor)
        inside = set(group.nodes)
        group.stored = [v for v in results if not inside.issuperset(self._readers.of(v))]
        self._member.update(dict.fromkeys(group.all_nodes, group))
        earlier.nodes = []


def _is_bound_by_memory(node: Node) -> bool:
    """Whether a second result of a node's kernel saves time, as it does for normalizations, Softmax
    and Resize. Arithmetic hides the loads of a kernel that reads the first result again, and
    operands have to stay in memory until the second one is there.
    """
    shapes = [None if v is None else v.shape for v in node.inputs]
    types = [None if v is None else v.dtype for v in node.inputs]
    op = node.op
    assert isinstance(op, Op)
    work = op.flops(Shapes(shapes, [v.shape for v in node.outputs], types))
    if work is None or work.macs != 0:
        return False
    return usual(work.others) <= FEW * usual(dims.product(node.output.shape))


def _run_alike(earlier: Group, group: Group) -> bool:
    """Whether formulas may run together: work on vectors does not become work on single elements,
    unless it is cheap.
    """
    if earlier.is_vector == group.is_vector:
        return True
    if group.anchor is not None:
        return False
    if group.is_vector:
        return all(cost(term) < CHEAP for term in group.formulas.values())
    return sum(map(cost, earlier.formulas.values())) < CHEAP
