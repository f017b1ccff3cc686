"""Operators that compute every element by itself."""

from __future__ import annotations

from typing import Any

from infuse import dtypes
from infuse.frontends.torch.calls import TorchImporter, aten
from infuse.ir.graph import Value

_UNARY = {
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal",
    "erf": "Erf", "sigmoid": "Sigmoid",
}  # fmt: skip
_SAME = {
    "neg": "Neg", "abs": "Abs", "relu": "Relu", "sign": "Sign", "bitwise_not": "BitwiseNot",
}  # fmt: skip
_COMPARED = {
    "eq": "Equal",
    "lt": "Less",
    "gt": "Greater",
    "le": "LessOrEqual",
    "ge": "GreaterOrEqual",
}
_ARITHMETIC = {"mul": "Mul", "maximum": "Max", "minimum": "Min"}


def _floating(kind: str) -> Any:
    def build(g: TorchImporter, x: Value) -> Value:
        return g(kind, g.cast(x, g.dtype))

    return build


def _same(kind: str) -> Any:
    return lambda g, x: g(kind, x)


def _compared(kind: str) -> Any:
    return lambda g, x, other: g(kind, *g.tensors(x, other))


def _arithmetic(kind: str) -> Any:
    return lambda g, x, other: g(kind, *g.tensors(x, other, dtype=g.dtype))


for _name, _kind in _UNARY.items():
    aten(_name)(_floating(_kind))
for _name, _kind in _SAME.items():
    aten(_name)(_same(_kind))
for _name, _kind in _COMPARED.items():
    aten(_name)(_compared(_kind))
for _name, _kind in _ARITHMETIC.items():
    aten(_name)(_arithmetic(_kind))


@aten("add")
def add(g: TorchImporter, x: Any, other: Any, *, alpha: Any = 1) -> Value:
    """X + alpha · other."""
    a, b = g.tensors(x, other, dtype=g.dtype)
    if g.dtype == dtypes.bool_:
        return g("Or", a, b)
    return g("Add", a, b if alpha == 1 else g("Mul", b, alpha))


@aten("sub")
def sub(g: TorchImporter, x: Any, other: Any, *, alpha: Any = 1) -> Value:
    """X - alpha · other."""
    a, b = g.tensors(x, other, dtype=g.dtype)
    return g("Sub", a, b if alpha == 1 else g("Mul", b, alpha))


@aten("div.Tensor", "div.Scalar", "true_divide")
def div(g: TorchImporter, x: Any, other: Any) -> Value:
    """The quotient; of integers a float."""
    return g("Div", *g.tensors(x, other, dtype=g.dtype))


@aten("gelu")
def gelu(g: TorchImporter, x: Value, *, approximate: str = "none") -> Value:
    """The Gaussian error linear unit."""
    return g("Gelu", x, approximate=approximate)


@aten("hardtanh", "hardtanh_")
def hardtanh(g: TorchImporter, x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """X within two limits."""
    return g("Clip", x, *(g.number(limit, x.dtype) for limit in (min_val, max_val)))
