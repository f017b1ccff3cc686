"""Ways in which a random network grows: reductions, matrix products and convolutions with what is
fused into them.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import REGISTRY
from tests.support.generators.builder import NetworkBuilder
from tests.support.generators.operands import like, numbers

REDUCTIONS = sorted(
    op.name for op in REGISTRY.values() if op.name.startswith("Reduce") and not op.domain
)


def reduce(g: NetworkBuilder) -> None:
    """A reduction over some, all or no axes."""
    kind = g.one((*REDUCTIONS, "ReduceMean", "ReduceSum"))
    x = g.pick(lambda v: v.dtype.kind in "fi")
    axes = sorted({g.axis(x) % x.rank for _ in range(g.number(1, 2))}) if x.rank else []
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    more = {"noop_with_empty_axes": int(g.chance(0.3))}
    g.call(kind, x, axes if axes and g.chance(0.85) else None, keepdims=g.number(0, 1), **more)


def line(g: NetworkBuilder) -> None:
    """Softmax and its like, running sums, extremes, normalization along an axis."""
    x = g.pick_float(1)
    kind = g.one(
        (
            "Softmax",
            "LogSoftmax",
            "Hardmax",
            "LpNormalization",
            "ArgMax",
            "ArgMin",
            "CumSum",
            "Layer",
            "RMS",
        )
    )
    axis = g.axis(x)
    if kind == "CumSum":
        g.call(
            "CumSum", x, constant(np.array(axis)), reverse=g.number(0, 1), exclusive=g.number(0, 1)
        )
    elif kind in ("Layer", "RMS"):
        scale = g.constant(numbers(x.shape[axis:]), x.dtype)
        more = (
            [g.constant(numbers(x.shape[axis:]), x.dtype)]
            if kind == "Layer" and g.chance(0.5)
            else []
        )
        g.call(f"{kind}Normalization", x, scale, *more, axis=axis, epsilon=g.one((1e-5, 1e-2)))
    else:
        g.call(kind, x, axis=axis)


def product(g: NetworkBuilder) -> None:
    """A matrix product with a constant or another value, often with what is fused into one."""
    x = g.pick_float(1)
    (depth,) = numbers(x.shape[-1:])
    width = g.one(g.scale.sizes)
    weight = constant(g.elements((depth, width), x.dtype), "", x.dtype)
    if g.chance(0.3) and x.rank == 2:
        flip = g.number(0, 1)
        w = g.call("Transpose", weight, perm=(1, 0)) if flip else weight
        y = g.call(
            "Gemm", x, w, g.constant((width,), x.dtype), transB=flip, alpha=g.one((1.0, 0.5))
        )
    elif g.chance(0.3) and x.rank >= 2:
        perm = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
        y = g.call("MatMul", x, g.call("Transpose", x, perm=perm))
        width = 1
    else:
        y = g.call("MatMul", x, weight)
    if g.chance(0.5):
        c = g.constant(g.one(((), (1,), (width,), (1, width))), x.dtype)
        y = g.call(g.one(("Add", "Mul", "Sub", "Div")), *((y, c) if g.chance(0.7) else (c, y)))
    if g.chance(0.3):
        g.call(g.one(("Relu", "Sigmoid", "Gelu")), y)


def image(g: NetworkBuilder) -> None:
    """A convolution with what is fused into one before and after it."""
    x = like(
        g,
        TensorType(
            g.dtype if g.dtype.bits >= 32 else dtypes.float32, (g.one((1, 2)), 4, 5, g.one((4, 5)))
        ),
    )
    if g.chance(0.3):
        x = g.call(
            "Pad",
            x,
            [0, 0, 1, 1, 0, 0, g.number(0, 1), 1],
            None if g.chance(0.7) else g.full((), 1, x.dtype),
        )
    if g.chance(0.2):
        x = _batch_normalization(g, x)
    group = g.one((1, 1, 2, 4))
    kernel = g.one(((1, 1), (3, 3), (3, 1)))
    weight = constant(g.elements((4, 4 // group, *kernel), x.dtype), "", x.dtype)
    bias = g.constant((4,), x.dtype) if g.chance(0.5) else None
    pads = g.one(((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)))
    y = g.call("Conv", x, weight, bias, group=group, pads=pads, strides=g.one(((1, 1), (2, 1))))
    for _ in range(g.number(0, 2)):
        y = g.one((_batch_normalization, _channels, _activation, _activation))(g, y)


def _batch_normalization(g: NetworkBuilder, x: Value) -> Value:
    spread = constant(np.linspace(0.5, 2, 4).astype(x.dtype.numpy), "", x.dtype)
    return g.call(
        "BatchNormalization",
        x,
        *(g.constant((4,), x.dtype) for _ in range(3)),
        spread,
        epsilon=1e-3,
    )


def _channels(g: NetworkBuilder, x: Value) -> Value:
    shape = g.one(((), (1,), (4, 1, 1), (1, 4, 1, 1), (1, 1, 1), (1, 1, 1, 1)))
    return g.call(g.one(("Add", "Mul", "Sub", "Div")), x, g.constant(shape, x.dtype))


def _activation(g: NetworkBuilder, x: Value) -> Value:
    if g.chance(0.3):
        return g.call("Clip", x, g.full((), 0, x.dtype), g.full((), 6, x.dtype))
    return g.call(g.one(("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh")), x)
