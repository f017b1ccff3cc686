"""Pooling over windows and over whole images, channels last."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.lowering.choice import usual
from infuse.lowering.expressions import elements
from infuse.lowering.groups import Group
from infuse.lowering.iteration_space import IterationSpace
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import channels_last, natural
from infuse.targets.cpu.families.pooling import PoolSizes
from infuse.targets.cpu.families.reduction import ReduceSizes
from infuse.targets.cpu.lower.convolution import (
    depthwise_sizes,
    image,
    pixel_pitch,
    pixels,
    window,
)
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.lower.windows import plain_pool
from infuse.targets.cpu.table import lowers


def _pools_vectors(node: Node) -> bool:
    """Whether the kernel for images of floats, or of the largest bytes, does for a node."""
    x = operand(node)
    fits = x.dtype == dtypes.float32 or (node.kind == "MaxPool" and _has_bytes(x))
    return fits and x.rank <= 4 and not any(v.uses for v in node.outputs[1:])


def _has_bytes(value: Value) -> bool:
    return value.dtype in (dtypes.int8, dtypes.uint8)


def _reads_parts(node: Node, axis: int) -> bool:
    return axis == 1 and _pools_vectors(node)


@lowers("MaxPool", "AveragePool", "LpPool", has_epilogue=True, reads_parts=_reads_parts)
def pool(low: Lowering, node: Node, group: Group) -> None:
    if not _pools_vectors(node):
        plain_pool(low, node)
        return
    x, attributes = operand(node), node.op.attributes()
    bytes_too = _has_bytes(x)
    win = window(node, low)
    planes = not bytes_too and _has_planes(low, node, group)
    kernel = "pool_planes" if planes else "pool"
    order = natural(x.rank) if planes else channels_last(x.rank)
    tensor = low.storage.tensor(x) if planes else pixels(low, node)
    pitch = 1 if planes else pixel_pitch(low, node)
    f = low.function("pool", *group.nodes)
    f.include(f"{kernel}.hpp")
    sink = low.fusing.sink(f, group, order)
    counted = bool(attributes.get("count_include_pad"))
    sizes = PoolSizes._make([*depthwise_sizes(node, win), *win.after, counted, pitch])
    if not bytes_too:
        f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", sizes)
    p = float(attributes.get("p", 0))
    kind = elements(type="MaxPool" if node.kind == "MaxPool" else "MeanPool")
    if node.kind == "LpPool":
        kind = elements(f"{p!r}f", type="PowerPool")
    if bytes_too:
        least = "-128" if x.dtype == dtypes.int8 else "0"
        kind = elements(least, type="MaxIntegerPool")
    f.call(kernel, f.sizes(sizes), kind, f.read(tensor), sink)
    f.finish(label(group))


def _has_planes(low: Lowering, node: Node, group: Group) -> bool:
    """Whether an image lies in planes whose lines fill vectors, and all that the sink reads can be
    read along them.
    """
    x, order = operand(node), natural(node.output.rank)
    tensor = low.storage.tensor(x)
    if not tensor.is_dense(order) or tensor.is_dense(channels_last(x.rank)):
        return False
    if usual(node.output.shape[-1]) < low.lanes // 2:
        return False
    space = IterationSpace(node.output.shape, order)
    return all(space.column_stride(low.storage.tensor(v)) in (0, 1) for v in group.operands())


@lowers("GlobalAveragePool", "GlobalMaxPool", has_epilogue=True)
def global_pool(low: Lowering, node: Node, group: Group) -> None:
    x, mean = operand(node), node.kind == "GlobalAveragePool"
    tensor = low.storage.tensor(x)
    planes = tensor.is_dense(natural(x.rank)) and not tensor.is_dense(channels_last(x.rank))
    tensor = tensor if planes else image(low, node)
    f = low.function("global_pool", *group.nodes)
    f.include("pool.hpp")
    sink = low.fusing.sink(f, group, channels_last(x.rank))
    batch, channels, pixels = x.shape[0], x.shape[1], dims.product(x.shape[2:])
    if planes:
        sizes = f.sizes(ReduceSizes(dims.product([batch, channels]), pixels, 1, channels))
        f.call("reduce", sizes, f.read(tensor), sink, template=("Mean" if mean else "Max",))
    else:
        kernel = "global_mean_pool" if mean else "global_max_pool"
        f.call(kernel, f.numbers(batch, pixels, channels), f.read(tensor), sink)
    f.finish(label(group))
