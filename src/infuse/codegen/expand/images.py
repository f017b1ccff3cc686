"""Transposed convolutions, and windows over volumes, as windows over images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.codegen.expand.composer import Composer, Results, expands
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value, constant
from infuse.ops.convolution import Conv, ConvTranspose
from infuse.ops.spatial import Sliding


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: a stride of `step` makes `step` output pixels of every window of `taps`
    inputs.
    """

    kernel: int
    step: int
    dilation: int
    cut: Dim
    out: Dim

    @property
    def extent(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    @property
    def taps(self) -> int:
        """Numbers of the spread kernel that meet one output pixel, at most."""
        return -(-self.extent // self.step)

    def reaches(self, size: Dim) -> bool:
        """Whether the windows over `size` inputs surely cover the whole output."""
        return dims.compare("<=", self.cut + self.out, (size + self.taps - 1) * self.step) is True


@expands("ConvTranspose")
def conv_transpose(make: Composer, node: Node) -> Results:
    x, w = node.inputs[:2]
    assert x is not None
    assert w is not None
    op = node.op
    assert isinstance(op, ConvTranspose)
    kernel = [k for k in w.shape[2:] if isinstance(k, int)]
    if len(kernel) < w.rank - 2:
        make.unsupported("a kernel of unknown size")
    rank = len(kernel)
    _, pads = op.placement(x.shape[2:], kernel)
    rows = zip(kernel, op.steps(rank), op.spread(rank), pads, node.output.shape[2:])
    axes = [_Axis(k, s, d, before, out) for k, s, d, (before, _), out in rows]
    filters = _filters(make, w, op.group, axes)
    bias = node.input(2)
    early = bias is not None and all(a.reaches(n) for a, n in zip(axes, x.shape[2:]))
    output_shape = (
        _repeated(make, bias, dims.product(a.step for a in axes))
        if early and bias is not None
        else None
    )
    padding = tuple(a.taps - 1 for a in axes)
    full = _interleaved(
        make, make("Conv", x, filters, output_shape, group=op.group, pads=padding * 2), axes
    )
    for i, axis in enumerate(axes):
        full = _placed(make, full, i + 2, axis)
    return (
        full
        if bias is None or early
        else make(full + make.reshape(bias, bias.shape[0], *(1,) * rank))
    )


def _repeated(make: Composer, bias: Value, times: Dim) -> Value:
    """Every number of the bias for all output channels of a block."""
    column = make.reshape(bias, bias.shape[0], 1)
    if bias.const is not None and isinstance(times, int):
        return constant(np.repeat(bias.const, times))
    return make.reshape(
        make("Expand", column, make.ints(bias.shape[0], times)), bias.shape[0] * times
    )


def _filters(make: Composer, w: Value, group: int, axes: list[_Axis]) -> Value:
    """Filters (C, M/group, …) as those of the convolution: (group · M/group · blocks, C/group, taps
    …).
    """
    depth, per_group = w.shape[:2]
    value = w
    for i, axis in enumerate(axes):
        value = _spread(make, value, i + 2, axis)
    each = dims.floordiv(depth, group)
    value = make.reshape(
        value, group, each, per_group, *(n for a in axes for n in (a.taps, a.step))
    )
    inner = [3 + 2 * i for i in range(len(axes))]
    blocks = [4 + 2 * i for i in range(len(axes))]
    value = make.permute(value, 0, 2, *blocks, 1, *inner)
    block = dims.product(a.step for a in axes)
    return make.reshape(value, group * per_group * block, each, *(a.taps for a in axes))


def _spread(make: Composer, w: Value, axis: int, side: _Axis) -> Value:
    """The kernel with its dilation written out, filled up to whole taps, each block of `step`
    numbers in its order and the blocks reversed, as a convolution reads them.
    """
    lead, rest = w.shape[:axis], w.shape[axis + 1 :]
    if side.dilation > 1:
        apart = make.pad(
            make.reshape(w, *w.shape[: axis + 1], 1, *rest), axis + 1, 0, side.dilation - 1
        )
        w = make.slice(
            make.reshape(apart, *lead, side.kernel * side.dilation, *rest), axis, 0, side.extent
        )
    w = make.pad(w, axis, 0, side.taps * side.step - side.extent)
    blocks = make.reshape(w, *lead, side.taps, side.step, *rest)
    turned = make.slice(blocks, axis, -1, -(2**62), -1)
    return make.reshape(turned, *lead, side.taps * side.step, *rest)


def _interleaved(make: Composer, blocks: Value, axes: list[_Axis]) -> Value:
    """Output channels that are pixels of a block, moved to their places: (N, M · blocks, n …) to
    (N, M, n · step …).
    """
    rank, spatial = len(axes), blocks.shape[2:]
    block = dims.product(a.step for a in axes)
    filters = dims.floordiv(blocks.shape[1], block)
    if block == 1:
        return blocks
    value = make.reshape(blocks, blocks.shape[0], filters, *(a.step for a in axes), *spatial)
    order = [i for a in range(rank) for i in (2 + rank + a, 2 + a)]
    value = make.permute(value, 0, 1, *order)
    return make.reshape(
        value, blocks.shape[0], filters, *(n * a.step for n, a in zip(spatial, axes))
    )


def _placed(make: Composer, full: Value, number: int, axis: _Axis) -> Value:
    """The wanted part of one axis; zeros where the output goes on behind the last window."""
    size = full.shape[number]
    missing = axis.cut + axis.out - size
    if dims.compare("<=", missing, 0) is not True:
        full = make.pad(full, number, 0, dims.maximum(missing, 0))
    if axis.cut == 0 and axis.out == full.shape[number]:
        return full
    return make.slice(full, number, axis.cut, axis.cut + axis.out)


# -- more than two spatial axes --------------------------------------------------------------------


@expands("MaxPool", "AveragePool", "LpPool")
def pool_of_volumes(make: Composer, node: Node) -> Results:
    """The first spatial axis after the others: a mean of means, a maximum of maxima, a norm of
    norms.
    """
    x, op = node.inputs[0], node.op
    assert x is not None
    assert isinstance(op, Sliding)
    if x.rank < 5 or x.dtype != dtypes.float32 or any(v.uses for v in node.outputs[1:]):
        return None
    rank = x.rank - 2
    kernel = op.kernel_shape
    pads = op.padding(x.shape[2:], kernel)
    if not all(isinstance(p, int) for pair in pads for p in pair):
        make.unsupported("pads that depend on symbolic sizes")
    begins, ends = [int(b) for b, _ in pads], [int(e) for _, e in pads]
    steps, spread = op.steps(rank), op.spread(rank)
    same = {
        k: v for k, v in op.attributes().items() if k in ("ceil_mode", "count_include_pad", "p")
    }
    n, c, depth, *plane = x.shape
    layers = make.reshape(make.permute(x, 0, 2, 1, *range(3, x.rank)), n * depth, c, *plane)
    inner = {
        "pads": (*begins[1:], *ends[1:]),
        "kernel_shape": kernel[1:],
        "strides": steps[1:],
        "dilations": spread[1:],
    }
    flat = make(node.kind, layers, **inner, **same)
    sizes = flat.shape[2:]
    stacked = make.permute(make.reshape(flat, n, depth, c, *sizes), 0, 2, 1, *range(3, x.rank))
    lines = make.reshape(stacked, n, c, depth, dims.product(sizes))
    outer = {
        "pads": (begins[0], 0, ends[0], 0),
        "kernel_shape": (kernel[0], 1),
        "strides": (steps[0], 1),
    }
    pooled = make(node.kind, lines, **outer, dilations=(spread[0], 1), **same)
    return make.reshape(pooled, *node.output.shape)


@expands("Conv")
def convolution_of_volumes(make: Composer, node: Node) -> Results:
    """The taps along the first spatial axis as further input channels."""
    x, w, op = node.inputs[0], node.inputs[1], node.op
    assert x is not None
    assert w is not None
    assert isinstance(op, Conv)
    if x.rank < 5 or x.dtype != dtypes.float32:
        return None
    rank, group = x.rank - 2, op.group
    pads = op.padding(x.shape[2:], w.shape[2:])
    if not all(isinstance(d, int) for d in (*(p for pair in pads[1:] for p in pair), w.shape[2])):
        make.unsupported("pads that depend on symbolic sizes")
    taps = int(w.shape[2])
    step, spread, out = op.steps(rank)[0], op.spread(rank)[0], node.output.shape[2]
    each = dims.floordiv(x.shape[1], group)
    padded = make.pad(x, 2, *pads[0])
    span = (out - 1) * step + 1
    layers = [make.slice(padded, 2, t * spread, t * spread + span, step) for t in range(taps)]
    n, plane = x.shape[0], x.shape[3:]
    turned = [
        make.reshape(make.permute(v, 0, 2, 1, *range(3, x.rank)), n, out, group, 1, each, *plane)
        for v in layers
    ]
    joined = make.reshape(make("Concat", *turned, axis=3), n * out, x.shape[1] * taps, *plane)
    filters = make.reshape(
        make.permute(w, 0, 2, 1, *range(3, w.rank)), w.shape[0], each * taps, *w.shape[3:]
    )
    begins, ends = [b for b, _ in pads[1:]], [e for _, e in pads[1:]]
    rest = {"strides": op.steps(rank)[1:], "dilations": op.spread(rank)[1:]}
    flat = make("Conv", joined, filters, node.input(2), group=group, pads=(*begins, *ends), **rest)
    stacked = make.reshape(flat, n, out, flat.shape[1], *flat.shape[2:])
    return make.permute(stacked, 0, 2, 1, *range(3, x.rank))
