"""Gradients of operators that resample or put windows together: they are linear, and the gradient
is the product with the transposed matrix.
"""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.immutable import replace
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, constant
from infuse.ops.core.differentiation import first, gradient_of, operand
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.gradients.convolution import numbers, unfolded
from infuse.ops.resampling import Resize
from infuse.ops.unfolding import Col2Im, blocks_along, steps_of
from infuse.ops.vision import AffineGrid


@gradient_of(Resize)
def resize_gradient(op: Resize, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """For each axis the product with the matrix that resampled it, transposed."""
    x, g = operand(node), first(grads)
    parameters = [node.input(i) for i in range(1, 4)]
    if any(v is not None and v.const is None for v in parameters):
        raise UnsupportedOperatorError("a Resize by computed sizes has no gradient")
    roi, scales, sizes = (None if v is None else v.const for v in parameters)
    shape = tuple(numbers(x.shape, "an image"))
    for axis in op.plan(shape, roi, scales, sizes):
        if axis.is_identity:
            continue
        # Column i says what the element i of the axis gives to every result.
        matrix = op.sampling.resample(np.eye(axis.before), replace(axis, number=0))
        matrix[op.sampling.outside(axis)] = 0
        order = (*(a for a in range(x.rank) if a != axis.number), axis.number)
        lines = make.permute(g, *order)
        back = make("MatMul", lines, constant(matrix.astype(x.dtype.numpy)))
        g = make.permute(back, *np.argsort(order).tolist())
    return [g, None, None, None][: len(node.inputs)]


@gradient_of(AffineGrid)
def affine_grid_gradient(
    op: AffineGrid, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """Products of the gradient with the places."""
    theta, g = operand(node), first(grads)
    size = known_ints(operand(node, 1))
    if size is None:
        raise UnsupportedOperatorError("a grid of a computed size has no gradient")
    rank = len(size) - 2
    spots = numbers(size[2:], "a grid")
    # The grid of the matrix that copies coordinates: its places themselves.
    unit = np.eye(rank, rank + 1)[None]
    places = op.eval(unit, np.array([1, 1, *spots])).reshape(-1, rank)
    whole = np.concatenate([places, np.ones((len(places), 1))], axis=1)
    flat = make("Reshape", g, make.ints(0, -1, rank))
    turned = make("Transpose", flat, perm=(0, 2, 1))
    return [make("MatMul", turned, constant(whole.astype(theta.dtype.numpy))), None]


@gradient_of(Col2Im)
def col2im_gradient(op: Col2Im, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The windows of the gradient."""
    x, g = operand(node), first(grads)
    image, block = (known_ints(operand(node, i)) for i in (1, 2))
    if image is None or block is None:
        raise UnsupportedOperatorError("an image of a computed size has no gradient")
    kernel = numbers(block, "a window")
    rank = len(kernel)
    strides, dilations, pads = steps_of(op, rank)
    counts = numbers(blocks_along(op, image, kernel), "an image")
    amounts = tuple(zip(pads[:rank], pads[rank:]))
    columns = unfolded(make, g, kernel, counts, amounts, strides, dilations)
    return [make.like(columns, x), None, None]
