"""Transposed convolutions as convolutions that write pixels a stride apart, or whole blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from infuse.codegen.groups import Group
from infuse.codegen.kernel_table import lowers
from infuse.codegen.lower.convolution import (
    call_convolution,
    call_point_product,
    channel_bias,
    image_rows,
)
from infuse.codegen.lower.linear import label
from infuse.codegen.lower.runtime_operands import operand
from infuse.codegen.lowering import Lowering
from infuse.codegen.parts import Blocks, Part, Pixels
from infuse.codegen.phases import Phase, are_alike, are_points, kernel_phases
from infuse.codegen.program import Step
from infuse.codegen.tensors import channels_last
from infuse.ir.graph import Array, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.ops.convolution import ConvTranspose


@lowers("ConvTranspose", has_epilogue=True)
def conv_transpose(low: Lowering, node: Node, group: Group) -> None:
    """One kernel call for all phases where they read the same inputs, else one for each."""
    op, phases = node.op, kernel_phases(node)
    assert isinstance(op, ConvTranspose)
    if phases is None:
        low.unsupported(node, "these filters and strides")
    shape, steps = node.output.shape, op.steps(len(phases))
    fills_lanes = isinstance(shape[1], int) and shape[1] % low.lanes == 0
    if op.group == 1 and fills_lanes and are_alike(phases):
        _call(low, node, group, [*product(*phases)], Blocks(shape, steps))
        return
    taps = math.prod(sum(len(p.taps) for p in axis) for axis in phases)
    for each in product(*phases):
        first, counts = tuple(p.first for p in each), tuple(p.count for p in each)
        if 0 not in counts:
            step = _call(low, node, group, [each], Pixels(shape, first, steps, counts))
            step.share = Fraction(math.prod(len(p.taps) for p in each), taps)


def _call(
    low: Lowering, node: Node, group: Group, phases: Sequence[Sequence[Phase]], part: Part
) -> Step:
    """A kernel call that makes a part of the result: the pixels of these phases, which read the
    same inputs.
    """
    f = low.function("conv_transpose", *group.nodes)
    order, bias = channels_last(node.output.rank), channel_bias(low, node, 2)
    sink = partial(low.sink, f, group, order, bias=bias, part=part)
    with _convolution(node, phases, part) as conv:
        if are_points([[p] for p in phases[0]], operand(node).shape[2:]) and _has_one_group(node):
            call_point_product(low, conv, f, image_rows(low, conv), sink)
        else:
            call_convolution(low, conv, f, sink)
    return f.finish(label(group))


def _has_one_group(node: Node) -> bool:
    return bool(node.op.attributes()["group"] == 1)


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
    result = Value(TensorType(x.dtype, shape), node.output.name)
    inputs = [x, constant(filters, name=w.name)]
    conv = Node(make_operator("", "Conv", attributes), inputs, [result], name=node.name)
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
