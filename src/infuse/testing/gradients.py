"""Gradients of operators against central differences, on the operators' own samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.errors import InfuseError
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.differentiation import pull_back
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.signatures import SETTINGS, signature
from infuse.testing.samples import Row, type_of
from infuse.training.differentiation import Differentiator

_APART = 1e-6
"""How far from a place the function is looked at, on both sides."""


@dataclass(frozen=True)
class Difference:
    """The gradient of one input, and what central differences say; NaN where they say nothing."""

    input: str
    gradient: Array
    central: Array

    @property
    def largest(self) -> float:
        """The largest difference, over one and the size of the gradient."""
        is_known = np.isfinite(self.central)
        apart = np.abs(self.gradient - self.central)[is_known]
        sizes = 1 + np.abs(self.central[is_known])
        # NaN beside a number is as wrong as can be.
        return float(np.nan_to_num(apart / sizes, nan=np.inf).max(initial=0))


def differences(row: Row, rng: np.random.Generator) -> list[Difference] | None:
    """For each input of floats of a sample, in float64, the gradient of a random weighing of the
    outputs beside central differences; None where the sample has no such input or output.
    """
    built = _built(row)
    if built is None:
        return None
    graph, feeds = built
    results = evaluate(graph, feeds)
    weights = {name: rng.uniform(-1, 1, result.shape) for name, result in results.items()}
    seeds = {v: constant(weights[n]) for n, v in zip(graph.output_names, graph.outputs)}
    names = list(results)
    gradients = pull_back(Differentiator(graph), seeds, graph.inputs)
    for value, gradient in zip(graph.inputs, gradients):
        if gradient is not None:
            assert gradient.type == value.type, f"{gradient.type} is the gradient of {value.type}"
            graph.add_output(gradient, f"gradient.{value.name}")
    found = evaluate(graph, feeds)
    return [
        Difference(
            name,
            found.get(f"gradient.{name}", np.zeros_like(feed)),
            _central(graph, feeds, name, names, weights),
        )
        for name, feed in feeds.items()
    ]


def _built(row: Row) -> tuple[Graph, dict[str, Array]] | None:
    """A graph of one node whose inputs of floats are inputs in float64, and elements for them; its
    outputs are the node's that are floats.
    """
    graph, feeds = Graph("one"), {}
    values: list[Value | None] = []
    names = signature(type(row.op)).names
    for number, x in enumerate(row.inputs):
        if x is None:
            values.append(None)
        elif not isinstance(x, np.ndarray):
            return None
        elif (
            dtypes.by_numpy(x.dtype).is_float
            and x.dtype.itemsize > 1
            and names[min(number, len(names) - 1)] not in SETTINGS
        ):
            feeds[f"x{number}"] = x.astype(np.float64)
            values.append(graph.add_input(f"x{number}", type_of(feeds[f"x{number}"])))
        else:
            values.append(constant(x))
    node = _node(row, values)
    graph.add_node(node)
    for value in node.outputs:
        if isinstance(value.type, TensorType) and value.dtype == dtypes.float64:
            graph.add_output(value, value.name)
    return (graph, feeds) if feeds and graph.outputs else None


def _node(row: Row, values: list[Value | None]) -> Node:
    """The node with all outputs that the operator has for these inputs, three at most."""
    for count in (3, 2):
        node = Node(row.op, values, [Value(UNKNOWN, f"y{i}") for i in range(count)])
        try:
            row.op.infer_node(node)
        except InfuseError:
            node.set_inputs(())
            continue
        return node
    node = Node(row.op, values, [Value(UNKNOWN, "y0")])
    row.op.infer_node(node)
    return node


def _central(
    graph: Graph,
    feeds: Mapping[str, Array],
    name: str,
    results: list[str],
    weights: Mapping[str, Array],
) -> Array:
    """Central differences of the weighed outputs by each element of one input."""
    x = feeds[name]
    slopes = np.full(x.shape, np.nan)
    for index in np.ndindex(x.shape):
        if not np.isfinite(x[index]):
            continue
        above, below = (
            evaluate(graph, {**feeds, name: _moved(x, index, by)}, fetch=results)
            for by in (_APART, -_APART)
        )
        # Differences first: large outputs that stay would round small ones away.
        with np.errstate(all="ignore"):
            total = sum(float(((above[n] - below[n]) * weights[n]).sum()) for n in results)
        slopes[index] = total / (2 * _APART)
    return slopes


def _moved(x: Array, index: tuple[int, ...], by: float) -> Array:
    result: Array = x.copy()
    result[index] += by
    return result
