"""Matching of a pattern against the graph around a node, with backtracking over operand orders and spellings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.ir.expression import Call, OneOf, Variable
from infuse.ir.graph import Node, Value

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "Sum", "BitwiseAnd", "BitwiseOr"})
TOLERANCE = 2e-6
"""Relative difference up to which a constant in a model is the number in a pattern: models store float32, some
exporters print seven digits."""


@dataclass(frozen=True)
class Match:
    """What a pattern bound: values by variable name, nodes by label, and every node it covers (root first)."""

    root: Node
    bound: Mapping[str, Any]
    nodes: tuple[Node, ...]


@dataclass
class Trace:
    """The best partial match so far: how many pattern nodes agreed, and where and why it stopped."""

    depth: int = -1
    node: Node | None = None
    reason: str = ""
    covered: tuple[Node, ...] = field(default=())

    def note(self, state: _State, node: Node | None, reason: str) -> None:
        if len(state.nodes) > self.depth:
            self.depth, self.node, self.reason, self.covered = len(state.nodes), node, reason, state.nodes


@dataclass(frozen=True)
class _State:
    bound: Mapping[str, Any]
    nodes: tuple[Node, ...]
    calls: tuple[tuple[Call, Node], ...] = ()

    def bind(self, name: str, value: Any) -> _State:
        return _State({**self.bound, name: value}, self.nodes, self.calls)

    def cover(self, call: Call, node: Node) -> _State:
        bound = {**self.bound, call.label: node} if call.label else self.bound
        return _State(bound, (*self.nodes, node), (*self.calls, (call.root, node)))


def matches(pattern: Call, root: Node, trace: Trace | None = None) -> Iterator[Match]:
    """All ways in which `pattern` fits with `root` as its last operation."""
    for state in _match_node(pattern, root, _State({}, ()), trace):
        yield Match(root, state.bound, state.nodes)


def _match_node(call: Call, node: Node, state: _State, trace: Trace | None) -> Iterator[_State]:
    if node.kind != call.kind or node.op.domain != call.domain:
        if trace:
            trace.note(state, node, f"{call.kind} is needed, {node.kind} found")
        return
    for known, matched in state.calls:
        if known is call.root:
            if matched is node:
                yield state
            return
    if call.attributes:
        found = node.op.attributes()
        for name, wanted in call.attributes.items():
            if not _equal(found.get(name), wanted):
                if trace:
                    trace.note(state, node, f"attribute {name} is {found.get(name)!r}, {wanted!r} is needed")
                return
    covered = state.cover(call, node)
    yield from _match_operands(call.args, tuple(node.inputs), node, covered, trace)
    if len(call.args) == 2 == len(node.inputs) and node.kind in COMMUTATIVE and call.args[0] is not call.args[1]:
        yield from _match_operands(call.args, tuple(node.inputs[::-1]), node, covered, trace)


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        return bool(np.isclose(found, wanted, rtol=TOLERANCE, atol=0))
    return bool(found == wanted)


def _match_operands(
    patterns: tuple[Any, ...], values: tuple[Value | None, ...], node: Node, state: _State, trace: Trace | None
) -> Iterator[_State]:
    if not patterns:
        if not values:
            yield state
        elif trace:
            trace.note(state, node, f"{node.kind} has {len(values)} more inputs than the pattern")
        return
    first = patterns[0]
    if isinstance(first, Variable) and first.variadic:
        yield state.bind(first.name, values)
        return
    value = values[0] if values else None
    for matched in _match_value(first, value, node, state, trace):
        yield from _match_operands(patterns[1:], values[1:], node, matched, trace)


def _match_value(pattern: Any, value: Value | None, node: Node, state: _State, trace: Trace | None) -> Iterator[_State]:
    if isinstance(pattern, Variable):
        yield from _match_variable(pattern, value, node, state, trace)
    elif isinstance(pattern, OneOf):
        for choice in pattern.choices:
            yield from _match_value(choice, value, node, state, trace)
    elif value is None:
        if trace:
            trace.note(state, node, f"an input of {node.kind} is absent")
    elif isinstance(pattern, Call):
        if value.producer is None or value.index != pattern.output:
            if trace:
                what = "a constant" if value.is_const else "an input of the graph"
                trace.note(state, node, f"{pattern.kind} is needed as input of {node.kind}, found {what}")
        else:
            yield from _match_node(pattern, value.producer, state, trace)
    elif is_number(value, pattern):
        yield state
    elif trace:
        trace.note(state, node, f"the constant {pattern} is needed as input of {node.kind}")


def _match_variable(
    variable: Variable, value: Value | None, node: Node, state: _State, trace: Trace | None
) -> Iterator[_State]:
    if value is None and not variable.optional:
        if trace:
            trace.note(state, node, f"input {variable.name} of {node.kind} is absent")
    elif variable.constant and value is not None and not value.is_const:
        if trace:
            trace.note(state, node, f"{variable.name} must be a constant")
    elif variable.name not in state.bound:
        yield state.bind(variable.name, value)
    elif state.bound[variable.name] is value:
        yield state
    elif trace:
        trace.note(state, node, f"{variable.name} must be the same value in both places")


def is_number(value: Value | None, number: Any) -> bool:
    """Whether `value` is a constant all of whose elements are `number` (an array: elementwise)."""
    if value is None or value.const is None:
        return False
    data = value.const
    if isinstance(number, np.ndarray):
        return data.shape == number.shape and bool(np.array_equal(data, number))
    if data.size == 0 or data.size > 65536 or data.dtype.kind not in "fiubV":
        return False
    if data.dtype.kind in "iub":
        return bool(np.all(data == number))
    return bool(np.allclose(data.astype(np.float64), float(number), rtol=TOLERANCE, atol=0))
