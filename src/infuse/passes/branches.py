"""A branch of an If and what follows it, typed as if that branch were taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, captured, constant
from infuse.ir.types import TensorType
from infuse.ops.comparison import Not
from infuse.ops.pass_through import Assert
from infuse.ops.sequences import Optional, OptionalGetElement, is_there
from infuse.passes.inline import copied, inlined, known_truth
from infuse.rewrite.patch import Patch, redirect

_SINGLE = ("Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that hand on a single bool."""


class CannotRun(Exception):
    """A node that certainly runs is ill-typed: the text says which one, and why."""


class Continuation:
    """A copy of one branch of an If, to be continued with copies of what follows.

    `copies` are the copies of values, `made` the nodes that stand for a node that was copied. The
    nodes of the graph belong to nobody until the branch is taken; else it has to be cleared.
    """

    def __init__(self, node: Node, truth: bool) -> None:
        self.name = branch_name(truth)
        self.copies: dict[Value, Value] = {}
        self.made: dict[Node, list[Node]] = {}
        self.graph = clone(node.subgraphs[self.name], self.copies)
        self.copies.update(zip(node.outputs, self.graph.outputs))
        self.copies.update(facts_of(node.inputs[0], truth))

    def follow(self, tail: Iterable[Node]) -> None:
        """Go on with copies of nodes; CannotRun where one of them is ill-typed here."""
        for node in tail:
            before = len(self.graph)
            copy = copied(node, self.graph, self.copies)
            self.copies.update(zip(node.outputs, _typed(copy)))
            self.made[node] = list(self.graph.unordered_nodes)[before:]


def _typed(node: Node) -> Sequence[Value]:
    """Infer a node; its results, or those of what takes its place."""
    if node.kind == "If" and node.op.domain == "":
        truth = known_truth(node.inputs[0])
        failures = {
            taken: failure
            for taken in ((True, False) if truth is None else (truth,))
            if (failure := _failure(node.subgraphs[branch_name(taken)])) is not None
        }
        if len(failures) == 2 or truth in failures:
            raise CannotRun(next(iter(failures.values())))
        for taken, failure in failures.items():
            graph = node.graph
            assert graph is not None
            results = assert_branch(node, not taken, failure)[1]
            graph.remove(node)
            return results
    if isinstance(node.op, OptionalGetElement) and is_there(node.inputs[0]) is False:
        raise CannotRun(f"{node.kind} node {node.name!r}: there is nothing to get")
    try:
        node.op.infer_node(node)
    except (ShapeError, TypeMismatchError) as error:
        if node.subgraphs:  # a loop need not run its body
            raise
        raise CannotRun(f"{error.where or node.kind}: {error.what}") from error
    return node.outputs


def _failure(body: Graph) -> str | None:
    """Why a branch cannot run, None where it may."""
    try:
        for node in body.nodes:
            _typed(node)
    except CannotRun as failure:
        return str(failure)
    return None


def assert_branch(node: Node, truth: bool, reason: str) -> tuple[list[Node], list[Value]]:
    """Let readers of an If read what one of its branches gives, and assert that it is taken; the
    new nodes, and what they give. TypeMismatchError where that is nothing that can be asserted.
    """
    for value in node.subgraphs[branch_name(truth)].outputs:
        _held(value)
    graph, condition = node.graph, node.inputs[0]
    assert graph is not None
    assert condition is not None
    created, results = inlined(node.subgraphs[branch_name(truth)], graph, {})
    patch = Patch(graph, node.origin, node.name)
    if not truth:
        condition = patch.add(Not(), [condition]).output
    message = f"{node.name or node.kind}: its other branch cannot go on; {reason}"
    asserted = []
    for value in results:
        held = _held(value)
        result = patch.add(Assert(message=message), [held, condition]).output
        asserted.append(result if held is value else patch.add(Optional(), [result]).output)
    for old, new in zip(node.outputs, asserted):
        redirect(old, new)
    return [*created, *patch.created], asserted


def _held(value: Value) -> Value:
    """The tensor that a result is or holds."""
    if isinstance(value.type, TensorType):
        return value
    maker = value.producer
    if maker is None or maker.kind != Optional.name or not maker.inputs or maker.inputs[0] is None:
        raise TypeMismatchError(f"{value.name!r} is a {value.type}, and no tensor that is held")
    return maker.inputs[0]


def facts_of(condition: Value | None, truth: bool) -> dict[Value, Value]:
    """What is known where a condition is true, or false: constants by the values that they are."""
    facts: dict[Value, Value] = {}
    pending = [(condition, truth)]
    while pending:
        value, holds = pending.pop()
        if value is None or value.is_const or value in facts or not value.dtype.is_bool:
            continue
        maker = value.producer
        kind = "" if maker is None or maker.op.domain else maker.kind
        if value.tensor.size == 1:
            shape = tuple(d for d in value.shape if isinstance(d, int))
            facts[value] = constant(np.full(shape, holds))
        if maker is None:
            continue
        if kind == "Not":
            pending.append((maker.inputs[0], not holds))
        elif kind in _SINGLE:
            pending.append((maker.inputs[0], holds))
        elif kind == ("And" if holds else "Or"):
            pending += [(v, holds) for v in maker.operands() if v.tensor.size == 1]
    return facts


def branch_name(truth: bool) -> str:
    """The name of the branch that is taken where the condition is so."""
    return "then_branch" if truth else "else_branch"


def reads(node: Node) -> set[Value]:
    """What a node and its bodies read, outer values among them."""
    return {*node.operands(), *(captured(node) if node.subgraphs else ())}


def owner(user: Node | Graph, graph: Graph) -> Node | None:
    """The node of a graph that is, or holds, a reader; None where it lies outside, or is the graph
    itself.
    """
    while user is not graph:
        if isinstance(user, Node):
            if user.graph is graph:
                return user
            if user.graph is None:
                return None
            user = user.graph
        elif user.parent is None:
            return None
        else:
            user = user.parent
    return None
