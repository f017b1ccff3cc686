"""Distillation by features: values inside a compressed graph are drawn to those of the original
(Romero et al.: FitNets, 2015, arXiv:1412.6550). Where channels were removed, those that remain are
compared, so that no layer has to be added to compare values of different sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from infuse.compression.lessons import Lessons, answers, rows_of
from infuse.errors import InputError
from infuse.ir.clone import clone_exposing
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Elementwise
from infuse.ops.core.traits import Trait, has_trait
from infuse.training.losses import Loss, MeanSquaredError

MOST_PAIRS: Final = 4
"""Pairs of values that are compared, which lie evenly along the depth."""
MOST_BYTES: Final = 2 << 30
"""What the original's values may take in memory; the largest are left out first."""
SUMS: Final = frozenset(("Add", "Sum"))


@dataclass(frozen=True, eq=False)
class Pair:
    """A value of the original, the same of the graph that is tuned, and by axis which indices of
    the original's are left.
    """

    original: Value
    tuned: Value
    remaining: Mapping[int, Array]

    @property
    def name(self) -> str:
        """The name of the node that makes both."""
        return maker(self.original).name

    def reduced(self, array: Array) -> Array:
        """Of elements of the original's value those that the tuned graph has too."""
        for axis, indices in self.remaining.items():
            array = np.take(array, indices, axis)
        return array


@dataclass(frozen=True)
class FeatureLosses:
    """Losses of values inside a graph with their weights, their targets by name, and the names of
    the nodes that make the values.
    """

    losses: list[tuple[float, Loss]]
    targets: dict[str, Array]
    nodes: list[str]


def feature_losses(
    graph: Graph, lessons: Lessons, weight: float, threads: int | None = None
) -> FeatureLosses:
    """The mean squared differences of values inside a graph, which get names, from those of the
    original, each over the mean square of the original's; `weight` times the mean over all pairs.
    InputError where there is nothing to compare.
    """
    pairs = evenly(pairs_of(lessons, graph))
    targets = _targets(pairs, lessons, threads) if pairs else {}
    powers = {pair: _mean_square(target) for pair, target in targets.items()}
    compared = [pair for pair in targets if powers[pair] > 0]
    if not compared:
        raise InputError(
            "no value inside the model can be compared with one of the original",
            where="tuning by features",
            hint="tune without them (--tune-features 0): residual sums and activations are "
            "compared, where each example has a row, and as many as memory holds",
        )
    result = FeatureLosses([], {}, [pair.name for pair in compared])
    for number, pair in enumerate(compared):
        target = f"original.feature.{number}"
        pair.tuned.name = f"feature.{number}"
        scale = weight / (len(compared) * powers[pair])
        result.losses.append((scale, MeanSquaredError(pair.tuned.name, target)))
        result.targets[target] = targets[pair]
    return result


def pairs_of(lessons: Lessons, graph: Graph) -> list[Pair]:
    """The values of the original that tell what its blocks make, with those of a graph that came of
    it: made by a node of the same name and kind, with all channels or with those that remain.
    """
    named = _named(graph)
    result = []
    for value in block_values(lessons.original):
        name, kind = maker(value).name, maker(value).kind
        node = named.get(name)
        if node is None or node.kind != kind or node.output in graph.outputs:
            continue
        own = node.output
        if not _has_rows(own, graph) or own.rank != value.rank or own.dtype != value.dtype:
            continue
        remaining = {
            axis: indices
            for axis in range(1, value.rank)
            if (indices := lessons.remaining.get((name, axis))) is not None
            and len(indices) != value.shape[axis]
        }
        sizes = [
            len(remaining[axis]) if axis in remaining else value.shape[axis]
            for axis in range(1, value.rank)
        ]
        if sizes == list(own.shape[1:]):
            result.append(Pair(value, own, remaining))
    return result


def block_values(graph: Graph) -> list[Value]:
    """Sums of two branches; without any, the last activations before the sizes change. Each example
    has a row of them, and none is an output.
    """
    named = _named(graph)
    values = [
        node.output
        for node in graph.nodes
        if named.get(node.name) is node
        and (node.kind in SUMS or _is_activation(node))
        and _has_rows(node.output, graph)
        and node.output not in graph.outputs
    ]
    sums = [value for value in values if _joins_branches(maker(value))]
    if sums:
        return sums
    activations = [value for value in values if _is_activation(maker(value))]
    following: list[Value | None] = [*activations[1:], None]
    return [
        value
        for value, after in zip(activations, following)
        if after is None or after.shape[1:] != value.shape[1:]
    ]


def evenly(pairs: Sequence[Pair]) -> list[Pair]:
    """At most `MOST_PAIRS`, the last of as many equal parts."""
    count = min(len(pairs), MOST_PAIRS)
    return [pairs[(number + 1) * len(pairs) // count - 1] for number in range(count)]


def maker(value: Value) -> Node:
    """The node that makes a value that some node makes."""
    assert value.producer is not None
    return value.producer


def _named(graph: Graph) -> dict[str, Node]:
    """The nodes with a name of their own."""
    counts = Counter(node.name for node in graph.nodes)
    return {node.name: node for node in graph.nodes if node.name and counts[node.name] == 1}


def _has_rows(value: Value, graph: Graph) -> bool:
    """Whether a value has a row of numbers for each row of the inputs."""
    if not isinstance(value.type, TensorType) or not value.dtype.is_float:
        return False
    return bool(value.tensor.shape and value.rank > 1 and value.shape[0] == _rows(graph))


def _rows(graph: Graph) -> object:
    first = graph.inputs[0]
    return first.shape[0] if first.tensor.shape else None


def _joins_branches(node: Node) -> bool:
    """Whether a node adds values of its result's shape, all of them computed."""
    return node.kind in SUMS and all(
        not value.is_const and value.tensor.shape == node.output.tensor.shape
        for value in node.operands()
    )


def _is_activation(node: Node) -> bool:
    """Whether a node does the same to each element of one value, and is no arithmetic with
    constants.
    """
    computed = [value for value in node.operands() if not value.is_const]
    is_alone = len(computed) == 1 and not has_trait(node, Trait.ARITHMETIC)
    return is_alone and isinstance(node.op, Elementwise)


# -- values of the original ------------------------------------------------------------------------


def _targets(pairs: Sequence[Pair], lessons: Lessons, threads: int | None) -> dict[Pair, Array]:
    """What the original has for each example, of the pairs that memory holds."""
    graph, names = clone_exposing(lessons.original, [pair.original for pair in pairs])
    count, start = rows_of(lessons.examples), 0
    result: dict[str, Array] = {}
    for outputs in answers(graph, lessons.examples, threads):
        rows = {name: pair.reduced(outputs[name]) for name, pair in zip(names, pairs)}
        if start == 0:
            result = {
                name: np.empty((count, *rows[name].shape[1:]), rows[name].dtype)
                for name in _fitting(rows, count)
            }
        for name, array in result.items():
            array[start : start + len(rows[name])] = rows[name]
        start += len(next(iter(rows.values())))
    return {pair: result[name] for name, pair in zip(names, pairs) if name in result}


def _fitting(rows: Mapping[str, Array], count: int) -> list[str]:
    """Of values of a run those that memory holds for so many examples."""
    sizes = {name: count * array.nbytes // len(array) for name, array in rows.items()}
    fitting = sorted(sizes, key=sizes.__getitem__)
    while fitting and sum(sizes[name] for name in fitting) > MOST_BYTES:
        fitting.pop()
    return fitting


def _mean_square(array: Array) -> float:
    flat = array.reshape(-1)
    parts = (flat[start : start + (1 << 20)] for start in range(0, flat.size, 1 << 20))
    total = sum(float(np.square(part, dtype=np.float64).sum()) for part in parts)
    return total / max(flat.size, 1)
