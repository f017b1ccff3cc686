"""Convolutions on channels-last tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.lower.computed import packed_at_run_time
from infuse.codegen.lower.finding import operand
from infuse.codegen.lower.linear import call_gemm, label
from infuse.codegen.lower.windows import plain_conv
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.packing import pack_conv, pack_conv_bf16, winograd_weights
from infuse.codegen.program import FunctionWriter, size_text
from infuse.codegen.tensors import Tensor, channels_last, natural
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Node, Value
from infuse.ops.spatial import Sliding


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


def image(low: Lowering, node: Node) -> Tensor:
    """The input, dense and channels last."""
    x = operand(node)
    return low.dense(x, channels_last(x.rank))


def plane(shape: Sequence[Dim]) -> list[Dim]:
    """Height and width of a logical N, C, (H,) W shape."""
    return [1, shape[2]] if len(shape) == 3 else list(shape[2:])


@lowers("Conv", fuses=True)
def conv(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    if not operand(node, 1).tensor.is_static:
        low.unsupported(node, "filters of unknown size")
    if x.dtype != dtypes.float32:
        plain_conv(low, node)
        return
    groups = int(node.op.attributes()["group"])
    win = window(node, low)
    f = low.function("conv", *group.nodes)
    sizes = [x.shape[0], *plane(x.shape), x.shape[1], *plane(node.output.shape)]
    rows = _pixel_rows(low, node, win, groups)
    planar = rows is None and not _takes_pairs(low, node) and _takes_planes(low, x, win, groups)
    tensor = rows if rows is not None else low.tensor(x) if planar else image(low, node)
    sink = low.sink(f, group, channels_last(node.output.rank), bias=channel_bias(low, node, 2))
    if rows is not None:
        _matrix(low, node, f, rows, sink)
    elif groups == x.shape[1] and groups > 1:
        _depthwise(low, node, f, tensor, win, sizes, sink)
    else:
        fields = [*sizes, node.output.shape[1], *win.kernel, *win.strides, *win.dilations, *win.before, groups]
        _windows(low, node, f, tensor, fields, planar, sink)
    f.finish(label(group))


def _matrix(low: Lowering, node: Node, f: FunctionWriter, rows: Tensor, sink: str) -> None:
    count, channels = rows.shape
    fields = (count, node.output.shape[1], channels, rows.strides[0] if count != 1 else channels)
    weights = _packed_pairs(low, node, 1, True) if _takes_pairs(low, node) else packed_filters(low, node, 1)
    call_gemm(low, f, fields, rows, weights, sink)


def _windows(
    low: Lowering, node: Node, f: FunctionWriter, tensor: Tensor, fields: list[Dim], planar: bool, sink: str
) -> None:
    tile, pairs = 0, _takes_pairs(low, node)
    if operand(node, 1).is_const and not planar:
        tile, pairs = cheapest_form(fields, low.threads, pairs)
    shape = f"ConvShape{{{', '.join(map(size_text, fields))}{', true' if planar else ''}}}"
    text = f"ConvShape{{{f.numbers(*fields)}{', true' if planar else ''}}}"
    if tile:
        form, cast = (f"{tile}, WinogradPairs", "(const int32_t*)") if pairs else (f"{tile}", "")
        header = "winograd_bf16.hpp" if pairs else "winograd.hpp"
        f.include(header)
        f.scratch(f"winograd_scratch<{form}>({shape})", header)
        weights = _winograd_packed(low, node, tile, pairs)
        f.line(f"winograd<{form}>(c, {text}, {f.read(tensor)}, {cast}{f.read(weights)}, {sink});")
        return
    groups = int(node.op.attributes()["group"])
    whole = groups == 1 and fields[12] == 1
    weights = _packed_pairs(low, node, groups, whole) if pairs else packed_filters(low, node, groups)
    kernel = "conv_bf16" if pairs else "conv"
    f.include(f"{kernel}.hpp")
    f.scratch(f"{kernel}_scratch({shape})", f"{kernel}.hpp")
    f.line(f"{kernel}(c, {text}, {f.read(tensor)}, {f.read(weights)}, {sink});")


def _takes_pairs(low: Lowering, node: Node) -> bool:
    """Whether a convolution rounds its operands to bfloat16."""
    return low.precision == "bf16" and operand(node, 1).const is not None


def _takes_planes(low: Lowering, x: Value, win: Window, groups: int) -> bool:
    """Whether the kernel reads the image as it comes, channels as planes (kernels/conv.hpp: conv_takes_planar)."""
    tensor, channels = low.tensor(x), x.shape[1]
    few = isinstance(channels, int) and channels < 32
    planes = tensor.is_dense(natural(x.rank)) and not tensor.is_dense(channels_last(x.rank))
    return few and planes and groups == 1 and win.dilations[1] == 1


FLOPS = 110e9
"""Multiplications and additions a core does in a second, roughly."""
BANDWIDTH = 20e9
"""Bytes a second that all cores together read from memory, roughly."""


def cheapest_form(fields: list[Dim], threads: int, pairs: bool) -> tuple[int, bool]:
    """The tile size of the cheapest form of a convolution (ConvShape's fields), 0 without Winograd, and whether its
    operands are rounded to bfloat16, which they may be where `pairs`.

    A model of time: arithmetic at the cores' speed, weights at the memory's; the transforms count as arithmetic at a
    quarter of the speed. In bfloat16 products are twice as fast, and weights half as large. Larger tiles than 2 are not
    rounded, as they would lose too much.
    """
    if not all(isinstance(n, int) for n in fields):
        return 0, pairs
    n, _, _, c, oh, ow, oc, kh, kw, *rest, groups = (int(d) for d in fields if isinstance(d, int))
    if (kh, kw) != (3, 3) or rest[:4] != [1, 1, 1, 1] or groups != 1 or c < 16 or oc < 16:
        return 0, pairs

    def seconds(products: float, transforms: float, weights: float, rounded: bool) -> float:
        gain = 2 if rounded else 1
        work = (products / gain + 4 * transforms) / (FLOPS * threads)
        return max(work, 4 * weights / gain / BANDWIDTH)

    best, form = seconds(2.0 * 9 * n * oh * ow * c * oc, 0, 9.0 * c * oc, pairs), (0, pairs)
    for m, rounded in ((4, False), (2, pairs)):
        tiles, points = n * -(-oh // m) * -(-ow // m), (m + 2) ** 2
        products, transforms = 2.4 * points * tiles * c * oc, 4.0 * points * tiles * (c + oc)
        cost = seconds(products, transforms, float(points) * c * oc, rounded)
        if cost < best:
            best, form = cost, (m, rounded)
    return form


def _pixel_rows(low: Lowering, node: Node, win: Window, groups: int) -> Tensor | None:
    """The pixels as rows of a matrix, where the convolution is a matrix product; they need not lie without gaps."""
    plain = win.kernel == [1, 1] and win.strides == [1, 1] and groups == 1
    if not plain or any(p != 0 for p in (*win.before, *win.after)):
        return None
    x = operand(node)
    view = _rows(low.tensor(x))
    return _rows(image(low, node)) if view is None else view


def _rows(tensor: Tensor) -> Tensor | None:
    """An image tensor as pixels × channels with neighbouring channels side by side, None where strides forbid it."""
    shape = (dims.product([tensor.shape[0], *tensor.shape[2:]]), tensor.shape[1])
    view = tensor.permute(channels_last(tensor.rank)).reshape(shape)
    fits = view is not None and (view.strides[1] == 1 or view.shape[1] == 1)
    return view if fits else None


def channel_bias(low: Lowering, node: Node, index: int) -> Tensor | None:
    """A per-channel input as a tensor that broadcasts against N, C, spatial… results."""
    bias = node.input(index)
    if bias is None:
        return None
    view = low.tensor(bias).reshape((bias.shape[0], *(1,) * (node.output.rank - 2)))
    assert view is not None
    return view


def packed_filters(low: Lowering, node: Node, groups: int) -> Tensor:
    """The filters as kernels/conv.hpp reads them."""
    w = operand(node, 1)
    if w.const is None:
        return packed_at_run_time(low, w, groups)
    out, k = w.const.shape[0], int(np.prod(w.const.shape[1:]))
    panel, lanes = 2 * low.lanes, low.lanes
    count = groups * (-(-(out // groups) // panel) * panel) * k
    return low.program.packed(w.const, ("conv", groups, lanes), count, lambda a: pack_conv(_planar(a), groups, lanes))


def _packed_pairs(low: Lowering, node: Node, groups: int, whole: bool) -> Tensor:
    """The filters as kernels/conv_bf16.hpp reads them."""
    w, lanes = operand(node, 1), low.lanes
    assert w.const is not None
    out, depth, height, width = _planar(w.const).shape
    segments, size = (height, depth * width) if whole else (height * width, depth)
    count = groups * -(-(out // groups) // (2 * lanes)) * segments * -(-size // 2) * 4 * lanes
    how = ("conv_bf16", groups, whole, lanes)
    return low.program.packed(
        w.const, how, count, lambda a: pack_conv_bf16(_planar(a), groups, whole, lanes), dtypes.bfloat16
    )


def _winograd_packed(low: Lowering, node: Node, tile: int, pairs: bool) -> Tensor:
    w = operand(node, 1)
    assert w.const is not None
    out, channels = w.const.shape[:2]
    panel, lanes = 2 * low.lanes, low.lanes
    depth = -(-channels // 2) * 2 if pairs else channels
    return low.program.packed(
        w.const,
        ("winograd", tile, lanes, pairs),
        -(-out // panel) * panel * (tile + 2) ** 2 * depth,
        lambda a: winograd_weights(_planar(a), tile, lanes, pairs),
        dtypes.bfloat16 if pairs else dtypes.float32,
    )


def _planar(weights: Array) -> Array:
    """Weights with two axes for the window: a line has a height of one, a volume a single line of planes."""
    kernel = (1, *weights.shape[2:]) if weights.ndim == 3 else (weights.shape[2], -1)
    return weights.reshape(*weights.shape[:2], *kernel)


def _channels_last(weights: Array) -> Array:
    """Weights of one channel each as kernel height, kernel width, channel."""
    return np.ascontiguousarray(np.transpose(_planar(weights)[:, 0], (1, 2, 0)))


def _depthwise(
    low: Lowering, node: Node, f: FunctionWriter, tensor: Tensor, win: Window, sizes: list[Dim], sink: str
) -> None:
    w = operand(node, 1)
    out, channels = w.shape[0], sizes[3]
    if w.const is None:
        weights = low.arranged(low.tensor(w).permute((*range(1, w.rank), 0)), natural(w.rank))
    else:
        weights = low.program.packed(w.const, "depthwise", w.const.size, _channels_last)
    n, h, width, c, oh, ow = sizes
    shape = [n, h, width, c, oh, ow, *win.kernel, *win.strides, *win.dilations, *win.before]
    text = f"DepthwiseShape{{{f.numbers(*shape)}}}"
    f.include("depthwise.hpp")
    x, packed = f.read(tensor), f.read(weights)
    kw, stride = win.kernel[1], win.strides[1]
    if out == channels and kw in (3, 5, 7) and stride in (1, 2) and win.dilations[1] == 1:
        f.line(f"depthwise<{kw}, {stride}>(c, {text}, {x}, {packed}, {sink});")
    else:
        assert isinstance(channels, int)
        assert isinstance(out, int)
        f.line(f"depthwise_any(c, {text}, {f.number(out // channels)}, {x}, {packed}, {sink});")
