"""The filters of convolutions as kernels read them."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Array, Node
from infuse.lowering.fp16_weights import weight_type
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, natural
from infuse.targets import DotType
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


def packed_filters(low: Lowering, node: Node, groups: int) -> Tensor:
    """The filters as kernels/conv.hpp reads them; `groups` divides those of the node."""
    w = operand(node, 1)
    if w.const is None:
        return packed_at_run_time(low, w, groups)
    merged = int(node.op.attributes()["group"]) // groups
    out, k = w.const.shape[0], int(np.prod(w.const.shape[1:])) * merged
    panel, lanes = 2 * low.lanes, low.lanes
    count = groups * (-(-(out // groups) // panel) * panel) * k
    dtype = weight_type(low, w)
    how = ("conv", groups, merged, lanes, dtype.name)

    def pack(filters: Array) -> Array:
        return pack_conv(merge_groups(planar(filters), groups, merged), groups, lanes, dtype.numpy)

    return low.program.packed(w.const, how, count, pack, dtype)


def packed_pairs(low: Lowering, node: Node, groups: int, whole: bool) -> Tensor:
    """The filters as kernels/conv_bf16.hpp reads them."""
    w, lanes = operand(node, 1), low.lanes
    assert w.const is not None
    out, depth, height, width = planar(w.const).shape
    segments, size = (height, depth * width) if whole else (height * width, depth)
    tiled = DotType.BF16 in low.machine.tiled
    pairs = panel_words(segments * segment_pairs(size, whole, tiled), tiled)
    count = groups * -(-(out // groups) // (2 * lanes)) * pairs * 4 * lanes
    how = ("conv_bf16", groups, whole, lanes, tiled)
    return low.program.packed(
        w.const,
        how,
        count,
        lambda a: pack_conv_bf16(planar(a), groups, whole, lanes, tiled),
        dtypes.bfloat16,
    )


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
