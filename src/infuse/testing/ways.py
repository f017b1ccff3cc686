"""Ways in which a random network grows: each adds a few operators to what there is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.exporters.onnx.spelling import NEWEST, schema_of
from infuse.ir import dims
from infuse.ir.expression import Call, make_operator
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.base import REGISTRY, Bools, Elementwise, Floats, Ints, Op, sample_rows, signature
from infuse.ops.creation import Random
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import Rule
from infuse.testing.growth import SIZES, SYMBOLS, Growth, Misfit
from infuse.testing.patterns import build, spellings

Way = Callable[[Growth], Any]

CASTS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.bool_)
OPERATORS = sorted((op for op in REGISTRY.values() if sample_rows(op)), key=lambda op: (op.domain, op.name))
UNARY = [op for op in OPERATORS if issubclass(op, Elementwise) and signature(op).required == 1]
BINARY = [op for op in OPERATORS if issubclass(op, Elementwise) and signature(op).names in (("a", "b"), ("xs",))]
REDUCTIONS = [op.name for op in OPERATORS if op.name.startswith("Reduce")]
NEUTRAL: tuple[tuple[str, float, str], ...] = (
    *(("Add", 0, "fiu"), ("Sub", 0, "fiu"), ("Mul", 1, "fiu"), ("Div", 1, "fiu"), ("Mul", 0, "fiu"), ("Pow", 1, "f")),
    *(("Pow", 2, "f"), ("Max", 0, "fi"), ("Min", 6, "fi"), ("Mul", -1, "fi"), ("Add", -0.0, "f"), ("Sub", -0.0, "f")),
    *(("And", 1, "b"), ("Or", 0, "b"), ("Xor", 0, "b"), ("Equal", 1, "b"), ("Div", 2, "f"), ("Max", -np.inf, "f")),
    *(("And", 0, "b"), ("Or", 1, "b"), ("Div", 4, "iu"), ("Mul", 0.5, "f"), ("Pow", 0.5, "f"), ("Pow", -1, "f")),
)
INVERSE = (("Neg", "Neg"), ("Reciprocal", "Reciprocal"), ("Abs", "Abs"), ("Relu", "Relu"), ("Not", "Not"),
           ("Relu", "Clip"), ("Floor", "Floor"), ("Ceil", "Round"),
           ("Sigmoid", "Relu"), ("Identity", "Dropout"))  # fmt: skip


# -- operators -------------------------------------------------------------------------------------------------------


def sampled(g: Growth) -> None:
    """Any operator as one of its samples has it, on operands made to fit."""
    _instance(g, g.one(OPERATORS))


def _instance(g: Growth, op: type[Op]) -> list[Value]:
    sample = g.one(sample_rows(op))
    made = op(**sample.attributes)
    if isinstance(made, Random) and made.seed is None:
        raise Misfit("it gives other numbers every time")
    dtype = g.dtype if g.chance(0.8) else dtypes.float32
    widen = _symbols(g)
    inputs: list[Value | None] = []
    given = dict(sample.inputs)
    for name in signature(op).names:
        spec = given.get(name)
        for one in spec if isinstance(spec, list) else [spec]:
            inputs.append(None if one is None else _operand(g, one, dtype, widen))
    schema = schema_of(op.name, NEWEST, op.domain) if not op.domain else None
    least, most = (schema.min_output, schema.max_output) if schema else (1, 1)
    return g.add(made, inputs, made.attributes().get("num_outputs") or g.number(least, max(least, min(most, 2))))


def _symbols(g: Growth) -> Callable[[tuple[int, ...]], tuple[dims.Dim, ...]]:
    """What turns one of the sizes of the shapes given to it into a symbol, or nothing."""
    if not g.symbolic or g.chance(0.4):
        return lambda shape: shape
    chosen: dict[int, dims.Dim] = {}

    def widened(shape: tuple[int, ...]) -> tuple[dims.Dim, ...]:
        if not chosen and shape:
            chosen[g.one(shape)] = dims.symbol(g.one(SYMBOLS))
        return tuple(chosen.get(d, d) for d in shape)

    return widened


def _operand(g: Growth, spec: Any, dtype: DType, widen: Callable[[tuple[int, ...]], tuple[dims.Dim, ...]]) -> Value:
    if isinstance(spec, tuple):
        return g.like(TensorType(dtype, widen(spec)))
    if isinstance(spec, (Ints, Floats, Bools)):
        shape = widen(spec.shape)
        if shape != spec.shape:
            kind = dtypes.bool_ if isinstance(spec, Bools) else spec.dtype
            return g.input(TensorType(dtype if kind == dtypes.float32 else kind, shape), spec)
    return g.like(spec, dtype)


def unary(g: Growth) -> None:
    """An elementwise operator on one value, its other operands as in its samples."""
    op = g.one(UNARY)
    sample = g.one(sample_rows(op))
    x = g.pick(lambda v: v.dtype.kind in "fiub")
    more = [sample.inputs.get(name) for name in signature(op).names[1:]]
    g.add(op(**sample.attributes), [x, *(None if m is None else g.like(m, x.dtype) for m in more)])


def binary(g: Growth) -> None:
    """An elementwise operator on two values that broadcast, or on a value and a constant."""
    x = g.pick(lambda v: v.dtype.kind in "fiub")
    op = g.one(BINARY)
    other = partner(g, x)
    pair = [x, other] if g.chance(0.5) else [other, x]
    more = [g.one(pair)] if signature(op).variadic and g.chance(0.3) else []
    g.add(op(**g.one(sample_rows(op)).attributes), [*pair, *more])


def partner(g: Growth, x: Value) -> Value:
    """An operand of the type of x whose shape broadcasts against it."""
    if g.chance(0.4):
        found = [v for v in g.visible() if isinstance(v.type, TensorType) and v.dtype == x.dtype]
        return x if g.chance(0.1) else g.one(found)
    shape = [d if isinstance(d, int) and g.chance(0.5) else 1 for d in x.shape]
    shape = shape[g.number(0, len(shape)) :]
    if g.chance(0.1):
        shape = [g.one(SIZES) if d == 1 else d for d in [1, *shape]]
    if g.chance(0.15):
        return g.input(TensorType(x.dtype, tuple(shape)))
    return g.constant(tuple(shape), x.dtype)


def where(g: Growth) -> None:
    """A choice between two values."""
    x = g.pick()
    conditions = [v for v in g.visible() if isinstance(v.type, TensorType) and v.dtype.is_bool]
    condition = g.one(conditions) if conditions and g.chance(0.5) else g.constant((), dtypes.bool_)
    if not conditions and x.dtype.kind in "fiu":
        condition = g.call("Greater", x, partner(g, x))
    g.call("Where", condition if g.chance(0.7) else g.call("Not", condition), x, partner(g, x))


def neutral(g: Growth) -> None:
    """An operator with a number that does little, as a constant that may stretch the shape."""
    kind, number, kinds = g.one(NEUTRAL)
    x = g.pick(lambda v: v.dtype.kind in kinds)
    shape: tuple[int, ...] = ()
    if g.chance(0.5):
        shape = (1,) * g.number(0, x.rank + (1 if g.chance(0.2) else 0))
    if x.tensor.is_static and g.chance(0.2):
        shape = tuple(d for d in x.shape if isinstance(d, int))
    c = g.full(shape, number, x.dtype)
    g.call(kind, x, c) if g.chance(0.7) else g.call(kind, c, x)


def cast(g: Growth) -> None:
    """One to three conversions."""
    x = g.pick(lambda v: v.dtype.kind in "fiub")
    for _ in range(g.number(1, 3)):
        x = g.call("Cast", x, to=g.one((*CASTS, x.dtype, g.dtype)))


def repeated(g: Growth) -> None:
    """An operator after itself or its inverse, or once more on the same operand."""
    first, second = g.one(INVERSE)
    if g.chance(0.3):
        node = g.pick(lambda v: v.producer is not None and v.producer.graph is g.graph).producer
        if node is None or node.subgraphs:
            raise Misfit("there is no node to repeat")
        inputs = [constant(v.const, "", v.dtype) if v and v.const is not None else v for v in node.inputs]
        g.add(node.op, inputs, len(node.outputs))
        return
    g.call(second, g.call(first, g.pick(lambda v: v.dtype.is_bool if first == "Not" else v.dtype.is_float)))


# -- movement --------------------------------------------------------------------------------------------------------


def movement(g: Growth) -> None:
    """A chain of one to four operators that move elements, with a computing one here and there."""
    x = g.pick()
    for _ in range(g.number(1, 4)):
        x = g.one(MOVES)(g, x)
        if g.chance(0.2) and x.dtype.is_float:
            x = g.call(g.one(("Relu", "Neg", "Sigmoid", "Abs")), x)


def _transpose(g: Growth, x: Value) -> Value:
    perm = tuple(int(i) for i in g.rng.permutation(x.rank))
    y = g.call("Transpose", x, perm=perm)
    if g.chance(0.2):
        return g.call("Transpose", g.call("Relu", y) if x.dtype.is_float else y, perm=tuple(np.argsort(perm).tolist()))
    return y


def _reshape(g: Growth, x: Value) -> Value:
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


def _factors(g: Growth, total: int) -> list[int]:
    """One to four factors with this product."""
    if total == 0:
        return [0, g.one(SIZES)]
    parts = []
    for _ in range(g.number(0, 3)):
        part = g.one([n for n in range(1, total + 1) if total % n == 0])
        parts.append(part)
        total //= part
    return [*parts, total]


def _axes(g: Growth, x: Value) -> Value:
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if ones and g.chance(0.5):
        axis = g.one(ones)
        return g.call("Squeeze", x, [axis - x.rank if g.chance(0.3) else axis] if g.chance(0.8) else None)
    y = g.call("Unsqueeze", x, sorted({g.axis(x, 1) % (x.rank + 1)}))
    return g.call("Squeeze", y) if g.chance(0.1) else y


def _slice(g: Growth, x: Value) -> Value:
    axes = sorted({g.axis(x) % x.rank for _ in range(g.number(1, 2))})
    starts = [g.one((0, 0, 1, -1, -2, -9, 2)) for _ in axes]
    ends = [g.one((2**62, 9, 2, 1, -1, 3)) for _ in axes]
    steps = [g.one((1, 1, 1, 2, -1)) for _ in axes]
    ends = [-(2**62) if step < 0 and g.chance(0.7) else end for end, step in zip(ends, steps)]
    return g.call("Slice", x, starts, ends, [a - x.rank if g.chance(0.3) else a for a in axes], steps)


def _concat(g: Growth, x: Value) -> Value:
    axis = g.axis(x)
    others = [v for v in g.visible() if isinstance(v.type, TensorType) and v.dtype == x.dtype and v.rank == x.rank]
    parts = [x, *(g.one(others) for _ in range(g.number(0, 2)))]
    y = g.call("Concat", *(parts[i] for i in g.rng.permutation(len(parts))), axis=axis)
    if g.chance(0.3) and isinstance(x.shape[axis], int):
        return g.call("Slice", y, [0], [x.shape[axis]], [axis])
    return y


def _split(g: Growth, x: Value) -> Value:
    axis = g.axis(x)
    count = g.number(1, 3)
    sizes: list[int] | None = None
    size = x.shape[axis]
    if isinstance(size, int) and g.chance(0.5):
        sizes = [len(part) for part in np.array_split(np.arange(size), count)]
    more = {} if sizes else {"num_outputs": count}
    parts = g.several(count, "Split", x, None if sizes is None else g.make(np.array(sizes)), axis=axis, **more)
    if g.chance(0.4):
        order = range(count) if g.chance(0.6) else reversed(range(count))
        return g.call("Concat", *(parts[i] for i in order), axis=axis)
    part: Value = g.one(parts)
    return part


def _expand(g: Growth, x: Value) -> Value:
    shape = [g.one(SIZES) if d == 1 else 1 for d in x.shape]
    return g.call("Expand", x, [g.one(SIZES), *shape] if g.chance(0.3) else shape)


def _tile(g: Growth, x: Value) -> Value:
    return g.call("Tile", x, [g.one((1, 1, 2, 3)) for _ in x.shape])


def _pad(g: Growth, x: Value) -> Value:
    axes = sorted({g.axis(x) % x.rank for _ in range(g.number(1, 2))})
    amounts = [g.one((0, 0, 1, 2, -1)) for _ in range(2 * len(axes))]
    mode = g.one(("constant", "constant", "edge", "reflect", "wrap"))
    fill = g.full((), g.one((0, 0, 1)), x.dtype) if mode == "constant" and g.chance(0.5) else None
    return g.call("Pad", x, amounts, fill, axes, mode=mode)


def _gather(g: Growth, x: Value) -> Value:
    size = max(1, x.shape[axis]) if isinstance(x.shape[axis := g.axis(x)], int) else 1  # type: ignore[type-var]
    indices = np.asarray(g.rng.integers(-int(size), int(size), g.one(((), (1,), (2,), (2, 2)))))
    return g.call("Gather", x, indices, axis=axis)


def _identity(g: Growth, x: Value) -> Value:
    return g.call(g.one(("Identity", "Dropout")), x)


MOVES = (_transpose, _transpose, _reshape, _reshape, _axes, _slice, _concat, _split, _expand, _tile, _pad, _gather,
         _identity)  # fmt: skip


# -- lines and products ----------------------------------------------------------------------------------------------


def reduce(g: Growth) -> None:
    """A reduction over some, all or no axes."""
    kind = g.one((*REDUCTIONS, "ReduceMean", "ReduceSum"))
    x = g.pick(lambda v: v.dtype.kind in "fi")
    axes = sorted({g.axis(x) % x.rank for _ in range(g.number(1, 2))}) if x.rank else []
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    more = {"noop_with_empty_axes": int(g.chance(0.3))}
    g.call(kind, x, axes if axes and g.chance(0.85) else None, keepdims=g.number(0, 1), **more)


def line(g: Growth) -> None:
    """Softmax and its like, running sums, extremes, normalization along an axis."""
    x = g.pick_float(1)
    kind = g.one(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ArgMax", "ArgMin", "CumSum", "Layer", "RMS"))
    axis = g.axis(x)
    if kind == "CumSum":
        g.call("CumSum", x, constant(np.array(axis)), reverse=g.number(0, 1), exclusive=g.number(0, 1))
    elif kind in ("Layer", "RMS"):
        scale = g.constant(_static(x.shape[axis:]), x.dtype)
        more = [g.constant(_static(x.shape[axis:]), x.dtype)] if kind == "Layer" and g.chance(0.5) else []
        g.call(f"{kind}Normalization", x, scale, *more, axis=axis, epsilon=g.one((1e-5, 1e-2)))
    else:
        g.call(kind, x, axis=axis)


def _static(shape: tuple[dims.Dim, ...]) -> tuple[int, ...]:
    if not all(isinstance(d, int) for d in shape):
        raise Misfit("a constant has no symbolic size")
    return tuple(d for d in shape if isinstance(d, int))


def product(g: Growth) -> None:
    """A matrix product with a constant or another value, often with what is fused into one."""
    x = g.pick_float(1)
    (depth,) = _static(x.shape[-1:])
    width = g.one(SIZES)
    weight = constant(g.elements((depth, width), x.dtype), "", x.dtype)
    if g.chance(0.3) and x.rank == 2:
        flip = g.number(0, 1)
        w = g.call("Transpose", weight, perm=(1, 0)) if flip else weight
        y = g.call("Gemm", x, w, g.constant((width,), x.dtype), transB=flip, alpha=g.one((1.0, 0.5)))
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


def image(g: Growth) -> None:
    """A convolution with what is fused into one before and after it."""
    x = g.like(TensorType(g.dtype if g.dtype.bits >= 32 else dtypes.float32, (g.one((1, 2)), 4, 5, g.one((4, 5)))))
    if g.chance(0.3):
        x = g.call("Pad", x, [0, 0, 1, 1, 0, 0, g.number(0, 1), 1], None if g.chance(0.7) else g.full((), 1, x.dtype))
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


def _batch_normalization(g: Growth, x: Value) -> Value:
    spread = constant(np.linspace(0.5, 2, 4).astype(x.dtype.numpy), "", x.dtype)
    return g.call("BatchNormalization", x, *(g.constant((4,), x.dtype) for _ in range(3)), spread, epsilon=1e-3)


def _channels(g: Growth, x: Value) -> Value:
    shape = g.one(((), (1,), (4, 1, 1), (1, 4, 1, 1), (1, 1, 1), (1, 1, 1, 1)))
    return g.call(g.one(("Add", "Mul", "Sub", "Div")), x, g.constant(shape, x.dtype))


def _activation(g: Growth, x: Value) -> Value:
    if g.chance(0.3):
        return g.call("Clip", x, g.full((), 0, x.dtype), g.full((), 6, x.dtype))
    return g.call(g.one(("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh")), x)


# -- sizes -----------------------------------------------------------------------------------------------------------


def sizes(g: Growth) -> None:
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
        size = g.call(g.one(("Mul", "Add", "Sub", "Div", "Max", "Min")), size, constant(np.array([g.one((1, 2, 3))])))
    g.one((_reshape_by, _reshape_by, _expand_by, _filled, _range, _slice_by, _compared))(g, x, shape, size, axis)


def _reshape_by(g: Growth, x: Value, shape: Value, size: Value, axis: int) -> None:
    axis %= x.rank
    if g.chance(0.4):
        before, after = g.call("Slice", shape, [0], [axis]), g.call("Slice", shape, [axis + 1], [2**62])
        g.call("Reshape", x, g.call("Concat", before, size, [-1] if g.chance(0.5) else after, axis=0))
    elif g.chance(0.5):
        g.call("Reshape", x, g.call("Concat", size, [-1], axis=0))
    else:
        other = g.pick(lambda v: v.dtype == x.dtype)
        g.call("Reshape", g.call("Relu", other) if other.dtype.is_float else other, shape)


def _expand_by(g: Growth, x: Value, shape: Value, size: Value, axis: int) -> None:
    if g.chance(0.5):
        g.call("Expand", x, g.call("Concat", size, shape, axis=0) if g.chance(0.5) else shape)
    else:
        same = g.call("Equal", shape, g.call("Mul", shape, [-1]))
        ones = g.call("ConstantOfShape", g.call("Shape", shape), value=1, dtype=dtypes.int64)
        g.call("Expand", x, g.call("Where", same, ones, shape))


def _filled(g: Growth, x: Value, shape: Value, size: Value, axis: int) -> None:
    filled = g.call("ConstantOfShape", g.one((shape, size)), value=g.one((0, 1)), dtype=x.dtype)
    if x.dtype.kind in "fiu":
        g.call(g.one(("Add", "Mul")), x, filled)


def _range(g: Growth, x: Value, shape: Value, size: Value, axis: int) -> None:
    limit = g.call("Squeeze", size, [0])
    numbers = g.call("Range", constant(np.array(g.one((0, 1)))), limit, constant(np.array(g.one((1, 2)))))
    g.call("Gather", x, g.call("Mod", numbers, np.int64(1)), axis=axis) if g.chance(0.5) else None


def _slice_by(g: Growth, x: Value, shape: Value, size: Value, axis: int) -> None:
    g.call("Slice", x, [g.one((0, 0, 1))], size, [axis])


def _compared(g: Growth, x: Value, shape: Value, size: Value, axis: int) -> None:
    condition = g.call(g.one(("Equal", "Less", "Greater")), size, constant(np.array([g.one((1, 2, 3))])))
    g.call("Where", condition, x, partner(g, x))


# -- rules -----------------------------------------------------------------------------------------------------------


def fragment(g: Growth) -> None:
    """What a rule looks for, on operands of the network, in its element type."""
    rule = g.one(ALL_RULES)
    drawn = g.one(_drawn(rule))
    dtype = g.dtype if g.chance(0.5) else dtypes.float32
    widen = _symbols(g)
    copies: dict[Value, Value] = {}
    for value in drawn.inputs:
        type = _retyped(value.tensor, dtype)
        shape = widen(_static(type.shape or ())) if type.is_static else type.shape
        copies[value] = g.like(TensorType(type.dtype, shape))
    for node in drawn.nodes:
        inputs = [None if v is None else copies.get(v) or _constant_like(g, v, dtype) for v in node.inputs]
        attributes = {k: dtype if v == dtypes.float32 else v for k, v in node.op.attributes().items()}
        op = make_operator(node.op.domain, node.kind, attributes)
        copies.update(zip(node.outputs, g.add(op, inputs, len(node.outputs))))


@functools.cache
def _drawn(rule: Rule) -> list[Graph]:
    """A graph or two for the spellings of a rule, always the same ones."""
    rng = np.random.default_rng(0)
    return [
        graph for _, concrete in spellings(rule, rng) for graph, _ in islice(build(concrete, rule.examples, rng), 2)
    ]


def _retyped(type: TensorType, dtype: DType) -> TensorType:
    return TensorType(dtype, type.shape) if type.dtype == dtypes.float32 else type


def _constant_like(g: Growth, value: Value, dtype: DType) -> Value:
    """A constant of a fragment, now and then another one."""
    assert value.const is not None
    array = value.const.astype(dtype.numpy) if value.dtype == dtypes.float32 else value.const
    if g.chance(0.03):
        array = np.asarray(array + array.dtype.type(1)) if array.dtype.kind in "fi" else array
    return constant(array, "", dtypes.by_numpy(array.dtype))


# -- control flow ----------------------------------------------------------------------------------------------------


def branches(g: Growth) -> None:
    """An If whose branches grow by themselves and agree in their result."""
    condition = _condition(g)
    then, other = _body(g, "then"), _body(g, "else")
    for body in (then, other):
        for _ in range(g.number(1, 3)):
            body.step(g.one(INNER))
    result = then.pick()
    then.graph.add_output(result)
    if result.tensor.is_static and g.chance(0.8):
        other.graph.add_output(other.call("Identity", other.like(result.tensor)))
    else:
        other.graph.add_output(other.pick(lambda v: v.dtype == result.dtype))
    _hold(g, Node(make_operator("", "If", {}), [condition], [Value(UNKNOWN)],
                  subgraphs={"then_branch": then.graph, "else_branch": other.graph}))  # fmt: skip


def _condition(g: Growth) -> Value:
    if g.chance(0.3):
        return constant(np.array(g.chance(0.5)))
    x = g.pick(lambda v: v.dtype.kind in "fi")
    if g.chance(0.5):
        return g.call("Greater", g.call("Size", x), np.int64(g.one((0, 2, 6))))
    return g.call("Reshape", g.call("Greater", g.call("ReduceMax", g.reshaped(x, (3,))), g.full((), 0, x.dtype)), [])


def loop(g: Growth) -> None:
    """A Loop with a carried value and a stacked one; the body also reads values around it."""
    first = g.pick_float()
    body = _body(g, "body")
    state = _state(body, first, loop=True)
    for _ in range(g.number(1, 3)):
        body.step(g.one(INNER))
    carried = body.call(g.one(("Relu", "Neg", "Tanh")), state)
    if g.chance(0.5):
        carried = body.call("Add", carried, g.constant((), state.dtype))
    going = body.graph.inputs[1] if g.chance(0.7) else body.call("Identity", constant(np.array(True)))
    for value in (going, carried, body.pick()):
        body.graph.add_output(value)
    trips = constant(np.array(g.number(0, 3))) if g.chance(0.7) else g.call("Size", g.like((2,)))
    start = constant(np.array(True)) if g.chance(0.7) else None
    op = make_operator("", "Loop", {})
    _hold(g, Node(op, [trips, start, first], [Value(UNKNOWN), Value(UNKNOWN)], subgraphs={"body": body.graph}))


def scan(g: Growth) -> None:
    """A Scan over the first axis of a value."""
    rows = g.pick_float(1)
    body = _body(g, "body")
    part = body.graph.add_input("part", TensorType(rows.dtype, rows.shape[1:]))
    body.values.append(part)
    body.arrays[part] = [a[0] if len(a) else np.zeros(a.shape[1:], a.dtype) for a in g.held(rows)]
    for _ in range(g.number(1, 3)):
        body.step(g.one(INNER))
    body.graph.add_output(body.call("Sigmoid", part) if g.chance(0.5) else body.pick())
    more = {"scan_input_directions": (g.number(0, 1),)} if g.chance(0.3) else {}
    op = make_operator("", "Scan", {"num_scan_inputs": 1, **more})
    _hold(g, Node(op, [rows], [Value(UNKNOWN)], subgraphs={"body": body.graph}))


def _state(body: Growth, first: Value, loop: bool) -> Value:
    """The inputs of a Loop's body; the carried one."""
    assert body.outer is not None
    runs = len(body.sizes)
    given = {
        "i": (TensorType(dtypes.int64, ()), [np.array(0)] * runs),
        "going": (TensorType(dtypes.bool_, ()), [np.array(True)] * runs),
        "state": (first.tensor, body.outer.held(first)),
    }
    for name, (type, arrays) in given.items():
        value = body.graph.add_input(name, type)
        body.arrays[value] = list(arrays)
        body.values.append(value)
    return value


def _body(g: Growth, name: str) -> Growth:
    if g.outer is not None and g.outer.outer is not None:
        raise Misfit("bodies are deep enough")
    body = Graph(name)
    g.bodies.append(body)
    return Growth(g.rng, body, g.sizes, g.dtype, g)


def _hold(g: Growth, node: Node) -> None:
    """Take a node with bodies into the graph."""
    node.origin = g.patch.origin
    g.graph.add_node(node)
    g.patch.created.append(node)
    node.op.infer_node(node)
    g.admit(node)


ELEMENTWISE: tuple[Way, ...] = (unary, unary, binary, binary, where, neutral, neutral, cast, repeated)
INNER: tuple[Way, ...] = (*ELEMENTWISE, movement, movement, reduce, line, product, sizes, fragment, sampled)
WAYS: tuple[Way, ...] = (
    *(*INNER, *ELEMENTWISE[:6], movement, movement, movement, reduce, product, image, sizes, sizes),
    *(fragment, fragment, fragment, fragment, fragment, sampled, sampled, sampled, branches, loop, scan),
)

__all__ = ["INNER", "WAYS", "Call", "Way"]
