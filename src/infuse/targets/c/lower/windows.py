"""Windows over images: convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Nothing, elements
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tensors import channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.spatial import Sliding
from infuse.targets.c.lower.rows import (
    finish_whole,
    float_conv,
    integer_conv,
    is_float,
    whole_result,
)
from infuse.targets.c.table import call, lowers

_MOST_AXES = 3


def _window(low: Lowering, node: Node, f: FunctionWriter, kernel: Sequence[Dim]) -> None:
    """Define `window`, the geometry, in `f`."""
    op, x = node.op, operand(node)
    assert isinstance(op, Sliding)
    rank = x.rank - 2
    if rank > _MOST_AXES:
        low.unsupported(node, f"{rank}-dimensional windows")
    pads = op.padding(x.shape[2:], kernel)
    fields: dict[str, Sequence[Dim]] = {
        "size": x.shape[2:],
        "out": node.output.shape[2:],
        "kernel": kernel,
        "stride": op.steps(rank),
        "dilation": op.spread(rank),
        "before": [before for before, _ in pads],
        "after": [after for _, after in pads],
    }
    listed = {name: elements(*map(f.number, sizes)) for name, sizes in fields.items()}
    f.struct("Window", "window", rank=rank, **listed)


@lowers("Conv", has_epilogue=True, reads_in=channels_last)
def conv(low: Lowering, node: Node, group: Group) -> None:
    x, w, bias = operand(node), operand(node, 1), node.input(2)
    if is_float(node):
        f = low.function("conv", *group.nodes)
        _window(low, node, f, w.shape[2:])
        float_conv(low, node, group, f)
        f.finish("Conv")
        return
    source, weights = row_major(low, x), row_major(low, w)
    target = low.storage.allocate(node.output)
    f = low.function("conv", node)
    _window(low, node, f, w.shape[2:])
    sizes = f.numbers(x.shape[0], x.shape[1], w.shape[0], node.op.attributes()["group"])
    added = Nothing() if bias is None else f.read(low.storage.dense(bias))
    pointers = f.read(source), f.read(weights), added, f.write(target)
    call(f, "conv", x.dtype, "window", sizes, *pointers)
    f.finish("Conv")
    low.storage.tensors[node.output] = target


@lowers("ConvInteger", has_epilogue=True, accumulates=dtypes.int32, reads_in=channels_last)
def conv_integer(low: Lowering, node: Node, group: Group) -> None:
    x, w = operand(node), operand(node, 1)
    f = low.function("conv_integer", *group.nodes)
    _window(low, node, f, w.shape[2:])
    if integer_conv(low, node, group, f):
        f.finish("ConvInteger")
        return
    tensors = [row_major(low, v) for v in (x, w)]
    target = whole_result(low, node)
    sizes = f.numbers(x.shape[0], x.shape[1], w.shape[0], node.op.attributes()["group"])
    operands: list[object] = []
    for tensor, zero in zip(tensors, (node.input(2), node.input(3))):
        point = Nothing() if zero is None else f.read(low.storage.dense(zero))
        operands += [f.read(tensor), "true" if tensor.dtype.is_signed else "false", point]
    zeros = node.input(3)
    count = f.number(1 if zeros is None else dims.product(zeros.shape))
    f.call("conv_integer", "window", sizes, *operands, count, f.write(target), context=False)
    finish_whole(low, node, group, f, target)
    f.finish("ConvInteger")


@lowers("MaxPool", "AveragePool", "LpPool")
def pool(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    order, last = natural(x.rank), channels_last(x.rank)
    together: Dim = 1
    if not any(v.uses for v in node.outputs[1:]) and low.storage.tensor(x).is_dense(last):
        order, together = last, x.shape[1]
    source, target = low.storage.dense(x, order), low.storage.allocate(node.output, order)
    f = low.function("pool", node)
    _window(low, node, f, attributes["kernel_shape"])
    planes = f.number(dims.product(x.shape[:2]))
    arguments: list[object] = ["window", planes, f.number(together)]
    read, write = f.read(source), f.write(target)
    if node.kind == "MaxPool":
        places = [low.storage.allocate(v) for v in node.outputs[1:] if v.uses]
        turned = "true" if attributes["storage_order"] else "false"
        index = f.write(places[0]) if places else Nothing()
        call(f, "max_pool", x.dtype, *arguments, turned, read, write, index)
        low.storage.tensors.update(zip(node.outputs[1:], places))
    else:
        counted = "true" if attributes.get("count_include_pad") else "false"
        power = float(attributes.get("p", 0))
        call(f, "sum_pool", x.dtype, *arguments, repr(power), counted, read, write)
    f.finish(node.kind)
    low.storage.tensors[node.output] = target
