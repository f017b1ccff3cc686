"""The importer of TorchScript: what depends on constants alone is computed while reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infuse.ir.graph import Graph, Value, constant
from infuse.ir.operator import Operator
from infuse.tracing.aten.calls import TorchImporter
from infuse.tracing.folding import computed

_SMALL: Final = 1 << 10
"""Elements of constants that are computed with while reading."""


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
        arrays = computed(node, _SMALL, _SMALL) if node is not None else None
        if node is None or arrays is None:
            return outputs
        self.graph.remove(node)
        return [constant(x, v.name, dtype=v.dtype) for x, v in zip(arrays, outputs)]
