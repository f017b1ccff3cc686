"""Taps of filters that meet nothing but padding."""

from __future__ import annotations

from functools import reduce
from math import gcd
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.immutable import Immutable, replace
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.convolution import ConvTranspose
from infuse.ops.core.samples import Ints
from infuse.ops.quantization import i8
from infuse.ops.spatial import Sliding
from infuse.passes.rules.common import attribute, data, require_shape
from infuse.passes.rules.linear.chains import require_filled
from infuse.rewrite import Rule, require


class Axis(Immutable):
    """A filter along one spatial axis: in window i its tap t meets pixel i · stride + t · dilation
    - begin. A transposed convolution has a window for each element of its input, and its pixels
    are those of the result.
    """

    pixels: int
    windows: int
    taps: int
    stride: int
    dilation: int
    begin: int
    end: int

    def narrowed(self, transposed: bool) -> tuple[range, Axis] | None:
        """The taps from the first to the last that meets a pixel, and the filter of these alone;
        None where they are all, or none, or its pads would be negative.
        """
        meeting = [t for t in range(self.taps) if self._meets(t)]
        if not meeting:
            return None
        step = reduce(gcd, (t - meeting[0] for t in meeting), 0) or 1
        for first in range(meeting[0], -1, -step):
            for last in range(meeting[-1], self.taps, step):
                taps = range(first, last + 1, step)
                axis = self._of(taps, transposed)
                if axis is not None:
                    return (taps, axis) if axis.taps < self.taps else None
        return None

    def _meets(self, tap: int) -> bool:
        offset = tap * self.dilation - self.begin
        window = max(0, -(offset // self.stride))
        return window < self.windows and window * self.stride + offset < self.pixels

    def _of(self, taps: range, transposed: bool) -> Axis | None:
        """The filter of these taps over as many windows; None where no pads make them so many."""
        begin = self.begin - taps[0] * self.dilation
        end = self.end - (self.taps - 1 - taps[-1]) * self.dilation
        if not transposed:
            span = (self.windows - 1) * self.stride + (taps[-1] - taps[0]) * self.dilation + 1
            least = span - self.pixels - begin
            end = max(0, least) if least > -self.stride else -1
        if begin < 0 or end < 0:
            return None
        dilation = self.dilation * taps.step
        return replace(self, taps=len(taps), dilation=dilation, begin=begin, end=end)


Narrowing = tuple[list[range], dict[str, Any]]
"""The taps that stay along each spatial axis, and the attributes of a convolution of these."""


def _narrowing(root: Node, x: Value, w: Value) -> Narrowing:
    """All axes narrowed whose sizes are numbers; Refusal where pads depend on one that is not."""
    op, sizes, windows = root.op, x.shape[2:], root.output.shape[2:]
    assert isinstance(op, Sliding)
    taps = [range(int(n)) for n in data(w).shape[2:]]
    kernel, transposed = [len(t) for t in taps], isinstance(op, ConvTranspose)
    stated = op.attributes().get("output_shape") or op.auto_pad.startswith("SAME")
    require(not transposed or not stated, "the result has a size of its own")
    begins, ends = (list(each) for each in zip(*op.padding(sizes, kernel)))
    require(all(isinstance(n, int) for n in (*begins, *ends)), "the pads depend on open sizes")
    dilations, steps = list(op.spread(len(taps))), op.steps(len(taps))
    for i, (size, count) in enumerate(zip(sizes, windows)):
        if not (isinstance(size, int) and isinstance(count, int)):
            continue
        pixels, count = (count, size) if transposed else (size, count)
        axis = Axis(pixels, count, kernel[i], steps[i], dilations[i], begins[i], ends[i])
        if (fewer := axis.narrowed(transposed)) is not None:
            taps[i], axis = fewer
            dilations[i], begins[i], ends[i] = axis.dilation, axis.begin, axis.end
    return taps, {
        **op.attributes(),
        "auto_pad": "NOTSET",
        "dilations": tuple(dilations),
        "kernel_shape": tuple(len(t) for t in taps),
        "pads": (*begins, *ends),
    }


def _numbers_filters(scaled: Node) -> bool:
    """Whether each filter has one scale and zero point."""
    scale = scaled.inputs[1]
    assert scale is not None
    axis = attribute(scaled, "axis")
    return scale.tensor.size == 1 or (scale.rank == 1 and axis in (0, 1))


_LINE = {"x": (2, 4, 1, 6), "b": (6,), "root": {"pads": (1, 1, 1, 1)}}
_GROUPS = {**_LINE, "root": {"pads": (1, 1, 1, 1), "group": 2}}
_BYTES = {**_LINE, "x": Ints((2, 4, 1, 6), 0, 256, dtypes.uint8)}
_FILTERS = Ints((6, 4, 3, 3), -128, 128, dtypes.int8)
_STEP, _ZERO = np.float32(0.02), i8(1)


class DropPaddedTaps(Rule):
    """Conv(x, w) → the same without the taps of w that meet nothing but padding (ConvTranspose,
    ConvInteger, QLinearConv too)
    """

    rows = ("G5",)
    rounding = "sums run in another order"
    examples = (
        {**_LINE, "w": (6, 4, 3, 3)},
        {**_GROUPS, "w": (4, 3, 3, 3)},
        {**_GROUPS, "w": Ints((4, 3, 3, 3), 0, 9, dtypes.int8), "more": [_STEP, _ZERO]},
        {**_LINE, "w": _FILTERS, "more": [_STEP, _ZERO]},
        {**_BYTES, "w": _FILTERS, "more": [np.uint8(9), _ZERO]},
        {
            **_BYTES,
            "w": _FILTERS,
            "s": _STEP,
            "z": np.uint8(9),
            "more": [_STEP, _ZERO, np.float32(0.5), np.uint8(99)],
        },
    )

    def match(
        self, x: Variable, w: Variable, b: Variable, s: Variable, z: Variable, more: Variable
    ) -> Any:
        scaled = ops.dequantize_linear(ops.const(w), ops.rest(more), name="scaled")
        floats = [
            Call(kind, (x, filters, ops.maybe(b)))
            for kind in ("Conv", "ConvTranspose")
            for filters in (ops.const(w), scaled)
        ]
        integers = Call("ConvInteger", (x, ops.const(w), ops.rest(more)))
        return [*floats, integers, Call("QLinearConv", (x, s, z, ops.const(w), ops.rest(more)))]

    def when(self, x: Value, w: Value, root: Node, scaled: Node | None = None) -> Narrowing:
        require_shape(x, root.output)
        require_filled(w)
        require(scaled is None or _numbers_filters(scaled), "filters have several scales")
        taps, attributes = _narrowing(root, x, w)
        require(attributes["kernel_shape"] != w.shape[2:], "all taps meet a pixel, or may")
        require(w.dtype.is_integer or bool(np.isfinite(data(w)).all()), "a weight is infinite")
        return taps, attributes

    def build(self, w: Value, root: Node, analysis: Narrowing, scaled: Node | None = None) -> Any:
        taps, attributes = analysis
        chosen = (slice(None), slice(None), *(slice(t.start, t.stop, t.step) for t in taps))
        filters: Any = np.ascontiguousarray(data(w)[chosen])
        if scaled is not None:
            filters = Call(scaled.kind, (filters, *scaled.inputs[1:]), scaled.op.attributes())
        operands = list(root.inputs)
        operands[3 if root.kind == "QLinearConv" else 1] = filters
        return Call(root.kind, tuple(operands), attributes)

    def note(self, w: Value, analysis: Narrowing) -> str:
        before, after = w.shape[2:], analysis[1]["kernel_shape"]
        return f"filters of {' × '.join(map(str, before))} became {' × '.join(map(str, after))}"


RULES = (DropPaddedTaps,)
