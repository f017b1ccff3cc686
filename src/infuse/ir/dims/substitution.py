"""Numbers or other dimensions in place of symbols, and products."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce

from infuse.errors import ShapeError
from infuse.ir.dims.expression import (
    Atom,
    Dim,
    Expr,
    floordiv,
    mod,
    product_of_terms,
    symbol,
    symbols,
)
from infuse.ir.dims.order import broadcast, maximum, minimum


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with the named symbols replaced; the others stay."""
    if not isinstance(dim, Expr):
        return dim
    return _rebuilt(dim, values, {})


def replace(dim: Dim, part: Dim, whole: Dim) -> Dim:
    """`dim` with a minimum, a maximum or a quotient in it, `part`, replaced; where `part` is a sum
    or a product, nothing changes.
    """
    factors = list(part.terms.items()) if isinstance(part, Expr) else []
    if len(factors) != 1 or factors[0][1] != 1 or not isinstance(dim, Expr):
        return dim
    monomial = factors[0][0]
    if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind == "symbol":
        return dim
    atom = monomial[0][0]
    return _rebuilt(dim, {name: symbol(name) for name in atom.names}, {atom: whole})


def _rebuilt(dim: Expr, values: Mapping[str, Dim], done: dict[Atom, Dim]) -> Dim:
    """`dim` with symbols replaced, and factors that are `done` already."""
    pending = [atom for atom in _atoms(dim) if atom not in done]
    while pending:
        atom = pending[-1]
        inner = (
            [a for arg in atom.args for a in _atoms(arg) if a not in done]
            if atom.kind != "symbol"
            else []
        )
        if inner:
            pending.extend(inner)
            continue
        pending.pop()
        if atom not in done:
            done[atom] = _substitute_atom(atom, values, done)
    return _polynomial(dim, done)


def _atoms(dim: Dim) -> Iterator[Atom]:
    """The factors of a dimension, not those inside of them."""
    terms = dim.terms if isinstance(dim, Expr) else ()
    return (atom for monomial in terms for atom, _ in monomial)


def _substitute_atom(atom: Atom, values: Mapping[str, Dim], done: Mapping[Atom, Dim]) -> Dim:
    if atom.kind == "symbol":
        name = atom.args[0]
        return values[name] if name in values else symbol(name)
    if atom.names.isdisjoint(values):
        return Expr({((atom, 1),): 1})
    return _FUNCTIONS[atom.kind](*(_polynomial(a, done) for a in atom.args))


def _polynomial(dim: Dim, factors: Mapping[Atom, Dim]) -> Dim:
    """`dim` with its factors replaced by these."""
    if not isinstance(dim, Expr):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms.items():
        term: Dim = coefficient
        for atom, power in monomial:
            for _ in range(power):
                term = term * factors[atom]
        total = total + term
    return total


_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "div": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
    "broadcast": broadcast,
}


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that `dim` is under these symbol values; ShapeError when one is missing."""
    result = substitute(dim, values)
    if isinstance(result, Expr):
        raise ShapeError(f"the size {dim} needs values for {', '.join(sorted(symbols(result)))}")
    return result


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions, 1 for none."""
    number = 1
    rest: list[Expr] = []
    for dim in dims:
        if isinstance(dim, Expr):
            rest.append(dim)
        else:
            number *= dim
    return _product(number, tuple(rest)) if rest else number


@lru_cache(maxsize=1 << 14)
def _product(number: int, factors: tuple[Expr, ...]) -> Dim:
    sums = [factor for factor in factors if len(factor.terms) > 1]
    return number * reduce(
        operator.mul, sums, product_of_terms(f for f in factors if len(f.terms) == 1)
    )
