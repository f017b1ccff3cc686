"""Which outputs of a node are written."""

from __future__ import annotations

from typing import Final

from onnx import defs

from infuse.exporters.onnx.schemas import Definition
from infuse.exporters.onnx.spelling import Spelling
from infuse.ir.graph import Value
from infuse.ir.types import UNKNOWN
from infuse.ops.core.base import REGISTRY

_OPTIONAL: Final = defs.OpSchema.FormalParameterOption.Optional
_ASKED_BY_RUNTIME: Final = {
    ("", "Attention"): (3, (4, 5)),
    ("com.microsoft", "Attention"): (2, (4,)),
    ("com.microsoft", "EmbedLayerNormalization"): (2, ()),
    ("com.microsoft", "MultiHeadAttention"): (3, (6, 7)),
}
"""How many outputs ONNX Runtime must be asked for although nobody may read them, and operands
without which it need not: with a past and no present, its attention refuses the run (1.31) or gives
other numbers.
"""


def outputs_of(spelling: Spelling, schema: Definition | None) -> list[Value | None]:
    """The outputs to be named: without optional ones that nobody reads, and with all that the
    operator must have.
    """
    outputs: list[Value | None] = list(spelling.outputs)
    least, operands = _ASKED_BY_RUNTIME.get((spelling.domain, spelling.kind), (0, ()))
    if any(spelling.input(i) is None for i in operands):
        least = 0
    outputs[:least] = [v or Value(UNKNOWN) for v in outputs[:least]]
    if schema is not None:
        if not spelling.domain and ("", spelling.kind) in REGISTRY:
            for i in range(least, len(outputs)):
                formal = schema.outputs[min(i, len(schema.outputs) - 1)]
                if formal.option == _OPTIONAL and (v := outputs[i]) and not v.uses:
                    outputs[i] = None
            while outputs and outputs[-1] is None:
                outputs.pop()
        least = max(least, _parts(spelling) if spelling.kind == "Split" else schema.min_output)
    return outputs + [Value(UNKNOWN) for _ in range(least - len(outputs))]


def _parts(spelling: Spelling) -> int:
    """How many parts a Split makes, as far as the node tells: none of them may be left out."""
    counts = spelling.shape(1)
    if counts and isinstance(counts[0], int):
        return counts[0]
    listed = spelling.attributes.get("split")
    return len(listed) if listed else int(spelling.attributes.get("num_outputs") or 1)
