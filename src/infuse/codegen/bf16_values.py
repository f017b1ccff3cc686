"""Which values are stored as bfloat16 at once, because nothing but rounded products reads them."""

from __future__ import annotations

from infuse import dtypes
from infuse.codegen.precisions import LayerPrecisions
from infuse.ir.graph import Node, Use, Value


def stored_rounded(value: Value, precisions: LayerPrecisions) -> bool:
    """Whether only products that round their rows to bfloat16 read a float32 value, in whole
    pairs.
    """
    if "bf16" not in precisions.names:
        return False
    if value.dtype != dtypes.float32 or value.rank < 2 or value.is_graph_output or not value.uses:
        return False
    columns = value.shape[-1]
    even = isinstance(columns, int) and columns % 2 == 0
    return even and all(_rounds(use, value, precisions) for use in value.uses)


def _rounds(use: Use, value: Value, precisions: LayerPrecisions) -> bool:
    node, index = use
    if not isinstance(node, Node) or precisions[node] != "bf16":
        return False
    if node.op.domain or index != 0 or value.producer is None:
        return False
    if node.graph is not value.producer.graph or node.kind not in ("MatMul", "Gemm"):
        return False
    weights = node.inputs[1]
    turned = node.kind == "Gemm" and bool(node.op.attributes()["transA"])
    return weights is not None and weights.const is not None and weights.rank == 2 and not turned
