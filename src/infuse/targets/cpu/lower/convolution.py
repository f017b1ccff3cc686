"""Convolutions on channels-last tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Node
from infuse.lowering.choice import PackedWeights, is_transformed
from infuse.lowering.expressions import Invocation
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.spatial import Sliding
from infuse.targets.cpu.families.convolution import (
    AS_LINES,
    MODES,
    ConvSizes,
    forms,
    merged,
    merged_forms,
)
from infuse.targets.cpu.families.depthwise import (
    MOST_PLANES,
    DepthwiseSizes,
    depthwise_forms,
)
from infuse.targets.cpu.families.gemm import GemmSizes
from infuse.targets.cpu.families.winograd import tile_forms
from infuse.targets.cpu.lower.filters import depthwise_filters, filter_bytes, filters_of_form
from infuse.targets.cpu.lower.linear import call_gemm, kernel_suffix, label, product_form
from infuse.targets.cpu.lower.planes import (
    call_planes,
    lies_as_planes,
    seconds_of_planes,
    seconds_of_turning,
)
from infuse.targets.cpu.lower.sparse import (
    SparseMatrix,
    call_sparse_gemm,
    faster_blocks,
    picks_blocks,
    sparse_floats,
)
from infuse.targets.cpu.lower.tiles import call_winograd, tile_bytes
from infuse.targets.cpu.lower.windows import plain_conv
from infuse.targets.cpu.table import lowers


@dataclass(frozen=True)
class Window:
    """A 2-D window: sizes as pairs (height is 1 for 1-D), pads before and after."""

    kernel: list[Dim]
    strides: list[Dim]
    dilations: list[Dim]
    before: list[Dim]
    after: list[Dim]


def window(node: Node, low: Lowering) -> Window:
    """The window of a 1-D or 2-D convolution or pooling, padding resolved."""
    op, x = node.op, operand(node)
    assert isinstance(op, Sliding)
    rank = x.rank - 2
    if rank not in (1, 2):
        low.unsupported(node, f"{rank}-dimensional windows")
    kernel = op.kernel_shape or tuple(int(k) for k in _sizes(operand(node, 1).shape[2:]))
    pads = op.padding(x.shape[2:], kernel)
    line = rank == 1
    return Window(
        _two(kernel, line, 1),
        _two(op.steps(rank), line, 1),
        _two(op.spread(rank), line, 1),
        _two([before for before, _ in pads], line, 0),
        _two([after for _, after in pads], line, 0),
    )


def _sizes(shape: Sequence[Dim]) -> list[int]:
    return [d for d in shape if isinstance(d, int)]


def _two(values: Sequence[Dim], fill: bool, default: int) -> list[Dim]:
    return [default, *values] if fill else list(values)


def depthwise_sizes(node: Node, win: Window) -> DepthwiseSizes:
    """The sizes of a window that moves over the channels of an image."""
    x = operand(node)
    corners = (x.shape[0], *plane(x.shape), x.shape[1], *plane(node.output.shape))
    return DepthwiseSizes(*corners, *win.kernel, *win.strides, *win.dilations, *win.before)


def image(low: Lowering, node: Node) -> Tensor:
    """The input, dense and channels last."""
    x = operand(node)
    return low.storage.dense(x, channels_last(x.rank))


def pixels(low: Lowering, node: Node) -> Tensor:
    """The input, channels last: a copy only where its pixels do not lie equally far apart, or the
    channels of a pixel not side by side.
    """
    tensor = low.storage.tensor(operand(node))
    return image(low, node) if _rows(tensor) is None else tensor


def pixel_pitch(low: Lowering, node: Node) -> Dim:
    """Elements from one pixel of `pixels` to the next."""
    rows = _rows(low.storage.tensor(operand(node)))
    channels = operand(node).shape[1]
    return channels if rows is None or rows.shape[0] == 1 else rows.strides[0]


def plane(shape: Sequence[Dim]) -> list[Dim]:
    """Height and width of a logical N, C, (H,) W shape."""
    return [1, shape[2]] if len(shape) == 3 else list(shape[2:])


def _reads_parts(node: Node, axis: int) -> bool:
    """Channels of floats, unless each has a filter of its own."""
    x = operand(node)
    is_window = x.dtype == dtypes.float32 and x.rank < 5
    return axis == 1 and is_window and not 1 < node.op.attributes()["group"] == x.shape[1]


@lowers("Conv", has_epilogue=True, reads_parts=_reads_parts)
def conv(low: Lowering, node: Node, group: Group) -> None:
    if not operand(node, 1).tensor.is_static:
        low.unsupported(node, "filters of unknown size")
    if operand(node).dtype != dtypes.float32:
        plain_conv(low, node)
        return
    f = low.function("conv", *group.nodes)
    bias = channel_bias(low, node, 2)
    if lies_as_planes(low, node, group) and planes_are_faster(low, node):
        call_conv_of_planes(low, node, f, group, bias)
    else:
        order = channels_last(node.output.rank)
        call_convolution(low, node, f, partial(low.fusing.sink, f, group, order, bias=bias))
    f.finish(label(group))


def call_conv_of_planes(
    low: Lowering, node: Node, f: FunctionWriter, group: Group, bias: Tensor | None
) -> None:
    """Write the call of the kernel that computes a Conv of planes to planes, and what is fused with
    it.
    """
    order, inner = natural(node.output.rank), node.output.rank - 2
    sink = partial(low.fusing.sink, f, group, order, bias=bias, inner=inner)
    call_planes(low, node, f, _conv_sizes(low, node), sink)


def planes_are_faster(low: Lowering, node: Node) -> bool:
    """Whether an image that lies as planes costs less as it is than turned, and the result turned
    back.
    """
    sizes, win = _conv_sizes(low, node), window(node, low)
    if low.precision != "fp32":  # weights, or operands, are to be rounded
        return False
    if is_point(low, node):
        if leaves_out_blocks(low, node):
            return False
        last = _least(low, "conv", sizes, ["taps"])
    elif sizes.groups == sizes.channels and sizes.groups > 1:
        names = depthwise_forms(depthwise_sizes(node, win), sizes.out_channels)
        each = depthwise_sizes(node, win)._replace(channels=sizes.out_channels)
        last = _least(low, "depthwise", each, names)
    else:
        names = _forms(low, node, sizes)
        last = _least(low, "conv", sizes, names, _packed_weights(low, node, sizes, names))
    return seconds_of_planes(low, sizes) < last + seconds_of_turning(low, node)


def _least(
    low: Lowering,
    family: str,
    sizes: Sequence[Dim],
    names: Sequence[str],
    packed: PackedWeights | None = None,
) -> float:
    """What the candidate costs that would be taken."""
    choice = low.chooser.of(low.precision).choose(family, sizes, names, packed)
    return choice.costs[choice.chosen]


def _conv_sizes(low: Lowering, node: Node) -> ConvSizes:
    s, groups = depthwise_sizes(node, window(node, low)), int(node.op.attributes()["group"])
    return ConvSizes(*s[:6], node.output.shape[1], *s[6:], groups, pixel_pitch(low, node))


def call_convolution(low: Lowering, node: Node, f: FunctionWriter, sink: Callable[[], str]) -> None:
    """Write the call of the kernel that computes a Conv of float32 without its bias; `sink` defines
    what takes its results, and returns the name.
    """
    groups, x = int(node.op.attributes()["group"]), operand(node)
    win = window(node, low)
    rows = pixel_rows(low, node)
    if rows is not None:
        call_point_product(low, node, f, rows, sink)
    elif groups == x.shape[1] and groups > 1:
        _depthwise(low, node, f, win, sink)
    else:
        _windows(low, node, f, _conv_sizes(low, node), sink)


def call_point_product(
    low: Lowering, node: Node, f: FunctionWriter, rows: Tensor, sink: Callable[[], str]
) -> None:
    """Write the call of the kernel that multiplies pixels by the filters of single pixels."""
    count, channels = rows.shape
    sizes = GemmSizes(
        count, node.output.shape[1], channels, rows.strides[0] if count != 1 else channels
    )
    rounded = rows.dtype == dtypes.bfloat16
    sparse = None if rounded else faster_blocks(low, sizes[:3], _sparse_filters(low, node))
    if sparse is not None:
        call_sparse_gemm(low, f, sizes, rows, sparse, sink())
        return
    constant = operand(node, 1).is_const
    form = "bf16" if rounded else product_form(low, sizes) if constant else "fp32"
    call_gemm(low, f, sizes, rows, filters_of_form(low, node, 1, True, form), sink(), form)


def _sparse_filters(low: Lowering, node: Node) -> SparseMatrix | None:
    """The filters of a 1 × 1 convolution in blocks, where many of them are zero."""
    return sparse_floats(low, operand(node, 1).const, ("filters",), _points)


def _points(filters: Array) -> Array:
    """Filters of 1 × 1 (M, C, 1, 1) as a matrix (C, M)."""
    return np.asarray(filters.reshape(filters.shape[:2]).T)


def leaves_out_blocks(low: Lowering, node: Node) -> bool:
    """Whether a 1 × 1 convolution is faster without the zero blocks of its filters."""
    sparse, x, out = _sparse_filters(low, node), operand(node), node.output
    if sparse is None:
        return False
    sizes = (dims.product([out.shape[0], *out.shape[2:]]), out.shape[1], x.shape[1])
    return picks_blocks(low, sizes, sparse).chosen == "blocks"


def _windows(
    low: Lowering, node: Node, f: FunctionWriter, sizes: ConvSizes, sink: Callable[[], str]
) -> None:
    rounded = low.storage.tensor(operand(node)).dtype == dtypes.bfloat16
    names = ["taps_bf16"] if rounded else _forms(low, node, sizes)
    form = low.choose("conv", sizes, *names, packed=_packed_weights(low, node, sizes, names))
    planar = form.startswith("planar")
    if form.startswith("merged"):
        sizes = sizes._replace(groups=sizes.groups // merged(sizes, int(form[-1]), low.lanes))
    groups = sizes.groups
    tensor = low.storage.tensor(operand(node)) if planar else pixels(low, node)
    store = sink()
    if form.startswith("winograd"):
        call_winograd(low, node, f, form, sizes, tensor, store)
        return
    mark = "as_planar" if planar else "as_taps" if form == "taps" else None
    whole = groups == 1 and sizes.dilation_width == 1
    weights = filters_of_form(low, node, groups, whole, form)
    kernel = ("conv_lines" if form in AS_LINES else "conv") + kernel_suffix(weights, form)
    f.include(f"{kernel}.hpp")
    marked = sizes if mark is None else Invocation(mark, (sizes,))
    f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", marked)
    modes = [MODES[form]] if kernel == "conv" and form in MODES else []
    named = f.sizes(sizes)
    named = named if mark is None else f"{mark}({named})"
    f.call(kernel, named, f.read(tensor), f.read(weights), store, template=modes)


def _forms(low: Lowering, node: Node, sizes: ConvSizes) -> list[str]:
    """The forms of a convolution of these sizes.

    Where the precision allows, operands may be rounded to bfloat16; not in larger tiles than 2 × 4,
    which lose too much.
    """
    x, is_constant = operand(node), operand(node, 1).is_const
    tensor = low.storage.tensor(x)
    planes = tensor.is_dense(natural(x.rank)) and not tensor.is_dense(channels_last(x.rank))
    precision = low.precision if is_constant else "fp32"
    tiled = low.machine.has_bf16_tiles
    names = forms(sizes, planes=planes, precision=precision, tiled=tiled)
    if is_constant:
        names += tile_forms(sizes, low.precision, tiled)
    if is_constant and sizes.groups > 1:
        names += merged_forms(sizes, low.lanes)
    return names


def _packed_weights(
    low: Lowering, node: Node, sizes: ConvSizes, names: Sequence[str]
) -> PackedWeights | None:
    """What these forms store, where tiles are among them."""
    filters = operand(node, 1).const
    if filters is None or not any(map(is_transformed, names)):
        return None
    whole = sizes.dilation_width == 1
    stored = {
        name: tile_bytes(low, node, name, sizes)
        if is_transformed(name)
        else filter_bytes(low, node, whole, name)
        for name in names
    }
    return PackedWeights(low.program.weights.digest(filters), stored)


def is_point(low: Lowering, node: Node) -> bool:
    """Whether a convolution is a product of pixels and a matrix."""
    win = window(node, low)
    if node.output.shape[2:] != operand(node).shape[2:]:
        return False
    plain = win.kernel == [1, 1] and win.strides == [1, 1] and node.op.attributes()["group"] == 1
    return plain and all(p == 0 for p in (*win.before, *win.after))


def pixel_rows(low: Lowering, node: Node) -> Tensor | None:
    """The pixels as rows of a matrix, where the convolution is a matrix product; they need not lie
    without gaps.
    """
    return image_rows(low, node) if is_point(low, node) else None


def image_rows(low: Lowering, node: Node) -> Tensor:
    """The pixels of the input as rows of a matrix, which need not lie without gaps."""
    view = _rows(low.storage.tensor(operand(node)))
    if view is None:
        view = _rows(image(low, node))
    assert view is not None
    return view


def _rows(tensor: Tensor) -> Tensor | None:
    """An image tensor as pixels × channels with neighbouring channels side by side, None where
    strides forbid it.
    """
    shape = (dims.product([tensor.shape[0], *tensor.shape[2:]]), tensor.shape[1])
    view = tensor.permute(channels_last(tensor.rank)).reshape(shape)
    fits = view is not None and (view.strides[1] == 1 or view.shape[1] == 1)
    return view if fits else None


def channel_bias(low: Lowering, node: Node, index: int) -> Tensor | None:
    """A per-channel input as a tensor that broadcasts against N, C, spatial… results."""
    bias = node.input(index)
    if bias is None:
        return None
    view = low.storage.tensor(bias).reshape((bias.shape[0], *(1,) * (node.output.rank - 2)))
    assert view is not None
    return view


def _depthwise(
    low: Lowering, node: Node, f: FunctionWriter, win: Window, sink: Callable[[], str]
) -> None:
    sizes = depthwise_sizes(node, win)
    out, channels = operand(node, 1).shape[0], sizes.channels
    names = depthwise_forms(sizes, out)
    form = low.choose("depthwise", sizes, *names) if len(names) > 1 else names[0]
    tensor = image(low, node)
    store = sink()
    weights = depthwise_filters(low, node)
    text = f.sizes(sizes)
    x, packed = f.read(tensor), f.read(weights)
    if form == "rows":
        f.include("depthwise.hpp")
        template = (sizes.kernel_width, sizes.stride_width)
        f.call("depthwise", text, x, packed, store, template=template)
    else:
        assert isinstance(channels, int)
        assert isinstance(out, int)
        f.include("depthwise_any.hpp")
        each = out // channels
        planes = each if each <= MOST_PLANES else 0
        f.call("depthwise_any", text, f.number(each), x, packed, store, template=(planes,))
