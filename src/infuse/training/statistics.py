"""Batch normalization as it trains: with the mean and variance of each batch."""

from __future__ import annotations

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Graph, Node, Value
from infuse.ops.core.differentiation import operand
from infuse.ops.normalization import BatchNormalization
from infuse.training.differentiation import Differentiator


def use_batch_statistics(make: Differentiator, graph: Graph) -> dict[Value, Value]:
    """Let the batch normalizations of `graph` use the mean and variance of the batch; by constant,
    what their own mean and variance become: `momentum` parts of what they were, the rest of what
    the batch has.

    UnsupportedOperatorError where these are no constants, or several nodes share them.
    """
    moved: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.kind == "BatchNormalization" and not node.op.domain:
            for old, new in _replace(make, graph, node).items():
                if old in moved or not old.is_const:
                    raise UnsupportedOperatorError(
                        "its statistics must be constants of its own to follow the batches",
                        where=f"{node.kind} node {node.name!r}",
                    )
                moved[old] = new
    return moved


def _replace(make: Differentiator, graph: Graph, node: Node) -> dict[Value, Value]:
    op = node.op
    assert isinstance(op, BatchNormalization)
    x, scale, bias, mean, variance = (operand(node, i) for i in range(5))
    axes = (0, *range(2, x.rank))
    center = make.reduce("ReduceMean", x, *axes)
    apart = make("Sub", x, center)
    spread = make.reduce("ReduceMean", make("Mul", apart, apart), *axes)
    normal = make("Div", apart, make("Sqrt", make("Add", spread, op.epsilon)))
    column = make.ints(-1, *(1,) * (x.rank - 2))
    gain, shift = (make("Reshape", v, column) for v in (scale, bias))
    result = make(normal * gain + shift)
    result.type = node.output.type
    node.output.replace_by(result)
    graph.remove(node)
    share = op.momentum
    flat = [make("Reshape", v, make.ints(-1)) for v in (center, spread)]
    return {old: make(old * share + new * (1 - share)) for old, new in zip((mean, variance), flat)}
