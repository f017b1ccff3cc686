"""Gradients of operators that move elements: they go back to where they came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.ops.blocks import BlockMove, DepthToSpace, SpaceToDepth
from infuse.ops.core.base import Op, normalize_axis
from infuse.ops.core.differentiation import first, gradient_of, operand
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.core.sizes import known_axes
from infuse.ops.indexing import ReverseSequence
from infuse.ops.movement import Concat, Slice, Split, Tile, Trilu, bounds
from infuse.ops.padding import CenterCropPad, Pad
from infuse.ops.pass_through import Assert, Dropout, Identity
from infuse.ops.selection import Compress
from infuse.ops.shaping import Expand, Flatten, Reshape, Squeeze, Transpose, Unsqueeze


def _alone(node: Node, gradient: Value | None) -> Gradients:
    """The gradient of the first input where the others are sizes and places."""
    return [gradient, *(None for _ in node.inputs[1:])]


@gradient_of(Identity, Assert, Dropout)
def unchanged_gradient(op: Op, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The gradient itself."""
    return _alone(node, grads[0])


@gradient_of(Reshape, Flatten, Squeeze, Unsqueeze)
def reshape_gradient(op: Op, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The gradient in the shape of the operand."""
    return _alone(node, make.like(first(grads), operand(node)))


@gradient_of(Expand)
def expand_gradient(op: Op, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The sum over what was repeated."""
    return _alone(node, make.sum_to(first(grads), operand(node)))


@gradient_of(Transpose)
def transpose_gradient(
    op: Transpose, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """The axes in their order again."""
    rank = operand(node).rank
    order = op.perm if op.perm is not None else tuple(reversed(range(rank)))
    return [make.permute(first(grads), *np.argsort(order).tolist())]


@gradient_of(Concat)
def concat_gradient(op: Concat, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The part of each operand."""
    values = [operand(node, i) for i in range(len(node.inputs))]
    axis = normalize_axis(op.axis, values[0].rank, op.name)
    if len(values) == 1:
        return [grads[0]]
    sizes = make.ints(*(value.shape[axis] for value in values))
    return make.several(len(values), "Split", first(grads), sizes, axis=axis)


@gradient_of(Split)
def split_gradient(op: Split, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The parts side by side; zeros for one that nobody reads."""
    parts = [g or make.zeros_like(y) for g, y in zip(grads, node.outputs)]
    return _alone(node, make("Concat", *parts, axis=op.axis))


@gradient_of(Slice)
def slice_gradient(op: Slice, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Zeros around the gradient, and between its elements where the step is not one."""
    x, axes, g = operand(node), op.cut_axes(node), first(grads)
    starts, ends = (known_ints(operand(node, i)) for i in (1, 2))
    steps = known_ints(node.input(4)) if node.input(4) is not None else (1,) * len(axes or ())
    if axes is None or starts is None or ends is None or steps is None:
        raise UnsupportedOperatorError("a slice whose limits are computed has no gradient")
    for axis, start, end, step in zip(axes, starts, ends, steps):
        size = x.shape[axis]
        if g.shape[axis] == size and step == 1:
            continue
        if not all(isinstance(n, int) for n in (size, start, end, step)):
            raise UnsupportedOperatorError(
                f"a slice along axis {axis} of unknown size has no gradient"
            )
        begin, stop = bounds(int(size), int(start), int(end), int(step))
        places = range(begin, stop, int(step))
        if step == 1:
            g = make.pad(g, axis, begin, int(size) - begin - len(places))
        else:
            g = scatter_along(make, g, axis, constant(np.array(places, np.int64)), size)
    return _alone(node, g)


def scatter_along(
    make: GradientBuilder, g: Value, axis: int, places: Value, size: Any, count: int = 1
) -> Value:
    """Zeros with `size` elements along `axis`, to which the parts of `g` at `count` axes from
    `axis` on are added at `places`, which have these axes.
    """
    rank = g.rank
    own = range(axis, axis + count)
    order = (*own, *(a for a in range(rank) if a not in own))
    parts = make.permute(g, *order)
    shape = [size, *(g.shape[a] for a in range(rank) if a not in own)]
    zeros = make("Expand", make.number(0, g.dtype), make.ints(*shape))
    index = make("Unsqueeze", places, make.ints(-1))
    total = make("ScatterND", zeros, index, parts, reduction="add")
    back = (*range(1, axis + 1), 0, *range(axis + 1, total.rank))
    return make.permute(total, *back)


@gradient_of(Pad)
def pad_gradient(op: Pad, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """What was not padding; the value of the padding gets the sum of the rest."""
    x, pads, fill, g = operand(node), operand(node, 1), node.input(2), first(grads)
    numbers = node.input(3)
    axes = tuple(range(x.rank)) if numbers is None else known_axes(numbers, x.rank, op.name)
    amounts = known_ints(pads)
    if axes is None or amounts is None:
        raise UnsupportedOperatorError("a Pad by computed amounts has no gradient")
    if op.mode != "constant":
        return by_places(op, make, node, grads)
    inner = g
    for place, axis in enumerate(axes):
        before, after = amounts[place], amounts[place + len(axes)]
        inner = make.pad(inner, axis, -before, -after)
    results = [inner, None, None, None]
    if fill is not None and make.needs(fill):
        rest = make("Sub", *(make("ReduceSum", v, keepdims=0) for v in (g, inner)))
        results[2] = make.like(rest, fill)
    return results[: len(node.inputs)]


@gradient_of(Tile)
def tile_gradient(op: Tile, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The sum over the copies."""
    x, repeats = operand(node), known_ints(operand(node, 1))
    if repeats is None:
        raise UnsupportedOperatorError("a Tile by computed numbers has no gradient")
    pairs = [n for repeat, size in zip(repeats, x.shape) for n in (repeat, size)]
    apart = make("Reshape", first(grads), make.ints(*pairs), allowzero=1)
    axes = make.ints(*range(0, 2 * x.rank, 2))
    total = make("ReduceSum", apart, axes, keepdims=0) if x.rank else first(grads)
    return _alone(node, make.like(total, x))


@gradient_of(Trilu)
def trilu_gradient(op: Trilu, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The same triangle."""
    return _alone(node, make("Trilu", first(grads), *node.inputs[1:], upper=op.upper))


@gradient_of(DepthToSpace, SpaceToDepth)
def block_gradient(op: BlockMove, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The other of DepthToSpace and SpaceToDepth."""
    other = "SpaceToDepth" if op.name == "DepthToSpace" else "DepthToSpace"
    return [make(other, first(grads), blocksize=op.blocksize, mode=op.mode)]


@gradient_of(ReverseSequence)
def reverse_gradient(op: Op, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The same reversal again."""
    inputs = [first(grads), *node.inputs[1:]]
    return _alone(node, make.apply(op, inputs)[0])


@gradient_of(Compress, CenterCropPad)
def by_places(op: Op, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """What an operator that moves elements of known places gives back: it is evaluated on the
    numbers of the places. Those of padding are 0, those of elements begin at 1.
    """
    x, g = operand(node), first(grads)
    others = [None if v is None else v.const for v in node.inputs[1:]]
    if not x.tensor.is_static or any(
        v is not None and c is None for v, c in zip(node.inputs[1:], others)
    ):
        raise UnsupportedOperatorError("its elements move to places that only the run knows")
    shape = [int(size) for size in x.shape if isinstance(size, int)]
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(1, count + 1, dtype=np.int64).reshape(shape)
    moved = op.eval(numbers, *others)
    places = np.asarray(moved[0] if isinstance(moved, tuple) else moved).reshape(-1)
    flat = scatter_along(make, make("Reshape", g, make.ints(-1)), 0, constant(places), count + 1)
    return _alone(node, make.like(make.slice(flat, 0, 1, count + 1), x))
