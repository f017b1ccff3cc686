"""The importer of TensorFlow's graphs: what only constants decide is computed at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from infuse.errors import InfuseError
from infuse.frontends.layout import LayoutImporter
from infuse.ir.graph import Graph, Operator, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate_node

_MOST: Final = 1 << 16
"""Elements of a result that is computed at once."""
_RANDOM: Final = ("Random", "Bernoulli", "Multinomial", "Dropout")


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
        if bodies or op.name.startswith(_RANDOM):
            return outputs
        contents = [_listed(value) for value in outputs]
        if all(value is not None for value in contents):
            return self._instead(outputs, contents)
        constants = bool(inputs) and all(v is None or v.const is not None for v in inputs)
        if not constants or not all(_small(value) for value in outputs):
            return outputs
        node = outputs[0].producer
        assert node is not None
        arrays = [None if v is None else v.const for v in inputs]
        try:
            with np.errstate(all="ignore"):
                results = evaluate_node(node, arrays)
        except InfuseError:
            return outputs  # What cannot be computed fails where the graph runs, if it ever does.
        return self._instead(
            outputs,
            [
                constant(np.asarray(result, dtype=value.dtype.numpy))
                for result, value in zip(results, outputs)
            ],
        )

    def _instead(self, outputs: list[Value], values: Sequence[Value | None]) -> list[Value]:
        node = outputs[0].producer
        assert node is not None
        self.graph.remove(node)
        return [value for value in values if value is not None]


def _small(value: Value) -> bool:
    type = value.type
    if not isinstance(type, TensorType) or type.shape is None:
        return False
    sizes = [size for size in type.shape if isinstance(size, int)]
    return len(sizes) == len(type.shape) and math.prod(sizes) <= _MOST


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
