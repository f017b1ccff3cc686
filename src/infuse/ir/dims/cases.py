"""Sizes that are equal for every value of a symbol, told by cases of its value."""

from __future__ import annotations

from functools import lru_cache

from infuse.errors import ShapeError
from infuse.ir.dims.expression import Atom, Dim, Expr, symbol, symbols
from infuse.ir.dims.substitution import substitute

MOST = 4
"""The largest limit of a size whose values below it are looked at one by one."""


@lru_cache(maxsize=1 << 12)
def always_equal(a: Dim, b: Dim) -> bool:
    """Whether two sizes are certainly the same: max(0, s + min(1, s) - 1) and s are, for s is 0, or
    the minimum is 1.
    """
    if a == b:
        return True
    limit = _limit(a) or _limit(b)
    if limit is None or symbols(a) != symbols(b):
        return False
    name, size = limit
    cases: list[Dim] = [*range(size), symbol(name) + size]
    try:
        return all(substitute(a, {name: case}) == substitute(b, {name: case}) for case in cases)
    except ShapeError:  # a quotient has no value in one of the cases
        return False


def _limit(dim: Dim) -> tuple[str, int] | None:
    """A symbol of which a size has the minimum with a small number, and that number."""
    pending = [dim]
    seen: set[Atom] = set()
    while pending:
        part = pending.pop()
        monomials = part.terms if isinstance(part, Expr) else ()
        for atom in {atom for monomial in monomials for atom, _ in monomial} - seen:
            seen.add(atom)
            if atom.kind == "symbol":
                continue
            number, size = sorted(atom.args, key=lambda arg: isinstance(arg, Expr))
            if atom.kind == "min" and isinstance(number, int) and 0 < number <= MOST:
                names = symbols(size)
                if len(names) == 1 and size == symbol(min(names)):
                    return min(names), number
            pending += atom.args
    return None
