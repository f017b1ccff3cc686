"""Channels and pixels arranged anew: one operator where there is one, folded into filters where
they meet it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.ops.movement import bounds
from infuse.passes.rules.common import (
    attribute,
    data,
    permutation,
    require_float,
    require_own,
    require_shape,
)
from infuse.passes.rules.convolution.convolution import convolution
from infuse.passes.rules.movement.movement import cuts
from infuse.rewrite import Rule, require

_ORDERS = {"DCR": (0, 3, 4, 1, 5, 2), "CRD": (0, 1, 4, 2, 5, 3)}


def _moved(x: Any, s: Any, t: Any) -> Call:
    """The pattern of axes cut, exchanged and joined."""
    return Call("Reshape", (ops.transpose(ops.reshape(x, s, name="cut"), name="moved"), t))


class FuseDepthToSpace(Rule):
    """Reshape(Transpose(Reshape(x))) of b · b channels into squares of pixels → DepthToSpace(x,
    b)
    """

    rows = ("G23", "G27")
    examples = (
        {
            "x": (2, 12, 3, 5),
            "s": int64s(2, 2, 2, 3, 3, 5),
            "t": int64s(2, 3, 6, 10),
            "moved": {"perm": _ORDERS["DCR"]},
        },
        {
            "x": (2, 12, 3, 5),
            "s": int64s(0, 3, 2, 2, 3, 5),
            "t": int64s(2, 3, 6, 10),
            "moved": {"perm": _ORDERS["CRD"]},
        },
    )

    def match(self, x: Variable, s: Variable, t: Variable) -> Any:
        return _moved(x, s, t)

    def when(self, x: Value, cut: Node, moved: Node, root: Node) -> None:
        require_float(x)
        require_shape(x, cut.output, root.output)
        require(
            x.rank == root.output.rank == 4 and cut.output.rank == 6,
            "it does not turn channels into pixels",
        )
        mode = self._mode(moved)
        n, _, h, w = x.shape
        shape = cut.output.shape
        channels, side = (shape[3], shape[1]) if mode == "DCR" else (shape[1], shape[2])
        square = (side, side, channels) if mode == "DCR" else (channels, side, side)
        require(
            shape == (n, *square, h, w) and isinstance(side, int),
            "it does not cut channels into squares",
        )
        require(
            root.output.shape == (n, channels, h * side, w * side),
            "it joins other axes than the pixels'",
        )

    def build(self, x: Value, cut: Node, moved: Node) -> Any:
        mode = self._mode(moved)
        return ops.depth_to_space(x, blocksize=cut.output.shape[2], mode=mode)

    def _mode(self, moved: Node) -> str:
        perm = permutation(moved)
        modes = [mode for mode, order in _ORDERS.items() if order == perm]
        require(modes, "the order of the axes is another")
        return modes[0]


class FuseSpaceToDepth(Rule):
    """Reshape(Transpose(Reshape(x))) of b · b pixels into channels → SpaceToDepth(x, b)"""

    rows = ("G23", "G27")
    examples = (
        {
            "x": (2, 3, 6, 4),
            "s": int64s(2, 3, 3, 2, 2, 2),
            "t": int64s(2, 12, 3, 2),
            "moved": {"perm": (0, 3, 5, 1, 2, 4)},
        },
    )

    def match(self, x: Variable, s: Variable, t: Variable) -> Any:
        return _moved(x, s, t)

    def when(self, x: Value, cut: Node, moved: Node, root: Node) -> None:
        require_float(x)
        require_shape(x, cut.output, root.output)
        require(
            x.rank == root.output.rank == 4 and cut.output.rank == 6,
            "it does not turn pixels into channels",
        )
        require(permutation(moved) == (0, 3, 5, 1, 2, 4), "the order of the axes is another")
        n, c, rows, side, columns, other = cut.output.shape
        require(isinstance(side, int) and side == other, "it does not cut pixels into squares")
        require(
            x.shape == (n, c, rows * side, columns * side), "it does not cut pixels into squares"
        )
        require(
            root.output.shape == (n, c * side * side, rows, columns),
            "it joins other axes than the channels",
        )

    def build(self, x: Value, cut: Node) -> Any:
        return ops.space_to_depth(x, blocksize=cut.output.shape[3])


def _slices(image: Call, *places: tuple[int, int]) -> list[Call]:
    """Operands of an example: every second pixel along rows and columns, from these on."""
    return [
        Call("Slice", (image, int64s(i, j), int64s(9, 9), int64s(2, 3), int64s(2, 2)))
        for i, j in places
    ]


_IMAGE = Call("Neg", ((2, 3, 4, 6),))


class SlicesAsSpaceToDepth(Rule):
    """Concat of the b · b Slices of x with step b along rows and columns, in its order →
    SpaceToDepth(x, b)
    """

    rows = ("G23", "G27")
    reads = ("Slice",)
    shares = True
    examples = ({"xs": _slices(_IMAGE, (0, 0), (0, 1), (1, 0), (1, 1)), "root": {"axis": 1}},)

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        _, _, order = _squares(xs, root)
        require(
            np.array_equal(order, np.arange(len(order))),
            "the pixels of a square come in another order",
        )

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        x, side, _ = _squares(xs, root)
        return ops.space_to_depth(x, blocksize=side)


class FuseSlicesConv(Rule):
    """Conv of the b · b Slices of x with step b, in any order → Conv(SpaceToDepth(x, b)), filters
    in its order
    """

    rows = ("G23", "G27")
    rounding = "channels are summed in another order"
    examples = (
        {
            "xs": _slices(_IMAGE, (0, 0), (1, 0), (0, 1), (1, 1)),
            "joined": {"axis": 1},
            "w": (2, 12, 1, 2),
            "b": (2,),
        },
    )

    def match(self, xs: Variable, w: Variable, b: Variable) -> Any:
        return convolution("Conv", ops.concat(ops.rest(xs), name="joined"), w, b)

    def when(self, xs: tuple[Value, ...], w: Value, joined: Node, conv: Node) -> None:
        require_own(w)
        require(attribute(conv, "group") == 1, "there are groups")
        _squares(xs, joined)

    def build(
        self, xs: tuple[Value, ...], w: Value, b: Value | None, joined: Node, conv: Node
    ) -> Any:
        x, side, order = _squares(xs, joined)
        filters = data(w)[:, np.argsort(order)]
        deep = ops.space_to_depth(x, blocksize=side)
        return Call("Conv", (deep, filters, *([] if b is None else [b])), conv.op.attributes())


def _squares(xs: tuple[Value, ...], concat: Node) -> tuple[Value, int, Array]:
    """The image that slices take apart, the side of the squares, and which channel of SpaceToDepth
    each channel is.
    """
    slices = [
        x.producer
        for x in xs
        if x.producer is not None and x.producer.kind == "Slice" and len(x.uses) == 1
    ]
    require(len(slices) == len(xs) > 1, "an operand is not a Slice for it alone")
    x = slices[0].inputs[0]
    assert x is not None
    require(
        all(s.inputs[0] is x and s.graph is concat.graph for s in slices),
        "the slices are of several tensors",
    )
    require_float(x)
    require_shape(x, concat.output)
    require(
        x.rank == 4 and attribute(concat, "axis") % 4 == 1, "it does not join channels of images"
    )
    require(all(isinstance(n, int) for n in x.shape[1:]), "the size is not known")
    side = round(len(xs) ** 0.5)
    channels, *sizes = (int(n) for n in x.shape[1:] if isinstance(n, int))
    squares = side * side == len(xs) and not any(n % side for n in sizes)
    require(squares, "there are not as many as pixels in a square")
    places = [_place(s, side, sizes) for s in slices]
    require(len(set(places)) == len(places), "a slice comes twice")
    blocks = [(i * side + j) * channels + np.arange(channels) for i, j in places]
    return x, side, np.concatenate(blocks)


def _place(node: Node, side: int, sizes: list[int]) -> tuple[int, int]:
    """Row and column inside of each square that a slice takes."""
    cut = cuts(node)
    require(sorted(cut) == [2, 3], "a slice cuts other axes")
    result = []
    for axis, size in zip((2, 3), sizes):
        first, last = bounds(size, *cut[axis])
        require(
            cut[axis][2] == side and first < side and last > size - side + first,
            "a slice leaves pixels out",
        )
        result.append(first)
    return result[0], result[1]


# -- channels --------------------------------------------------------------------------------------


def _chosen(value: Any, s: Any, t: Any, i: Any) -> list[Call]:
    """The patterns of channels in another order: a Gather of them, or groups of them exchanged."""
    return [ops.gather(value, ops.const(i), axis=1, name="gather"), _moved(value, s, t)]


def _order(
    value: Value, gather: Node | None, cut: Node | None, moved: Node | None, root: Value
) -> Array:
    """Which channel of `value` each channel of the result is; Refusal where more than channels are
    arranged.
    """
    require_shape(value, root)
    channels = value.shape[1] if value.rank > 2 else None
    require(isinstance(channels, int), "the channels are not known")
    assert isinstance(channels, int)
    if gather is not None:
        places = gather.inputs[1]
        assert places is not None
        require(
            places.rank == 1 and data(places).size > 0, "the channels become several axes, or none"
        )
        order: Array = np.where(data(places) < 0, data(places) + channels, data(places))
        require(bool(np.all((order >= 0) & (order < channels))), "a channel does not exist")
        return order
    assert cut is not None
    assert moved is not None
    require_shape(cut.output)
    require(value.type == root.type, "it does not come back to the shape")
    spatial = value.rank - 2
    parts = cut.output.shape[1 : cut.output.rank - spatial]
    require(
        cut.output.shape == (value.shape[0], *parts, *value.shape[2:]),
        "it cuts other axes than the channels",
    )
    require(
        len(parts) > 1 and all(isinstance(n, int) for n in parts), "it does not cut the channels"
    )
    perm = permutation(moved)
    last = 1 + len(parts)
    fixed = perm[0] == 0 and perm[last:] == tuple(range(last, len(perm)))
    require(fixed, "it exchanges more than groups of channels")
    sizes = [int(n) for n in parts if isinstance(n, int)]
    require(np.prod(sizes) == channels, "there is no image, and so any number of channels")
    numbers = np.arange(channels).reshape(sizes)
    exchanged: Array = numbers.transpose([p - 1 for p in perm[1:last]]).reshape(-1)
    return exchanged


_SHUFFLE = {"s": int64s(2, 2, 3, 5), "t": int64s(2, 6, 5), "moved": {"perm": (0, 2, 1, 3)}}


class FuseOrderConv(Rule):
    """Conv(channels of x in another order, w) → Conv(x, w in that order): a channel shuffle costs
    nothing
    """

    rows = ("G23",)
    rounding = "channels are summed in another order"
    examples = (
        {"x": (2, 6, 5), "w": (4, 6, 2), "b": (4,), "i": int64s(3, 0, 5, 1, -4, 4), **_SHUFFLE},
    )

    def match(
        self, x: Variable, s: Variable, t: Variable, i: Variable, w: Variable, b: Variable
    ) -> Any:
        return [convolution("Conv", part, w, b) for part in _chosen(x, s, t, i)]

    def when(
        self,
        x: Value,
        w: Value,
        conv: Node,
        gather: Node | None = None,
        cut: Node | None = None,
        moved: Node | None = None,
    ) -> None:
        require_float(w)
        require_own(w)
        require(attribute(conv, "group") == 1, "there are groups")
        order = _order(x, gather, cut, moved, conv.inputs[0] or x)
        complete = len(order) == x.shape[1] and len(set(order.tolist())) == len(order)
        require(complete, "channels are left out or come twice")

    def build(
        self,
        x: Value,
        w: Value,
        b: Value | None,
        conv: Node,
        gather: Node | None = None,
        cut: Node | None = None,
        moved: Node | None = None,
    ) -> Any:
        order = _order(x, gather, cut, moved, conv.inputs[0] or x)
        return Call(
            "Conv",
            (x, data(w)[:, np.argsort(order)], *([] if b is None else [b])),
            conv.op.attributes(),
        )


class FuseConvOrder(Rule):
    """Channels of Conv(x, w, b) chosen or in another order → Conv(x, w, b) with those filters"""

    rows = ("G23",)
    rounding = "a library may sum for other filters in another order"
    examples = ({"x": (2, 3, 6), "w": (6, 3, 2), "b": (6,), "i": int64s(3, 0, -1), **_SHUFFLE},)

    def match(
        self, x: Variable, s: Variable, t: Variable, i: Variable, w: Variable, b: Variable
    ) -> Any:
        return _chosen(convolution("Conv", x, w, b), s, t, i)

    def when(
        self,
        w: Value,
        conv: Node,
        root: Node,
        gather: Node | None = None,
        cut: Node | None = None,
        moved: Node | None = None,
    ) -> None:
        require_float(w)
        require_own(w)
        require(attribute(conv, "group") == 1, "there are groups")
        order = _order(conv.output, gather, cut, moved, root.output)
        require(len(set(order.tolist())) == len(order), "a channel comes twice")

    def build(
        self,
        x: Value,
        w: Value,
        b: Value | None,
        conv: Node,
        root: Node,
        gather: Node | None = None,
        cut: Node | None = None,
        moved: Node | None = None,
    ) -> Any:
        order = _order(conv.output, gather, cut, moved, root.output)
        return Call(
            "Conv",
            (x, data(w)[order], *([] if b is None else [data(b)[order]])),
            conv.op.attributes(),
        )


RULES = (
    FuseDepthToSpace,
    FuseSpaceToDepth,
    SlicesAsSpaceToDepth,
    FuseSlicesConv,
    FuseOrderConv,
    FuseConvOrder,
)
