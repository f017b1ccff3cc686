"""Windows put together again, put back where they came from, or read at places of their own."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Aggregate, elements, infix, invoke
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import define, integers, operand, refuse_large, row_major
from infuse.lowering.tensors import Tensor, channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.core.base import Op
from infuse.ops.unfolding import Col2Im, DeformConv, MaxUnpool, blocks_along, steps_of
from infuse.targets.cpu.families.convolution import ConvSizes
from infuse.targets.cpu.families.gemm import SUFFIXES
from infuse.targets.cpu.lower.convolution import channel_bias, image
from infuse.targets.cpu.lower.filters import packed_filters
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.lower.windows import grouped_filters
from infuse.targets.cpu.table import lowers

MOST_UNFOLD_AXES = 6


def _windows(
    f: FunctionWriter,
    node: Node,
    sizes: Sequence[Dim],
    kernel: Sequence[Dim],
    counts: Sequence[Dim],
) -> Aggregate:
    """The fields of the UnfoldShape."""
    rank = len(sizes)
    assert isinstance(node.op, Op)
    strides, dilations, pads = steps_of(node.op, rank)
    axes = [
        f.fields(
            size=sizes[i],
            count=counts[i],
            kernel=kernel[i],
            stride=strides[i],
            dilation=dilations[i],
            before=pads[i],
        )
        for i in range(rank)
    ]
    return Aggregate((("rank", str(rank)), ("axis", elements(*axes))))


def _check_rank(low: Lowering, node: Node, rank: int) -> None:
    if rank > MOST_UNFOLD_AXES:
        low.unsupported(node, f"{rank}-dimensional windows")


@lowers("Col2Im", runtime_inputs=(0,))
def col2im(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    assert isinstance(op, Col2Im)
    sizes, block = integers(low, node, 1, least=0) or (), integers(low, node, 2, least=1) or ()
    _check_rank(low, node, len(sizes))
    counts, channels = blocks_along(op, sizes, block), op.channels(x.shape[1], block)
    refuse_large(
        low, node, *sizes, *block, *counts, dims.product(counts), channels * dims.product(block)
    )
    f = low.function("col2im_sizes", node)
    for count in counts:
        f.fail_unless(infix(f.number(count), ">", 0))
    for size, own in (
        (dims.product(counts), x.shape[2]),
        (channels * dims.product(block), x.shape[1]),
    ):
        f.fail_unless(infix(f.number(size), "==", f.number(own)), "DIFFERENT_SIZES")
    f.finish(f"Col2Im {node.name}: sizes")
    if not low.are_known(node):
        define(low, node, node.output, (x.shape[0], channels, *sizes))
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("col2im", node)
    f.include("unfold.hpp")
    f.struct("UnfoldShape", "shape", **dict(_windows(f, node, sizes, block, counts).items))
    f.call("col2im", "shape", f.number(x.shape[0] * channels), f.read(source), f.write(target))
    f.finish("Col2Im")
    low.storage.tensors[node.output] = target


@lowers("MaxUnpool", runtime_inputs=(0, 1))
def max_unpool(low: Lowering, node: Node, group: Group) -> None:
    x, index, op = operand(node), operand(node, 1), node.op
    assert isinstance(op, MaxUnpool)
    if index.dtype != dtypes.int64:
        low.unsupported(node, f"indices of {index.dtype}")
    if not low.are_known(node):
        define(low, node, node.output, integers(low, node, 2, least=0) or ())
    least = op.unpooled(x.shape)
    source, places, target = (
        row_major(low, x),
        row_major(low, index),
        low.storage.allocate(node.output),
    )
    f = low.function("max_unpool", node)
    f.include("unfold.hpp")
    f.arrays({"least": [f.numbers(*least)], "size": [f.numbers(*node.output.shape)]})
    f.arrays({"own": [f.numbers(*x.shape)], "places": [f.numbers(*index.shape)]})
    f.fail_unless(invoke("all_at_most", "least", "size", x.rank))
    f.fail_unless(invoke("all_equal", "own", "places", x.rank), "DIFFERENT_SIZES")
    pointers = f"{f.read(source.bits)}, {f.read(places)}, {f.write(target.bits)}"
    count = f.number(dims.product(x.shape))
    f.call("max_unpool", x.rank, "least", "size", count, pointers, failure="BAD_INDEX")
    f.finish("MaxUnpool")
    low.storage.tensors[node.output] = target


@lowers("DeformConv", has_epilogue=True)
def deform_conv(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    assert isinstance(op, DeformConv)
    _check_rank(low, node, x.rank - 2)
    if not operand(node, 1).tensor.is_static:
        low.unsupported(node, "filters of unknown size")
    columns = _columns(low, node, op)
    if x.dtype != dtypes.float32:
        _plain(low, node, op, columns)
        return
    out = node.output
    pixels, depth = dims.product(out.shape[2:]), columns.shape[-1]
    f = low.function("deform_conv", *group.nodes)
    sink = low.fusing.sink(f, group, channels_last(out.rank), bias=channel_bias(low, node, 3))
    sizes = ConvSizes._make(
        [x.shape[0], 1, pixels, depth, 1, pixels, out.shape[1], *[1] * 6, 0, 0, op.group, depth]
    )
    weights = packed_filters(low, node, op.group)
    kernel = "conv" + SUFFIXES[weights.dtype]
    f.include(f"{kernel}.hpp")
    f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", sizes)
    f.call(kernel, f.sizes(sizes), f.read(columns), f.read(weights), sink)
    f.finish(label(group))


def _columns(low: Lowering, node: Node, op: DeformConv) -> Tensor:
    """What the taps of all windows read: [N, windows …, group · taps · C/group]."""
    x, kernel, counts = operand(node), operand(node, 1).shape[2:], node.output.shape[2:]
    source, offset = image(low, node), row_major(low, operand(node, 2))
    mask = node.input(4)
    weights = None if mask is None else row_major(low, mask)
    columns = low.storage.scratch_tensor(
        x.dtype, (x.shape[0], *counts, dims.product(kernel) * x.shape[1]), natural(len(counts) + 2)
    )
    f = low.function("deform_columns", node)
    f.include("unfold.hpp")
    f.struct(
        "DeformShape",
        "shape",
        n=f.number(x.shape[0]),
        c=f.number(x.shape[1]),
        groups=f.number(op.group),
        offset_groups=f.number(op.offset_group),
        windows=_windows(f, node, x.shape[2:], kernel, counts),
    )
    scale = f"(const {x.dtype.c_name}*)nullptr" if weights is None else f.read(weights)
    f.call("deform_columns", "shape", f.read(source), f.read(offset), scale, f.write(columns))
    f.finish("DeformConv: columns")
    return columns


def _plain(low: Lowering, node: Node, op: DeformConv, columns: Tensor) -> None:
    """The product with the filters for other elements than float32: a convolution of single
    pixels.
    """
    out, bias = node.output, node.input(3)
    filters, target = (
        grouped_filters(low, node, op.group),
        low.storage.allocate(out, channels_last(out.rank)),
    )
    f = low.function("deform_conv", node)
    f.include("windows.hpp")
    n, pixels, depth = out.shape[0], dims.product(out.shape[2:]), columns.shape[-1]
    line = f.number(pixels)
    images, channels = f.number(n), f.number(depth)
    sizes = {"in": line, "out": line, "kernel": "1", "stride": "1", "dilation": "1"}
    pixel = Aggregate(tuple(sizes.items()))
    f.struct("Windows", "windows", n=images, c=channels, rank=1, axis=elements(pixel))
    added = (
        f"(const {out.dtype.c_name}*)nullptr" if bias is None else f.read(low.storage.dense(bias))
    )
    counts = f.numbers(out.shape[1], op.group)
    f.call(
        "window_conv", "windows", counts, f.read(columns), f.read(filters), added, f.write(target)
    )
    f.finish("DeformConv")
    low.storage.tensors[out] = target
