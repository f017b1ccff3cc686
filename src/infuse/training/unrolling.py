"""Loops written out step by step, so that gradients flow through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value, constant
from infuse.ops.control import Loop, Scan
from infuse.ops.core.base import normalize_axis
from infuse.ops.core.differentiation import nodes_between, operand
from infuse.ops.core.gradient_building import GradientBuilder
from infuse.passes.inline import inlined
from infuse.rewrite.patch import redirect, remove_dead

MOST_TRIPS: Final = 1000
"""How often a loop may run that is written out."""


def unroll(make: GradientBuilder, loss: Value, values: Sequence[Value]) -> Value:
    """Write out the loops through which `loss` depends on `values`, where it is known how often
    they run; the value that stands for `loss` then. UnsupportedOperatorError for one that runs more
    than `MOST_TRIPS` times.
    """
    while True:
        node = next(
            (n for n in nodes_between([loss], values) if _trips(n) is not None and n.subgraphs),
            None,
        )
        if node is None:
            return loss
        results = _written_out(make, node)
        for old, new in zip(node.outputs, results):
            redirect(old, new)
        if loss in node.outputs:
            loss = results[loss.index]
        remove_dead([node])


def _trips(node: Node) -> int | None:
    """How often a loop runs, None where that is not known before, or a node is none."""
    count: object = None
    if isinstance(node.op, Loop):
        count = node.op.trips(node, node.subgraphs["body"])
    if isinstance(node.op, Scan):
        first = len(node.inputs) - node.op.num_scan_inputs
        x = operand(node, first)
        if x.tensor.shape is not None:
            count = x.shape[_axis(node.op.scan_input_axes, 0, x)]
    return count if isinstance(count, int) else None


def _axis(axes: tuple[int, ...] | None, place: int, x: Value) -> int:
    return normalize_axis(axes[place] if axes else 0, x.rank, "Scan")


def _written_out(make: GradientBuilder, node: Node) -> list[Value]:
    trips = _trips(node)
    assert trips is not None
    if not 0 < trips <= MOST_TRIPS:
        raise UnsupportedOperatorError(
            f"a loop that runs {trips} times is not written out for its gradient",
            where=f"{node.kind} node {node.name!r}",
            hint=f"between 1 and {MOST_TRIPS} times are",
        )
    return _loop(make, node, trips) if isinstance(node.op, Loop) else _scan(make, node, trips)


def _loop(make: GradientBuilder, node: Node, trips: int) -> list[Value]:
    body = node.subgraphs["body"]
    state = [operand(node, i) for i in range(2, len(node.inputs))]
    rows: list[list[Value]] = []
    for number in range(trips):
        fixed = [constant(np.array(number, np.int64)), constant(np.array(True))]
        _, results = inlined(body, make.graph, dict(zip(body.inputs, [*fixed, *state])))
        state, row = results[1 : 1 + len(state)], results[1 + len(state) :]
        rows.append(row)
    return [*state, *(_stacked(make, column, 0) for column in zip(*rows))]


def _scan(make: GradientBuilder, node: Node, trips: int) -> list[Value]:
    op, body = node.op, node.subgraphs["body"]
    assert isinstance(op, Scan)
    count = len(node.inputs) - op.num_scan_inputs
    state = [operand(node, i) for i in range(count)]
    scanned = [operand(node, i) for i in range(count, len(node.inputs))]
    rows: list[list[Value]] = []
    for number in range(trips):
        slices = []
        for place, x in enumerate(scanned):
            axis = _axis(op.scan_input_axes, place, x)
            backwards = op.scan_input_directions and op.scan_input_directions[place]
            at = trips - 1 - number if backwards else number
            part = make.slice(x, axis, at, at + 1)
            slices.append(make("Squeeze", part, make.ints(axis)))
        _, results = inlined(body, make.graph, dict(zip(body.inputs, [*state, *slices])))
        state = results[:count]
        rows.append(results[count:])
    stacked = []
    for place, column in enumerate(zip(*rows)):
        backwards = op.scan_output_directions and op.scan_output_directions[place]
        axis = op.scan_output_axes[place] if op.scan_output_axes else 0
        stacked.append(_stacked(make, column[::-1] if backwards else column, axis))
    return [*state, *stacked]


def _stacked(make: GradientBuilder, parts: Sequence[Value], axis: int) -> Value:
    axis = normalize_axis(axis, parts[0].rank + 1, "Scan")
    return make("Concat", *(make("Unsqueeze", p, make.ints(axis)) for p in parts), axis=axis)
