"""Softmax and the normalizations."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.choice import usual
from infuse.lowering.expressions import invoke
from infuse.lowering.groups import Group
from infuse.lowering.iteration_space import IterationSpace
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.producers import Producers
from infuse.lowering.tensors import Order, Tensor, channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.core.formula import E, inputs
from infuse.targets.cpu.families.normalization import GroupSizes
from infuse.targets.cpu.families.reduction import ReduceSizes
from infuse.targets.cpu.lower.convolution import channel_bias
from infuse.targets.cpu.lower.linear import label, require_float32
from infuse.targets.cpu.table import fuses_producers, lowers


@lowers("Softmax", "LogSoftmax", has_epilogue=True)
def softmax(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    x = operand(node)
    axis = node.op.attributes()["axis"] % x.rank
    kernel = "log_softmax" if node.kind == "LogSoftmax" else "softmax"
    columns = _columns_order(low, group, axis)
    order = columns or (*(a for a in range(x.rank) if a != axis), axis)
    tensor = low.storage.dense(x, order)
    f = low.function("softmax", *group.nodes)
    f.include("softmax.hpp")
    place, size = order.index(axis), x.shape[axis]
    outer, inner = (
        dims.product(x.shape[a] for a in part) for part in (order[:place], order[place + 1 :])
    )
    sink = low.fusing.sink(f, group, order, inner=x.rank - place - 1 if columns else 1)
    if columns:
        sizes = [f.number(outer), f.number(size), f.number(inner)]
        reader(f, tensor, sizes[-1])
        f.scratch("softmax_scratch", "softmax.hpp", size, "LANES")
        f.call(f"{kernel}_axis", *sizes, "input", sink)
    else:
        width = f.number(size)
        reader(f, tensor, width)
        f.scratch("softmax_scratch", "softmax.hpp", size)
        f.call(kernel, f.number(outer), width, "input", sink)
    f.finish(label(group))


def _columns_order(low: Lowering, group: Group, axis: int) -> Order | None:
    """The order of axes in which vectors go across an axis rather than along it, where that pays:
    as the operand lies, or for few elements with the axis first; None where it does not.
    """
    assert group.anchor is not None
    x = operand(group.anchor)
    least, size = low.lanes // 2, usual(x.shape[axis])
    own = low.storage.tensor(x).order
    place = own.index(axis)
    if usual(dims.product(x.shape[a] for a in own[place + 1 :])) >= least:
        order = own
    elif size <= least and usual(dims.product(x.shape)) >= 4 * low.lanes * size:
        order = (axis, *own[:place], *own[place + 1 :])
    else:
        return None
    space = IterationSpace(x.shape, order, len(order) - order.index(axis) - 1)
    fits = all(space.column_stride(low.storage.tensor(v)) in (0, 1) for v in group.operands())
    return order if fits else None


@lowers("LpNormalization", has_epilogue=True)
def lp_norm(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    x, attributes = operand(node), node.op.attributes()
    order = low.storage.tensor(x).order
    place = order.index(attributes["axis"] % x.rank)
    tensor = low.storage.dense(x, order)
    f = low.function("lp_norm", *group.nodes)
    f.include("lp_norm.hpp")
    sink, columns = low.fusing.wide_sink(f, group, order)
    parts = (order[:place], order[place : place + 1], order[place + 1 :])
    sizes = [dims.product(x.shape[a] for a in part) for part in parts]
    shape = f.sizes(ReduceSizes._make([*sizes, columns]))
    f.call("lp_norm", shape, f.read(tensor), sink, template=(f"L{attributes['p']}Norm",))
    f.finish(label(group))


def reader(f: FunctionWriter, tensor: Tensor, columns: str) -> None:
    """Define `input(row, col, lanes)` over a dense tensor with that many columns."""
    pointer = f.read(tensor)
    f.loader("input", pointer, columns)


def _norm_producers(low: Lowering, group: Group, producers: Producers) -> list[Group]:
    """The elementwise work before a normalization of rows, such as the sum with a skip connection:
    the kernel computes each element once.

    A sum that is the epilogue of a product stays there, where it costs a load and an addition in
    registers. Constants as large as the rows come from memory, which one loop over all of them
    reads faster than rows in turns with arithmetic, unless the kernel saves a store as well.
    """
    assert group.anchor is not None
    x = operand(group.anchor)
    before = producers.first(x, group.anchor)
    if before is None or before.anchor is not None or not before.is_vector:
        return []
    if x.dtype != dtypes.float32 or group.anchor.inputs.count(x) != 1:
        return []
    streamed = any(v.is_const and v.shape == x.shape for v in before.operands())
    return [] if streamed and x not in producers.handed_on(before, group) else [before]


@fuses_producers("RMSNormalization", _norm_producers)
@fuses_producers("LayerNormalization", _norm_producers)
def norm_with_producer(low: Lowering, node: Node, group: Group) -> None:
    (before,) = group.producers
    if not low.fusing.lie_in_rows(before):
        before.handed_on.clear()
        group.producers.clear()
        low.fusing.elementwise(before)
    layer_norm(low, node, group)


@lowers("LayerNormalization", "RMSNormalization", has_epilogue=True)
def layer_norm(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    if any(v.uses for v in node.outputs[1:]):
        low.unsupported(node, "mean and deviation outputs")
    x = operand(node)
    attributes = node.op.attributes()
    axis = attributes["axis"] % x.rank
    columns = dims.product(x.shape[axis:])
    rows = dims.product(x.shape[:axis])
    if x.rank - axis > 1:
        low.unsupported(node, "more than one normalized axis")
    tensor = None if group.producers else low.storage.dense(x, natural(x.rank))
    scale, bias = node.input(1), node.input(2)
    f = low.function("norm", *group.all_nodes)
    f.include("norm.hpp")
    sink = low.fusing.sink(f, group, natural(x.rank))
    width = f.number(columns)
    if tensor is None:
        low.fusing.made_rows(f, group.producers[0], group, "input")
    else:
        reader(f, tensor, width)
    null = "(const float*)nullptr"
    pointers = [null if v is None else f.read(low.storage.dense(v)) for v in (scale, bias)]
    sizes = f"{f.number(rows)}, {width}"
    epsilon = f"{float(attributes['epsilon'])!r}f"
    f.scratch("norm_scratch", "norm.hpp", columns)
    if node.kind == "RMSNormalization":
        f.call("rms_norm", sizes, "input", pointers[0], epsilon, sink)
    else:
        f.call("layer_norm", sizes, "input", pointers[0], pointers[1], epsilon, sink)
    f.finish(label(group))


@lowers("InstanceNormalization", "GroupNormalization", has_epilogue=True)
def group_norm(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    x = operand(node)
    attributes = node.op.attributes()
    channels = x.shape[1]
    groups = attributes["num_groups"] if node.kind == "GroupNormalization" else channels
    planes = _has_planes(low, group, groups)
    order = natural(x.rank) if planes else channels_last(x.rank)
    tensor = low.storage.dense(x, order)
    f = low.function("group_norm", *group.nodes)
    f.include("norm.hpp")
    sink = low.fusing.sink(f, group, order, inner=x.rank - 2 if planes else 1)
    pointers = [f.read(low.storage.dense(operand(node, i))) for i in (1, 2)]
    sizes = GroupSizes(x.shape[0], dims.product(x.shape[2:]), channels, groups)
    reader(f, tensor, f.number(sizes.pixels if planes else channels))
    epsilon = f"{float(attributes['epsilon'])!r}f"
    if not planes:
        f.scratch("group_norm_scratch", "norm.hpp", sizes)
    kernel = "group_norm_planes" if planes else "group_norm"
    f.call(kernel, f.sizes(sizes), "input", *pointers, epsilon, sink)
    f.finish(label(group))


def _has_planes(low: Lowering, group: Group, groups: Dim) -> bool:
    """Whether what is normalized lies in planes, of so many pixels and groups that vectors along
    them keep all threads busy.
    """
    assert group.anchor is not None
    x = operand(group.anchor)
    order = natural(x.rank)
    if x.rank < 3 or low.storage.tensor(x).order != order:
        return False
    if usual(dims.product(x.shape[2:])) < 8 * low.lanes:
        return False
    if usual(x.shape[0]) * usual(groups) < low.threads:
        return False
    space = IterationSpace(x.shape, order, x.rank - 2)
    return all(space.column_stride(low.storage.tensor(v)) in (0, 1) for v in group.operands())


@lowers("BatchNormalization", has_epilogue=True)
def batch_norm(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    if any(v.uses for v in node.outputs[1:]):
        low.unsupported(node, "running statistics")
    x = operand(node)
    tensor = low.storage.tensor(x)
    tensor = low.storage.arranged(tensor, tensor.order, x)
    vectors = [channel_vector(low, node, i) for i in range(1, 5)]
    acc, scale, shift, mean, variance = inputs(*[dtypes.float32] * 5)
    factor = scale / E.sqrt(variance + float(node.op.attributes()["epsilon"]))
    normalized = (acc - mean) * factor + shift
    f = low.function("batch_norm", *group.nodes)
    f.include("map.hpp")
    sink = low.fusing.sink(f, group, tensor.order, before=(normalized, vectors))
    columns = tensor.physical_shape[-1]
    width = f.number(columns)
    reader(f, tensor, width)
    rows = f.number(dims.product(tensor.physical_shape[:-1]))
    with f.map("map2d", rows, width, parameters="isize row, isize col, auto lanes", cost=4):
        f.call(sink, invoke("input", "row", "col", "lanes"), "row", "col", "lanes", context=False)
    f.finish(label(group))


def channel_vector(low: Lowering, node: Node, index: int) -> Tensor:
    """A per-channel input as a tensor that broadcasts against N, C, spatial… results."""
    vector = channel_bias(low, node, index)
    assert vector is not None
    return vector
