"""What follows an If whose results differ in rank: copied into its branches, where ranks are
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from infuse.errors import InfuseError, TypeMismatchError
from infuse.ir.graph import Graph, Node, Use, Value
from infuse.ir.types import TensorType, Type
from infuse.passes.bodies import set_outputs
from infuse.passes.branches import CannotRun, Continuation, assert_branch, facts_of, owner, reads
from infuse.passes.hoist import control_nodes
from infuse.passes.inline import known_truth
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import producers, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite
from infuse.rewrite.refine import Change, compare_types, reinfer

MOST_COPIES = 2000
"""Nodes that all copies of one optimization may have together: each If that waits for another one
doubles them.
"""


class ContinueInBranches(Pass):
    """If whose results have another rank (or are absent) in one branch → what follows in both
    branches, until the types agree again; where only one branch can go on, that one and an Assert.
    """

    level = "all"
    rows = ("C7", "G24")
    requires = ("EliminateCommonSubexpressions",)

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "If"):
            if known_truth(node.inputs[0]) is None and _is_promising(node):
                self._continue(node, report)

    def _continue(self, node: Node, report: Report) -> None:
        tail = _tail(node)
        if not tail:
            return None
        copies = sum(1 + _inner_count(f) for f in tail)
        made = sum(len(r.created) for r in report.rewrites if r.rule == self.name)
        if made + 2 * copies > MOST_COPIES:
            note = (
                f"{node.name or node.kind}: {copies} nodes that wait for the rank of its results "
                f"are not copied into its branches, {MOST_COPIES} are the most in all"
            )
            return self._refuse(report, note)
        branches: list[Continuation] = []
        failures: dict[bool, str] = {}
        for truth in (True, False):
            branch = Continuation(node, truth)
            try:
                branch.follow(tail)
            except CannotRun as failure:
                failures[truth] = str(failure)
            except InfuseError as error:
                note = (
                    f"{node.name or node.kind}: nobody knows whether its {branch.name} can go on: "
                )
                self._refuse(report, note + error.what)
                failures = {True: "", False: ""}
            branches.append(branch)
        if not failures:
            return self._split(node, tail, branches, report)
        for branch in branches:
            branch.graph.clear()
        if len(failures) == 1:
            ((truth, reason),) = failures.items()
            self._take(node, not truth, reason, report)
        return None

    def _refuse(self, report: Report, note: str) -> None:
        report.notes += [] if note in report.notes else [note]

    def _take(self, node: Node, truth: bool, reason: str, report: Report) -> None:
        """Only one branch can go on."""
        graph = node.graph
        assert graph is not None
        facts = facts_of(node.inputs[0], truth)
        readers = [r for v in (*node.outputs, *facts) for r in v.users()]
        try:
            created, _ = assert_branch(node, truth, reason)
        except TypeMismatchError as error:
            return self._refuse(report, f"{node.name or node.kind}: {error.what}")
        asserting = {*created, *(v.producer for v in facts)}
        for value, fact in facts.items():
            for user, index in list(value.uses):
                if user not in asserting and owner(user, graph) is not None:
                    user.set_operand(index, fact)
        removed = label(remove_dead([node]))
        _infer_readers(graph, readers)
        self._record(report, removed, created, reason)
        return None

    def _split(
        self, node: Node, tail: Sequence[Node], branches: list[Continuation], report: Report
    ) -> None:
        """Both branches go on as far as they differ."""
        graph = node.graph
        assert graph is not None
        inside = _apart(tail, branches)
        moved = {node}
        for follower in tail:
            if follower in inside and not moved.isdisjoint(producers(follower)):
                moved.add(follower)
        results = [
            v
            for v in (v for f in (node, *tail) if f in moved for v in f.outputs)
            if any(_is_outside(use, graph, moved) for use in v.uses)
        ]
        for branch in branches:
            set_outputs(branch.graph, [(branch.copies[v], v.name) for v in results])
            remove_dead([n for f in tail if f not in inside for n in branch.made[f]])
        new = Node(
            node.op,
            node.inputs,
            [Value(v.type, v.name) for v in results],
            name=node.name,
            origin=tuple(dict.fromkeys((*node.origin, *(o for f in tail for o in f.origin)))),
            subgraphs={branch.name: branch.graph for branch in branches},
        )
        graph.add_node(new)
        new.op.infer_node(new)
        readers = [r for v in results for r in v.users()]
        for old, value in zip(results, new.outputs):
            if compare_types(old.type, value.type) is Change.WEAKER:
                value.type = old.type
            redirect(old, value)
        removed = label(remove_dead([*inside, node]))
        _infer_readers(graph, [r for r in readers if r.graph is not None])
        self._record(report, removed, [new], f"{len(moved) - 1} nodes go into the branches")

    def _record(
        self, report: Report, removed: tuple[str, ...], created: Sequence[Node], note: str
    ) -> None:
        report.add(Rewrite(self.name, removed, label(created), self.level, self.rows, note))


def is_settled(type: Type) -> bool:
    """Whether values of a type are tensors of one rank."""
    return isinstance(type, TensorType) and type.shape is not None


def _is_promising(node: Node) -> bool:
    """Whether a branch knows more than the type of a result that is read."""
    return any(
        v.uses and not is_settled(v.type) and any(map(partial(_knows, i), node.subgraphs.values()))
        for i, v in enumerate(node.outputs)
    )


def _knows(number: int, branch: Graph) -> bool:
    value = branch.outputs[number]
    maker = value.producer
    if is_settled(value.type) or (maker is not None and maker.kind == "Optional"):
        return True
    return maker is not None and maker.kind == "If" and _is_promising(maker)


# -- the tail --------------------------------------------------------------------------------------


def _tail(node: Node) -> list[Node]:
    """The nodes that wait for the rank of a result, in order: those that read it or what is counted
    by it, and those between.
    """
    graph = node.graph
    assert graph is not None
    nodes = graph.nodes
    facts = {v for truth in (True, False) for v in facts_of(node.inputs[0], truth)}
    known = {*node.outputs, *facts}
    open_ = {v for v in node.outputs if not is_settled(v.type)}
    follows: set[Node] = set()
    waiting: set[Node] = set()
    for other in nodes:
        read = reads(other)
        if other is node or read.isdisjoint(known):
            continue
        follows.add(other)
        known.update(other.outputs)
        if read & known <= facts:
            facts.update(other.outputs)
        elif read.isdisjoint(open_):
            open_.update(v for v in other.outputs if not is_settled(v.type))
        else:
            waiting.add(other)
            open_.update(v for v in other.outputs if _may_count(v))
    needed: set[Node] = set()
    for other in reversed(nodes):
        if other in waiting or other in needed:
            needed.add(other)
            needed.update(p for p in producers(other) if p in follows)
    return [other for other in nodes if other in needed]


def _may_count(value: Value) -> bool:
    """Whether a value that was made of one of unknown rank may tell the rank, or has such a rank
    itself.
    """
    return not is_settled(value.type) or value.dtype.is_bool or value.dtype.is_integer


def _apart(tail: Sequence[Node], branches: Sequence[Continuation]) -> set[Node]:
    """The nodes of the tail that differ between the branches, and those between."""
    then, other = (branch.copies for branch in branches)
    inside: set[Node] = set()
    places = set(tail)
    for node in reversed(tail):
        if node in inside or any(
            v in then and v in other and _differ(then[v], other[v]) for v in reads(node)
        ):
            inside.add(node)
            inside.update(p for p in producers(node) if p in places)
    return inside


def _differ(a: Value, b: Value) -> bool:
    """Whether readers of two values would do something else than for one value of both types."""
    if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
        return True
    if a.type.shape is None or b.type.shape is None or a.rank != b.rank:
        return True
    contents = [None if v.content is None else v.content.tolist() for v in (a, b)]
    return contents[0] != contents[1] or (a.const is None) != (b.const is None)


def _is_outside(use: Use, graph: Graph, moved: set[Node]) -> bool:
    user = graph if use.user is graph else owner(use.user, graph)
    return user not in moved


def _inner_count(node: Node) -> int:
    return sum(len(g) for body in node.subgraphs.values() for g in body.all_graphs())


def _infer_readers(graph: Graph, readers: Sequence[Node]) -> None:
    """Infer again what reads a value that tells more now, and what holds these graphs."""
    owners = (owner(reader, graph) for reader in readers)
    reinfer(dict.fromkeys(n for n in owners if isinstance(n, Node)))
    while graph.parent is not None and graph.parent.graph is not None:
        reinfer([graph.parent])
        graph = graph.parent.graph
