"""Matching of a pattern against the graph around a node, with backtracking over operand orders and
spellings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from infuse.dtypes import DType
from infuse.ir.expression import Call, OneOf, Variable
from infuse.ir.graph import Array, Node, Value

TOLERANCE = 2e-6
"""Relative difference up to which a constant in a model is a rounded number of a pattern: models
store float32, some exporters print seven digits. Numbers that float32 holds exactly (0, 1, 0.5, 6)
are compared exactly.
"""
DOUBLE_TOLERANCE = 1e-12
"""The same for constants that are stored as float64: seven digits are another number there."""
SPLAT_LIMIT = 1 << 16
"""Elements of the largest constant that is compared with one number."""


class Match(NamedTuple):
    """What a pattern bound: values by variable name, nodes by label, and every node it covers (root
    first).
    """

    root: Node
    bound: dict[str, Any]
    nodes: tuple[Node, ...]


@dataclass
class Trace:
    """The best partial match so far: which nodes agreed, and where and why it stopped."""

    depth: int = -1
    node: Node | None = None
    reason: str = ""
    covered: tuple[Node, ...] = field(default=())

    def note(self, state: _State, node: Node, reason: str) -> None:
        if len(state.nodes) > self.depth:
            self.depth, self.node, self.reason, self.covered = (
                len(state.nodes),
                node,
                reason,
                state.nodes,
            )


class _State(NamedTuple):
    bound: Mapping[str, Any]
    nodes: tuple[Node, ...]
    calls: tuple[tuple[Call, Node], ...] = ()

    def bind(self, name: str, value: Any) -> _State:
        return _State({**self.bound, name: value}, self.nodes, self.calls)

    def cover(self, call: Call, node: Node) -> _State:
        bound = {**self.bound, call.label: node} if call.label else self.bound
        return _State(bound, (*self.nodes, node), (*self.calls, (call.root, node)))


def matches(pattern: Call, root: Node, trace: Trace | None = None) -> Iterator[Match]:
    """All ways in which `pattern` fits with `root` as its last operation; nodes of other graphs are
    not matched.
    """
    if trace is None and _is_flat(pattern):
        return _flat_matches(pattern, root)
    return _deep_matches(pattern, root, trace)


def _deep_matches(pattern: Call, root: Node, trace: Trace | None) -> Iterator[Match]:
    for state in _match_node(pattern, root, _State({}, ()), trace):
        yield Match(root, dict(state.bound), state.nodes)


@lru_cache(maxsize=4096)
def _is_flat(pattern: Call) -> bool:
    """Whether a pattern is one operation on anything: there is nothing to search for."""
    return not pattern.attributes and all(isinstance(a, Variable) for a in pattern.args)


def _flat_matches(pattern: Call, root: Node) -> Iterator[Match]:
    if root.op.name != pattern.kind or root.op.domain != pattern.domain:
        return
    args, inputs = pattern.args, root.inputs
    bound = _flat_bound(pattern, root, inputs)
    if bound is not None:
        yield Match(root, bound, (root,))
    if len(args) == 2 == len(inputs) and is_commutative(root) and args[0] is not args[1]:
        bound = _flat_bound(pattern, root, inputs[::-1])
        if bound is not None:
            yield Match(root, bound, (root,))


def _flat_bound(pattern: Call, root: Node, values: Sequence[Value | None]) -> dict[str, Any] | None:
    """What the variables of a flat pattern stand for, None where they cannot."""
    bound: dict[str, Any] = {pattern.label: root} if pattern.label else {}
    for place, variable in enumerate(pattern.args):
        if variable.variadic:
            rest = tuple(values[place:])
            return bound if bound.setdefault(variable.name, rest) == rest else None
        value = values[place] if place < len(values) else None
        if value is None:
            if not variable.optional:
                return None
        elif variable.constant and value.const is None:
            return None
        if bound.setdefault(variable.name, value) is not value:
            return None
    return bound if len(values) <= len(pattern.args) else None


def _match_node(call: Call, node: Node, state: _State, trace: Trace | None) -> Iterator[_State]:
    if node.op.name != call.kind or node.op.domain != call.domain:
        if trace:
            trace.note(state, node, f"{call.kind} is needed, {node.kind} found")
        return
    if state.nodes and node.graph is not state.nodes[0].graph:
        if trace:
            trace.note(state, node, f"{node.kind} lies in another graph")
        return
    for pattern, matched in state.calls:
        if pattern is call.root:
            if matched is node:
                yield state
            elif trace:
                trace.note(state, node, f"the same {call.kind} is needed in both places")
            return
    if call.attributes:
        attributes = node.op.attributes()
        for name, expected in call.attributes.items():
            if not _equal(attributes.get(name), expected):
                if trace:
                    trace.note(
                        state,
                        node,
                        f"attribute {name} is {attributes.get(name)!r}, {expected!r} is needed",
                    )
                return
    covered = state.cover(call, node)
    args, inputs = call.args, node.inputs
    yield from _match_operands(args, inputs, 0, node, covered, trace)
    if len(args) == 2 == len(inputs) and is_commutative(node) and args[0] is not args[1]:
        yield from _match_operands(args, inputs[::-1], 0, node, covered, trace)


def is_commutative(node: Node) -> bool:
    """Whether the order of the operands does not matter."""
    return bool(getattr(node.op, "commutative", False))


def _equal(value: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(value, (int, float)):
        return math.isclose(value, expected, rel_tol=TOLERANCE)
    return bool(value == expected)


def _match_operands(
    patterns: tuple[Any, ...],
    values: Sequence[Value | None],
    start: int,
    node: Node,
    state: _State,
    trace: Trace | None,
) -> Iterator[_State]:
    """The states in which the operands from `start` on fit."""
    for place in range(start, len(patterns)):
        pattern = patterns[place]
        value = values[place] if place < len(values) else None
        if not isinstance(pattern, Variable):
            for matched in _match_value(pattern, value, node, state, trace):
                yield from _match_operands(patterns, values, place + 1, node, matched, trace)
            return
        if pattern.variadic:
            rest = tuple(values[place:])
            if pattern.name not in state.bound:
                yield state.bind(pattern.name, rest)
            elif state.bound[pattern.name] == rest:
                yield state
            return
        bound = _match_variable(pattern, value, node, state, trace)
        if bound is None:
            return
        state = bound
    if len(values) <= len(patterns):
        yield state
    elif trace:
        trace.note(
            state,
            node,
            f"{node.kind} has {len(values) - len(patterns)} more inputs than the pattern",
        )


def _match_value(
    pattern: Any, value: Value | None, node: Node, state: _State, trace: Trace | None
) -> Iterator[_State]:
    if isinstance(pattern, Call):
        producer = None if value is None else value.producer
        if producer is not None and value is not None and value.index == pattern.output:
            if trace is not None or producer.op.name == pattern.kind:
                yield from _match_node(pattern, producer, state, trace)
        elif trace and value is None:
            trace.note(state, node, f"an input of {node.kind} is absent")
        elif trace and value is not None:
            trace.note(
                state,
                node,
                f"{pattern.kind} is needed as input of {node.kind}, found {_source(value)}",
            )
    elif isinstance(pattern, Variable):
        bound = _match_variable(pattern, value, node, state, trace)
        if bound is not None:
            yield bound
    elif isinstance(pattern, OneOf):
        producer = None if value is None else value.producer
        kind = None if producer is None else producer.op.name
        for choice in pattern.of_kind(kind) if trace is None else pattern.choices:
            yield from _match_value(choice, value, node, state, trace)
    elif pattern is None:
        if value is None:
            yield state
        elif trace:
            trace.note(state, node, f"an input of {node.kind} must be absent")
    elif value is None:
        if trace:
            trace.note(state, node, f"an input of {node.kind} is absent")
    elif is_number(value, pattern):
        yield state
    elif trace:
        trace.note(state, node, f"the constant {pattern} is needed as input of {node.kind}")


def _source(value: Value) -> str:
    if value.producer is not None:
        return f"output {value.index} of {value.producer.kind}"
    return "a constant" if value.is_const else "an input of the graph"


def _match_variable(
    variable: Variable, value: Value | None, node: Node, state: _State, trace: Trace | None
) -> _State | None:
    """The state in which the variable stands for `value`, None where it cannot."""
    if value is None and not variable.optional:
        reason = f"input {variable.name} of {node.kind} is absent" if trace else ""
    elif variable.constant and value is not None and not value.is_const:
        reason = f"{variable.name} must be a constant"
    elif variable.name not in state.bound:
        return state.bind(variable.name, value)
    elif state.bound[variable.name] is value:
        return state
    else:
        reason = f"{variable.name} must be the same value in both places"
    if trace:
        trace.note(state, node, reason)
    return None


# -- numbers ---------------------------------------------------------------------------------------


def is_number(value: Value | None, number: Any) -> bool:
    """Whether `value` is a constant all of whose elements are `number` (an array: elementwise)."""
    if value is None or value.const is None:
        return False
    data = value.const
    if isinstance(number, np.ndarray):
        return data.shape == number.shape and bool(np.array_equal(data, number))
    if not 0 < data.size <= SPLAT_LIMIT or value.dtype.is_bool is not isinstance(number, bool):
        return False
    if value.dtype.kind not in "fiub" or not _near(data.flat[0], number, value.dtype):
        return False
    return data.size == 1 or _is_splat(data) or _all_near(data, number, value.dtype)


def _near(element: Any, number: float, dtype: DType) -> bool:
    x, y = float(element), float(number)
    return x == y or math.isclose(x, y, rel_tol=_tolerance(y, dtype))


def _is_splat(data: Array) -> bool:
    return bool((data == data.flat[0]).all())


def _all_near(data: Array, number: float, dtype: DType) -> bool:
    y = float(number)
    return bool(np.all(np.abs(data.astype(np.float64) - y) <= _tolerance(y, dtype) * abs(y)))


def _tolerance(number: float, dtype: DType) -> float:
    """How far a stored constant may lie from `number`, relative to it."""
    if not dtype.is_float or float(np.float32(number)) == number:
        return 0.0
    if dtype.bits == 64:
        return DOUBLE_TOLERANCE
    return max(
        TOLERANCE, {16: 2.0**-8 if dtype.name == "bfloat16" else 2.0**-11}.get(dtype.bits, 0.0)
    )
