"""Windows over any number of axes and any element type: correct everywhere, slower than the kernels
for images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import elements
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, channels_last, dense, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.spatial import Sliding
from infuse.targets.text.literals import literal

MOST_AXES = 6


def _windows(low: Lowering, node: Node, f: FunctionWriter, kernel: Sequence[Dim]) -> None:
    """Define `windows`, the geometry, in `f`."""
    op, x = node.op, operand(node)
    assert isinstance(op, Sliding)
    rank = x.rank - 2
    if rank > MOST_AXES:
        low.unsupported(node, f"{rank}-dimensional windows")
    pads = op.padding(x.shape[2:], kernel)
    axes = []
    for i, (size, out) in enumerate(zip(x.shape[2:], node.output.shape[2:])):
        step, spread = op.steps(rank)[i], op.spread(rank)[i]
        before, after = pads[i]
        axes.append(
            f.fields(
                in_=size,
                out=out,
                kernel=kernel[i],
                stride=step,
                dilation=spread,
                before=before,
                after=after,
            )
        )
    f.include("windows.hpp")
    images, channels = f.number(x.shape[0]), f.number(x.shape[1])
    f.struct("Windows", "windows", n=images, c=channels, rank=rank, axis=elements(*axes))


def plain_conv(low: Lowering, node: Node) -> None:
    """Convolution of elements of any floating type with filters that may be computed."""
    x, bias = operand(node), node.input(2)
    groups = int(node.op.attributes()["group"])
    tensor = low.storage.dense(x, channels_last(x.rank))
    filters = grouped_filters(low, node, groups)
    target = low.storage.allocate(node.output, channels_last(x.rank))
    f = low.function("window_conv", node)
    _windows(low, node, f, operand(node, 1).shape[2:])
    added = f"(const {x.dtype.c_name}*)nullptr" if bias is None else f.read(low.storage.dense(bias))
    sizes = f.numbers(node.output.shape[1], groups)
    f.call("window_conv", "windows", sizes, f.read(tensor), f.read(filters), added, f.write(target))
    f.finish("Conv")
    low.storage.tensors[node.output] = target


def grouped_filters(low: Lowering, node: Node, groups: int) -> Tensor:
    """Filters (M, C/group, …) as [group, taps, C/group, M/group]."""
    w = operand(node, 1)
    kernel = w.shape[2:]
    shape = (groups, dims.floordiv(w.shape[0], groups), w.shape[1], *kernel)
    perm = (0, *range(3, w.rank + 1), 2, 1)
    if w.const is not None:
        grouped = w.const.reshape(groups, -1, *w.const.shape[1:])
        return low.program.weight(np.ascontiguousarray(np.transpose(grouped, perm)))
    whole = low.storage.dense(w, natural(w.rank))
    view = dense(whole.buffer, whole.dtype, shape)
    view = Tensor(
        view.buffer, view.dtype, view.shape, view.strides, view.order, whole.offset
    ).permute(perm)
    return low.storage.arranged(view, natural(view.rank))


def plain_pool(low: Lowering, node: Node) -> None:
    """Pooling of elements of any type, with the places of the largest where they are asked for."""
    x, attributes = operand(node), node.op.attributes()
    order = channels_last(x.rank)
    tensor = low.storage.dense(x, order)
    target = low.storage.allocate(node.output, order)
    f = low.function(node.kind, node)
    _windows(low, node, f, attributes["kernel_shape"])
    read, write = f.read(tensor), f.write(target)
    if node.kind == "MaxPool":
        places = [low.storage.allocate(v, order) for v in node.outputs[1:] if v.uses]
        index = f.write(places[0]) if places else "(int64_t*)nullptr"
        first = "true" if attributes["storage_order"] else "false"
        f.call("window_max", "windows", _lowest(node), read, write, index, first)
        low.storage.tensors.update(zip(node.outputs[1:], places))
    else:
        op = (
            f"WindowPower{{{float(attributes['p'])!r}}}"
            if node.kind == "LpPool"
            else "WindowMean{}"
        )
        counted = "true" if attributes.get("count_include_pad") else "false"
        f.call("window_sum", "windows", counted, op, read, write)
    f.finish(node.kind)
    low.storage.tensors[node.output] = target


def _lowest(node: Node) -> str:
    dtype = node.output.dtype
    return literal(-np.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min), dtype)
