"""Inner values of two graphs that belong together, and how far they are apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.analysis.cost import Sizes
from infuse.data.dataset import Feeds
from infuse.ir import dims
from infuse.ir.clone import clone_exposing
from infuse.ir.graph import Graph, Value
from infuse.ir.scales import ChannelScales, noted_scales, rotated_values
from infuse.ir.types import TensorType
from infuse.profiling.agreement import Agreement
from infuse.profiling.inputs import shown_sizes
from infuse.runtime.interface import Model

MOST_BYTES = 256 << 20
"""Inner values that one compiled model gives in a run."""
MOST_VALUES = 128
Build = Callable[[Graph], Model]
"""Compiles a graph."""


@dataclass
class LayerAgreement:
    """An inner value that both models have: its node and operator in A, and the agreement."""

    name: str
    kind: str
    value: str
    other: str
    """The name of the value in B."""
    agreement: Agreement = field(default_factory=Agreement)
    differs_in_shape: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        names = {"name": self.name, "kind": self.kind, "value": self.value, "other": self.other}
        return {**names, **self.agreement.to_dict()}


def inner_pairs(a: Graph, b: Graph) -> list[tuple[Value, Value]]:
    """Inner values of two graphs that have the same name, or else come of nodes of the same name,
    in A's order: floats of equal rank that are neither constants nor outputs.

    What is only quantized and dequantized again stands for its rounded self, as its readers see it.
    """
    ours, theirs = list(_inner(a)), list(_inner(b))
    names, others = ({value.name for value in values} for values in (ours, theirs))
    by_name = {value.name: value for value in theirs}
    by_node = {
        _origin(value): value for value in theirs if value.name not in names and _origin(value)[0]
    }
    pairs = []
    for value in ours:
        other = by_name.get(value.name) or by_node.get(_origin(value))
        if other is not None and _rank(value) in (None, _rank(other)):
            limited = None if as_read(other) is other else _limited(value, others)
            pairs.append((limited or value, other))
    return pairs


def _limited(value: Value, others: Collection[str]) -> Value | None:
    """What Relu or Clip makes of a value that nobody else reads, where the other model has no such
    value: there, the limits of the integers do the same.
    """
    users = list(value.users())
    if value.is_graph_output or len(users) != 1 or users[0].kind not in ("Relu", "Clip"):
        return None
    result = users[0].output
    return None if result.is_graph_output or result.name in others else result


def _inner(graph: Graph) -> Iterator[Value]:
    outputs = set(graph.outputs)
    for node in graph.nodes:
        for value in node.outputs:
            is_float = isinstance(value.type, TensorType) and value.dtype.is_float
            if is_float and value.name and value not in outputs and not _is_rounded(value):
                yield value


def _is_rounded(value: Value) -> bool:
    """Whether a value was quantized and dequantized, and stands for what it was before."""
    node = value.producer
    quantized = node.input(0) if node is not None and node.kind == "DequantizeLinear" else None
    maker = quantized.producer if quantized is not None else None
    return maker is not None and maker.kind == "QuantizeLinear"


def as_read(value: Value) -> Value:
    """A value as its readers see it: quantized and dequantized, where nobody reads it otherwise."""
    steps = [value]
    for kind in ("QuantizeLinear", "DequantizeLinear"):
        users = list(steps[-1].users())
        if steps[-1].is_graph_output or not users or any(user.kind != kind for user in users):
            return value
        steps.append(users[0].output)
    return steps[-1]


def _origin(value: Value) -> tuple[str, int]:
    node = value.producer
    return (node.name if node is not None else "", value.index)


def _rank(value: Value) -> int | None:
    shape = value.tensor.shape
    return None if shape is None else len(shape)


def layer_agreements(
    a: Graph,
    b: Graph,
    runs: Sequence[tuple[Feeds, Feeds]],
    build: Build,
    done: Callable[[int, int], None],
) -> list[LayerAgreement]:
    """How far inner values of B are from those of A in these runs, in A's order.

    Both graphs are compiled with the inner values as further outputs, as many at once as memory
    allows: what has no native code is interpreted, as in any compiled model.
    """
    rows = []
    rotated = rotated_names(a, b)
    pairs = [(x, y) for x, y in inner_pairs(a, b) if not {x.name, y.name} & rotated]
    chunks = list(_chunks(pairs, Sizes(a, shown_sizes(a, runs[0][0])))) if pairs else []
    for number, chunk in enumerate(chunks):
        done(number, len(chunks))
        rows += _compared(a, b, chunk, runs, build)
    return [row for row in rows if not row.differs_in_shape]


def rotated_names(a: Graph, b: Graph) -> frozenset[str]:
    """Values whose channels are others in one of the graphs, so that they are not compared."""
    return rotated_values(a) | rotated_values(b)


def _chunks(
    pairs: Sequence[tuple[Value, Value]], sizes: Sizes
) -> Iterator[list[tuple[Value, Value]]]:
    chunk: list[tuple[Value, Value]] = []
    total = 0
    for a, b in pairs:
        size = sizes(dims.product(a.tensor.shape or ())) * (a.dtype.bytes + b.dtype.bytes)
        if chunk and (total + size > MOST_BYTES or len(chunk) == MOST_VALUES):
            yield chunk
            chunk, total = [], 0
        chunk.append((a, b))
        total += size
    yield chunk


def _compared(
    a: Graph,
    b: Graph,
    pairs: Sequence[tuple[Value, Value]],
    runs: Sequence[tuple[Feeds, Feeds]],
    build: Build,
) -> list[LayerAgreement]:
    rows = [
        LayerAgreement(
            _origin(x)[0] or x.name, x.producer.kind if x.producer else "", x.name, y.name
        )
        for x, y in pairs
    ]
    first, names = clone_exposing(a, [as_read(x) for x, _ in pairs])
    second, others = clone_exposing(b, [as_read(y) for _, y in pairs])
    divided, also = noted_scales(a), noted_scales(b)
    with build(first) as model, build(second) as other:
        for feeds, other_feeds in runs:
            ours, theirs = model.run(feeds), other.run(other_feeds)
            for row, name, other_name in zip(rows, names, others):
                x = _as_it_was(ours[name], divided.get(row.value))
                y = _as_it_was(theirs[other_name], also.get(row.value) or also.get(row.other))
                if np.shape(x) != np.shape(y):
                    row.differs_in_shape = True
                else:
                    row.agreement.add(x, y)
    return rows


def _as_it_was(array: Any, scales: ChannelScales | None) -> Any:
    """A value in the scale of the model before its compression."""
    return array if scales is None else scales.undone(array)
