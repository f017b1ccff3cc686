"""The importer of TensorFlow's graphs: what only constants decide is computed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from infuse.ir.graph import Graph, Operator, Value, constant
from infuse.ir.types import TensorType
from infuse.tracing.folding import computed
from infuse.tracing.layout import LayoutImporter

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
