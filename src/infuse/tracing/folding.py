"""Results of constants, which importers compute at once: programs put sizes together of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate_node
from infuse.tracing.layout import LayoutImporter

_RANDOM: Final = ("Random", "Bernoulli", "Multinomial", "Dropout")


def computed(node: Node, most: int, most_read: int | None = None) -> list[Array] | None:
    """What a node without bodies gives for constants; None where an operand is none, where results
    have more than `most` elements or operands more than `most_read`, and for random numbers. What
    cannot be computed fails where the graph runs, if it ever does.
    """
    operands = [None if value is None else value.const for value in node.inputs]
    if not node.inputs or node.subgraphs or node.op.name.startswith(_RANDOM):
        return None
    if any(v is not None and v.const is None for v in node.inputs):
        return None
    if most_read is not None and sum(0 if x is None else x.size for x in operands) > most_read:
        return None
    if not all(_is_small(value, most) for value in node.outputs):
        return None
    try:
        with np.errstate(all="ignore"):
            return list(evaluate_node(node, operands))
    except InfuseError:
        return None


def _is_small(value: Value, most: int) -> bool:
    type = value.type
    if not isinstance(type, TensorType) or type.shape is None:
        return False
    sizes = [size for size in type.shape if isinstance(size, int)]
    return len(sizes) == len(type.shape) and math.prod(sizes) <= most


_MOST: Final = 1 << 16
"""Elements of a result that is computed at once."""


class FoldingImporter(LayoutImporter):
    """An importer that computes small results of constants at once, so that the sizes that a model
    puts together of constants are known.
    """

    def apply(
        self,
        op: Operator,
        inputs: Sequence[Value | None],
        count: int = 1,
        bodies: Mapping[str, Graph] | None = None,
    ) -> list[Value]:
        """The outputs of a new node, or constants."""
        outputs = super().apply(op, inputs, count, bodies)
        if bodies:
            return outputs
        contents = [_listed(value) for value in outputs]
        if all(value is not None for value in contents):
            return self._instead(outputs, contents)
        node = outputs[0].producer
        arrays = computed(node, _MOST) if node is not None else None
        if arrays is None:
            return outputs
        typed = [np.asarray(x, dtype=v.dtype.numpy) for x, v in zip(arrays, outputs)]
        return self._instead(outputs, [constant(array) for array in typed])

    def _instead(self, outputs: list[Value], values: Sequence[Value | None]) -> list[Value]:
        node = outputs[0].producer
        assert node is not None
        self.graph.remove(node)
        return [value for value in values if value is not None]


def _listed(value: Value) -> Value | None:
    """The constant that a result is, where its elements are known."""
    content = value.content
    if content is None or not isinstance(value.type, TensorType):
        return None
    elements = content.reshape(-1).tolist()
    if not all(isinstance(element, int) for element in elements):
        return None
    return constant(np.array(elements, value.dtype.numpy).reshape(content.shape))


def tidy(graph: Graph) -> None:
    """Take away nodes whose results nobody reads, here and inside."""
    for part in reversed(list(graph.all_graphs())):
        for node in reversed(part.nodes):
            if not any(value.uses for value in node.outputs):
                part.remove(node)
    for node in reversed(graph.nodes):
        if not any(value.uses for value in node.outputs):
            graph.remove(node)
