"""Ways in which a random network grows: control flow, whose bodies grow in their turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from tests.support.generators.builder import Misfit, NetworkBuilder
from tests.support.generators.operands import like, reshaped

Generator = Callable[[NetworkBuilder], Any]


def control_flow(inner: Sequence[Generator]) -> tuple[Generator, ...]:
    """An If, a Loop and a Scan, whose bodies grow in these ways."""
    return partial(branches, inner), partial(loop, inner), partial(scan, inner)


def branches(inner: Sequence[Generator], g: NetworkBuilder) -> None:
    """An If whose branches grow by themselves and agree in their result."""
    condition = _condition(g)
    then, other = _body(g, "then"), _body(g, "else")
    for body in (then, other):
        for _ in range(g.number(1, 3)):
            body.step(g.one(inner))
    result = then.pick()
    then.graph.add_output(result)
    if result.tensor.is_static and g.chance(0.8):
        other.graph.add_output(other.call("Identity", like(other, result.tensor)))
    else:
        other.graph.add_output(other.pick(lambda v: v.dtype == result.dtype))
    _hold(g, Node(make_operator("", "If", {}), [condition], [Value(UNKNOWN)],
                  subgraphs={"then_branch": then.graph, "else_branch": other.graph}))  # fmt: skip


def _condition(g: NetworkBuilder) -> Value:
    if g.chance(0.3):
        return constant(np.array(g.chance(0.5)))
    x = g.pick(lambda v: v.dtype.kind in "fi")
    if g.chance(0.5):
        return g.call("Greater", g.call("Size", x), np.int64(g.one((0, 2, 6))))
    return g.call(
        "Reshape",
        g.call("Greater", g.call("ReduceMax", reshaped(g, x, (3,))), g.full((), 0, x.dtype)),
        [],
    )


def loop(inner: Sequence[Generator], g: NetworkBuilder) -> None:
    """A Loop with a carried value and a stacked one; the body also reads values around it."""
    first = g.pick_float()
    body = _body(g, "body")
    state = _state(body, first)
    for _ in range(g.number(1, 3)):
        body.step(g.one(inner))
    carried = body.call(g.one(("Relu", "Neg", "Tanh")), state)
    if g.chance(0.5):
        carried = body.call("Add", carried, g.constant((), state.dtype))
    going = (
        body.graph.inputs[1] if g.chance(0.7) else body.call("Identity", constant(np.array(True)))
    )
    for value in (going, carried, body.pick()):
        body.graph.add_output(value)
    trips = constant(np.array(g.number(0, 3))) if g.chance(0.7) else g.call("Size", like(g, (2,)))
    start = constant(np.array(True)) if g.chance(0.7) else None
    op = make_operator("", "Loop", {})
    _hold(
        g,
        Node(
            op,
            [trips, start, first],
            [Value(UNKNOWN), Value(UNKNOWN)],
            subgraphs={"body": body.graph},
        ),
    )


def scan(inner: Sequence[Generator], g: NetworkBuilder) -> None:
    """A Scan over the first axis of a value."""
    rows = g.pick_float(1)
    body = _body(g, "body")
    part = body.graph.add_input("part", TensorType(rows.dtype, rows.shape[1:]))
    body.values.append(part)
    body.arrays[part] = [a[0] if len(a) else np.zeros(a.shape[1:], a.dtype) for a in g.held(rows)]
    for _ in range(g.number(1, 3)):
        body.step(g.one(inner))
    body.graph.add_output(body.call("Sigmoid", part) if g.chance(0.5) else body.pick())
    more = {"scan_input_directions": (g.number(0, 1),)} if g.chance(0.3) else {}
    op = make_operator("", "Scan", {"num_scan_inputs": 1, **more})
    _hold(g, Node(op, [rows], [Value(UNKNOWN)], subgraphs={"body": body.graph}))


def _state(body: NetworkBuilder, first: Value) -> Value:
    """The inputs of a Loop's body; the carried one."""
    assert body.outer is not None
    runs = len(body.sizes)
    initial = {
        "i": (TensorType(dtypes.int64, ()), [np.array(0)] * runs),
        "going": (TensorType(dtypes.bool_, ()), [np.array(True)] * runs),
        "state": (first.tensor, body.outer.held(first)),
    }
    for name, (type, arrays) in initial.items():
        value = body.graph.add_input(name, type)
        body.arrays[value] = list(arrays)
        body.values.append(value)
    return value


def _body(g: NetworkBuilder, name: str) -> NetworkBuilder:
    if g.outer is not None and g.outer.outer is not None:
        raise Misfit("bodies are deep enough")
    body = Graph(name)
    g.bodies.append(body)
    return NetworkBuilder(g.rng, body, g.sizes, g.dtype, g)


def _hold(g: NetworkBuilder, node: Node) -> None:
    """Take a node with bodies into the graph."""
    node.origin = g.patch.origin
    g.graph.add_node(node)
    g.patch.created.append(node)
    node.op.infer_node(node)
    g.admit(node)
