"""Weights that a model computes, brought into the order of the kernels while it runs."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.lowering.lowering import Lowering
from infuse.lowering.tensors import Tensor, natural
from infuse.targets.cpu.lower.movement import fill


def packed_at_run_time(low: Lowering, w: Value, groups: int) -> Tensor:
    """Filters (M, C/group, …) as `packing.pack_conv` orders them: [group, panel, taps, C/group,
    panel's columns].
    """
    panel = 2 * low.lanes
    wide = dims.floordiv(w.shape[0], groups)
    taps, depth = dims.product(w.shape[2:]), w.shape[1]
    # As [group, columns, taps, depth]; a view where the filters lie without gaps.
    dense = low.storage.dense(w, natural(w.rank)).reshape((groups, wide, depth, taps))
    assert dense is not None
    source = dense.permute((0, 1, 3, 2))
    panels = dims.ceildiv(wide, panel)
    target = low.storage.scratch_tensor(w.dtype, (groups, panels, taps, depth, panel), natural(5))
    whole = dims.floordiv(wide, panel)
    rest = wide - whole * panel
    if rest != 0:
        fill(low, target, 0, w.producer)
    if whole != 0:
        _copy(low, source.slice(1, 0, whole * panel), target.slice(1, 0, whole), whole, panel)
    if rest != 0:
        last = target.slice(1, whole, 1).slice(4, 0, rest)
        _copy(low, source.slice(1, whole * panel, rest), last, 1, rest)
    return target


def _copy(
    low: Lowering, source: Tensor, target: Tensor, panels: dims.Dim, columns: dims.Dim
) -> None:
    """Columns [group, panels · columns, taps, depth] to their places in [group, panels, taps,
    depth, columns].
    """
    groups, _, taps, depth = source.shape
    split = source.reshape((groups, panels, columns, taps, depth))
    assert split is not None
    low.storage.copy(split.permute((0, 1, 3, 4, 2)), target, "pack")
