"""Windows over volumes as windows over images."""

from __future__ import annotations

from infuse import dtypes
from infuse.codegen.expand.composer import Composer, Results, expands
from infuse.ir import dims
from infuse.ir.graph import Node, Value
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
    if w.shape[2:] == (1,) * rank and node.output.shape[2:] == x.shape[2:]:
        return _of_points(make, node, x, w, group)
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


def _of_points(make: Composer, node: Node, x: Value, w: Value, group: int) -> Value:
    """A convolution of single elements: a volume is a line of them."""
    line = make.reshape(x, *x.shape[:2], dims.product(x.shape[2:]))
    made = make("Conv", line, make.reshape(w, *w.shape[:2], 1), node.input(2), group=group)
    return make.reshape(made, *node.output.shape)
