"""The importer of TorchScript: what depends on constants alone is computed while reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infuse.errors import InfuseError
from infuse.frontends.torch.calls import TorchImporter
from infuse.ir.graph import Graph, Operator, Value, constant
from infuse.ops.core.evaluate import evaluate_node

_SMALL: Final = 1 << 10
"""Elements of constants that are computed with while reading."""
_KEPT: Final = ("Random", "Bernoulli", "Multinomial")


class ScriptImporter(TorchImporter):
    """An importer that computes small constants: traced programs compute their sizes by tensors."""

    def apply(
        self,
        op: Operator,
        inputs: Sequence[Value | None],
        count: int = 1,
        bodies: Mapping[str, Graph] | None = None,
    ) -> list[Value]:
        """See Importer."""
        outputs = super().apply(op, inputs, count, bodies)
        node = outputs[0].producer
        if node is None or bodies or not inputs or op.name.startswith(_KEPT):
            return outputs
        operands = [None if v is None else v.const for v in inputs]
        if any(v is not None and v.const is None for v in inputs):
            return outputs
        if sum(0 if x is None else x.size for x in operands) > _SMALL or not all(
            _is_small(v) for v in outputs
        ):
            return outputs
        try:
            arrays = evaluate_node(node, operands)
        except InfuseError:  # it stays in the graph, whose run says what is wrong
            return outputs
        self.graph.remove(node)
        return [constant(x, v.name, dtype=v.dtype) for x, v in zip(arrays, outputs)]


def _is_small(value: Value) -> bool:
    type: Any = value.type
    shape = getattr(type, "shape", None)
    if shape is None:
        return False
    size = 1
    for dim in shape:
        if not isinstance(dim, int):
            return False
        size *= dim
    return size <= _SMALL
