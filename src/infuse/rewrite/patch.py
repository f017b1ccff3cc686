"""Changing a graph: expressions become nodes, readers move over, what nobody reads goes away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import RuleError
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Use, Value, captured, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN


class Patch:
    """New nodes in one graph on behalf of one rewrite; `origin` is what they stem from, `name` what
    they stand for.
    """

    def __init__(self, graph: Graph, origin: Iterable[str] = (), name: str = "") -> None:
        self.graph = graph
        self.origin = tuple(dict.fromkeys(origin))
        self.name = name
        self.created: list[Node] = []
        self._built: dict[int, tuple[Call, Node]] = {}

    def value(self, expression: Any, like: DType | None = None) -> Value:
        """The value of an expression, building nodes as needed; numbers become constants of type
        `like`.
        """
        if isinstance(expression, Value):
            return expression
        if isinstance(expression, Call):
            node = self.node(expression)
            return node.outputs[expression.output]
        if isinstance(expression, np.ndarray):
            return constant(expression)
        if isinstance(expression, (bool, int, float, np.generic)):
            return constant(np.asarray(expression), dtype=like or _default(expression))
        if isinstance(expression, (tuple, list)):
            return constant(np.asarray(expression, dtype=np.int64))
        raise RuleError(f"{type(expression).__name__} is not an expression")

    def node(self, call: Call) -> Node:
        """The node of a call; the same call always gives the same node."""
        built = self._built.get(id(call.root))
        if built is not None:
            self._grow(built[1], call.output)
            return built[1]
        operands = [a if a is None or _is_number(a) else self.value(a) for a in call.args]
        inputs = [self.value(a, _type_for(a, operands)) if _is_number(a) else a for a in operands]
        node = self.add(
            make_operator(call.domain, call.kind, call.attributes), inputs, call.output + 1
        )
        self._built[id(call.root)] = (call.root, node)
        return node

    def add(self, op: Operator, inputs: Sequence[Value | None], outputs: int = 1) -> Node:
        """A node of a given operator object."""
        values = [Value(UNKNOWN) for _ in range(outputs)]
        node = Node(
            op,
            inputs,
            values,
            name=f"{self.name}/{op.name}" if self.name else "",
            origin=self.origin,
        )
        self.graph.add_node(node)
        self.created.append(node)
        node.op.infer_node(node)
        return node

    def _grow(self, node: Node, output: int) -> None:
        if len(node.outputs) > output:
            return
        while len(node.outputs) <= output:
            value = Value(UNKNOWN)
            value.producer, value.index = node, len(node.outputs)
            node.outputs.append(value)
        node.op.infer_node(node)

    def undo(self) -> None:
        """Remove what was created and is not read."""
        for node in reversed(self.created):
            if node.graph is not None and not node.is_read:
                self.graph.remove(node)


def _is_number(expression: Any) -> bool:
    return isinstance(expression, (bool, int, float, np.generic))


def _default(number: Any) -> DType:
    if isinstance(number, np.generic):
        return dtypes.by_numpy(number.dtype)
    return (
        dtypes.bool_
        if isinstance(number, bool)
        else dtypes.int64
        if isinstance(number, int)
        else dtypes.float32
    )


def _type_for(number: Any, operands: Sequence[Any]) -> DType | None:
    """The element type of the first operand that can hold `number`."""
    kinds = (
        "b"
        if isinstance(number, (bool, np.bool_))
        else "fiu"
        if isinstance(number, (int, np.integer))
        else "f"
    )
    return next((v.dtype for v in operands if isinstance(v, Value) and v.dtype.kind in kinds), None)


# -- edges -----------------------------------------------------------------------------------------


def remove_dead(candidates: Iterable[Node]) -> list[Node]:
    """Remove the candidates that nobody reads, and what only they kept alive; returns the removed
    nodes.
    """
    removed: list[Node] = []
    pending = list(candidates)
    while pending:
        node = pending.pop()
        if node.graph is None or node.is_read:
            continue
        below = producers(node)
        node.graph.remove(node)
        removed.append(node)
        pending.extend(below)
    return removed


def producers(node: Node) -> list[Node]:
    """The nodes whose values `node` and its bodies read, those outside the bodies among them."""
    nodes = [v.producer for v in node.inputs if v is not None and v.producer is not None]
    if node.subgraphs:
        nodes += [v.producer for v in captured(node) if v.producer is not None]
    return nodes


def redirect(old: Value, new: Value, created: Collection[Node] = ()) -> None:
    """Move all readers of `old` to `new`, which takes over the name where it has none; `created`
    read on.
    """
    for use in list(old.uses):
        if use.user not in created:
            old.move_use(use, new)
    if old.name and not new.name and new.producer is not None:
        new.name = old.name


def other_use(value: Value, nodes: Iterable[Node]) -> Use | None:
    """The first use of `value` by somebody else than `nodes`, None when there is none."""
    allowed = nodes if isinstance(nodes, (set, frozenset)) else set(nodes)
    for use in value.uses:
        if not isinstance(use.user, Node) or use.user not in allowed:
            return use
    return None
