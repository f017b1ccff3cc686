"""Ways in which a random network grows: elements moved, and arithmetic on sizes."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value, constant
from infuse.ir.types import TensorType
from tests.support.generators.builder import NetworkBuilder
from tests.support.generators.operands import partner


def movement(g: NetworkBuilder) -> None:
    """A chain of one to four operators that move elements, with a computing one here and there."""
    x = g.pick()
    for _ in range(g.number(1, 4)):
        x = g.one(MOVES)(g, x)
        if g.chance(0.2) and x.dtype.is_float:
            x = g.call(g.one(("Relu", "Neg", "Sigmoid", "Abs")), x)


def _transpose(g: NetworkBuilder, x: Value) -> Value:
    perm = tuple(int(i) for i in g.rng.permutation(x.rank))
    y = g.call("Transpose", x, perm=perm)
    if g.chance(0.2):
        return g.call(
            "Transpose",
            g.call("Relu", y) if x.dtype.is_float else y,
            perm=tuple(np.argsort(perm).tolist()),
        )
    return y


def _reshape(g: NetworkBuilder, x: Value) -> Value:
    if x.rank and g.chance(0.2):
        return g.call("Flatten", x, axis=g.axis(x, 1))
    numbers = [d for d in x.shape if isinstance(d, int)]
    total = int(np.prod(numbers))
    if len(numbers) < x.rank - 1 or g.chance(0.2):
        return g.call("Reshape", x, [*([0] * g.number(0, x.rank)), -1])
    parts = _factors(g, total)
    if len(numbers) == x.rank:
        if parts and g.chance(0.4):
            parts[g.number(0, len(parts) - 1)] = -1
        return g.call("Reshape", x, parts, allowzero=int(g.chance(0.2)))
    axis = next(i for i, d in enumerate(x.shape) if not isinstance(d, int))
    return g.call("Reshape", x, [0 if axis == 0 and g.chance(0.5) else -1, *parts])


def _factors(g: NetworkBuilder, total: int) -> list[int]:
    """One to four factors with this product."""
    if total == 0:
        return [0, g.one(g.scale.sizes)]
    parts = []
    for _ in range(g.number(0, 3)):
        part = g.one([n for n in range(1, total + 1) if total % n == 0])
        parts.append(part)
        total //= part
    return [*parts, total]


def _axes(g: NetworkBuilder, x: Value) -> Value:
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if ones and g.chance(0.5):
        axis = g.one(ones)
        return g.call(
            "Squeeze", x, [axis - x.rank if g.chance(0.3) else axis] if g.chance(0.8) else None
        )
    y = g.call("Unsqueeze", x, sorted({g.axis(x, 1) % (x.rank + 1)}))
    return g.call("Squeeze", y) if g.chance(0.1) else y


def _slice(g: NetworkBuilder, x: Value) -> Value:
    axes = sorted({g.axis(x) % x.rank for _ in range(g.number(1, 2))})
    starts = [g.one((0, 0, 1, -1, -2, -9, 2)) for _ in axes]
    ends = [g.one((2**62, 9, 2, 1, -1, 3)) for _ in axes]
    steps = [g.one((1, 1, 1, 2, -1)) for _ in axes]
    ends = [-(2**62) if step < 0 and g.chance(0.7) else end for end, step in zip(ends, steps)]
    return g.call(
        "Slice", x, starts, ends, [a - x.rank if g.chance(0.3) else a for a in axes], steps
    )


def _concat(g: NetworkBuilder, x: Value) -> Value:
    axis = g.axis(x)
    others = [
        v
        for v in g.visible()
        if isinstance(v.type, TensorType) and v.dtype == x.dtype and v.rank == x.rank
    ]
    parts = [x, *(g.one(others) for _ in range(g.number(0, 2)))]
    y = g.call("Concat", *(parts[i] for i in g.rng.permutation(len(parts))), axis=axis)
    if g.chance(0.3) and isinstance(x.shape[axis], int):
        return g.call("Slice", y, [0], [x.shape[axis]], [axis])
    return y


def _split(g: NetworkBuilder, x: Value) -> Value:
    axis = g.axis(x)
    count = g.number(1, 3)
    sizes: list[int] | None = None
    size = x.shape[axis]
    if isinstance(size, int) and g.chance(0.5):
        sizes = [len(part) for part in np.array_split(np.arange(size), count)]
    more = {} if sizes else {"num_outputs": count}
    parts = g.several(
        count, "Split", x, None if sizes is None else g.make(np.array(sizes)), axis=axis, **more
    )
    if g.chance(0.4):
        order = range(count) if g.chance(0.6) else reversed(range(count))
        return g.call("Concat", *(parts[i] for i in order), axis=axis)
    part: Value = g.one(parts)
    return part


def _expand(g: NetworkBuilder, x: Value) -> Value:
    shape = [g.one(g.scale.sizes) if d == 1 else 1 for d in x.shape]
    return g.call("Expand", x, [g.one(g.scale.sizes), *shape] if g.chance(0.3) else shape)


def _tile(g: NetworkBuilder, x: Value) -> Value:
    return g.call("Tile", x, [g.one((1, 1, 2, 3)) for _ in x.shape])


def _pad(g: NetworkBuilder, x: Value) -> Value:
    axes = sorted({g.axis(x) % x.rank for _ in range(g.number(1, 2))})
    amounts = [g.one((0, 0, 1, 2, -1)) for _ in range(2 * len(axes))]
    mode = g.one(("constant", "constant", "edge", "reflect", "wrap"))
    fill = g.full((), g.one((0, 0, 1)), x.dtype) if mode == "constant" and g.chance(0.5) else None
    return g.call("Pad", x, amounts, fill, axes, mode=mode)


def _gather(g: NetworkBuilder, x: Value) -> Value:
    size = max(1, x.shape[axis]) if isinstance(x.shape[axis := g.axis(x)], int) else 1  # type: ignore[type-var]
    indices = np.asarray(g.rng.integers(-int(size), int(size), g.one(((), (1,), (2,), (2, 2)))))
    return g.call("Gather", x, indices, axis=axis)


def _identity(g: NetworkBuilder, x: Value) -> Value:
    return g.call(g.one(("Identity", "Dropout")), x)


MOVES = (_transpose, _transpose, _reshape, _reshape, _axes, _slice, _concat, _split, _expand,
    _tile, _pad, _gather,
         _identity)  # fmt: skip


def sizes(g: NetworkBuilder) -> None:
    """Arithmetic on the sizes of a value, and something that takes sizes."""
    x = g.pick(lambda v: v.rank > 0)
    shape = g.call("Shape", x, start=g.number(0, 1) if g.chance(0.2) else 0)
    axis = g.axis(x)
    if g.chance(0.4):
        one = g.call("Gather", shape, constant(np.array(axis)), axis=0)
        size = g.call("Unsqueeze", one, [0])
    elif g.chance(0.5):
        size = g.call("Slice", shape, [axis % x.rank], [axis % x.rank + 1])
    else:
        size = g.call("Gather", shape, [axis], axis=0)
    for _ in range(g.number(0, 2)):
        size = g.call(
            g.one(("Mul", "Add", "Sub", "Div", "Max", "Min")),
            size,
            constant(np.array([g.one((1, 2, 3))])),
        )
    g.one((_reshape_by, _reshape_by, _expand_by, _filled, _range, _slice_by, _compared))(
        g, x, shape, size, axis
    )


def _reshape_by(g: NetworkBuilder, x: Value, shape: Value, size: Value, axis: int) -> None:
    axis %= x.rank
    if g.chance(0.4):
        before, after = (
            g.call("Slice", shape, [0], [axis]),
            g.call("Slice", shape, [axis + 1], [2**62]),
        )
        g.call(
            "Reshape", x, g.call("Concat", before, size, [-1] if g.chance(0.5) else after, axis=0)
        )
    elif g.chance(0.5):
        g.call("Reshape", x, g.call("Concat", size, [-1], axis=0))
    else:
        other = g.pick(lambda v: v.dtype == x.dtype)
        g.call("Reshape", g.call("Relu", other) if other.dtype.is_float else other, shape)


def _expand_by(g: NetworkBuilder, x: Value, shape: Value, size: Value, axis: int) -> None:
    if g.chance(0.5):
        g.call("Expand", x, g.call("Concat", size, shape, axis=0) if g.chance(0.5) else shape)
    else:
        same = g.call("Equal", shape, g.call("Mul", shape, [-1]))
        ones = g.call("ConstantOfShape", g.call("Shape", shape), value=1, dtype=dtypes.int64)
        g.call("Expand", x, g.call("Where", same, ones, shape))


def _filled(g: NetworkBuilder, x: Value, shape: Value, size: Value, axis: int) -> None:
    dtype = dtypes.float32 if x.dtype == dtypes.string else x.dtype  # ONNX fills with no texts
    filled = g.call("ConstantOfShape", g.one((shape, size)), value=g.one((0, 1)), dtype=dtype)
    if x.dtype.kind in "fiu":
        g.call(g.one(("Add", "Mul")), x, filled)


def _range(g: NetworkBuilder, x: Value, shape: Value, size: Value, axis: int) -> None:
    limit = g.call("Squeeze", size, [0])
    numbers = g.call(
        "Range", constant(np.array(g.one((0, 1)))), limit, constant(np.array(g.one((1, 2))))
    )
    g.call("Gather", x, g.call("Mod", numbers, np.int64(1)), axis=axis) if g.chance(0.5) else None


def _slice_by(g: NetworkBuilder, x: Value, shape: Value, size: Value, axis: int) -> None:
    g.call("Slice", x, [g.one((0, 0, 1))], size, [axis])


def _compared(g: NetworkBuilder, x: Value, shape: Value, size: Value, axis: int) -> None:
    condition = g.call(
        g.one(("Equal", "Less", "Greater")), size, constant(np.array([g.one((1, 2, 3))]))
    )
    g.call("Where", condition, x, partner(g, x))
