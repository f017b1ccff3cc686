"""Blocks of pixels that come back, padding-free transposed convolutions, and channels of
convolutions that nobody reads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    attribute,
    data,
    require_float,
    require_shape,
)
from infuse.passes.rules.convolution.convolution import convolution
from infuse.passes.rules.convolution.window import Window, conv_weights, require_explicit
from infuse.passes.rules.linear.chains import require_filled
from infuse.passes.rules.movement.exchange import maker
from infuse.passes.rules.movement.movement import cuts, fixed_range
from infuse.rewrite import Rule, require


class RemoveUnitBlocks(Rule):
    """DepthToSpace, SpaceToDepth with blocks of one pixel → x"""

    rows = ("G5",)
    shares = True
    examples = ({"x": (2, 4, 3, 5), "root": {"blocksize": 1}},)

    def match(self, x: Variable) -> Any:
        return [ops.depth_to_space(x), ops.space_to_depth(x)]

    def when(self, root: Node) -> None:
        require(attribute(root, "blocksize") == 1, "a block has several pixels")

    def build(self, x: Value) -> Any:
        return x


class RemoveBlocksAround(Rule):
    """DepthToSpace(SpaceToDepth(x)), SpaceToDepth(DepthToSpace(x)) of one block → x"""

    rows = ("G9",)
    shares = True
    examples = ({"x": (2, 4, 4, 6), "inner": {"blocksize": 2}, "root": {"blocksize": 2}},)

    def match(self, x: Variable) -> Any:
        return [
            ops.depth_to_space(ops.space_to_depth(x, name="inner")),
            ops.space_to_depth(ops.depth_to_space(x, name="inner")),
        ]

    def when(self, inner: Node, root: Node) -> None:
        require(attribute(inner, "blocksize") == attribute(root, "blocksize"), "the blocks differ")
        modes = {n.op.attributes().get("mode", "DCR") for n in (inner, root)}
        require(modes == {"DCR"}, "the channels come back in another order")

    def build(self, x: Value) -> Any:
        return x


class ConvTransposeAsConv(Rule):
    """ConvTranspose(x, w, b) of one pixel without steps → Conv(x, wᵀ, b)"""

    rows = ("G19",)
    rounding = "sums run in another order"
    examples = ({"x": (2, 3, 4, 5), "w": (3, 6, 1, 1), "b": (6,)},)

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return convolution("ConvTranspose", x, w, b)

    def when(self, x: Value, w: Value, conv: Node) -> None:
        require_float(w)
        require_shape(x)
        require(0 not in x.shape[2:], "there are no pixels")
        require_filled(w)
        require_explicit(conv)
        require(attribute(conv, "group") == 1, "there are groups")
        window = Window.of(conv)
        require(
            math.prod(conv_weights(conv)[2:]) == 1 and math.prod(window.strides) == 1,
            "it spreads a pixel over several",
        )
        added = attribute(conv, "output_padding") or ()
        require(not any(window.pads) and not any(added), "it pads or cuts the result")
        require(not attribute(conv, "output_shape"), "the result has a size of its own")

    def build(self, x: Value, w: Value, b: Value | None) -> Any:
        filters = np.ascontiguousarray(data(w).swapaxes(0, 1))
        return Call("Conv", (x, filters, *([] if b is None else [b])))


class CutFilters(Rule):
    """Slice(Conv(x, w, b)) of channels → Conv(x, the filters of these channels) (Gather too)"""

    rows = ("G24",)
    rounding = "sums run in another order"
    examples = tuple(
        {
            "x": (2, 4, 5),
            "w": (6, 4, 3),
            "b": (6,),
            "cut": [int64s(1), int64s(5), int64s(1), int64s(2)],
            "i": i,
            "read": {"axis": 1},
        }
        for i in (int64s(4, 0), int64s(-1))
    )

    def match(self, x: Variable, w: Variable, b: Variable, cut: Variable, i: Variable) -> Any:
        conv = convolution("Conv", x, w, b)
        return [ops.slice(conv, ops.rest(cut)), ops.gather(conv, ops.const(i), name="read")]

    def when(self, w: Value, conv: Node, root: Node) -> None:
        require_float(w)
        require_filled(w)
        require(attribute(conv, "group") == 1, "there are groups")
        require(maker(conv.output, root) is conv, "it is also read elsewhere")
        places = self._places(conv, root)
        require(0 < len(places) < len(data(w)), "as many channels are left")

    def build(self, x: Value, w: Value, b: Value | None, conv: Node, root: Node) -> Any:
        places = self._places(conv, root)
        bias = [] if b is None else [data(b)[places]]
        return Call("Conv", (x, data(w)[places], *bias), conv.op.attributes())

    def _places(self, conv: Node, root: Node) -> list[int]:
        """The channels that are read."""
        require_shape(conv.output)
        channels = conv.output.shape[1]
        require(isinstance(channels, int), "the channels are not known")
        assert isinstance(channels, int)
        if root.kind == "Gather":
            index = root.inputs[1]
            assert index is not None
            along = attribute(root, "axis") % conv.output.rank
            require(along == 1 and index.rank == 1, "it does not read channels")
            return [int(n) % channels for n in data(index)]
        ranges = cuts(root)
        require(set(ranges) == {1}, "it does not cut channels alone")
        start, end, step = ranges[1]
        require(step > 0, "it runs backwards")
        first, length = fixed_range(conv.output, 1, (start, end, 1))
        return list(range(first, first + length, step))


class RowsAsConv(Rule):
    """MatMul(x, w) of rows in batches → Conv of one pixel over their transposed; for targets whose
    convolutions are faster
    """

    rows = ("G19",)
    opt_in = True
    rounding = "sums run in another order"
    examples = ({"x": (2, 5, 3), "w": (3, 6)},)

    def match(self, x: Variable, w: Variable) -> Any:
        return ops.matmul(x, ops.const(w))

    def when(self, x: Value, w: Value) -> None:
        require_float(x)
        require_shape(x)
        require_filled(w)
        require(x.rank == 3 and w.rank == 2, "the operands are not batches of rows and a matrix")
        require(x.shape[1] != 0, "there are no rows")

    def build(self, x: Value, w: Value) -> Any:
        order = (0, 2, 1)
        filters = np.ascontiguousarray(data(w).T)[..., None]
        return ops.transpose(Call("Conv", (ops.transpose(x, perm=order), filters)), perm=order)


RULES = (RemoveUnitBlocks, RemoveBlocksAround, ConvTransposeAsConv, CutFilters, RowsAsConv)
