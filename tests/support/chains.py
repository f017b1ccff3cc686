"""Networks of one block after the other, as exporters write them: as deep as is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import tensor
from infuse.testing.networks import Network

Chain = Callable[[int], Graph]
"""A network of so many blocks."""
_WIDTH, _HEADS, _SIDE, _WINDOW = 16, 2, 8, 4


def convolutions(depth: int) -> Graph:
    """Residual blocks of images: batch normalization, a depthwise window, a gate for each
    channel.
    """
    net = Network("convolutions", (1, 8, 6, 6))
    x = net.input
    for _ in range(depth):
        inner = net.add("Relu", _batch_normalized(net, net.conv(x, 8)))
        inner = net.conv(inner, 8, 3, group=8)
        inner = net.add("Mul", inner, net.add("Sigmoid", inner))
        gate = net.add("Relu", net.conv(net.add("GlobalAveragePool", inner), 4))
        gate = net.add("HardSigmoid", net.conv(gate, 8))
        x = net.add("Relu", net.add("Add", x, net.conv(net.add("Mul", inner, gate), 8)))
    return net.end(net.linear(net.add("Flatten", net.add("GlobalAveragePool", x)), 3))


def attention(depth: int) -> Graph:
    """Layers of an encoder over sizes that only a run knows, read off shapes again and again."""
    net = Network("attention", (1, 1, _WIDTH))
    net.input.type = tensor(dtypes.float32, "batch", "length", _WIDTH)
    x = net.input
    for _ in range(depth):
        query, key, value = (_heads(net, net.linear(x, _WIDTH), x) for _ in range(3))
        turned = net.add("Transpose", key, perm=(0, 1, 3, 2))
        scores = net.add("Div", net.add("MatMul", query, turned), np.array(2, np.float32))
        weights = net.add("Softmax", scores, axis=-1)
        rows = net.add("Transpose", net.add("MatMul", weights, value), perm=(0, 2, 1, 3))
        joined = net.add("Reshape", rows, _sizes(net, x, _WIDTH))
        x = _normalized(net, net.add("Add", x, net.linear(joined, _WIDTH)))
        x = _normalized(net, net.add("Add", x, net.linear(_gelu(net, net.linear(x, 32)), _WIDTH)))
    return net.end(x)


def windows(depth: int) -> Graph:
    """Pixels moved around the edge and cut into windows, mixed, and put back."""
    net = Network("windows", (1, _SIDE, _SIDE, _WIDTH))
    count, x = _SIDE // _WINDOW, net.input
    for _ in range(depth):
        moved = _rolled(net, net.normalized(x), 2)
        cut = net.reshaped(moved, 1, count, _WINDOW, count, _WINDOW, _WIDTH)
        cut = net.add("Transpose", cut, perm=(0, 1, 3, 2, 4, 5))
        rows = net.reshaped(cut, count * count, _WINDOW * _WINDOW, _WIDTH)
        rows = net.linear(net.add("Gelu", net.linear(rows, 32)), _WIDTH)
        back = net.reshaped(rows, 1, count, count, _WINDOW, _WINDOW, _WIDTH)
        back = net.add("Transpose", back, perm=(0, 1, 3, 2, 4, 5))
        x = net.add("Add", x, _rolled(net, net.reshaped(back, 1, _SIDE, _SIDE, _WIDTH), 6))
    return net.end(x)


def branches(depth: int) -> Graph:
    """Four times as many If: branches that do the same at first."""
    net = Network("branches", (2, _WIDTH))
    condition = net.graph.add_input("condition", tensor(dtypes.bool_))
    x = net.input
    for number in range(4 * depth):
        same = net.add("Not", net.add("Not", condition)) if number % 2 else condition
        x = net.add("Tanh", _chosen(net, same, x))
    return net.end(x)


CHAINS: tuple[Chain, ...] = (convolutions, attention, windows, branches)


def _batch_normalized(net: Network, x: Value) -> Value:
    channels = [np.abs(net.weights(8)) + 1 for _ in range(4)]
    return net.add("BatchNormalization", x, *channels)


def _gelu(net: Network, x: Value) -> Value:
    scaled = net.add("Div", x, np.array(math.sqrt(2), np.float32))
    grown = net.add("Add", net.add("Erf", scaled), np.array(1, np.float32))
    return net.add("Mul", net.add("Mul", x, grown), np.array(0.5, np.float32))


def _normalized(net: Network, x: Value) -> Value:
    axes, two = np.array([-1]), np.array(2, np.float32)
    apart = net.add("Sub", x, net.add("ReduceMean", x, axes))
    spread = net.add("ReduceMean", net.add("Pow", apart, two), axes)
    size = net.add("Sqrt", net.add("Add", spread, np.array(1e-5, np.float32)))
    scaled = net.add("Mul", net.add("Div", apart, size), net.weights(_WIDTH))
    return net.add("Add", scaled, net.weights(_WIDTH))


def _sizes(net: Network, x: Value, *last: int) -> Value:
    """The first two sizes of `x`, and some more."""
    parts = []
    for axis in range(2):
        size = net.add("Gather", net.add("Shape", x), np.array(axis), axis=0)
        parts.append(net.add("Unsqueeze", size, np.array([0])))
    return net.add("Concat", *parts, *(np.array([size]) for size in last), axis=0)


def _heads(net: Network, rows: Value, x: Value) -> Value:
    split = net.add("Reshape", rows, _sizes(net, x, _HEADS, _WIDTH // _HEADS))
    return net.add("Transpose", split, perm=(0, 2, 1, 3))


def _rolled(net: Network, x: Value, by: int) -> Value:
    for axis in (1, 2):
        axes, at = np.array([axis]), np.array([by])
        end = net.add("Slice", x, at, np.array([_SIDE]), axes)
        x = net.add("Concat", end, net.add("Slice", x, np.array([0]), at, axes), axis=axis)
    return x


def _chosen(net: Network, condition: Value, x: Value) -> Value:
    bodies = {}
    for name in ("then_branch", "else_branch"):
        body = Network(name, (2, _WIDTH))
        body.graph.inputs.clear()
        common = body.add("Exp", x)
        own = body.add("Relu" if name == "then_branch" else "Abs", common)
        bodies[name] = body.end(own)
    node = Node(
        make_operator("", "If", {}), [condition], [Value(x.type)], name="if", subgraphs=bodies
    )
    net.graph.add_node(node)
    node.op.infer_node(node)
    return node.output
