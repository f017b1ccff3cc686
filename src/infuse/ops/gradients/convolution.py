"""Gradients of convolutions: each is the transpose of another one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ops.convolution import Conv, ConvTranspose
from infuse.ops.core.differentiation import first, gradient_of, operand
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.spatial import Pads, Sliding


@gradient_of(Conv)
def conv_gradient(op: Conv, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The transposed convolution of the gradient; products with what the windows saw; its sums."""
    x, w, bias, g = operand(node), operand(node, 1), node.input(2), first(grads)
    kernel = numbers(w.shape[2:], "a kernel")
    pads = op.padding(x.shape[2:], kernel)
    image = filters = None
    if make.needs(x):
        image = transposed(make, op, g, w, x.shape[2:], kernel, pads, op.group)
    if make.needs(w):
        filters = filter_gradient(make, op, x, g, w, pads)
    return (image, filters, _bias_gradient(make, bias, g))[: len(node.inputs)]


@gradient_of(ConvTranspose)
def conv_transpose_gradient(
    op: ConvTranspose, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """The convolution of the gradient; products with what its windows saw; its sums."""
    x, w, bias, g = operand(node), operand(node, 1), node.input(2), first(grads)
    kernel = numbers(w.shape[2:], "a kernel")
    _, pads = op.placement(x.shape[2:], kernel)
    # The last window must end inside: what the output lacks is padding, what it has more is cut.
    spans = [
        (n - 1) * step + extent
        for n, step, extent in zip(x.shape[2:], op.steps(len(kernel)), op.extents(kernel))
    ]
    pads = tuple(
        (begin, span - begin - size) for (begin, _), span, size in zip(pads, spans, g.shape[2:])
    )
    image = filters = None
    inner, fitting = _cut(make, g, pads)
    if make.needs(x):
        image = make(
            "Conv",
            inner,
            w,
            strides=op.strides,
            dilations=op.dilations,
            pads=_flat(fitting),
            group=op.group,
        )
    if make.needs(w):
        filters = filter_gradient(make, op, inner, x, w, fitting)
    return (image, filters, _bias_gradient(make, bias, g))[: len(node.inputs)]


def transposed(
    make: GradientBuilder,
    op: Sliding,
    g: Value,
    w: Value,
    sizes: Sequence[Dim],
    kernel: Sequence[int],
    pads: Pads,
    group: int,
) -> Value:
    """What the windows of `op` over an image of these sizes took, from the gradient of the result:
    elements that several windows saw get sums.
    """
    rank = len(kernel)
    spans = [
        (n - 1) * step + extent
        for n, step, extent in zip(g.shape[2:], op.steps(rank), op.extents(kernel))
    ]
    rest = [size + begin - span for size, (begin, _), span in zip(sizes, pads, spans)]
    # What is left of the image behind the last window; a negative rest is padding that it saw.
    ends = [-r for r in rest]
    seen = [e if isinstance(e, int) and e > 0 else 0 for e in ends]
    total = make(
        "ConvTranspose",
        g,
        w,
        strides=op.strides,
        dilations=op.dilations,
        pads=_flat([(begin, end) for (begin, _), end in zip(pads, seen)]),
        group=group,
    )
    for axis, end in enumerate(ends, 2):
        if not (isinstance(end, int) and end >= 0):
            total = make.pad(total, axis, 0, -end)
    return total


def filter_gradient(
    make: GradientBuilder, op: Conv | ConvTranspose, image: Value, g: Value, w: Value, pads: Pads
) -> Value:
    """The gradient of filters w (M, C/group, …) that move over `image` (N, C, …) and give what `g`
    (N, M, …) is the gradient of: products of what each tap saw, summed over windows and images.
    """
    kernel = numbers(w.shape[2:], "a kernel")
    counts = numbers(g.shape[2:], "a result")
    filters, depth = numbers(w.shape[:2], "filters")
    steps, spread = op.steps(len(kernel)), op.spread(len(kernel))
    if op.group == 1 and isinstance(image.shape[0], int):
        return _exchanged(make, image, g, kernel, counts, pads, steps, spread)
    columns = unfolded(make, image, kernel, counts, pads, steps, spread)
    window, area = math.prod(kernel), math.prod(counts)
    parts = make("Reshape", columns, make.ints(0, op.group, depth * window, area))
    slopes = make("Reshape", g, make.ints(0, op.group, filters // op.group, area))
    products = make("MatMul", slopes, make.permute(parts, 0, 1, 3, 2))
    total = make("ReduceSum", products, make.ints(0), keepdims=0)
    return make("Reshape", total, make.ints(filters, depth, *kernel))


def _exchanged(
    make: GradientBuilder,
    image: Value,
    g: Value,
    kernel: Sequence[int],
    counts: Sequence[int],
    pads: Pads,
    steps: Sequence[int],
    spread: Sequence[int],
) -> Value:
    """The gradient of filters as a convolution over channels in place of images, with the gradient
    as its filters; strides and dilations change places.
    """
    spans = [
        (k - 1) * apart + (n - 1) * step + 1
        for k, apart, n, step in zip(kernel, spread, counts, steps)
    ]
    ends = [
        (begin, span - begin - size) for (begin, _), span, size in zip(pads, spans, image.shape[2:])
    ]
    inner, fitting = _cut(make, image, tuple(ends))
    order = (1, 0, *range(2, image.rank))
    product = make(
        "Conv",
        make.permute(inner, *order),
        make.permute(g, *order),
        strides=tuple(spread),
        dilations=tuple(steps),
        pads=_flat(fitting),
    )
    return make.permute(product, *order)


def unfolded(
    make: GradientBuilder,
    image: Value,
    kernel: Sequence[int],
    counts: Sequence[int],
    pads: Pads,
    steps: Sequence[int],
    spread: Sequence[int],
) -> Value:
    """What each tap of the window sees: (N, C, taps, …counts)."""
    for axis, (begin, end) in enumerate(pads, 2):
        image = make.pad(image, axis, begin, end)
    views = []
    for index in itertools.product(*map(range, kernel)):
        view = image
        for axis, (i, step, apart, n) in enumerate(zip(index, steps, spread, counts), 2):
            start = i * apart
            view = make.slice(view, axis, start, start + (n - 1) * step + 1, step)
        views.append(make("Unsqueeze", view, make.ints(2)))
    return make("Concat", *views, axis=2) if len(views) > 1 else views[0]


def _bias_gradient(make: GradientBuilder, bias: Value | None, g: Value) -> Value | None:
    if bias is None or not make.needs(bias):
        return None
    axes = (0, *range(2, g.rank))
    return make("ReduceSum", g, make.ints(*axes), keepdims=0)


def _cut(make: GradientBuilder, x: Value, pads: Pads) -> tuple[Value, Pads]:
    """`x` without what negative pads cut off, and the pads that are left."""
    left = []
    for axis, (begin, end) in enumerate(numbers_of(pads), 2):
        x = make.pad(x, axis, min(begin, 0), min(end, 0))
        left.append((max(begin, 0), max(end, 0)))
    return x, tuple(left)


def numbers(sizes: Sequence[Dim], what: str) -> list[int]:
    """Sizes that have to be known before the run."""
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        listed = ", ".join(map(str, sizes))
        raise UnsupportedOperatorError(
            f"{what} of unknown size ({listed}) has no gradient",
            hint="fix the sizes of the inputs (set_dims)",
        )
    return known


def numbers_of(pads: Pads) -> list[tuple[int, int]]:
    """Pads that have to be known before the run."""
    return [(a, b) for a, b in (numbers(pair, "padding") for pair in pads)]


def _flat(pads: Sequence[tuple[Dim, Dim]]) -> tuple[int, ...]:
    """Pads as an attribute lists them."""
    begins, ends = zip(*numbers_of(tuple(pads)))
    return (*begins, *ends)
