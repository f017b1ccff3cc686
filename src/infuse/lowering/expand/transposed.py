"""Transposed convolutions as convolutions whose results are interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, product
from math import gcd
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.phases import WIDE, kernel_phases, leaves_gaps
from infuse.ops.convolution import ConvTranspose


class _Axis(Immutable):
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

    @property
    def is_even(self) -> bool:
        """Whether all phases have as many taps, none of which is a zero of the spread kernel."""
        return self.dilation == 1 and self.kernel % self.step == 0

    def reaches(self, size: Dim) -> bool:
        """Whether the windows over `size` inputs surely cover the whole output."""
        return dims.compare("<=", self.cut + self.out, (size + self.taps - 1) * self.step) is True

    def phases(self) -> list[_Phase]:
        """What makes the outputs 0, 1, … `step` - 1 of every block."""
        return [self._phase(number) for number in range(self.step)]

    def _phase(self, number: int) -> _Phase:
        shared = gcd(self.dilation, self.step)
        every = self.step // shared
        taps = range(min(every, self.kernel))
        first = next((i for i in taps if i * self.dilation % self.step == number), None)
        if first is None:
            return _Phase(0, 1, 0, 1, 0, 0)
        count = len(range(first, self.kernel, every))
        begin, apart = first * self.dilation // self.step, self.dilation // shared
        return _Phase(
            first, every, count, apart, begin + (count - 1) * apart, self.taps - 1 - begin
        )


class _Phase(Immutable):
    """`count` taps of the kernel, every `every`th from `first` on, as a convolution's, which are
    `apart` in the input; and its padding.
    """

    first: int
    every: int
    count: int
    apart: int
    before: int
    after: int


@expands("ConvTranspose")
def conv_transpose(make: Composer, node: Node) -> Results:
    """One convolution whose output channels are the pixels of a block, or one for each of these
    phases, where they have different taps; nothing where kernels write the pixels to their places.
    """
    if kernel_phases(node) is not None or leaves_gaps(node):
        return None
    return expanded(make, node, node.input(2))


class Integers(Immutable):
    """What products of bytes are scaled by, a number for each output channel, and the zero point of
    the image.
    """

    scale: Value
    zero: Value | None


def expanded(
    make: Composer, node: Node, bias: Value | None, integers: Integers | None = None
) -> Value:
    """A transposed convolution plus a bias in other operators; with `integers`, one of bytes that
    gives float32.
    """
    x, w = node.inputs[:2]
    assert x is not None
    assert w is not None
    op = node.op
    assert isinstance(op, ConvTranspose)
    kernel = [k for k in w.shape[2:] if isinstance(k, int)]
    if len(kernel) < w.rank - 2:
        make.refuse("a kernel of unknown size")
    rank = len(kernel)
    _, pads = op.placement(x.shape[2:], kernel)
    rows = zip(kernel, op.steps(rank), op.spread(rank), pads, node.output.shape[2:])
    axes = [_Axis(k, s, d, before, out) for k, s, d, (before, _), out in rows]
    early = bias is not None and all(a.reaches(n) for a, n in zip(axes, x.shape[2:]))
    blocks = _Blocks(make, x, w, bias if early else None, op.group, axes, integers)
    full = blocks.apart() if blocks.stand_apart else blocks.together()
    for i, axis in enumerate(axes):
        full = _placed(make, full, i + 2, axis)
    if bias is None or early:
        return full
    return make(full + make.reshape(bias, bias.shape[0], *(1,) * rank))


class _Blocks(Immutable):
    """A transposed convolution before anything is cut off."""

    make: Composer
    x: Value
    w: Value
    bias: Value | None
    group: int
    axes: Sequence[_Axis]
    integers: Integers | None

    @property
    def per_group(self) -> Dim:
        """Output channels of a group."""
        return self.w.shape[1]

    @property
    def each(self) -> Dim:
        """Input channels of a group."""
        return dims.floordiv(self.w.shape[0], self.group)

    @property
    def channels(self) -> Dim:
        """Output channels."""
        return self.group * self.per_group

    @property
    def block(self) -> int:
        """Output pixels of a window."""
        return int(np.prod([a.step for a in self.axes]))

    @property
    def stand_apart(self) -> bool:
        """Whether every phase is a convolution of its own."""
        if self.block == 1:
            return False
        if self.per_group == self.each == 1:
            return True
        wide = isinstance(self.per_group, int) and self.per_group >= WIDE
        return wide and not all(a.is_even for a in self.axes)

    def _convolved(
        self, filters: Value, bias: Value | None, scale: Value | None, **how: Any
    ) -> Value:
        make, ones = self.make, (1,) * len(self.axes)
        if self.integers is None or scale is None:
            return make("Conv", self.x, filters, bias, **how)
        total = make("ConvInteger", self.x, filters, self.integers.zero, **how)
        wide = make("Cast", total, to=dtypes.float32)
        result = make("Mul", wide, make.reshape(scale, scale.shape[0], *ones))
        if bias is None:
            return result
        return make("Add", result, make.reshape(bias, bias.shape[0], *ones))

    # -- a convolution for each phase --------------------------------------------------------------

    def apart(self) -> Value:
        """The phases, each with its own taps only, interleaved."""
        parts: list[Value] = []
        all_phases = product(*(a.phases() for a in self.axes))
        for has_taps, phases in groupby(all_phases, lambda p: all(one.count for one in p)):
            if has_taps:
                parts += [self._part(each) for each in phases]
            else:
                parts.append(self._empty(len([*phases])))
        return self._interleaved(self.make("Concat", *parts, axis=1), phases_lead=True)

    def _part(self, phases: Sequence[_Phase]) -> Value:
        pads = (*(p.before for p in phases), *(p.after for p in phases))
        apart = tuple(p.apart for p in phases)
        steps = {"group": self.group, "pads": pads, "dilations": apart}
        scale = None if self.integers is None else self.integers.scale
        return self._convolved(self._phase_filters(phases), self.bias, scale, **steps)

    def _empty(self, count: int) -> Value:
        """So many phases that no tap meets."""
        make, (n, _, *spatial) = self.make, self.x.shape
        sizes = (size + a.taps - 1 for size, a in zip(spatial, self.axes))
        shape = make.ints(n, count * self.channels, *sizes)
        if self.bias is None:
            dtype = self.x.dtype if self.integers is None else dtypes.float32
            return make("Expand", constant(np.zeros((), dtype.numpy)), shape)
        column = make.reshape(self.bias, 1, self.channels)
        repeated = make("Expand", column, make.ints(count, self.channels))
        ones = (1,) * len(self.axes)
        return make("Expand", make.reshape(repeated, count * self.channels, *ones), shape)

    def _phase_filters(self, phases: Sequence[_Phase]) -> Value:
        """Their taps, the last one first, as a convolution has its filters."""
        make, value = self.make, self.w
        for axis, p in enumerate(phases, 2):
            last = p.first + (p.count - 1) * p.every
            value = make.slice(value, axis, last, p.first - 1 if p.first else -(2**62), -p.every)
        taps = [p.count for p in phases]
        value = make.reshape(value, self.group, self.each, self.per_group, *taps)
        value = make.permute(value, 0, 2, 1, *range(3, 3 + len(taps)))
        return make.reshape(value, self.channels, self.each, *taps)

    # -- one convolution for all -------------------------------------------------------------------

    def together(self) -> Value:
        """The phases as output channels of one convolution, with zeros for taps that a phase
        lacks.
        """
        pads = tuple(a.taps - 1 for a in self.axes) * 2
        vectors = (self.bias, None if self.integers is None else self.integers.scale)
        bias, scale = (None if each is None else self._repeated(each) for each in vectors)
        blocks = self._convolved(self._filters(), bias, scale, group=self.group, pads=pads)
        return self._interleaved(blocks, phases_lead=self.group == 1)

    def _repeated(self, bias: Value) -> Value:
        """Numbers of channels for all output channels, in their order."""
        lead = self.group == 1
        if bias.const is not None:
            repeated = np.tile if lead else np.repeat
            return constant(repeated(bias.const, self.block))
        make, (count,) = self.make, bias.shape
        column = make.reshape(bias, *((1, count) if lead else (count, 1)))
        sizes = (self.block, count) if lead else (count, self.block)
        return make.reshape(make("Expand", column, make.ints(*sizes)), count * self.block)

    def _filters(self) -> Value:
        """Filters (C, M/group, …) as those of the convolution: (blocks · M, C, taps …) of one
        group, else (group · M/group · blocks, C/group, taps …).
        """
        make, value = self.make, self.w
        for i, axis in enumerate(self.axes):
            value = _spread(make, value, i + 2, axis)
        taps = [a.taps for a in self.axes]
        parts = [n for a in self.axes for n in (a.taps, a.step)]
        value = make.reshape(value, self.group, self.each, self.per_group, *parts)
        inner = [3 + 2 * i for i in range(len(taps))]
        blocks = [4 + 2 * i for i in range(len(taps))]
        outer = (0, *blocks, 2) if self.group == 1 else (0, 2, *blocks)
        value = make.permute(value, *outer, 1, *inner)
        return make.reshape(value, self.channels * self.block, self.each, *taps)

    def _interleaved(self, blocks: Value, *, phases_lead: bool) -> Value:
        """Output channels that are pixels of a block, moved to their places: (N, blocks · M, n …),
        or (N, M · blocks, n …), to (N, M, n · step …).
        """
        rank, spatial = len(self.axes), blocks.shape[2:]
        if self.block == 1:
            return blocks
        make, steps = self.make, [a.step for a in self.axes]
        channels = (*steps, self.channels) if phases_lead else (self.channels, *steps)
        value = make.reshape(blocks, blocks.shape[0], *channels, *spatial)
        first, filters = (1, rank + 1) if phases_lead else (2, 1)
        order = [i for a in range(rank) for i in (2 + rank + a, first + a)]
        value = make.permute(value, 0, filters, *order)
        sizes = (n * a.step for n, a in zip(spatial, self.axes))
        return make.reshape(value, blocks.shape[0], self.channels, *sizes)


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


def _placed(make: Composer, full: Value, number: int, axis: _Axis) -> Value:
    """The wanted part of one axis; zeros where the output goes on behind the last window."""
    size = full.shape[number]
    missing = axis.cut + axis.out - size
    if dims.compare("<=", missing, 0) is not True:
        full = make.pad(full, number, 0, dims.maximum(missing, 0))
    if axis.cut == 0 and axis.out == full.shape[number]:
        return full
    return make.slice(full, number, axis.cut, axis.cut + axis.out)
