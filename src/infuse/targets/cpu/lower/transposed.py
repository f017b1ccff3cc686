"""Transposed convolutions as convolutions that write pixels a stride apart, or whole blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.lowering.expand.ml_kernels import KERNELS
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.parts import Blocks, Part, Pixels
from infuse.lowering.phases import (
    Phase,
    are_points,
    block_phases,
    kernel_phases,
    leaves_gaps,
    phases_of,
)
from infuse.lowering.program import Step
from infuse.lowering.tensors import channels_last, natural
from infuse.ops.convolution import ConvTranspose
from infuse.targets.cpu.families.convolution import ConvSizes, forms
from infuse.targets.cpu.families.winograd import tile_forms
from infuse.targets.cpu.lower.convolution import (
    call_conv_of_planes,
    call_convolution,
    call_point_product,
    channel_bias,
    image_rows,
    plane,
    planes_are_faster,
)
from infuse.targets.cpu.lower.integer_convolution import call_integer_convolution
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.lower.planes import lies_as_planes
from infuse.targets.cpu.table import lowers

Axes = Sequence[Sequence[Phase]]
"""By axis, its phases."""


@lowers("ConvTranspose", has_epilogue=True)
@lowers("ConvTransposeInteger", domain=KERNELS, has_epilogue=True, accumulates=dtypes.int32)
def conv_transpose(low: Lowering, node: Node, group: Group) -> None:
    """One kernel call for blocks of pixels, or one for each phase."""
    phases = kernel_phases(node)
    if phases is None and leaves_gaps(node):
        _spread(low, node, group)
        return
    if phases is None:
        low.unsupported(node, "these filters and strides")
    if _as_planes(low, node, group, phases):
        return
    shape, steps = node.output.shape, _op(node).steps(len(phases))
    blocks = _blocks(low, node, phases)
    if blocks is not None:
        _, pads = _op(node).placement(operand(node).shape[2:], operand(node, 1).shape[2:])
        cut = tuple(int(str(begin)) % step for (begin, _), step in zip(pads, steps))
        part = Blocks(shape, steps, cut, tuple(axis[0].count for axis in blocks))
        _call(low, node, group, [*product(*blocks)], part)
        return
    taps = math.prod(sum(len(p.taps) for p in axis) for axis in phases)
    for each in product(*phases):
        first, counts = tuple(p.first for p in each), tuple(p.count for p in each)
        if 0 not in counts:
            step = _call(low, node, group, [each], Pixels(shape, first, steps, counts))
            step.share = Fraction(math.prod(len(p.taps) for p in each), taps)


def _spread(low: Lowering, node: Node, group: Group) -> None:
    """One kernel call for windows that do not meet, on planes."""
    op, x, w, rank = _op(node), operand(node), operand(node, 1), node.output.rank
    assert w.const is not None
    kernel = w.const.shape[2:]
    _, pads = op.placement(x.shape[2:], kernel)
    line: list[Dim] = [1] if rank == 3 else []
    none: list[Dim] = [0] if rank == 3 else []
    image = [x.shape[0], *plane(x.shape), x.shape[1], *plane(node.output.shape)]
    window = [*line, *kernel, *line, *op.steps(rank - 2), *line, *op.spread(rank - 2)]
    cut = [*none, *(begin for begin, _ in pads)]
    out, channels = node.output.shape[1], x.shape[1]
    sizes = ConvSizes._make([*image, out, *window, *cut, op.group, channels])
    f = low.function("conv_transpose", *group.nodes)
    parts = w.const.reshape(op.group, -1, *w.const.shape[1:])
    filters = np.ascontiguousarray(np.moveaxis(parts, 1, -1))
    planes, weights = low.storage.dense(x, natural(rank)), low.program.weight(filters)
    sink = low.fusing.sink(f, group, natural(rank), bias=channel_bias(low, node, 2), inner=rank - 2)
    f.include("spread.hpp")
    f.scratch("spread_scratch", "spread.hpp", sizes)
    f.call("spread", f.sizes(sizes), f.read(planes), f.read(weights), sink)
    f.finish(label(group))


def _as_planes(low: Lowering, node: Node, group: Group, phases: Axes) -> bool:
    """A convolution of planes, where there is one phase, the image lies so, and it is faster."""
    is_one = _is_float(node) and all(len(axis) == 1 for axis in phases)
    if not is_one or not lies_as_planes(low, node, group):
        return False
    counts = tuple(axis[0].count for axis in phases)
    part = Pixels(node.output.shape, (0,) * len(counts), (1,) * len(counts), counts)
    with _convolution(node, [[axis[0] for axis in phases]], part) as conv:
        if not planes_are_faster(low, conv):
            return False
        f = low.function("conv_transpose", *group.nodes)
        call_conv_of_planes(low, conv, f, group, channel_bias(low, node, 2))
    f.finish(label(group))
    return True


def _is_float(node: Node) -> bool:
    """Whether the operands are no integers."""
    return operand(node).dtype.is_float


def _op(node: Node) -> ConvTranspose:
    assert isinstance(node.op, ConvTranspose)
    return node.op


def _blocks(low: Lowering, node: Node, phases: Axes) -> Axes | None:
    """The phases of blocks, where these can be made and cost no more than the phases one by one."""
    blocks, channels = phases_of(node, block_phases), node.output.shape[1]
    fills_lanes = isinstance(channels, int) and channels % low.lanes == 0
    if blocks is None or not fills_lanes or _op(node).group != 1:
        return None
    if are_points(blocks, operand(node).shape[2:]):
        return blocks
    if not _is_float(node):
        return blocks
    if len(blocks) > 2:
        return None
    together = _seconds(low, node, [axis[0] for axis in blocks], math.prod(map(len, blocks)))
    return blocks if together <= sum(_seconds(low, node, p, 1) for p in product(*phases)) else None


def _seconds(low: Lowering, node: Node, window: Sequence[Phase], pixels: int) -> float:
    """What a convolution with such windows costs that makes so many pixels of each."""
    x, line = operand(node), [Phase(0, 1, (0,), 1, 0)] if len(window) == 1 else []
    axes = [*line, *window]
    taps, aparts = [len(p.taps) for p in axes], [p.apart for p in axes]
    channels, made = x.shape[1], node.output.shape[1] * pixels
    image = [x.shape[0], *plane(x.shape), channels, *(p.count for p in axes), made]
    pads = (p.before for p in axes)
    sizes = ConvSizes._make([*image, *taps, 1, 1, *aparts, *pads, 1, channels])
    tiled = low.machine.has_bf16_tiles
    names = forms(sizes, planes=False, precision="fp32") + tile_forms(sizes, low.precision, tiled)
    choice = low.chooser.of(low.precision).choose("conv", sizes, names)
    return choice.costs[choice.chosen]


def _call(low: Lowering, node: Node, group: Group, phases: Axes, part: Part) -> Step:
    """A kernel call that makes a part of the result: the pixels of these phases, which read the
    same inputs.
    """
    f = low.function("conv_transpose", *group.nodes)
    order = channels_last(node.output.rank)
    bias = channel_bias(low, node, 2) if _is_float(node) else None
    sink = partial(low.fusing.sink, f, group, order, bias=bias, part=part)
    with _convolution(node, phases, part) as conv:
        if not _is_float(node):
            call_integer_convolution(low, conv, f, sink)
        elif _op(node).group == 1 and are_points([[p] for p in phases[0]], operand(node).shape[2:]):
            call_point_product(low, conv, f, image_rows(low, conv), sink)
        else:
            call_convolution(low, conv, f, sink)
    return f.finish(label(group))


@contextmanager
def _convolution(node: Node, phases: Sequence[Sequence[Phase]], part: Part) -> Iterator[Node]:
    """The convolution whose output channels are those of the phases; it stands in no graph."""
    x, w, group = operand(node), operand(node, 1), int(node.op.attributes()["group"])
    assert w.const is not None
    filters = np.concatenate([_filters(w.const, group, each) for each in phases])
    window = phases[0]
    # Zeros behind the image follow from the size of the result.
    pads = (*(p.before for p in window), *(0 for _ in window))
    attributes = {"group": group, "pads": pads, "dilations": tuple(p.apart for p in window)}
    shape = (x.shape[0], len(filters), *part.counts)
    result = Value(TensorType(node.output.dtype, shape), node.output.name)
    inputs = [x, constant(filters, name=w.name), *([] if _is_float(node) else [node.input(2)])]
    kind = "Conv" if _is_float(node) else "ConvInteger"
    conv = Node(make_operator("", kind, attributes), inputs, [result], name=node.name)
    conv.serial = node.serial
    try:
        yield conv
    finally:
        conv.set_inputs(())


def _filters(w: Array, group: int, phases: Sequence[Phase]) -> Array:
    """The taps of these phases, as a convolution has its filters: (M, C / group, taps …)."""
    for axis, phase in enumerate(phases, 2):
        w = np.take(w, phase.taps, axis)
    depth, per_group, *taps = w.shape
    parts = w.reshape(group, depth // group, per_group, *taps).swapaxes(1, 2)
    return np.ascontiguousarray(parts.reshape(group * per_group, depth // group, *taps))
