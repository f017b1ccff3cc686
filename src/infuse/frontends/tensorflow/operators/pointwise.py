"""Operators that compute every element by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.tensors import array_of
from infuse.ir.graph import Array, Value
from infuse.tracing.importer import Importer
from infuse.tracing.items import Complex, Item
from infuse.tracing.semantics import arithmetic, special

_SAME: Final = {
    "Acos": "Acos", "Acosh": "Acosh", "Asin": "Asin", "Asinh": "Asinh", "Atan": "Atan",
    "Atanh": "Atanh", "Cosh": "Cosh", "Erf": "Erf", "Exp": "Exp", "Inv": "Reciprocal",
    "Invert": "BitwiseNot", "IsInf": "IsInf", "IsNan": "IsNaN", "Log": "Log",
    "Reciprocal": "Reciprocal", "Rint": "Round", "Selu": "Selu", "Sigmoid": "Sigmoid",
    "Sinh": "Sinh", "Softplus": "Softplus", "Softsign": "Softsign", "Sqrt": "Sqrt", "Tan": "Tan",
    "Tanh": "Tanh",
}  # fmt: skip
_PAIRS: Final = {
    "Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Div": "Div",
    "Maximum": "Max", "Minimum": "Min", "Pow": "Pow", "Equal": "Equal", "Less": "Less",
    "Greater": "Greater", "LessEqual": "LessOrEqual", "GreaterEqual": "GreaterOrEqual",
    "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr",
}  # fmt: skip


def _same(kind: str) -> Callable[[FlowCall], Value]:
    return lambda call: call.g(kind, call.raw(0))


def _pair(kind: str) -> Callable[[FlowCall], Any]:
    def build(call: FlowCall) -> Any:
        if isinstance(call.item(0), Complex) or isinstance(call.item(1), Complex):
            return _complex_pair(call, kind)
        return call.g(kind, call.raw(0), call.raw(1))

    return build


for _name, _kind in _SAME.items():
    operator(_name)(_same(_kind))
for _name, _kind in _PAIRS.items():
    operator(_name)(_pair(_kind))
operator("NotEqual")(lambda call: call.g("Not", call.g("Equal", call.raw(0), call.raw(1))))
operator("Rsqrt")(lambda call: call.g("Reciprocal", call.g("Sqrt", call.raw(0))))


@operator("Gelu")
def gelu(call: FlowCall) -> Value:
    """The Gaussian error linear unit."""
    approximate = "tanh" if call.option("approximate", False) else "none"
    return call.g("Gelu", call.raw(0), approximate=approximate)


@operator("Identity", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot",
          "RefIdentity", "LoopCond", "EnsureShape", "PlaceholderWithDefault", "OptimizationBarrier",
          "_EagerConst")  # fmt: skip
def identity(call: FlowCall) -> Any:
    """The operand, of any kind."""
    return call.item(0)


operator("IdentityN")(lambda call: list(call.items))
operator("NoOp", "ControlTrigger", "Assert", "Print", "PrintV2")(lambda call: [])
operator("Mod", "TruncateMod")(lambda call: call.g("Mod", call.raw(0), call.raw(1), fmod=1))
operator("Complex")(lambda call: joined(call.g, call.raw(0), call.raw(1)))


@operator("Const", "HostConst")
def const(call: FlowCall) -> Item:
    """A constant, whose elements may lie in a file of weights."""
    weights = call.scope.model.weights
    message = call.option("value", None)
    name = call.node.name
    if weights is not None and name in weights:
        elements, dtype = weights[name], call.type("dtype")
        return call.g.constant(elements.astype(dtype.numpy, copy=False), name)
    if message is None:
        raise ModelFileError("it has no elements")
    return constant(call, array_of(message), name)


def constant(call: FlowCall, elements: Array, name: str) -> Item:
    """A constant of any kind."""
    if elements.dtype.kind != "c":
        return call.g.constant(elements, name)
    return Complex(call.g.constant(np.stack([elements.real, elements.imag], -1), name))


# -- functions that are put together ---------------------------------------------------------------


def _exact(function: Callable[[Importer, Value], Value]) -> Callable[[FlowCall], Value]:
    def build(call: FlowCall) -> Value:
        x = call.raw(0)
        return call.g.cast(function(call.g, arithmetic.wide(call.g, x)), x.dtype)

    return build


for _name, _function in {
    "Log1p": arithmetic.log1p, "Expm1": arithmetic.expm1, "Erfc": special.erfc
}.items():  # fmt: skip
    operator(_name)(_exact(_function))


@operator("Relu6")
def relu6(call: FlowCall) -> Value:
    """X between 0 and 6."""
    x = call.raw(0)
    return call.g("Clip", x, call.g.number(0, x.dtype), call.g.number(6, x.dtype))


@operator("LeakyRelu")
def leaky_relu(call: FlowCall) -> Value:
    """X, and alpha · x where x is negative."""
    return call.g("LeakyRelu", call.raw(0), alpha=float(call.option("alpha", 0.2)))


@operator("IsFinite")
def is_finite(call: FlowCall) -> Value:
    """Whether elements are numbers and not infinite."""
    g, x = call.g, call.raw(0)
    return g("Not", g("Or", g("IsInf", x), g("IsNaN", x)))


@operator("TruncateDiv")
def truncated_div(call: FlowCall) -> Value:
    """The quotient without its fraction; of integers it has none."""
    y = call.g("Div", call.raw(0), call.raw(1))
    return arithmetic.truncated(call.g, y) if y.dtype.is_float else y


def _guarded(
    build: Callable[[FlowCall, Value, Value], Value], index: int
) -> Callable[[FlowCall], Value]:
    """Zero where this operand is zero, whatever the other is."""

    def whole(call: FlowCall) -> Value:
        x, y = call.raw(0), call.raw(1)
        made = build(call, x, y)
        zero = call.g.number(0, x.dtype)
        return call.g("Where", call.g("Equal", (x, y)[index], zero), zero, made)

    return whole


operator("DivNoNan")(_guarded(lambda call, x, y: call.g("Div", x, y), 1))
operator("MulNoNan")(_guarded(lambda call, x, y: call.g("Mul", x, y), 1))
operator("Xdivy")(_guarded(lambda call, x, y: call.g("Div", x, y), 0))
operator("Xlogy")(_guarded(lambda call, x, y: call.g("Mul", x, call.g("Log", y)), 0))


def _xlog1py(call: FlowCall, x: Value, y: Value) -> Value:
    logarithm = arithmetic.log1p(call.g, arithmetic.wide(call.g, y))
    return call.g("Mul", x, call.g.cast(logarithm, x.dtype))


operator("Xlog1py")(_guarded(_xlog1py, 0))


@operator("ApproximateEqual")
def approximately(call: FlowCall) -> Value:
    """Whether elements differ by less than a tolerance."""
    g = call.g
    distance = g("Abs", g("Sub", call.raw(0), call.raw(1)))
    return g("Less", distance, float(call.option("tolerance", 1e-5)))


@operator("ClipByValue")
def clip(call: FlowCall) -> Value:
    """Elements between two limits."""
    g = call.g
    return g("Min", g("Max", call.raw(0), call.raw(1)), call.raw(2))


@operator("Cast")
def cast(call: FlowCall) -> Any:
    """Elements in another type; a float is cut off toward zero."""
    g, item = call.g, call.item(0)
    to = call.type("DstT")
    if isinstance(item, Complex):
        if to.name.startswith("complex"):
            return Complex(g.cast(item.parts, _part(to)))
        return g.cast(g("Gather", item.parts, g.constant(0), axis=-1), to)
    x = call.raw(0)
    if to.name.startswith("complex"):
        parts = g("Unsqueeze", g.cast(x, _part(to)), g.ints(-1))
        return Complex(g.pad(parts, x.rank, 0, 1))
    return g.cast(x, to)


def _part(dtype: DType) -> DType:
    return dtypes.float32 if dtype == dtypes.complex64 else dtypes.float64


# -- complex numbers -------------------------------------------------------------------------------


def _complex_pair(call: FlowCall, kind: str) -> Complex:
    g, (a, b) = call.g, (call.parts(0), call.parts(1))
    if kind in ("Add", "Sub"):
        return Complex(g(kind, *_of_one_rank(g, a, b)))
    if kind not in ("Mul", "Div"):
        raise call.unsupported(f"{kind} of complex numbers")
    (ax, ay), (bx, by) = (split(g, part) for part in (a, b))
    if kind == "Div":
        length = g("Add", g("Mul", bx, bx), g("Mul", by, by))
        bx, by = g("Div", bx, length), g("Neg", g("Div", by, length))
    real = g("Sub", g("Mul", ax, bx), g("Mul", ay, by))
    return joined(g, real, g("Add", g("Mul", ax, by), g("Mul", ay, bx)))


def _of_one_rank(g: Importer, a: Value, b: Value) -> list[Value]:
    rank = max(a.rank, b.rank)
    return [
        v if v.rank == rank else g("Unsqueeze", v, g.ints(*range(rank - v.rank))) for v in (a, b)
    ]


def split(g: Importer, parts: Value) -> list[Value]:
    """The real and imaginary parts of complex numbers."""
    return [g("Gather", parts, g.constant(np.array(i)), axis=parts.rank - 1) for i in (0, 1)]


def joined(g: Importer, real: Value, imaginary: Value) -> Complex:
    """Complex numbers of these parts."""
    if real.tensor.shape != imaginary.tensor.shape:
        shape = g("Shape", g("Add", real, imaginary))
        real, imaginary = (g("Expand", part, shape) for part in (real, imaginary))
    parts = [g("Unsqueeze", part, g.ints(-1)) for part in (real, imaginary)]
    return Complex(g("Concat", *parts, axis=-1))


@operator("Conj")
def conjugate(call: FlowCall) -> Any:
    """Complex numbers with the other sign of their imaginary parts."""
    if not isinstance(call.item(0), Complex):
        return call.raw(0)
    parts = call.parts(0)
    return Complex(call.g("Mul", parts, call.g.constant(np.array([1, -1], parts.dtype.numpy))))


@operator("Angle")
def angle(call: FlowCall) -> Value:
    """The angles of complex numbers."""
    real, imaginary = split(call.g, call.parts(0))
    return arithmetic.atan2(call.g, imaginary, real)
