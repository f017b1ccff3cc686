"""The filters of convolutions as kernels read them."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Array, Node
from infuse.lowering.fp16_weights import usual_type, weight_type
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, natural
from infuse.targets.cpu.families.convolution import (
    merge_groups,
    pack_conv,
    pack_conv_bf16,
    pack_conv_bf16x2,
    segment_pairs,
)
from infuse.targets.cpu.families.depthwise import MOST_PLANES, pack_depthwise
from infuse.targets.cpu.families.gemm import split_size
from infuse.targets.cpu.families.panels import panel_words
from infuse.targets.cpu.lower.computed import packed_at_run_time
from infuse.targets.cpu.lower.tiles import planar


def filters_of_form(low: Lowering, node: Node, groups: int, whole: bool, form: str) -> Tensor:
    """The filters as the kernel of a form reads them."""
    if form.endswith("bf16x2"):
        return split_filters(low, node, groups)
    if form.endswith("bf16"):
        return packed_pairs(low, node, groups, whole)
    return packed_filters(low, node, groups)


def filter_bytes(low: Lowering, node: Node, whole: bool, form: str) -> int:
    """Bytes of the constant filters of one group, as the kernel of a form reads them."""
    w = operand(node, 1)
    assert w.const is not None
    out, depth = w.const.shape[0], int(np.prod(w.const.shape[1:]))
    if form.endswith("bf16x2"):
        return dtypes.bfloat16.bytes * split_size(depth, out, low.lanes)
    if form.endswith("bf16"):
        return dtypes.bfloat16.bytes * _pair_count(low, node, 1, whole)
    return usual_type(low, w).bytes * _columns(low, out) * depth


def _columns(low: Lowering, out: int) -> int:
    """Columns of the panels of a group of so many output channels."""
    panel = 2 * low.lanes
    return -(-out // panel) * panel


def packed_filters(low: Lowering, node: Node, groups: int) -> Tensor:
    """The filters as kernels/conv.hpp reads them; `groups` divides those of the node."""
    w = operand(node, 1)
    if w.const is None:
        return packed_at_run_time(low, w, groups)
    merged = int(node.op.attributes()["group"]) // groups
    out, k = w.const.shape[0], int(np.prod(w.const.shape[1:])) * merged
    lanes = low.lanes
    count = groups * _columns(low, out // groups) * k
    dtype = weight_type(low, w)
    how = ("conv", groups, merged, lanes, dtype.name)

    def pack(filters: Array) -> Array:
        return pack_conv(merge_groups(planar(filters), groups, merged), groups, lanes, dtype.numpy)

    return low.program.packed(w.const, how, count, pack, dtype)


def packed_pairs(low: Lowering, node: Node, groups: int, whole: bool) -> Tensor:
    """The filters as kernels/conv_bf16.hpp reads them."""
    w, lanes = operand(node, 1), low.lanes
    assert w.const is not None
    tiled = low.machine.has_bf16_tiles
    how = ("conv_bf16", groups, whole, lanes, tiled)
    return low.program.packed(
        w.const,
        how,
        _pair_count(low, node, groups, whole),
        lambda a: pack_conv_bf16(planar(a), groups, whole, lanes, tiled),
        dtypes.bfloat16,
    )


def _pair_count(low: Lowering, node: Node, groups: int, whole: bool) -> int:
    """Numbers of the filters in pairs."""
    filters = operand(node, 1).const
    assert filters is not None
    out, depth, height, width = planar(filters).shape
    segments, size = (height, depth * width) if whole else (height * width, depth)
    tiled = low.machine.has_bf16_tiles
    pairs = panel_words(segments * segment_pairs(size, whole, tiled), tiled)
    return groups * _columns(low, out // groups) * pairs * 2


def split_filters(low: Lowering, node: Node, groups: int) -> Tensor:
    """The filters as kernels/gemm_bf16x2.hpp and kernels/conv_bf16x2.hpp read them."""
    w, lanes = operand(node, 1), low.lanes
    assert w.const is not None
    out, *depth = planar(w.const).shape
    return low.program.packed(
        w.const,
        ("conv_bf16x2", groups, lanes),
        groups * split_size(int(np.prod(depth)), out // groups, lanes),
        lambda a: pack_conv_bf16x2(planar(a), groups, lanes),
        dtypes.bfloat16,
    )


def depthwise_filters(low: Lowering, node: Node) -> Tensor:
    """The filters as kernels/depthwise.hpp and kernels/depthwise_any.hpp read them."""
    w = operand(node, 1)
    multiplier = dims.floordiv(w.shape[0], operand(node).shape[1])
    assert isinstance(multiplier, int)
    if w.const is not None:
        how = ("depthwise", multiplier)
        return low.program.packed(
            w.const, how, w.const.size, lambda a: pack_depthwise(planar(a), multiplier)
        )
    apart = low.storage.tensor(w).unfold(0, dims.floordiv(w.shape[0], multiplier), multiplier)
    results = (1, 0) if multiplier <= MOST_PLANES else (0, 1)
    return low.storage.arranged(
        apart.permute((*range(2, w.rank + 1), *results)), natural(w.rank + 1)
    )
