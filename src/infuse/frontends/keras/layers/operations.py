"""Operations of `keras.ops` in a model: their options stand in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer, promoted
from infuse.ir.graph import Value
from infuse.tracing.axes import axes_of
from infuse.tracing.calls import words
from infuse.tracing.semantics import arithmetic, ordering
from infuse.tracing.semantics.activations import FUNCTIONS

Operation = Callable[..., Any]
OPERATIONS: Final[dict[str, Operation]] = {}
"""By class: functions of the call, the operands, and the fields of the configuration."""


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Register what builds operations of these classes."""

    def register(function: Operation) -> Operation:
        for name in names:
            assert name not in OPERATIONS, f"{name} has two entries"
            OPERATIONS[name] = function
            layer(f"ops.{name}")(_registered(function))
        return function

    return register


def _registered(function: Operation) -> Operation:
    def build(call: KerasCall, *args: Any, **kwargs: Any) -> Any:
        fields = {k: v for k, v in call.config.fields.items() if k not in ("name", "dtype")}
        if "dtype" in call.config and "name" in call.config and function in TYPED:
            fields["dtype"] = call.config.get("dtype")
        return function(call, *args, **{**fields, **kwargs})

    return build


TYPED: Final[set[Operation]] = set()
"""Those whose field `dtype` is an option of theirs."""


def tensor(call: KerasCall, value: Any, dtype: Any = None) -> Value:
    """An operand as a value: a tensor, or numbers of Python in a type that goes with others."""
    if isinstance(value, Value):
        return value if dtype is None else call.g.cast(value, dtype)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ModelFileError(f"{str(value)[:60]!r} is not a tensor")
    if dtype is None:
        kinds = {"b": dtypes.bool_, "f": dtypes.float32}
        dtype = kinds.get(array.dtype.kind, dtypes.int32)
    return call.g.constant(array.astype(dtype.numpy))


def together(call: KerasCall, *values: Any) -> list[Value]:
    """Operands in one element type."""
    plain = [v.item() if isinstance(v, np.ndarray) and v.ndim == 0 else v for v in values]
    listed = [v if not isinstance(v, (list, np.ndarray)) else tensor(call, v) for v in plain]
    dtype = promoted(*listed)
    return [tensor(call, value, dtype) for value in listed]


def real(call: KerasCall, value: Any) -> Value:
    """An operand as floats."""
    x = tensor(call, value)
    return x if x.dtype.is_float else call.g.cast(x, dtypes.float32)


# -- every element by itself -----------------------------------------------------------------------


def _unary(kind: str, floats: bool = True) -> Operation:
    def build(call: KerasCall, x: Any) -> Value:
        return call.g(kind, real(call, x) if floats else tensor(call, x))

    return build


_FLOATS: Final = words(
    """Exp Log Sqrt Sin Cos Tan Sinh Cosh Tanh Erf Reciprocal Sigmoid Softplus Softsign Selu"""
)
for _name in _FLOATS:
    operation(_name)(_unary(_name))
for _name, _kind in (
    ("Arccos", "Acos"),
    ("Arcsin", "Asin"),
    ("Arctan", "Atan"),
    ("Silu", "Swish"),
    ("Arccosh", "Acosh"),
    ("Arcsinh", "Asinh"),
    ("Arctanh", "Atanh"),
):
    operation(_name)(_unary(_kind))
for _name, _kind in (
    ("Absolute", "Abs"),
    ("Abs", "Abs"),
    ("Negative", "Neg"),
    ("Sign", "Sign"),
    ("Relu", "Relu"),
    ("Isnan", "IsNaN"),
    ("Isinf", "IsInf"),
):
    operation(_name)(_unary(_kind, floats=False))
for _name in ("Floor", "Ceil"):
    operation(_name)(_unary(_name))


@operation("Round")
def rounded(call: KerasCall, x: Any, decimals: int = 0) -> Value:
    """Whole numbers, halves to even ones."""
    if decimals:
        raise call.unsupported(f"decimals = {decimals}")
    value = tensor(call, x)
    return value if value.dtype.is_integer else call.g("Round", real(call, value))


def _named(name: str) -> Operation:
    def build(call: KerasCall, x: Any, **options: Any) -> Value:
        return FUNCTIONS[name](call.g, real(call, x), **options)

    return build


for _name, _kind in (
    ("LeakyRelu", "leaky_relu"),
    ("Elu", "elu"),
    ("Celu", "celu"),
    ("Gelu", "gelu"),
    ("Glu", "glu"),
    ("HardSigmoid", "hard_sigmoid"),
    ("Softmax", "softmax"),
    ("HardSilu", "hard_silu"),
    ("HardTanh", "hard_tanh"),
    ("HardShrink", "hard_shrink"),
    ("SoftShrink", "soft_shrink"),
    ("TanhShrink", "tanh_shrink"),
    ("Threshold", "threshold"),
    ("LogSigmoid", "log_sigmoid"),
    ("LogSoftmax", "log_softmax"),
    ("Sparsemax", "sparsemax"),
    ("SparsePlus", "sparse_plus"),
    ("SparseSigmoid", "sparse_sigmoid"),
    ("Squareplus", "squareplus"),
):
    operation(_name)(_named(_kind))


operation("Relu6")(lambda call, x: FUNCTIONS["relu6"](call.g, tensor(call, x)))
operation("NotEqual")(lambda call, x1, x2: call.g("Not", call.g("Equal", *together(call, x1, x2))))
operation("Mod")(lambda call, x1, x2: arithmetic.floor_mod(call.g, *together(call, x1, x2)))
operation("Rsqrt")(lambda call, x: call.g("Reciprocal", call.g("Sqrt", real(call, x))))
operation("StopGradient", "Copy", "ConvertToTensor")(lambda call, x, **_: tensor(call, x))
operation("Matmul")(lambda call, x1, x2: call.g("MatMul", *_factors(call, x1, x2)))


def _binary(kind: str, floats: bool = False) -> Operation:
    def build(call: KerasCall, x1: Any, x2: Any) -> Value:
        a, b = together(call, x1, x2)
        if floats:
            a, b = real(call, a), real(call, b)
        return call.g(kind, a, b)

    return build


for _name, _kind in (
    ("Add", "Add"),
    ("Subtract", "Sub"),
    ("Multiply", "Mul"),
    ("Maximum", "Max"),
    ("Minimum", "Min"),
    ("Power", "Pow"),
    ("Equal", "Equal"),
    ("Greater", "Greater"),
    ("GreaterEqual", "GreaterOrEqual"),
    ("Less", "Less"),
    ("LessEqual", "LessOrEqual"),
):
    operation(_name)(_binary(_kind))
for _name in ("Divide", "TrueDivide"):
    operation(_name)(_binary("Div", floats=True))


@operation("FloorDivide")
def floor_divide(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The quotient, rounded down."""
    a, b = together(call, x1, x2)
    if a.dtype.is_integer:
        return arithmetic.floor_quotient(call.g, a, b)
    return call.g("Floor", call.g("Div", real(call, a), real(call, b)))


def _logical(kind: str) -> Operation:
    def build(call: KerasCall, *xs: Any) -> Value:
        return call.g(kind, *(call.boolean(tensor(call, x)) for x in xs))

    return build


for _name, _kind in (("And", "And"), ("Or", "Or"), ("Not", "Not"), ("Xor", "Xor")):
    operation(f"Logical{_name}")(_logical(_kind))


@operation("Square")
def square(call: KerasCall, x: Any) -> Value:
    """x²."""
    value = tensor(call, x)
    return call.g("Mul", value, value)


@operation("Log1p")
def log1p(call: KerasCall, x: Any) -> Value:
    """log(1 + x)."""
    value = real(call, x)
    return call.g.cast(arithmetic.log1p(call.g, arithmetic.wide(call.g, value)), value.dtype)


@operation("Expm1")
def expm1(call: KerasCall, x: Any) -> Value:
    """eˣ - 1."""
    value = real(call, x)
    return call.g.cast(arithmetic.expm1(call.g, arithmetic.wide(call.g, value)), value.dtype)


@operation("Clip")
def clip(call: KerasCall, x: Any, x_min: Any, x_max: Any) -> Value:
    """Elements between two limits."""
    value, low, high = together(call, x, x_min, x_max)
    return call.g("Clip", value, low, high)


@operation("Where")
def where(call: KerasCall, condition: Any, x1: Any = None, x2: Any = None) -> Value:
    """Elements of one operand or the other."""
    if x1 is None or x2 is None:
        raise call.unsupported("places where a condition is true")
    return call.g("Where", call.boolean(tensor(call, condition)), *together(call, x1, x2))


@operation("Cast")
def cast(call: KerasCall, x: Any, dtype: str) -> Value:
    """Elements of another type."""
    return call.g.cast(tensor(call, x), dtypes.by_name(dtype))


TYPED.add(cast)


@operation("OnesLike", "ZerosLike")
def like(call: KerasCall, x: Any, **_: Any) -> Value:
    """Ones or zeros of the shape of a tensor."""
    value = tensor(call, x)
    number = int(call.layer.kind == "ops.OnesLike")
    return call.g("Expand", call.number(number, value), call.g("Shape", value))


# -- reductions ------------------------------------------------------------------------------------


def _reduction(kind: str, floats: bool = False) -> Operation:
    def build(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False, **options: Any
              ) -> Value:  # fmt: skip
        value = real(call, x) if floats else tensor(call, x)
        if options.get("initial") is not None:
            raise call.unsupported("an initial value")
        return call.reduced(kind, value, axes_of(axis, value.rank), keepdims)

    return build


def _accumulated(kind: str) -> Operation:
    reduce = _reduction(kind)

    def build(call: KerasCall, x: Any, **options: Any) -> Value:
        return reduce(call, wider(call, tensor(call, x)), **options)  # type: ignore[no-any-return]

    return build


def wider(call: KerasCall, x: Value) -> Value:
    """Short integers and truth as Keras adds and multiplies them, in 32 bits."""
    if x.dtype.is_bool or (x.dtype.is_integer and x.dtype.bits < 32):
        signed = x.dtype.is_bool or x.dtype.is_signed
        return call.g.cast(x, dtypes.int32 if signed else dtypes.uint32)
    return x


for _name in ("Max", "Min"):
    operation(_name, f"A{_name.lower()}")(_reduction(f"Reduce{_name}"))
for _name, _kind in (("Sum", "ReduceSum"), ("Prod", "ReduceProd")):
    operation(_name)(_accumulated(_kind))
operation("Mean")(_reduction("ReduceMean", floats=True))
operation("Logsumexp")(_reduction("ReduceLogSumExp", floats=True))


@operation("Var", "Std")
def variance(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
    """The mean square distance from the mean, or its root."""
    g, value = call.g, real(call, x)
    axes = axes_of(axis, value.rank)
    apart = g("Sub", value, call.reduced("ReduceMean", value, axes, True))
    y = call.reduced("ReduceMean", g("Mul", apart, apart), axes, keepdims)
    return g("Sqrt", y) if call.layer.kind == "ops.Std" else y


@operation("Any", "All")
def any_or_all(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
    """Whether some or all elements are true."""
    kind = "ReduceMax" if call.layer.kind == "ops.Any" else "ReduceMin"
    value = call.g.cast(call.boolean(tensor(call, x)), dtypes.uint8)
    return call.boolean(call.reduced(kind, value, axes_of(axis, value.rank), keepdims))


def place(call: KerasCall, value: Value, kind: str, axis: int | None, keepdims: bool) -> Value:
    """The place of the largest or smallest number (ArgMax, ArgMin), int32; -0 is below 0."""
    g, rank = call.g, value.rank
    if axis is None:
        value = call.shaped(value, -1)
    if value.dtype.is_bool:
        value = g.cast(value, dtypes.uint8)
    if value.dtype.is_float:
        value = value if value.dtype.bits > 16 else g.cast(value, dtypes.float32)
        below = g.number(-np.finfo(value.dtype.numpy).tiny, value.dtype)
        zero = g("Equal", value, call.number(0, value))
        value = g("Where", g("And", zero, arithmetic.is_negative(g, value)), below, value)
        value = ordering.ranked(g, value, kind)
    y = g.cast(g(kind, value, axis=axis or 0, keepdims=int(keepdims)), dtypes.int32)
    return call.shaped(y, *[1] * rank) if axis is None and keepdims else y


@operation("Argmax", "Argmin")
def argmax(call: KerasCall, x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
    """The place of the largest or smallest number, int32."""
    kind = "ArgMax" if call.layer.kind == "ops.Argmax" else "ArgMin"
    return place(call, tensor(call, x), kind, axis, keepdims)


@operation("Cumsum")
def cumsum(call: KerasCall, x: Any, axis: int | None = None) -> Value:
    """Sums of all elements up to each."""
    value = tensor(call, x)
    value = wider(call, value) if value.dtype.is_bool else value
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    return call.g("CumSum", value, call.g.constant(np.int64(axis)))


@operation("Normalize")
def normalize(call: KerasCall, x: Any, axis: Any = -1, order: int = 2, epsilon: float | None = None
              ) -> Value:  # fmt: skip
    """Rows of length one."""
    g, value = call.g, real(call, x)
    if order != 2:
        raise call.unsupported(f"order = {order}")
    axes = axes_of(axis, value.rank)
    total = call.reduced("ReduceSum", g("Mul", value, value), axes, True)
    return g("Div", value, g("Sqrt", g("Max", total, (epsilon or 1e-7) ** 2)))


# -- products --------------------------------------------------------------------------------------


def _factors(call: KerasCall, *xs: Any) -> list[Value]:
    """Operands of a product in one type; bytes with signs are added up in 32 bits."""
    operands = together(call, *xs)
    if operands[0].dtype == dtypes.int8:
        return [call.g.cast(x, dtypes.int32) for x in operands]
    return operands


@operation("Einsum")
def einsum(call: KerasCall, *xs: Any, subscripts: str, **options: Any) -> Value:
    """A product by an equation."""
    return call.g("Einsum", *_factors(call, *xs), equation=subscripts.replace(" ", ""))


@operation("OneHot")
def one_hot(
    call: KerasCall,
    x: Any,
    num_classes: int,
    axis: int = -1,
    sparse: bool = False,
    dtype: Any = None,
) -> Value:
    """Rows with a one."""
    if sparse:
        raise call.unsupported("a sparse result")
    g, value = call.g, call.g.cast(tensor(call, x), dtypes.int64)
    rank = value.rank + 1
    ones = g("Equal", call.unsqueezed(value, -1), g.constant(np.arange(num_classes)))
    y = g.cast(ones, dtypes.by_name(dtype or "float32"))
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    return g.permute(y, *order)


TYPED.add(one_hot)
