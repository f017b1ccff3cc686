"""Gradients of operators that read or write where indices say."""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value, constant
from infuse.ops.core.base import normalize_axis
from infuse.ops.core.differentiation import first, gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.gradients.convolution import numbers
from infuse.ops.gradients.movement import scatter_along
from infuse.ops.gradients.pooling import with_outputs
from infuse.ops.indexing import (
    Gather,
    GatherElements,
    GatherND,
    OneHot,
    Scatter,
    ScatterElements,
    ScatterND,
)
from infuse.ops.ranking import TopK
from infuse.ops.running import CumSum
from infuse.ops.unfolding import MaxUnpool


@gradient_of(Gather)
def gather_gradient(op: Gather, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Sums of the parts at the places that they were read from."""
    data, indices = operand(node), operand(node, 1)
    axis = normalize_axis(op.axis, data.rank, op.name)
    g = first(grads)
    if indices.rank == 0:
        g, indices = (make("Unsqueeze", v, make.ints(a)) for v, a in ((g, axis), (indices, 0)))
    return [scatter_along(make, g, axis, indices, data.shape[axis], indices.rank), None]


@gradient_of(GatherElements)
def gather_elements_gradient(
    op: GatherElements, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """Sums of the elements at the places that they were read from."""
    data, indices = operand(node), operand(node, 1)
    zeros = make.zeros_like(data)
    total = make("ScatterElements", zeros, indices, first(grads), axis=op.axis, reduction="add")
    return [total, None]


@gradient_of(GatherND)
def gather_nd_gradient(
    op: GatherND, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """Sums of the parts at the places that they were read from."""
    data, indices = operand(node), operand(node, 1)
    if op.batch_dims:
        indices = _with_batch(make, indices, op.batch_dims)
    zeros = make.zeros_like(data)
    return [make("ScatterND", zeros, indices, first(grads), reduction="add"), None]


def _with_batch(make: GradientBuilder, indices: Value, count: int) -> Value:
    """Index tuples that name the first axes too, which go side by side."""
    sizes = numbers(indices.shape[:-1], "a list of indices")
    grid = np.stack(np.meshgrid(*map(np.arange, sizes[:count]), indexing="ij"), -1)
    grid = grid.reshape(*sizes[:count], *(1,) * (len(sizes) - count), count)
    own = constant(np.ascontiguousarray(np.broadcast_to(grid, (*sizes, count))).astype(np.int64))
    return make("Concat", own, make.cast(indices, own.dtype), axis=-1)


@gradient_of(ScatterElements, ScatterND)
def scatter_gradient(op: Scatter, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Of the data all that was not written over, of the updates what stands at their places."""
    if op.reduction not in ("none", "add"):
        raise UnsupportedOperatorError(f"the reduction {op.reduction!r} has no gradient")
    indices, updates, g = operand(node, 1), operand(node, 2), first(grads)
    attributes = {k: v for k, v in op.attributes().items() if k != "reduction"}
    left = g
    if op.reduction == "none":
        left = make(op.name, g, indices, make.zeros_like(updates), **attributes)
    reader = "GatherElements" if op.name == "ScatterElements" else "GatherND"
    return [left, None, make(reader, g, indices, **attributes)]


@gradient_of(OneHot)
def one_hot_gradient(op: OneHot, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The sums of the gradient where the two values stand."""
    indices, depth, values = (operand(node, i) for i in range(3))
    pair = constant(np.array([0, 1], values.dtype.numpy))
    hot = make("OneHot", indices, depth, pair, axis=op.axis)
    off, on = make.several(2, "Split", values, num_outputs=2)
    return through(make, node, grads, [make(hot * (on - off) + off)])


@gradient_of(TopK)
def top_k_gradient(op: TopK, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The elements at the places that they came from."""
    x = operand(node)
    places = with_outputs(node, 2)[1]
    zeros = make.zeros_like(x)
    return [make("ScatterElements", zeros, places, first(grads), axis=op.axis), None]


@gradient_of(CumSum)
def cumsum_gradient(op: CumSum, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Running sums from the other end."""
    axis = operand(node, 1)
    options = {"exclusive": op.exclusive, "reverse": 1 - op.reverse}
    return [make("CumSum", first(grads), axis, **options), None]


@gradient_of(MaxUnpool)
def max_unpool_gradient(
    op: MaxUnpool, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """The elements at the places that they were written to."""
    x, places, g = operand(node), operand(node, 1), first(grads)
    for axis, (size, least) in enumerate(zip(g.shape, op.unpooled(x.shape))):
        if size != least:
            g = make.slice(g, axis, 0, least)
    flat = make("Reshape", g, make.ints(-1))
    index = make("Reshape", places, make.ints(-1))
    read = make("Gather", flat, index)
    return [make.like(read, x), None, None][: len(node.inputs)]
