"""Convolutions that read and write images whose channels are planes."""

from __future__ import annotations

from collections.abc import Callable

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.lowering.choice import usual
from infuse.lowering.groups import Group
from infuse.lowering.iteration_space import IterationSpace
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import natural
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.costs.cost_model import predict
from infuse.targets.cpu.families.convolution import ConvSizes


def lies_as_planes(low: Lowering, node: Node, group: Group) -> bool:
    """Whether the image, and all that is fused with the convolution, lies as planes or is repeated
    over them, and so has to lie the only result.
    """
    x, rank = operand(node), operand(node).rank
    space = IterationSpace(node.output.shape, natural(rank), rank - 2)
    homes = low.storage.homes.outputs.get(group.result, ())
    return (
        len(group.results) == 1
        and _is_planes(low, x)
        and any(home.is_dense(natural(rank)) for home in homes)
        and all(v.rank < rank or v.is_const or _is_planes(low, v) for v in group.operands())
        and all(space.column_stride(low.storage.tensor(v)) in (0, 1) for v in group.operands())
    )


def _is_planes(low: Lowering, value: Value) -> bool:
    tensor = low.storage.tensor(value)
    return tensor.dtype == dtypes.float32 and tensor.is_dense(natural(value.rank))


def call_planes(
    low: Lowering, node: Node, f: FunctionWriter, sizes: ConvSizes, sink: Callable[[], str]
) -> None:
    """Write the call of the kernel for planes; `sink` defines what takes its results."""
    x, w = low.storage.tensor(operand(node)), operand(node, 1)
    weights = low.storage.dense(w, natural(w.rank))
    f.include("conv_planes.hpp")
    f.scratch("conv_planes_scratch", "conv_planes.hpp", sizes)
    f.call("conv_planes", f.sizes(sizes), f.read(x), f.read(weights), sink())


def seconds_of_planes(low: Lowering, sizes: ConvSizes) -> float:
    """What a convolution of planes to planes costs."""
    return predict("planes", "product", [*map(usual, sizes)], low.machine, low.threads)


def seconds_of_turning(low: Lowering, node: Node) -> float:
    """What it costs to turn the image of a convolution that lies as planes, and its result."""
    images = (v.shape for v in (operand(node), node.output))
    sizes = ((usual(dims.product(shape)), usual(shape[1])) for shape in images)
    return sum(
        predict("turned", "images", (count,), low.machine, low.threads)
        for count, channels in sizes
        if channels not in (1, count)
    )
