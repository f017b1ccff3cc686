"""Numbers of programs: computed by Python where they are given, by nodes where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TABLE
from infuse.tracing.aten.scripting import ScriptImporter
from infuse.tracing.calls import words

_MOST: Final = 1 << 63
"""Whole numbers are below."""
_OPERATORS: Final = {
    "add": "_operator.add", "sub": "_operator.sub", "mul": "_operator.mul",
    "div": "_operator.truediv", "floordiv": "_operator.floordiv", "remainder": "_operator.mod",
    "pow": "_operator.pow", "neg": "_operator.neg", "abs": "_operator.abs",
    "eq": "_operator.eq", "ne": "_operator.ne", "lt": "_operator.lt", "le": "_operator.le",
    "gt": "_operator.gt", "ge": "_operator.ge", "__and__": "_operator.and_",
    "__or__": "_operator.or_", "__xor__": "_operator.xor", "__not__": "torch.sym_not",
    "ceil": "math.ceil", "floor": "math.floor", "trunc": "math.trunc", "sqrt": "math.sqrt",
    "min": "torch.sym_min", "max": "torch.sym_max", "round": "_operator.round",
}  # fmt: skip
"""Entries of the table that compute with numbers, by TorchScript's names."""
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(math, name) for name in words("""acos acosh asin asinh atan atan2 atanh
        cos cosh degrees erf erfc exp expm1 fabs factorial fmod gamma gcd hypot isfinite
        isinf isnan ldexp lgamma log log10 log1p log2 modf radians sin sinh tan tanh copysign""")},
    "__lshift__": lambda a, b: a << min(b, 64),
    "__rshift__": lambda a, b: a >> b,
    "logical_not": lambda a: not a,
}  # fmt: skip
"""Functions of numbers that have to be given."""
_COMPARISONS: Final[dict[str, Callable[[int], bool]]] = {
    "eq": lambda d: d == 0, "ne": lambda d: d != 0, "lt": lambda d: d < 0, "le": lambda d: d <= 0,
    "gt": lambda d: d > 0, "ge": lambda d: d >= 0,
}  # fmt: skip
NAMES: Final = frozenset([*_OPERATORS, *_FUNCTIONS])
"""Functions of numbers that are read."""


def is_number(value: Any) -> bool:
    """Whether a value is a number, given or computed."""
    return isinstance(value, (bool, int, float, complex, Value))


def settled(value: Any) -> Any:
    """A number as Python's where its value is certain."""
    if not isinstance(value, Value):
        return value
    if value.const is not None and value.const.size == 1:
        return value.const.reshape(-1)[0].item()
    content = known_ints(value)
    if content is not None and len(content) == 1 and isinstance(content[0], int):
        return bool(content[0]) if value.dtype.is_bool else content[0]
    return value


def calculate(g: ScriptImporter, name: str, operands: Sequence[Any]) -> Any:
    """A function of numbers; UnsupportedOperatorError where it is not known."""
    computed = [x for x in operands if isinstance(x, Value)]
    if computed and name in _COMPARISONS and len(operands) == 2:
        sure = _compared(name, operands)
        if sure is not None:
            return sure
    if name in _FUNCTIONS and not computed:
        return checked(_FUNCTIONS[name](*operands))
    target = _OPERATORS.get(name)
    if target is None:
        raise UnsupportedOperatorError(f"{name} of computed numbers is not supported")
    if name == "pow" and not computed:
        _check_power(*operands)
    rounded = name in ("ceil", "floor", "trunc") and isinstance(operands[0], float)
    if rounded and not math.isfinite(operands[0]):
        raise ModelFileError(f"{name} of {operands[0]} has no value")
    if name == "round" and not computed:
        return float(round(*operands)) if len(operands) == 1 else round(*operands)
    if name.startswith("__") and computed and not all(_is_truth(x) for x in operands):
        raise UnsupportedOperatorError(f"{name} of computed whole numbers is not supported")
    return settled(checked(TABLE[target](g, *operands)))


def _is_truth(x: Any) -> bool:
    return x.dtype.is_bool if isinstance(x, Value) else isinstance(x, bool)


def _check_power(base: Any, exponent: Any) -> None:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and exponent * math.log2(abs(base)) > 64:
        raise ModelFileError("a power is too large for a whole number")


def checked(value: Any) -> Any:
    """A result; ModelFileError for a whole number of more than 64 bits."""
    if isinstance(value, int) and not -_MOST <= value < _MOST:
        raise ModelFileError("a whole number has more than 64 bits")
    return value


def _compared(name: str, operands: Sequence[Any]) -> bool | None:
    """What a comparison of sizes is where that is certain."""
    pair = [_size(x) for x in operands]
    if pair[0] is None or pair[1] is None:
        return None
    apart = pair[0] - pair[1]
    return _COMPARISONS[name](apart) if isinstance(apart, int) else None


def _size(x: Any) -> Dim | None:
    if type(x) is int:
        return x
    content = known_ints(x) if isinstance(x, Value) and x.dtype.is_integer else None
    return content[0] if content is not None and len(content) == 1 else None


def as_bool(g: ScriptImporter, x: Any) -> Any:
    """A number as a truth value."""
    if not isinstance(x, Value):
        return bool(x)
    return settled(x if x.dtype.is_bool else g.cast(x, dtypes.bool_))


def as_int(g: ScriptImporter, x: Any) -> Any:
    """A number as a whole number, without what stands behind the point."""
    if not isinstance(x, Value):
        return checked(int(x))
    return settled(x if x.dtype == dtypes.int64 else TABLE["torch.sym_int"](g, x))


def as_float(g: ScriptImporter, x: Any) -> Any:
    """A number as a float."""
    if not isinstance(x, Value):
        return float(x)
    return settled(g.cast(x, dtypes.float64))
