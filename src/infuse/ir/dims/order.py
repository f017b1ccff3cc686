"""Comparison of dimensions, their extremes, and the size that two of them broadcast to."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache, reduce

from infuse.ir.dims.expression import Dim, Expr, function_of, is_nonnegative


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of two dimensions."""
    return _extreme("max", a, b)


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two dimensions."""
    return _extreme("min", a, b)


def _extreme(kind: str, a: Dim, b: Dim) -> Dim:
    """The extreme of two, as nested pairs of operands in order of their text; none makes another
    superfluous.
    """
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if kind == "max" else min(a, b)
    kept: list[Dim] = []
    for part in (*_operands(kind, a), *_operands(kind, b)):
        if not any(_decides(kind, other, part) for other in kept):
            kept = [other for other in kept if not _decides(kind, part, other)] + [part]
    return reduce(lambda x, y: function_of(kind, x, y), sorted(kept, key=str))


def broadcast(a: Dim, b: Dim) -> Dim:
    """The size of an axis along which operands of sizes `a` and `b` are combined: that of the two
    which is not 1. Sizes that do not broadcast give one of the two.
    """
    sizes: list[Dim] = []
    for size in (*_operands("broadcast", a), *_operands("broadcast", b)):
        if size != 1 and size not in sizes:
            sizes.append(size)
    number = next((size for size in sizes if isinstance(size, int)), None)
    if number is not None:
        return number
    return (
        reduce(lambda x, y: function_of("broadcast", x, y), sorted(sizes, key=str)) if sizes else 1
    )


def broadcasts(a: Dim, b: Dim) -> bool | None:
    """Whether sizes are equal or one of them is 1; None where it depends on the symbols' values."""
    if a == b or a == 1 or b == 1:
        return True
    verdicts = [compare("==", x, y) for x, y in ((a, b), (a, 1), (b, 1))]
    return False if all(verdict is False for verdict in verdicts) else None


def _operands(kind: str, dim: Dim) -> list[Dim]:
    """What `dim` is the maximum or minimum of; `dim` alone when it is none."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((monomial, coefficient),) = dim.terms.items()
        if (
            coefficient == 1
            and len(monomial) == 1
            and monomial[0][1] == 1
            and monomial[0][0].kind == kind
        ):
            return [part for arg in monomial[0][0].args for part in _operands(kind, arg)]
    return [dim]


def _decides(kind: str, a: Dim, b: Dim) -> bool:
    """Whether `a` makes `b` superfluous in an extreme: max(a, min(a, c)) is a."""
    if is_nonnegative(a - b if kind == "max" else b - a):
        return True
    opposite = "min" if kind == "max" else "max"
    parts = _operands(opposite, b)
    return len(parts) > 1 and any(_decides(kind, a, part) for part in parts)


def compare(kind: str, a: Dim, b: Dim) -> bool | None:
    """`a kind b` for kind in == != < <= > >=; None where it depends on the symbols' values."""
    if isinstance(a, int) and isinstance(b, int):
        return bool(COMPARISONS[kind](a, b))
    return _compare(kind, a, b)


@lru_cache(maxsize=1 << 14)
def _compare(kind: str, a: Dim, b: Dim) -> bool | None:
    difference = a - b
    if isinstance(difference, int):
        return bool(COMPARISONS[kind](difference, 0))
    at_least, at_most = is_nonnegative(difference), is_nonnegative(-difference)
    positive, negative = is_nonnegative(difference - 1), is_nonnegative(-difference - 1)
    if positive or negative:
        return bool(COMPARISONS[kind](1 if positive else -1, 0))
    if at_least and kind in (">=", "<"):
        return kind == ">="
    if at_most and kind in ("<=", ">"):
        return kind == "<="
    return None


def limit_of(dim: Dim, extreme: Dim) -> tuple[str, Dim] | None:
    """What `dim = extreme` says where `extreme` is a minimum or maximum with `dim` in it: "<=" or
    ">=", and of what.
    """
    if not isinstance(dim, Expr):
        return None
    for kind, relation, function in (("min", "<=", minimum), ("max", ">=", maximum)):
        parts = _operands(kind, extreme)
        if len(parts) > 1 and dim in parts:
            return relation, reduce(function, (part for part in parts if part != dim))
    return None


def is_limited(part: Dim, size: Dim) -> bool:
    """Whether `part` is `size` with a limit above 1: one of them is 1 only where both are, so that
    they broadcast only where they are equal.
    """
    limit = limit_of(size, part)
    return limit is not None and limit[0] == "<=" and compare("<=", 2, limit[1]) is True


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
