"""Changing a graph: expressions become nodes, readers move over, what nobody reads goes away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import RuleError
from infuse.ir.expression import Call, make_operator
from infuse.ir.graph import Graph, Node, Use, Value, constant
from infuse.ir.types import TensorType


class Patch:
    """New nodes in one graph on behalf of one rewrite; `origin` is what they stem from."""

    def __init__(self, graph: Graph, origin: Iterable[str] = (), name: str = "") -> None:
        self.graph = graph
        self.origin = tuple(dict.fromkeys(origin))
        self.name = name
        self.created: list[Node] = []
        self._built: dict[int, tuple[Call, Node]] = {}

    def value(self, expression: Any, like: DType | None = None) -> Value:
        """The value of an expression, building nodes as needed; numbers become constants of type `like`."""
        if isinstance(expression, Value):
            return expression
        if isinstance(expression, Call):
            return self.node(expression).outputs[expression.output]
        if isinstance(expression, np.ndarray):
            return constant(expression)
        if isinstance(expression, (bool, int, float, np.generic)):
            default = dtypes.float32 if isinstance(expression, float) else dtypes.int64
            return constant(np.asarray(expression), dtype=like or default)
        if isinstance(expression, (tuple, list)):
            return constant(np.asarray(expression, dtype=np.int64))
        raise RuleError(f"{self.name}: {type(expression).__name__} is no expression")

    def node(self, call: Call) -> Node:
        """The node of a call; the same call always gives the same node."""
        known = self._built.get(id(call.root))
        if known is not None:
            self._grow(known[1], call.output)
            return known[1]
        like = self._dtype_of(call.args)
        inputs = [None if a is None else self.value(a, like) for a in call.args]
        operator = make_operator(call.domain, call.kind, call.attributes)
        node = Node(operator, inputs, [Value(TensorType(dtypes.float32, None))], origin=self.origin)
        self._grow(node, call.output)
        node.name = self.name
        self.graph.add_node(node)
        node.op.infer_node(node)
        self.created.append(node)
        self._built[id(call.root)] = (call.root, node)
        return node

    def add(self, op: Any, inputs: Sequence[Value | None], outputs: int = 1) -> list[Value]:
        """A node of a given operator object; its outputs."""
        values = [Value(TensorType(dtypes.float32, None)) for _ in range(outputs)]
        node = self.graph.add_node(Node(op, inputs, values, name=self.name, origin=self.origin))
        node.op.infer_node(node)
        self.created.append(node)
        return values

    def _grow(self, node: Node, output: int) -> None:
        while len(node.outputs) <= output:
            value = Value(TensorType(dtypes.float32, None))
            value.producer, value.index = node, len(node.outputs)
            node.outputs.append(value)
            if node.graph is not None:
                node.op.infer_node(node)

    def _dtype_of(self, args: Sequence[Any]) -> DType | None:
        for arg in args:
            if isinstance(arg, Value):
                return arg.dtype
        for arg in args:
            if isinstance(arg, Call):
                return self.value(arg).dtype
        return None

    def undo(self) -> None:
        """Remove what was created and is not read."""
        for node in reversed(self.created):
            if node.graph is not None and not any(v.uses for v in node.outputs):
                self.graph.remove(node)


def remove_dead(graph: Graph, candidates: Iterable[Node]) -> list[Node]:
    """Remove the candidates that nobody reads, and what only they kept alive; returns the removed nodes."""
    removed: list[Node] = []
    pending = list(candidates)
    while pending:
        node = pending.pop()
        if node.graph is None or any(v.uses for v in node.outputs):
            continue
        owner = node.graph
        below = [v.producer for v in node.operands() if v.producer is not None]
        for body in node.subgraphs.values():
            below += _producers_outside(body)
        owner.remove(node)
        removed.append(node)
        pending.extend(below)
    return removed


def _producers_outside(body: Graph) -> list[Node]:
    found = []
    for graph in body.all_graphs():
        for node in graph.unordered_nodes:
            found += [v.producer for v in node.operands() if v.producer is not None]
        found += [v.producer for v in graph.outputs if v.producer is not None]
    return found


def redirect(old: Value, new: Value) -> None:
    """Move all readers of `old` to `new`, which takes over the name unless it has a better one."""
    for user, index in list(old.uses):
        if isinstance(user, Node) and new.producer is user:
            continue
        user.set_operand(index, new)
    if old.name and (not new.name or old.is_graph_output) and new.producer is not None:
        new.name = old.name


def is_output(value: Value) -> bool:
    """Whether a graph (or body) gives this value out."""
    return any(not isinstance(use.user, Node) for use in value.uses)


def only_used_by(value: Value, nodes: Iterable[Node]) -> Use | None:
    """The first use of `value` by somebody else than `nodes`, None when there is none."""
    allowed = set(nodes)
    for use in value.uses:
        if not isinstance(use.user, Node) or use.user not in allowed:
            return use
    return None
