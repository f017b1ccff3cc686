"""Which values are stored as bfloat16 at once, because nothing but rounded products reads them."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Node, Use, Value
from infuse.lowering.precisions import LayerPrecisions
from infuse.targets import Machine


def rounded_axis(value: Value, precisions: LayerPrecisions, machine: Machine) -> int | None:
    """The axis along which products sum up a float32 value, where only products read it that round
    their rows to bfloat16, in whole pairs; else None.
    """
    if "bf16" not in precisions.names:
        return None
    if value.dtype != dtypes.float32 or value.rank < 2 or value.is_graph_output or not value.uses:
        return None
    axes = {_axis(use, value, precisions, machine) for use in value.uses}
    axis = axes.pop()
    if axes or axis is None:
        return None
    size = value.shape[axis]
    return axis if isinstance(size, int) and size % 2 == 0 else None


def _axis(use: Use, value: Value, precisions: LayerPrecisions, machine: Machine) -> int | None:
    node, index = use
    if not isinstance(node, Node) or precisions[node] != "bf16":
        return None
    if node.op.domain or index != 0 or value.producer is None:
        return None
    weights = node.inputs[1] if len(node.inputs) > 1 else None
    if node.graph is not value.producer.graph or weights is None or weights.const is None:
        return None
    attributes = node.op.attributes()
    if node.kind == "MatMul" or (node.kind == "Gemm" and not attributes["transA"]):
        return value.rank - 1 if weights.rank == 2 else None
    return 1 if node.kind == "Conv" and _rounds_pixels(node, value, machine) else None


def _rounds_pixels(node: Node, value: Value, machine: Machine) -> bool:
    """Whether a convolution rounds its pixels whatever its sizes: tile registers multiply so much
    faster that no other kernel comes near.
    """
    group = node.op.attributes()["group"]
    return machine.has_bf16_tiles and value.rank in (3, 4) and group == 1
