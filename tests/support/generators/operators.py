"""Ways in which a random network grows: each adds a few operators to what there is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.exporters.onnx.schemas import NEWEST, schema_of
from infuse.ir import dims
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.ops.core.base import REGISTRY, Elementwise, Op
from infuse.ops.core.samples import Bools, Floats, Ints, sample_rows
from infuse.ops.core.signatures import signature
from infuse.ops.creation import Random
from infuse.ops.paging import PagedAttention
from infuse.ops.pass_through import Assert
from infuse.ops.quantized_weights import GatherBlocks, MatMulBlocks
from infuse.ops.scalars import WITH_SCALAR, MultiplyAdd, WeightedSum
from infuse.ops.tokens import Detokenize, Tokenize
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import Rule
from infuse.testing.patterns import build, spellings
from tests.support.generators.builder import SYMBOLS, Misfit, NetworkBuilder
from tests.support.generators.control import Generator, control_flow
from tests.support.generators.layers import image, line, product, reduce
from tests.support.generators.movement import movement, sizes
from tests.support.generators.operands import like, numbers, partner

CASTS = (
    dtypes.float32,
    dtypes.float64,
    dtypes.float16,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.bool_,
)
LANGUAGE = (PagedAttention, MatMulBlocks, GatherBlocks)
LEFT_OUT = (Assert, Tokenize, Detokenize, MultiplyAdd, WeightedSum, *LANGUAGE, *WITH_SCALAR)
"""An operator that fails on purpose, those that need a package of their own, those whose operands
fit each other in ways that no type tells, and those that only an optimization or an expansion
makes.
"""
MODEL_RULES = tuple(
    rule for rule in ALL_RULES if not rule.closing and rule.patterns[0].domain != WeightedSum.domain
)
"""The rules whose patterns stand in models as they come."""
OPERATORS = sorted(
    (op for op in REGISTRY.values() if sample_rows(op) and op not in LEFT_OUT),
    key=lambda op: (op.domain, op.name),
)
UNARY = [op for op in OPERATORS if issubclass(op, Elementwise) and signature(op).required == 1]
BINARY = [
    op
    for op in OPERATORS
    if issubclass(op, Elementwise) and signature(op).names in (("a", "b"), ("xs",))
]
NEUTRAL: tuple[tuple[str, float, str], ...] = (
    ("Add", 0, "fiu"),
    ("Sub", 0, "fiu"),
    ("Mul", 1, "fiu"),
    ("Div", 1, "fiu"),
    ("Mul", 0, "fiu"),
    ("Pow", 1, "f"),
    ("Pow", 2, "f"),
    ("Max", 0, "fi"),
    ("Min", 6, "fi"),
    ("Mul", -1, "fi"),
    ("Add", -0.0, "f"),
    ("Sub", -0.0, "f"),
    ("And", 1, "b"),
    ("Or", 0, "b"),
    ("Xor", 0, "b"),
    ("Equal", 1, "b"),
    ("Div", 2, "f"),
    ("Max", -np.inf, "f"),
    ("And", 0, "b"),
    ("Or", 1, "b"),
    ("Div", 4, "iu"),
    ("Mul", 0.5, "f"),
    ("Pow", 0.5, "f"),
    ("Pow", -1, "f"),
)
INVERSE = (("Neg", "Neg"), ("Reciprocal", "Reciprocal"), ("Abs", "Abs"), ("Relu", "Relu"), ("Not",
    "Not"),
           ("Relu", "Clip"), ("Floor", "Floor"), ("Ceil", "Round"),
           ("Sigmoid", "Relu"), ("Identity", "Dropout"))  # fmt: skip


# -- operators -------------------------------------------------------------------------------------


def sampled(g: NetworkBuilder) -> None:
    """Any operator as one of its samples has it, on operands made to fit."""
    _instance(g, g.one(OPERATORS))


def _instance(g: NetworkBuilder, op: type[Op]) -> list[Value]:
    sample = g.one(sample_rows(op))
    made = op(**sample.attributes)
    if isinstance(made, Random) and made.seed is None:
        raise Misfit("it gives other numbers every time")
    dtype = g.dtype if g.chance(0.8) else dtypes.float32
    widen = _symbols(g)
    inputs: list[Value | None] = []
    arrays = dict(sample.inputs)
    for name in signature(op).names:
        spec = arrays.get(name)
        for one in spec if isinstance(spec, list) else [spec]:
            inputs.append(None if one is None else _operand(g, one, dtype, widen))
    schema = schema_of(op.name, NEWEST, op.domain) if not op.domain else None
    least, most = (schema.min_output, schema.max_output) if schema else (1, 1)
    return g.add(
        made,
        inputs,
        made.attributes().get("num_outputs") or g.number(least, max(least, min(most, 2))),
    )


def _symbols(g: NetworkBuilder) -> Callable[[tuple[int, ...]], tuple[dims.Dim, ...]]:
    """What turns one of the sizes of the shapes given to it into a symbol, or nothing."""
    if not g.symbolic or g.chance(0.4):
        return lambda shape: shape
    chosen: dict[int, dims.Dim] = {}

    def widened(shape: tuple[int, ...]) -> tuple[dims.Dim, ...]:
        if not chosen and shape:
            chosen[g.one(shape)] = dims.symbol(g.one(SYMBOLS))
        return tuple(chosen.get(d, d) for d in shape)

    return widened


def _operand(
    g: NetworkBuilder,
    spec: Any,
    dtype: DType,
    widen: Callable[[tuple[int, ...]], tuple[dims.Dim, ...]],
) -> Value:
    if isinstance(spec, tuple):
        return like(g, TensorType(dtype, widen(spec)))
    if isinstance(spec, (Ints, Floats, Bools)):
        shape = widen(spec.shape)
        if shape != spec.shape:
            kind = dtypes.bool_ if isinstance(spec, Bools) else spec.dtype
            return g.input(TensorType(dtype if kind == dtypes.float32 else kind, shape), spec)
    return like(g, spec, dtype)


def unary(g: NetworkBuilder) -> None:
    """An elementwise operator on one value, its other operands as in its samples."""
    op = g.one(UNARY)
    sample = g.one(sample_rows(op))
    x = g.pick(lambda v: v.dtype.kind in "fiub")
    more = [sample.inputs.get(name) for name in signature(op).names[1:]]
    g.add(op(**sample.attributes), [x, *(None if m is None else like(g, m, x.dtype) for m in more)])


def binary(g: NetworkBuilder) -> None:
    """An elementwise operator on two values that broadcast, or on a value and a constant."""
    x = g.pick(lambda v: v.dtype.kind in "fiub")
    op = g.one(BINARY)
    other = partner(g, x)
    pair = [x, other] if g.chance(0.5) else [other, x]
    more = [g.one(pair)] if signature(op).variadic and g.chance(0.3) else []
    g.add(op(**g.one(sample_rows(op)).attributes), [*pair, *more])


def where(g: NetworkBuilder) -> None:
    """A choice between two values."""
    x = g.pick()
    conditions = [v for v in g.visible() if isinstance(v.type, TensorType) and v.dtype.is_bool]
    condition = g.one(conditions) if conditions and g.chance(0.5) else g.constant((), dtypes.bool_)
    if not conditions and x.dtype.kind in "fiu":
        condition = g.call("Greater", x, partner(g, x))
    g.call("Where", condition if g.chance(0.7) else g.call("Not", condition), x, partner(g, x))


def neutral(g: NetworkBuilder) -> None:
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


def cast(g: NetworkBuilder) -> None:
    """One to three conversions."""
    x = g.pick(lambda v: v.dtype.kind in "fiub")
    for _ in range(g.number(1, 3)):
        x = g.call("Cast", x, to=g.one((*CASTS, x.dtype, g.dtype)))


def repeated(g: NetworkBuilder) -> None:
    """An operator after itself or its inverse, or once more on the same operand."""
    first, second = g.one(INVERSE)
    if g.chance(0.3):
        node = g.pick(lambda v: v.producer is not None and v.producer.graph is g.graph).producer
        if node is None or node.subgraphs:
            raise Misfit("there is no node to repeat")
        inputs = [
            constant(v.const, "", v.dtype) if v and v.const is not None else v for v in node.inputs
        ]
        g.add(node.op, inputs, len(node.outputs))
        return
    g.call(
        second,
        g.call(first, g.pick(lambda v: v.dtype.is_bool if first == "Not" else v.dtype.is_float)),
    )


# -- rules -----------------------------------------------------------------------------------------


def fragment(g: NetworkBuilder) -> None:
    """What a rule looks for, on operands of the network, in its element type."""
    rule = g.one(MODEL_RULES)
    drawn = g.one(_drawn(rule))
    dtype = g.dtype if g.chance(0.5) else dtypes.float32
    widen = _symbols(g)
    copies: dict[Value, Value] = {}
    for value in drawn.inputs:
        type = _retyped(value.tensor, dtype)
        shape = widen(numbers(type.shape)) if type.is_static else type.shape
        copies[value] = like(g, TensorType(type.dtype, shape))
    for node in drawn.nodes:
        inputs = [
            None if v is None else copies.get(v) or _constant_like(g, v, dtype) for v in node.inputs
        ]
        attributes = {
            k: dtype if v == dtypes.float32 else v for k, v in node.op.attributes().items()
        }
        op = make_operator(node.op.domain, node.kind, attributes)
        copies.update(zip(node.outputs, g.add(op, inputs, len(node.outputs))))


@functools.cache
def _drawn(rule: Rule) -> list[Graph]:
    """A graph or two for the spellings of a rule, always the same ones."""
    rng = np.random.default_rng(0)
    return [
        graph
        for _, concrete in spellings(rule, rng)
        for graph, _ in islice(build(concrete, rule.examples, rng), 2)
    ]


def _retyped(type: TensorType, dtype: DType) -> TensorType:
    return TensorType(dtype, type.shape) if type.dtype == dtypes.float32 else type


def _constant_like(g: NetworkBuilder, value: Value, dtype: DType) -> Value:
    """A constant of a fragment, now and then another one."""
    assert value.const is not None
    array = value.const.astype(dtype.numpy) if value.dtype == dtypes.float32 else value.const
    if g.chance(0.03):
        array = np.asarray(array + array.dtype.type(1)) if array.dtype.kind in "fi" else array
    return constant(array, "", dtypes.by_numpy(array.dtype))


# -- all ways --------------------------------------------------------------------------------------

ELEMENTWISE: tuple[Generator, ...] = (
    unary,
    unary,
    binary,
    binary,
    where,
    neutral,
    neutral,
    cast,
    repeated,
)
SINGLE: tuple[Generator, ...] = (
    *ELEMENTWISE,
    movement,
    movement,
    reduce,
    line,
    product,
    sizes,
    fragment,
    sampled,
)
STRAIGHT: tuple[Generator, ...] = (
    *SINGLE,
    *ELEMENTWISE[:6],
    movement,
    movement,
    movement,
    reduce,
    product,
    image,
    sizes,
    sizes,
    fragment,
    fragment,
    fragment,
    fragment,
    fragment,
    sampled,
    sampled,
    sampled,
)
"""All ways without control flow."""
WAYS: tuple[Generator, ...] = (*STRAIGHT, *control_flow((*SINGLE, *control_flow(SINGLE))))
