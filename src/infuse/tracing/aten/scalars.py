"""Numbers that programs compute: Python's operators, and torch's functions of symbolic numbers.

A number is a Python number, or where nodes compute it a scalar: int64, float64 or a truth value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of
from infuse.tracing.aten.pointwise import truncated
from infuse.tracing.semantics.arithmetic import floor_quotient

_ARITHMETIC: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "add": (operator.add, "Add"),
    "sub": (operator.sub, "Sub"),
    "mul": (operator.mul, "Mul"),
}
_COMPARED: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "eq": (operator.eq, "Equal"),
    "lt": (operator.lt, "Less"),
    "le": (operator.le, "LessOrEqual"),
    "gt": (operator.gt, "Greater"),
    "ge": (operator.ge, "GreaterOrEqual"),
}
_TRUTHS: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "and_": (operator.and_, "And"),
    "or_": (operator.or_, "Or"),
    "xor": (operator.xor, "Xor"),
}


def _dtype(*numbers: Any) -> Any:
    """Float64 where one of them is a float, else int64."""
    floats = (n.dtype.is_float if isinstance(n, Value) else isinstance(n, float) for n in numbers)
    return dtypes.float64 if any(floats) else dtypes.int64


def _numbers(g: TorchImporter, *numbers: Any, dtype: Any = None) -> list[Value]:
    dtype = dtype or _dtype(*numbers)
    return [g.tensor(n, dtype) for n in numbers]


def _computed(*numbers: Any) -> bool:
    return any(isinstance(n, Value) for n in numbers)


def _binary(function: Callable[[Any, Any], Any], kind: str, truths: bool = False) -> Any:
    def build(g: TorchImporter, a: Any, b: Any) -> Any:
        if not _computed(a, b):
            return function(a, b)
        return g(kind, *_numbers(g, a, b, dtype=dtypes.bool_ if truths else None))

    return build


for _name, (_function, _kind) in {**_ARITHMETIC, **_COMPARED}.items():
    aten(_name, space="_operator")(_binary(_function, _kind))
for _name, (_function, _kind) in _TRUTHS.items():
    aten(_name, space="_operator")(_binary(_function, _kind, truths=True))
aten("sym_max", space="torch")(_binary(max, "Max"))
aten("sym_min", space="torch")(_binary(min, "Min"))


@aten("ne", space="_operator")
def ne(g: TorchImporter, a: Any, b: Any) -> Any:
    """Whether two numbers differ."""
    return g("Not", g("Equal", *_numbers(g, a, b))) if _computed(a, b) else a != b


def _not_negative(*numbers: Any) -> bool:
    """Whether numbers are certainly 0 or more."""
    for number in numbers:
        content = known_ints(number) if isinstance(number, Value) else (number,)
        if content is None or not all(dims.is_nonnegative(n) for n in content):
            return False
    return True


@aten("floordiv", space="_operator")
def floordiv(g: TorchImporter, a: Any, b: Any) -> Any:
    """The quotient rounded down."""
    if not _computed(a, b):
        return a // b
    if _dtype(a, b) == dtypes.int64 and _not_negative(a, b):
        return g("Div", *_numbers(g, a, b))
    return floor_quotient(g, *_numbers(g, a, b))


@aten("truediv", space="_operator")
def truediv(g: TorchImporter, a: Any, b: Any) -> Any:
    """The quotient."""
    return g("Div", *_numbers(g, a, b, dtype=dtypes.float64)) if _computed(a, b) else a / b


@aten("mod", space="_operator")
def mod(g: TorchImporter, a: Any, b: Any) -> Any:
    """What is left of the quotient rounded down."""
    return g("Mod", *_numbers(g, a, b)) if _computed(a, b) else a % b


@aten("pow", "pow_by_natural", space="_operator")
def power(g: TorchImporter, a: Any, b: Any) -> Any:
    """A to the power b."""
    return g("Pow", *_numbers(g, a, b)) if _computed(a, b) else a**b


aten("neg", space="_operator")(lambda g, a: g("Neg", a) if isinstance(a, Value) else -a)
aten("pos", space="_operator")(lambda g, a: a)
aten("abs", space="_operator")(lambda g, a: g("Abs", a) if isinstance(a, Value) else abs(a))
aten("sym_not", space="torch")(lambda g, a: g("Not", a) if isinstance(a, Value) else not a)
aten("sym_size.int", "size.int")(lambda g, x, dim: g.size_of(x, axis_of(dim, x.rank)))


@aten("sym_float", space="torch")
def sym_float(g: TorchImporter, a: Any) -> Any:
    """A number as a float."""
    return g.cast(a, dtypes.float64) if isinstance(a, Value) else float(a)


@aten("sym_int", space="torch")
def sym_int(g: TorchImporter, a: Any) -> Any:
    """A number without what stands behind the point."""
    return g.cast(truncated(g, a), dtypes.int64) if isinstance(a, Value) else int(a)


@aten("sym_ite", space="torch")
def sym_ite(g: TorchImporter, condition: Any, a: Any, b: Any) -> Any:
    """One of two numbers."""
    if not isinstance(condition, Value):
        return a if condition else b
    return g("Where", condition, *_numbers(g, a, b))


@aten("sym_sum", space="torch")
def sym_sum(g: TorchImporter, numbers: Sequence[Any]) -> Any:
    """The sum of numbers."""
    total: Any = 0
    for number in numbers:
        total = (
            g("Add", *_numbers(g, total, number)) if _computed(total, number) else (total + number)
        )
    return total


def _rounded(function: Callable[[Any], Any], kind: str) -> Any:
    def build(g: TorchImporter, a: Any) -> Any:
        if not isinstance(a, Value):
            return function(a)
        return g.cast(g(kind, a), dtypes.int64) if a.dtype.is_float else a

    return build


aten("ceil", space="math")(_rounded(math.ceil, "Ceil"))
aten("floor", space="math")(_rounded(math.floor, "Floor"))
aten("round", space="_operator")(_rounded(round, "Round"))


@aten("_sym_sqrt", "sym_sqrt", space="torch")
def sym_sqrt(g: TorchImporter, a: Any) -> Any:
    """The root."""
    return g("Sqrt", g.cast(a, dtypes.float64)) if isinstance(a, Value) else math.sqrt(a)


aten("sqrt", space="math")(sym_sqrt)


# -- sizes of tensors ------------------------------------------------------------------------------


@aten("sym_numel", "numel")
def sym_numel(g: TorchImporter, x: Value) -> Any:
    """The number of elements of a tensor."""
    total: Any = 1
    for size in g.sizes_of(x):
        total = g.calculated("Mul", total, size)
    return total


@aten("item", "_local_scalar_dense")
def item(g: TorchImporter, x: Value) -> Value:
    """The only element of a tensor, as a number."""
    dtype = x.dtype
    wide = dtypes.bool_ if dtype.is_bool else dtypes.float64 if dtype.is_float else dtypes.int64
    return g.cast(g.shaped(x), wide)


aten("trunc", space="math")(sym_int)
