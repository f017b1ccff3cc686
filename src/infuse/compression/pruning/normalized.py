"""Normalizations over fewer channels: their scales and biases, fitted so that what is left is near
what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.importance import Doubles
from infuse.compression.pruning.links import Bools
from infuse.data.dataset import Feeds
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ops.core.evaluate import evaluate, evaluate_node

KINDS = ("LayerNormalization", "RMSNormalization")
ROWS = 1024
"""So many rows of a normalization are fitted to."""


def with_fitted_norms(
    dependencies: Dependencies,
    alive: Bools,
    values: Mapping[Value, Value],
    graph: Graph,
    runs: Sequence[Feeds],
) -> tuple[Graph, dict[Value, Value]] | None:
    """A copy of a graph without channels, and the copies of its values, whose normalizations over
    fewer channels have the scales and biases with the least squared error beside those of the
    original on these runs: one after another, each on what those before it make. `values` are the
    copies of the original's values. None where there are none, or bodies of control flow.
    """
    copies: dict[Value, Value] = {}
    copy = clone(graph, copies)
    stays = {
        copies[values[node.output]].producer: (node, alive[atoms])
        for node in dependencies.graph.nodes
        if _has_vectors(node)
        and (atoms := dependencies.places.get((node.output, node.output.rank - 1))) is not None
        and not alive[atoms].all()
    }
    if not stays or any(node.subgraphs for node in copy.nodes):
        return None
    (first, own), *_ = stays.values()
    targets = _Targets(dependencies.graph, [node for node, _ in stays.values()])
    chosen, rows = [], 0
    for feeds in runs:
        exact = targets.of(feeds)
        chosen.append((feeds, exact))
        rows += exact[first].size // len(own)
        if rows >= ROWS:
            break
    frames: list[dict[Value, Any]] = [
        {value: feeds[value.name] for value in copy.inputs} for feeds, _ in chosen
    ]
    left = Counter(value for node in copy.nodes for value in node.operands())
    for node in copy.nodes:
        _evaluate(node, frames)
        if node in stays:
            original, which = stays[node]
            given = [frame[node.output] for frame in frames]
            _fit(node, given, [exact[original][..., which] for _, exact in chosen])
            _evaluate(node, frames)
        left.subtract(node.operands())
        for value in (*node.operands(), *node.outputs):
            if left[value] <= 0:
                for frame in frames:
                    frame.pop(value, None)
    return copy, copies


def _has_vectors(node: Node) -> bool:
    """Whether a node is a normalization over the last axis with constants for each channel."""
    if node.kind not in KINDS or node.op.domain or node.output.tensor.shape is None:
        return False
    is_last = node.op.attributes()["axis"] in (-1, node.output.rank - 1)
    return is_last and all(v.const is not None and v.const.ndim == 1 for v in node.inputs[1:] if v)


class _Targets:
    """What nodes of a graph compute."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        copies: dict[Value, Value] = {}
        self._graph = clone(graph, copies)
        self._names = {node: f"normal.{number}" for number, node in enumerate(nodes)}
        for node, name in self._names.items():
            self._graph.add_output(copies[node.output], name)

    def of(self, feeds: Feeds) -> dict[Node, Array]:
        """The results of a run."""
        results = evaluate(self._graph, feeds, fetch=list(self._names.values()))
        return {node: results[name] for node, name in self._names.items()}


def _evaluate(node: Node, frames: Sequence[dict[Value, Any]]) -> None:
    for frame in frames:
        arrays = [
            None if value is None else frame[value] if value.const is None else value.const
            for value in node.inputs
        ]
        frame.update(zip(node.outputs, evaluate_node(node, arrays)))


def _fit(node: Node, given: Sequence[Array], wanted: Sequence[Array]) -> None:
    """The scale and the bias of a normalization, so that what it gives is near what is wanted."""
    x, y = (
        np.concatenate([each.reshape(-1, each.shape[-1]) for each in part], dtype=np.float64)
        for part in (given, wanted)
    )
    bias = node.input(2)
    middle, target = (x.mean(0), y.mean(0)) if bias is not None else (0.0, 0.0)
    power = np.square(x - middle).sum(0)
    slope: Doubles = np.ones_like(power)
    np.divide(((x - middle) * (y - target)).sum(0), power, out=slope, where=power > 1e-12)
    _multiply(node, 1, slope)
    if bias is not None:
        _multiply(node, 2, slope, target - slope * middle)


def _multiply(node: Node, index: int, factor: Doubles, addend: Doubles | float = 0.0) -> None:
    value = node.inputs[index]
    assert value is not None
    assert value.const is not None
    array = value.const * factor + addend
    node.set_operand(index, constant(array.astype(value.const.dtype), value.name))
