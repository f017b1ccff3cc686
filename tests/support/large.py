"""Large synthetic graphs, to see how work grows with the number of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from infuse import dtypes, ops
from infuse.ir.dims import symbol
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.rewrite.patch import Patch

WIDTH = 8
"""Features of every tensor: the sizes that matter here are of the graph."""
HEADS = 2
FAMILIES: dict[str, Callable[[int], Graph]] = {}
"""Graphs of about so many nodes, bodies counted, by what is difficult about them."""

Family = Callable[[int], Graph]


def _family(build: Family) -> Family:
    FAMILIES[build.__name__] = build
    return build


class _Building:
    """A graph that grows by expressions."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self.patch = Patch(self.graph)
        self.rng = np.random.default_rng(0)

    def input(self, name: str = "x", shape: tuple[object, ...] = ("batch", "seq", WIDTH)) -> Value:
        sizes = tuple(symbol(d) if isinstance(d, str) else d for d in shape)
        return self.graph.add_input(name, TensorType(dtypes.float32, sizes))  # type: ignore[arg-type]

    def __call__(self, expression: object) -> Value:
        return self.patch.value(expression)

    def weights(self, *shape: int) -> Value:
        return constant(self.rng.uniform(-1, 1, shape).astype(np.float32))

    def done(self, *outputs: Value) -> Graph:
        for number, value in enumerate(outputs):
            self.graph.add_output(value, f"y{number}")
        for inner in self.graph.all_graphs():
            _name(inner)
        return self.graph


def _name(graph: Graph) -> None:
    for number, node in enumerate(graph.unordered_nodes):
        node.name = f"{node.kind}_{number}"
        node.origin = (node.name,)
        for index, value in enumerate(node.outputs):
            value.name = f"{node.name}.{index}"


@_family
def chain(nodes: int) -> Graph:
    """One elementwise operation after the other, some without effect."""
    build = _Building("chain")
    value = build.input()
    steps: list[Callable[[Value], object]] = [
        ops.tanh,
        lambda v: ops.add(v, np.float32(0.5)),
        ops.identity,
        lambda v: ops.mul(v, build.weights(WIDTH)),
        ops.relu,
        lambda v: ops.mul(v, np.float32(1)),
        ops.sigmoid,
        lambda v: ops.transpose(v, perm=(0, 2, 1)) if len(build.graph) % 2 else ops.neg(v),
    ]
    for number in range(nodes):
        value = build(steps[number % 7](value))
    return build.done(value)


@_family
def wide(nodes: int) -> Graph:
    """Many readers of one value, gathered by one node."""
    build = _Building("wide")
    x = build.input()
    bias = build.weights(WIDTH)
    parts = [
        build(ops.tanh(ops.mul(ops.add(x, bias), np.float32(n + 2)))) for n in range(nodes // 3)
    ]
    return build.done(build(ops.concat(*parts, axis=1)))


@_family
def fan(nodes: int) -> Graph:
    """Values with very many readers: an input, a weight and a size, each behind operations without
    effect.
    """
    build = _Building("fan")
    x = build.input(shape=("batch", WIDTH))
    weight, size = build.weights(WIDTH), build(ops.shape(x))
    outputs: list[Value] = []
    while len(build.graph) < nodes:
        row = ops.add(ops.identity(x), ops.identity(weight))
        outputs.append(
            build(
                ops.reshape(ops.mul(ops.dropout(row), np.float32(len(outputs))), ops.identity(size))
            )
        )
    return build.done(*outputs)


@_family
def transformer(nodes: int) -> Graph:
    """Layers as exporters write them: normalization in parts, attention through reshapes,
    erf-GELU.
    """
    build = _Building("transformer")
    x = build.input()
    while len(build.graph) < nodes:
        x = _layer(build, x)
    return build.done(x)


def _layer(build: _Building, x: Value) -> Value:
    normal = _normalized(build, x)
    q, k, v = (_heads(build, _linear(build, normal), x) for _ in range(3))
    scores = ops.div(
        ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))), np.float32(math.sqrt(WIDTH / HEADS))
    )
    mixed = build(ops.transpose(ops.matmul(ops.softmax(scores, axis=-1), v), perm=(0, 2, 1, 3)))
    joined = build(ops.reshape(mixed, build(_shape_of(x, [WIDTH]))))
    x = build(ops.add(x, _linear(build, joined)))
    hidden = _linear(build, _normalized(build, x))
    gelu = ops.mul(
        ops.mul(hidden, ops.add(ops.erf(ops.div(hidden, np.float32(math.sqrt(2)))), np.float32(1))),
        np.float32(0.5),
    )
    return build(ops.add(x, _linear(build, build(gelu))))


def _normalized(build: _Building, x: Value) -> Value:
    axes = np.array([-1])
    centred = build(ops.sub(x, ops.reduce_mean(x, axes)))
    variance = ops.reduce_mean(ops.pow(centred, np.float32(2)), axes)
    scaled = ops.div(centred, ops.sqrt(ops.add(variance, np.float32(1e-5))))
    return build(ops.add(ops.mul(scaled, build.weights(WIDTH)), build.weights(WIDTH)))


def _linear(build: _Building, x: Value) -> Value:
    return build(ops.add(ops.matmul(x, build.weights(WIDTH, WIDTH)), build.weights(WIDTH)))


def _heads(build: _Building, x: Value, like: Value) -> Value:
    split = ops.reshape(x, build(_shape_of(like, [HEADS, WIDTH // HEADS])))
    return build(ops.transpose(split, perm=(0, 2, 1, 3)))


def _shape_of(x: Value, rest: list[int]) -> object:
    """The first two sizes of `x` and these, computed as exporters do: Shape, Gather, Unsqueeze,
    Concat.
    """
    parts = [
        ops.unsqueeze(ops.gather(ops.shape(x), np.array(n), axis=0), np.array([0]))
        for n in range(2)
    ]
    return ops.concat(*parts, *(np.array([n]) for n in rest), axis=0)


@_family
def repeated(nodes: int) -> Graph:
    """The same work over and over: all of it is common."""
    build = _Building("repeated")
    x = build.input()
    total = x
    while len(build.graph) < nodes:
        total = build(ops.add(total, ops.tanh(ops.mul(ops.sigmoid(x), np.array([3], np.float32)))))
    return build.done(total)


@_family
def shapes(nodes: int) -> Graph:
    """Shape arithmetic around every operation."""
    build = _Building("shapes")
    x = build.input()
    while len(build.graph) < nodes:
        flat = build(ops.reshape(x, ops.concat(_product_of(build, x), np.array([WIDTH]), axis=0)))
        x = build(ops.tanh(ops.reshape(flat, build(_shape_of(x, [WIDTH])))))
    return build.done(x)


def _product_of(build: _Building, x: Value) -> object:
    sizes = build(ops.shape(x))
    first = ops.gather(sizes, np.array(0), axis=0)
    second = ops.cast(ops.gather(sizes, np.array(1), axis=0), to=dtypes.int64)
    return ops.unsqueeze(ops.mul(first, second), np.array([0]))


@_family
def constants(nodes: int) -> Graph:
    """Work on constants alone beside work on the input."""
    build = _Building("constants")
    x = build.input()
    while len(build.graph) < nodes:
        made = build(
            ops.transpose(ops.mul(build.weights(WIDTH, WIDTH), np.float32(2)), perm=(1, 0))
        )
        x = build(
            ops.tanh(ops.matmul(x, ops.cast(ops.cast(made, to=dtypes.float64), to=dtypes.float32)))
        )
    return build.done(x)


@_family
def branches(nodes: int) -> Graph:
    """One If after the other, each with work in both of its bodies."""
    build = _Building("branches")
    x = build.input()
    condition = build.graph.add_input("condition", TensorType(dtypes.bool_, ()))
    count = 0
    while count < nodes:
        bodies = {"then_branch": _branch(x, 0.5), "else_branch": _branch(x, 2.0)}
        node = Node(make_operator("", "If", {}), [condition], [Value(x.type)], subgraphs=bodies)
        build.graph.add_node(node)
        node.op.infer_node(node)
        x = build(ops.tanh(node.output))
        count += 2 + sum(map(len, bodies.values()))
    return build.done(x)


def _branch(x: Value, factor: float) -> Graph:
    inner = _Building("branch")
    result = inner(
        ops.identity(ops.mul(ops.sigmoid(ops.add(x, inner.weights(WIDTH))), np.float32(factor)))
    )
    return inner.done(inner(ops.reshape(result, inner(_shape_of(x, [WIDTH])))))


@_family
def loops(nodes: int) -> Graph:
    """One Loop after the other, each carrying a value and reading others of the graph around it."""
    build = _Building("loops")
    x = build.input()
    count = 0
    while count < nodes:
        body = _loop_body(x)
        inputs = [constant(3), constant(np.array(True)), x]
        node = Node(
            make_operator("", "Loop", {}), inputs, [Value(x.type)], subgraphs={"body": body}
        )
        build.graph.add_node(node)
        node.op.infer_node(node)
        x = build(ops.tanh(node.output))
        count += 2 + len(body)
    return build.done(x)


def _loop_body(x: Value) -> Graph:
    inner = _Building("body")
    inner.graph.add_input("i", TensorType(dtypes.int64, ()))
    going = inner.graph.add_input("going", TensorType(dtypes.bool_, ()))
    carried = inner.graph.add_input("carried", x.type)
    steady = ops.mul(ops.sigmoid(x), np.float32(2))
    last = inner(ops.reshape(ops.tanh(ops.add(carried, steady)), inner(_shape_of(x, [WIDTH]))))
    return inner.done(inner(ops.identity(going)), last)


def node_count(graph: Graph) -> int:
    """Nodes of a graph and of all bodies inside."""
    return sum(len(inner) for inner in graph.all_graphs())
