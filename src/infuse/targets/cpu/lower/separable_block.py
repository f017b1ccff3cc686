"""Convolutions that compute what they read: chains around depthwise ones, and elementwise work
before 1 x 1 ones.
"""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.groups import Group, cost
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.partition import CHEAP
from infuse.lowering.producers import Producers
from infuse.lowering.tensors import channels_last
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.families.depthwise import ChainSizes
from infuse.targets.cpu.families.gemm import GemmSizes
from infuse.targets.cpu.lower.convolution import (
    channel_bias,
    depthwise_sizes,
    image,
    is_point,
    leaves_out_blocks,
    pixel_rows,
    window,
)
from infuse.targets.cpu.lower.filters import depthwise_filters, filters_of_form
from infuse.targets.cpu.lower.linear import product_form
from infuse.targets.cpu.table import fuses_producers

ROOM = 576 << 10
"""Bytes that stay in the second level cache from one kernel to the next, roughly."""
HALO = 0.04
"""The part of the expanded lines that threads may compute twice, where their shares meet."""


def _conv_producers(low: Lowering, group: Group, producers: Producers) -> list[Group]:
    node = group.anchor
    assert node is not None
    if not _is_plain(node):
        return []
    before = producers.alone(operand(node))
    if before is None or low.precision == "fp16":
        return []
    if is_point(low, node):
        if leaves_out_blocks(low, node):
            return []
        if before.anchor is None:
            return (
                [before]
                if _is_made_of_floats(before) and sum(map(cost, before.formulas.values())) <= CHEAP
                else []
            )
        if not _is_depthwise(low, before.anchor) or not _is_stage(before):
            return []
        first = _expanding(low, before.anchor, producers)
        chain = [*([first] if first else []), before]
        return chain if _pays(low, first, before.anchor, before.result) else []
    first = _expanding(low, node, producers) if _is_depthwise(low, node) else None
    return [first] if first and _pays(low, first, node) else []


def _expanding(low: Lowering, depthwise: Node, producers: Producers) -> Group | None:
    """The group that expands the channels of a depthwise convolution, as a stage of its kernel."""
    group = producers.alone(operand(depthwise))
    if group is None or group.anchor is None or not _is_plain(group.anchor):
        return None
    fits = is_point(low, group.anchor) and not leaves_out_blocks(low, group.anchor)
    return group if fits and _is_stage(group) else None


def _is_plain(node: Node) -> bool:
    """Whether a node is a convolution of images of floats with constant filters."""
    if node.kind != "Conv" or node.op.domain or operand(node).dtype != dtypes.float32:
        return False
    return operand(node).rank == 4 and operand(node, 1).const is not None


def _is_depthwise(low: Lowering, node: Node) -> bool:
    """Whether kernels/chain.hpp computes a convolution between others."""
    if not _is_plain(node):
        return False
    out, one, height, width = operand(node, 1).shape
    win = window(node, low)
    fits = (
        width in (3, 5, 7)
        and height in range(1, 9)
        and win.strides[1] in (1, 2)
        and win.dilations == [1, 1]
    )
    return (
        fits
        and one == 1
        and node.op.attributes()["group"] == out == operand(node).shape[1]
        and out != 1
    )


def _is_made_of_floats(group: Group) -> bool:
    return group.is_vector and group.result.dtype == dtypes.float32 and group.result.rank == 4


def _is_stage(group: Group) -> bool:
    """Whether all that follows the anchor needs of an element's place is its channel."""
    return _is_made_of_floats(group) and all(map(_is_by_channel, group.operands()))


def _is_by_channel(value: Value) -> bool:
    shape = (*(1,) * (4 - value.rank), *value.shape)
    return len(shape) == 4 and shape[0] == 1 and shape[2:] == (1, 1)


def _pays(low: Lowering, expand: Group | None, depthwise: Node, *results: Value) -> bool:
    """Whether a chain saves trips to memory: `results`, and what `expand` makes, would not stay in
    the cache.
    """
    values = [*([expand.result] if expand else []), *results]
    sizes = [dims.product(value.shape[1:]) for value in values]
    height, win = operand(depthwise).shape[2], window(depthwise, low)
    counts = [
        size for size in (*sizes, height, win.kernel[0], win.strides[0]) if isinstance(size, int)
    ]
    if len(counts) < len(sizes) + 3:
        return False
    lines, kernel, stride = counts[-3:]
    again = (low.threads - 1) * max(kernel - stride, 0) if expand else 0
    return 4 * max(counts[:-3]) > ROOM and again <= HALO * lines


@fuses_producers("Conv", _conv_producers)
def conv_with_producers(low: Lowering, node: Node, group: Group) -> None:
    f = low.function("conv_chain", *group.all_nodes)
    if group.producers[0].anchor is None:
        _made_rows(low, node, group, f)
    else:
        _chain(low, group, f)
    f.finish(" + ".join(n.kind for n in group.all_nodes))


def _made_rows(low: Lowering, node: Node, group: Group, f: FunctionWriter) -> None:
    """A 1 x 1 convolution of pixels that elementwise work makes."""
    order = channels_last(4)
    low.fusing.values(f, group.producers[0], order, "value")
    sink = low.fusing.sink(f, group, order, bias=channel_bias(low, node, 2))
    sizes = _point_sizes(node)
    form = product_form(low, sizes)
    of_floats = form == "fp32"
    header = "gemm_made" if of_floats else f"gemm_{form}"
    f.include(f"{header}.hpp")
    f.scratch(f"{header}_scratch", f"{header}.hpp", sizes)
    weights = f.read(filters_of_form(low, node, 1, True, form))
    kernel = "gemm_made" if of_floats else f"gemm_made_{form}"
    f.call(kernel, f.sizes(sizes), "value", weights, sink)


def _chain(low: Lowering, group: Group, f: FunctionWriter) -> None:
    """A depthwise convolution with one before it, one after it, or both."""
    groups = [*group.producers, group]
    project = group if not _is_depthwise(low, _anchor(group)) else None
    form = _product_form(low, groups)
    call = _begin(low, f, groups if project is None else groups[:-1], project, form)
    last = "NoStage{}" if project is None else _stage(low, f, groups[-2], "last")
    projecting = _no_filters(form)
    if project is not None:
        projecting = f.read(filters_of_form(low, _anchor(project), 1, True, form))
    sink = low.fusing.sink(f, group, channels_last(4), bias=channel_bias(low, _anchor(group), 2))
    products: tuple[str, ...] = ()
    header, template = "chain.hpp", [call.form]
    if form != "fp32":
        header, products = f"chain_{form}.hpp", (_PRODUCTS[form],)
        template += products
        low.root.program.layers.update((_anchor(g).serial, low.precision) for g in groups)
    f.include(header)
    f.scratch("chain_scratch", header, call.sizes, template=products)
    f.call("chain", call.operands, projecting, call.expand, last, sink, template=template)


_PRODUCTS: Final = {"bf16": "PairProducts", "bf16x2": "SplitProducts"}
"""How the 1 x 1 convolutions of a chain multiply that is not of float32 (kernels/chain_*.hpp)."""


def _product_form(low: Lowering, groups: list[Group]) -> str:
    """What the 1 x 1 convolutions of a chain make of their operands, all the same. Without tile
    registers it is not float32 where one of them gains by that, since rows that lie in the cache
    cost little to round.
    """
    points = [_anchor(g) for g in groups if not _is_depthwise(low, _anchor(g))]
    expands = points[0] is _anchor(groups[0])
    if expands and low.storage.tensor(operand(points[0])).dtype == dtypes.bfloat16:
        return "bf16"
    forms = {product_form(low, _point_sizes(node)) for node in points}
    if len(forms) == 1:
        return forms.pop()
    return "fp32" if low.machine.has_bf16_tiles else low.precision


def _no_filters(form: str) -> str:
    """A pointer to weights that are not there, of the type that float32 has."""
    return "(const float*)nullptr" if form == "fp32" else "nullptr"


def _point_sizes(node: Node) -> GemmSizes:
    """A 1 x 1 convolution as a product of pixels that lie side by side."""
    x, channels = operand(node), operand(node).shape[1]
    pixels = dims.product([x.shape[0], *x.shape[2:]])
    return GemmSizes(pixels, node.output.shape[1], channels, channels)


class _Call(Immutable):
    """Parts of a call of kernels/chain.hpp."""

    form: str
    sizes: ChainSizes
    operands: str
    expand: str


def _begin(
    low: Lowering, f: FunctionWriter, groups: list[Group], project: Group | None, form: str
) -> _Call:
    """What the kernel is told of a depthwise convolution, the last of `groups`, and of the one
    before it, whose filters are of this form.
    """
    expand, middle = groups[0] if len(groups) == 2 else None, _anchor(groups[-1])
    win, x = window(middle, low), operand(middle)
    rows = image(low, middle) if expand is None else pixel_rows(low, _anchor(expand))
    assert rows is not None
    entering: tuple[Dim, Dim] = (0, x.shape[1])
    if expand is not None:
        channels = operand(_anchor(expand)).shape[1]
        entering = (channels, rows.strides[0] if rows.shape[0] != 1 else channels)
    sizes = ChainSizes(
        depthwise_sizes(middle, win), *entering, 0 if project is None else project.result.shape[1]
    )
    stage = "NoStage{}" if expand is None else _stage(low, f, expand, "expand")
    filters = _no_filters(form)
    if expand is not None:
        filters = f.read(filters_of_form(low, _anchor(expand), 1, True, form))
    f.include("chain.hpp")
    operands = (
        f"{f.sizes(sizes)}, {f.read(rows)}, {filters}, {f.read(depthwise_filters(low, middle))}"
    )
    return _Call(f"{win.kernel[1]}, {win.strides[1]}", sizes, operands, stage)


def _pool_producers(low: Lowering, group: Group, producers: Producers) -> list[Group]:
    node = group.anchor
    assert node is not None
    x = operand(node)
    before = producers.first(x, node)
    if (
        low.precision != "fp32"
        or x.dtype != dtypes.float32
        or before is None
        or before.anchor is None
    ):
        return []
    if (
        before.result.rank != 4
        or not _is_made_of_floats(before)
        or not _is_depthwise(low, before.anchor)
    ):
        return []
    first = _expanding(low, before.anchor, producers)
    if first and _pays(low, first, before.anchor):
        return [first, before]
    return [before] if _pays(low, None, before.anchor, before.result) else []


@fuses_producers("GlobalAveragePool", _pool_producers)
def pool_with_producers(low: Lowering, node: Node, group: Group) -> None:
    """The mean of what a depthwise convolution makes, found while it is made."""
    f = low.function("pooled_chain", *group.all_nodes)
    call = _begin(low, f, group.producers, None, "fp32")
    middle = group.producers[-1]
    sink = low.fusing.sink(f, middle, channels_last(4), bias=channel_bias(low, _anchor(middle), 2))
    means = low.fusing.sink(f, group, channels_last(4), name="means")
    f.scratch("pooled_chain_scratch", "chain.hpp", call.sizes)
    made = f.write(low.storage.tensor(middle.result))
    f.call("pooled_chain", call.operands, call.expand, sink, made, means, template=(call.form,))
    f.finish(" + ".join(n.kind for n in group.all_nodes))


def _anchor(group: Group) -> Node:
    assert group.anchor is not None
    return group.anchor


def _stage(low: Lowering, f: FunctionWriter, group: Group, name: str) -> str:
    low.fusing.stage(f, group, channels_last(4), channel_bias(low, _anchor(group), 2), name)
    return name
