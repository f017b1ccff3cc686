"""Windows over volumes as windows over images."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.convolution import Conv
from infuse.ops.spatial import Sliding


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
        make.refuse("pads that depend on symbolic sizes")
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
        make.refuse("pads that depend on symbolic sizes")
    taps = int(w.shape[2])
    inside = node.output.shape[3:] == x.shape[3:] and op.steps(rank)[1:] == (1,) * (rank - 1)
    if w.shape[3:] == (1,) * (rank - 1) and inside:
        return _of_columns(make, node, x, w)
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
    together = turned[0] if taps == 1 else make("Concat", *turned, axis=3)
    joined = make.reshape(together, n * out, x.shape[1] * taps, *plane)
    filters = make.reshape(
        make.permute(w, 0, 2, 1, *range(3, w.rank)), w.shape[0], each * taps, *w.shape[3:]
    )
    begins, ends = [b for b, _ in pads[1:]], [e for _, e in pads[1:]]
    rest = {"strides": op.steps(rank)[1:], "dilations": op.spread(rank)[1:]}
    flat = make("Conv", joined, filters, node.input(2), group=group, pads=(*begins, *ends), **rest)
    stacked = make.reshape(flat, n, out, flat.shape[1], *flat.shape[2:])
    return make.permute(stacked, 0, 2, 1, *range(3, x.rank))


def _of_columns(make: Composer, node: Node, x: Value, w: Value) -> Value:
    """A convolution along the first spatial axis: the others are one."""
    op, out = node.op, node.output.shape
    assert isinstance(op, Conv)
    (before, after), *_ = op.padding(x.shape[2:], w.shape[2:])
    image = make.reshape(x, *x.shape[:3], dims.product(x.shape[3:]))
    steps, spread = op.steps(x.rank - 2)[0], op.spread(x.rank - 2)[0]
    how = {"pads": (before, 0, after, 0), "strides": (steps, 1), "dilations": (spread, 1)}
    filters = make.reshape(w, *w.shape[:3], 1)
    made = make("Conv", image, filters, node.input(2), group=op.group, **how)
    return make.reshape(made, *out)
