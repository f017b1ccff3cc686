"""Operators on elements: functions, arithmetic, comparisons, activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, front, operator
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.semantics import arithmetic

_SINGLE: Final = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "bitwise_not": "BitwiseNot", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "isinf": "IsInf",
    "isnan": "IsNaN", "log": "Log", "logical_not": "Not", "reciprocal": "Reciprocal",
    "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_PAIRS: Final = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "maximum": "Max",
    "minimum": "Min", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "logical_and": "And",
    "logical_or": "Or", "logical_xor": "Xor", "equal": "Equal", "less_than": "Less",
    "less_equal": "LessOrEqual", "greater_than": "Greater", "greater_equal": "GreaterOrEqual",
}  # fmt: skip
_ON_TRUTH: Final = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


def in_floats(call: PaddleCall, function: Callable[..., Value], *operands: Value) -> Value:
    """What a function makes of numbers, in floats of as many bits where they are integers of 32 or
    64, as Paddle's kernels do; what leaves the type is the least integer.
    """
    g, dtype = call.g, operands[0].dtype
    wide = {"int32": dtypes.float32, "int64": dtypes.float64}.get(dtype.name)
    if wide is None:
        return function(*operands)
    return g.cast(function(*(g.cast(value, wide) for value in operands)), dtype)


def pair(call: PaddleCall) -> tuple[Value, Value]:
    """Both operands; where `axis` says so, the second stands in the middle of the first's axes."""
    x, y = call("x"), call("y")
    axis = int(call.attribute("axis", -1))
    if axis != -1 and x.rank > y.rank:
        behind = x.rank - front(axis, x.rank) - y.rank
        if behind < 0:
            raise ModelFileError(f"its second operand does not fit axis {axis}")
        if behind:
            axes = call.g.ints(*range(y.rank, y.rank + behind))
            y = call.g("Unsqueeze", y, axes)
    return x, y


def _single(name: str, kind: str) -> None:
    @operator(name)
    def build(call: PaddleCall) -> Value:
        x = call("x")
        if kind == "BitwiseNot" and x.dtype.is_bool:
            return call.g("Not", x)
        if kind in ("IsInf", "IsNaN", "Floor", "Ceil") and not x.dtype.is_float:
            return x if kind in ("Floor", "Ceil") else call.g("Not", call.g("Equal", x, x))
        return call.g(kind, x)


def _pair(name: str, kind: str) -> None:
    @operator(name)
    def build(call: PaddleCall) -> Value:
        x, y = pair(call)
        if x.dtype.is_bool and kind in _ON_TRUTH:
            return call.g(_ON_TRUTH[kind], x, y)
        return call.g(kind, x, y)


for _name, _kind in _SINGLE.items():
    _single(_name, _kind)
for _name, _kind in _PAIRS.items():
    _pair(_name, _kind)


def _exact(name: str, function: Callable[[Importer, Value], Value]) -> None:
    @operator(name)
    def build(call: PaddleCall) -> Value:
        x = call("x")
        dtype = dtypes.float32 if x.dtype.is_integer else x.dtype
        return call.g.cast(function(call.g, arithmetic.wide(call.g, x)), dtype)


_exact("expm1", arithmetic.expm1)
_exact("log1p", arithmetic.log1p)
_exact("log2", lambda g, x: g("Mul", g("Log", x), 1 / math.log(2)))
_exact("log10", lambda g, x: g("Mul", g("Log", x), 1 / math.log(10)))


def _plain(name: str, function: Callable[[Importer, Value], Value]) -> None:
    operator(name)(lambda call: function(call.g, call("x")))


_plain("square", lambda g, x: g("Mul", x, x))
_plain("rsqrt", lambda g, x: g("Reciprocal", g("Sqrt", x)))
_plain("tanh_shrink", lambda g, x: g("Sub", x, g("Tanh", x)))


operator("assign", "share_data")(lambda call: call("x"))
operator("not_equal")(lambda call: call.g("Not", call.g("Equal", *pair(call))))
operator("floor_divide")(lambda call: arithmetic.floor_quotient(call.g, *pair(call)))
operator("remainder")(lambda call: arithmetic.floor_mod(call.g, *pair(call)))
operator("where")(lambda call: call.g("Where", call("condition"), call("x"), call("y")))
operator("atan2")(lambda call: arithmetic.atan2(call.g, call("x"), call("y")))


@operator("equal_all")
def equal_all(call: PaddleCall) -> Value:
    """Whether all elements are equal; operands have one shape."""
    same = call.g.cast(call.g("Equal", call("x"), call("y")), dtypes.int32)
    return call.g.cast(call.g("ReduceMin", same, None, keepdims=0), dtypes.bool_)


@operator("fmax", "fmin")
def fmax(call: PaddleCall) -> Value:
    """The larger or the smaller element, where one of them is no number the other; Paddle makes
    floats of integers.
    """
    g, (x, y) = call.g, pair(call)
    kind = "Max" if call.operator.name == "fmax" else "Min"
    if not x.dtype.is_float:
        return in_floats(call, lambda x, y: g(kind, x, y), x, y)
    return arithmetic.number_of_two(g, kind, x, y)


@operator("elementwise_pow")
def elementwise_pow(call: PaddleCall) -> Value:
    """A power; Paddle makes float64 of integers, and 0 of 0 to a negative power."""
    g, (x, y) = call.g, pair(call)
    if x.dtype.is_float:
        return g("Pow", x, y)
    zero = g.number(0, x.dtype)
    power = g("Round", g("Pow", *(g.cast(v, dtypes.float64) for v in (x, y))))
    nothing = g("And", g("Equal", x, zero), g("Less", y, zero))
    return g("Where", nothing, zero, g.cast(power, x.dtype))


@operator("logsigmoid")
def logsigmoid(call: PaddleCall) -> Value:
    """Log of the sigmoid, in Paddle NaN of -∞."""
    g, x = call.g, call("x")
    y = g("Neg", g("Softplus", g("Neg", x)))
    infinite = g("Equal", x, g.number(-math.inf, x.dtype))
    return g("Where", infinite, g.number(math.nan, x.dtype), y)


@operator("pow")
def pow_(call: PaddleCall) -> Value:
    """A power whose exponent is a number."""
    x = call("x")
    return call.g("Pow", x, call.g.number(call.number("y", 1.0), x.dtype))


@operator("lerp")
def lerp(call: PaddleCall) -> Value:
    """A place between two elements."""
    g, x = call.g, call("x")
    return g("Add", x, g("Mul", call("weight"), g("Sub", call("y"), x)))


@operator("scale")
def scale(call: PaddleCall) -> Value:
    """X · scale + bias, or (x + bias) · scale; both in the type of x."""
    g, x = call.g, call("x")
    factor = call("scale") if call.has("scale") else None
    number = call.attribute("scale", 1.0)
    bias, after = call.attribute("bias", 0.0), call.attribute("bias_after_scale", True)
    times = g.number(number, x.dtype) if factor is None else _scalar(call, factor, x)
    plus = g.number(bias, x.dtype)
    plain = times.const is not None and bool((times.const == 1).all())
    if not after:
        x = g("Add", x, plus) if bias else x
    x = x if plain else g("Mul", x, times)
    return g("Add", x, plus) if after and bias else x


def _scalar(call: PaddleCall, factor: Value, x: Value) -> Value:
    if factor.const is not None and factor.const.size == 1:
        return call.g.number(factor.const.reshape(-1)[0], x.dtype)
    return call.g("Reshape", call.g.cast(factor, x.dtype), call.g.ints())


@operator("cast")
def cast(call: PaddleCall) -> Value:
    """Elements in another type."""
    dtype = call.dtype()
    if dtype is None:
        raise ModelFileError("it names no element type")
    return call.g.cast(call("x"), dtype)


@operator("clip")
def clip(call: PaddleCall) -> Value:
    """Elements within limits."""
    x = call("x")
    return call.g("Clip", x, *(_limit(call, name, x) for name in ("min", "max")))


def _limit(call: PaddleCall, name: str, x: Value) -> Value:
    if call.has(name):
        call.attribute(name)
        return _scalar(call, call(name), x)
    number = float(call.attribute(name, -math.inf if name == "min" else math.inf))
    if x.dtype.is_integer:
        info = _range(x)
        number = min(max(number, info[0]), info[1])
    return call.g.number(number, x.dtype)


def _range(x: Value) -> tuple[int, int]:
    """The least and the largest element of an integer type."""
    info = np.iinfo(x.dtype.numpy)
    return int(info.min), int(info.max)


@operator("increment")
def increment(call: PaddleCall) -> Value:
    """X plus a number."""
    x = call("x")
    return call.g("Add", x, call.g.number(call.number("value", 1.0), x.dtype))


@operator("dropout")
def dropout(call: PaddleCall) -> Value:
    """What it is at inference: the operand, or the part of it that is not dropped."""
    if not call.attribute("is_test", False):
        raise call.unsupported("dropout as in training")
    p, mode = call.number("p", 0.5), call.attribute("mode", "downgrade_in_infer")
    if mode == "upscale_in_train":
        return call("x")
    x = call("x")
    return call.g("Mul", x, call.g.number(1 - p, x.dtype))


@operator("isfinite")
def isfinite(call: PaddleCall) -> Value:
    """Whether elements are numbers and not infinite."""
    g, x = call.g, call("x")
    if not x.dtype.is_float:
        return g("Equal", x, x)
    return g("Not", g("Or", g("IsNaN", x), g("IsInf", x)))


@operator("trunc")
def trunc(call: PaddleCall) -> Value:
    """Elements without what is behind the point; Paddle makes float64 of integers."""
    g, x = call.g, call("input")
    if x.dtype.is_float:
        return g("Mul", g("Sign", x), g("Floor", g("Abs", x)))
    return g.cast(g.cast(x, dtypes.float64), x.dtype) if x.dtype.bits == 64 else x


@operator("round")
def round_(call: PaddleCall) -> Value:
    """The next whole number, of two the even one; before PIR the one away from zero."""
    x = call("x")
    call.require("decimals", 0)
    if call.attribute("half", "even") == "away" or not x.dtype.is_float:
        return away(call.g, x)
    return call.g("Round", x)


def away(g: Importer, x: Value) -> Value:
    """The next whole number, of two the one away from zero."""
    if not x.dtype.is_float:
        return x
    whole = g("Floor", g("Abs", x))
    up = g("GreaterOrEqual", g("Sub", g("Abs", x), whole), 0.5)
    return g("Mul", g("Sign", x), g("Add", whole, g.cast(up, x.dtype)))


operator("add_n")(lambda call: arithmetic.summed(call.g, call.tensors("inputs")))
