"""Convolutions of 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Size, elements
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.convolution import Convolving
from infuse.targets.cpu.families.integers import (
    U8S8X4,
    Integers,
    Layout,
    fills_lines,
    pack_columns,
)
from infuse.targets.cpu.lower.convolution import Window, depthwise_sizes, window
from infuse.targets.cpu.lower.integers import (
    Blocks,
    Packed,
    block_texts,
    blocks_of,
    call_blocks,
    is_constant,
    layout_of,
    packed_in_run,
    stored,
    zero_text,
)
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.lower.windows import _windows
from infuse.targets.cpu.table import lowers


@lowers("ConvInteger", has_epilogue=True, accumulates=dtypes.int32)
def conv_integer(low: Lowering, node: Node, group: Group) -> None:
    f = low.function("integer_conv", *group.nodes)
    order = channels_last(node.output.rank)
    call_integer_convolution(low, node, f, partial(low.fusing.sink, f, group, order))
    f.finish(label(group))


def call_integer_convolution(
    low: Lowering, node: Node, f: FunctionWriter, sink: Callable[[], str]
) -> None:
    """Write the call of the kernel that computes a ConvInteger; `sink` defines what takes its
    results, and returns the name.
    """
    x, w, op = operand(node, 0), operand(node, 1), node.op
    assert isinstance(op, Convolving)
    tensor = low.storage.dense(x, channels_last(x.rank))
    alone = op.group == x.shape[1] and w.shape[:2] == (op.group, 1) and op.group > 1
    alone = alone and w.const is not None and is_constant(node.input(3))
    win = window(node, low) if x.rank in (3, 4) else None
    f.include("integer.hpp")
    store = sink()
    zeros = zero_text(f, low, node.input(2), x.dtype)
    pointers = f.read(tensor), zeros.rpartition(",")[0]
    if alone:
        _depthwise(low, node, f, win, pointers, store)
    elif op.group == 1 and (blocks := blocks_of(low, _filter_matrix(node), _places(node))):
        _conv_blocks(low, node, f, blocks, win, (pointers[0], zeros), store)
    elif win is not None and _is_point(node, win) and op.group == 1:
        packed = _filters(low, node, 1)
        rows, depth = _places(node), x.shape[1]
        f.scratch("integer_scratch", "integer.hpp", depth, template=(packed.layout.name,))
        sizes = f.numbers(rows, w.shape[0], depth, depth)
        text = ", ".join((sizes, pointers[0], zeros, *packed.text(f), store))
        f.call("integer_matmul", text, template=(packed.layout.name,))
    else:
        packed = _filters(low, node, op.group)
        _windows(low, node, f, w.shape[2:])
        _demand_scratch(f, node, packed.layout, win)
        text = ", ".join((f.numbers(w.shape[0], op.group), *pointers, *packed.text(f), store))
        f.call("integer_conv", "windows", text, template=(packed.layout.name,))


def _demand_scratch(f: FunctionWriter, node: Node, layout: Layout, win: Window | None) -> None:
    """Demand the scratch that a convolution needs."""
    w, x, out = operand(node, 1), operand(node), node.output
    depth = dims.product(w.shape[1:])
    if win is None or layout is not U8S8X4:  # filters that are computed may have any size
        f.scratch("integer_scratch", "integer.hpp", depth, template=(layout.name,))
        return
    sides = [(1, 1), *zip(x.shape[2:], out.shape[2:], strict=True)][-2:]
    axes = zip(sides, win.kernel, win.strides, win.dilations, win.before, strict=True)
    taps = [elements(*map(Size, (*side, *rest)), type="detail::TapAxis") for side, *rest in axes]
    assert isinstance(node.op, Convolving)
    sizes = (depth, w.shape[1], f"{node.op.group}L", *taps)
    f.scratch("integer_conv_scratch", "integer.hpp", *sizes, template=(layout.name,))


def _line_count(low: Lowering, node: Node) -> int:
    """Lines of the window that tile registers take as whole blocks; 0 where they do not."""
    op, x, w = node.op, operand(node), operand(node, 1)
    assert isinstance(op, Convolving)
    depth, rank = w.shape[1], x.rank - 2
    assert isinstance(depth, int)
    if rank > 2 or _is_point(node, window(node, low)):
        return 0
    if not fills_lines(depth, op.group, op.spread(rank)[-1]):
        return 0
    return int(dims.product(w.shape[2:-1]))


def _places(node: Node) -> Dim:
    """Pixels of the result of a convolution."""
    shape = node.output.shape
    return dims.product([shape[0], *shape[2:]])


def _conv_blocks(
    low: Lowering,
    node: Node,
    f: FunctionWriter,
    blocks: Blocks,
    win: Window | None,
    left: tuple[str, str],
    sink: str,
) -> None:
    """Filters whose zero blocks are left out."""
    w = operand(node, 1)
    depth, name = dims.product(w.shape[1:]), blocks.layout.name
    if win is not None and _is_point(node, win):
        sizes = (_places(node), w.shape[0], depth, depth)
        return call_blocks(low, f, blocks, sizes, left, sink)
    f.include("sparse_integer.hpp")
    _windows(low, node, f, w.shape[2:])
    f.scratch("sparse_integer_scratch", "sparse_integer.hpp", depth, template=(name,))
    numbers = f.numbers(w.shape[0], blocks.matrix.filled)
    zero = left[1].rpartition(",")[0]
    text = ", ".join((numbers, left[0], zero, *block_texts(low, f, blocks), sink))
    return f.call("sparse_integer_conv", "windows", text, template=(name,))


def _is_point(node: Node, win: Window) -> bool:
    """Whether a convolution is a product of matrices."""
    if node.output.shape[2:] != operand(node).shape[2:]:  # as a part of a transposed one may be
        return False
    plain = win.kernel == [1, 1] and win.strides == [1, 1]
    return plain and all(p == 0 for p in (*win.before, *win.after))


def _shifted_filters(node: Node) -> Integers:
    """Known filters without their zero points."""
    w, zero = operand(node, 1).const, node.input(3)
    assert w is not None
    wide = w.astype(np.int16)
    if zero is None or zero.const is None:
        return wide
    return np.asarray(wide - zero.const.astype(np.int16).reshape(-1, *(1,) * (w.ndim - 1)))


def _depthwise(
    low: Lowering,
    node: Node,
    f: FunctionWriter,
    win: Window | None,
    pointers: tuple[str, str],
    sink: str,
) -> None:
    """Filters of one channel each."""
    f.include("integer_depthwise.hpp")
    wide = _shifted_filters(node)
    if win is None or not _has_kernel(win):
        weights = low.program.weight(np.ascontiguousarray(wide.reshape(wide.shape[0], -1).T))
        _windows(low, node, f, operand(node, 1).shape[2:])
        f.call("integer_depthwise_any", "windows", *pointers, f.read(weights), sink)
        return
    layout = layout_of(low, wide)
    sizes = depthwise_sizes(node, win)
    height, kw = (int(k) for k in win.kernel if isinstance(k, int))
    together = -(-height // -(-height // layout.group))
    filters = wide.reshape(wide.shape[0], height, kw)
    packed = pack_columns(filters, together, layout)
    sums = filters.sum((1, 2), dtype=np.int32)
    total = f.read(low.program.weight(sums)) if layout is U8S8X4 else "(const int32_t*)nullptr"
    f.scratch("integer_depthwise_scratch", "integer_depthwise.hpp", sizes.width, sizes.channels)
    text = ", ".join((f.sizes(sizes), *pointers, f.read(low.program.weight(packed)), total, sink))
    f.call(
        "integer_depthwise",
        text,
        template=(
            layout.name,
            together,
            kw,
            win.strides[1],
        ),
    )


def _has_kernel(win: Window) -> bool:
    """Whether kernels/integer_depthwise.hpp has these windows as constants."""
    height, width = win.kernel
    fits = isinstance(height, int) and height <= 12 and width in (3, 5, 7)
    return fits and win.strides[1] in (1, 2) and win.dilations[1] == 1


def _filter_matrix(node: Node) -> Integers | None:
    """Known filters (M, C, …) without their zero points as a matrix [taps · C, M]."""
    if operand(node, 1).const is None or not is_constant(node.input(3)):
        return None
    filters = _shifted_filters(node)
    apart = filters.reshape(*filters.shape[:2], -1)
    return np.asarray(apart.transpose(2, 1, 0).reshape(-1, len(filters)))


def _filters(low: Lowering, node: Node, groups: int) -> Packed:
    """Filters (M, C/group, …) as packed matrices [taps · C/group, M/group], one for each group."""
    w, zero = operand(node, 1), node.input(3)
    wide, depth, taps = dims.floordiv(w.shape[0], groups), w.shape[1], dims.product(w.shape[2:])
    if w.const is not None and is_constant(zero):
        matrices = _shifted_filters(node).reshape(groups, wide, depth, taps).transpose(0, 3, 2, 1)
        whole = matrices.reshape(groups, int(taps) * int(depth), int(wide))
        return stored(low, whole, (groups,), "filters", _line_count(low, node))
    whole = low.storage.dense(w, natural(w.rank)).reshape((groups, wide, depth, taps))
    if whole is None:
        low.unsupported(node, "filters of unknown sizes")
    whole = low.storage.arranged(whole.permute((0, 1, 3, 2)), natural(4))
    k = dims.product([taps, depth])
    return packed_in_run(low, node, whole, zero, (groups,), (k, wide), (1, k), wide)
