"""Polynomials of symbols and of functions of them, in canonical form, with exact division."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Union
from weakref import WeakValueDictionary

from infuse.budgets import spend
from infuse.errors import ShapeError

Dim = Union[int, "Expr"]
_Monomial = tuple[tuple["Atom", int], ...]
LONGEST = 4096
"""Letters of a factor that is written out; of a longer one the text holds a hash in place of what
is inside.
"""
MOST_CASES = 6
"""How many maxima and minima a sum may have to be compared by cases."""
_ONE_OF = ("max", "min", "broadcast")  # functions that are one of their operands


class Atom:
    """An indivisible factor: a symbol, or a function of dimensions that polynomials cannot
    express.
    """

    __slots__ = ("__weakref__", "_hash", "args", "is_nonnegative", "kind", "names", "order", "text")

    kind: str
    args: tuple[Any, ...]
    names: frozenset[str]
    """The symbols in it."""
    text: str
    order: tuple[int, str]
    """By which factors are sorted: symbols first, then by text."""
    is_nonnegative: bool
    """Whether it is certainly at least zero."""
    _hash: int
    _known: ClassVar[WeakValueDictionary[tuple[Any, ...], Atom]] = WeakValueDictionary()

    def __new__(cls, kind: str, *args: Any) -> Atom:
        """The one atom of these parts: so that deep ones are compared at a glance."""
        key = (kind, *args)
        found = cls._known.get(key)
        if found is None:
            found = super().__new__(cls)
            found.kind, found.args = kind, args
            found._hash = hash(key)
            found.text = _atom_text(kind, args)
            found.order = (0 if kind == "symbol" else 1, found.text)
            found.names = (
                frozenset(args) if kind == "symbol" else frozenset().union(*map(symbols, args))
            )
            found.is_nonnegative = _atom_nonnegative(found)
            found = cls._known.setdefault(key, found)
        return found

    def __reduce__(self) -> Any:
        return (Atom, (self.kind, *self.args))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.text


def _atom_text(kind: str, args: tuple[Any, ...]) -> str:
    if kind == "symbol":
        return str(args[0])
    if kind in ("max", "min", "broadcast"):
        text = f"{kind}({', '.join(map(str, args))})"
    else:
        text = f"({_group(args[0])} {'//' if kind == 'div' else '%'} {_group(args[1])})"
    return text if len(text) <= LONGEST else f"{kind}…{hashlib.sha256(text.encode()).hexdigest()}"


def _group(dim: Dim) -> str:
    text = str(dim)
    return text if text.isidentifier() or text.isdigit() or _wrapped(text) else f"({text})"


def _wrapped(text: str) -> bool:
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i == len(text) - 1 and text[0] == "("
    return False


class Expr:
    """A canonical polynomial: `terms` maps a monomial (atoms with powers) to its integer
    coefficient.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[_Monomial, int]) -> None:
        self.terms = dict(terms)
        self._hash = hash(frozenset(self.terms.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        raise ShapeError(
            f"whether the symbolic dimension {self} is zero is not known before run time"
        )

    def __index__(self) -> int:
        raise ShapeError(f"the symbolic dimension {self} has no value before run time")

    def __add__(self, other: Any) -> Dim:
        return _sum(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _make({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Any) -> Dim:
        return _sum(self, -other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rsub__(self, other: Any) -> Dim:
        return _sum(-self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __mul__(self, other: Any) -> Dim:
        return _product(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dim:
        return floordiv(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Dim:
        return floordiv(other, self) if isinstance(other, (int, Expr)) else NotImplemented

    def __mod__(self, other: Any) -> Dim:
        return mod(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rmod__(self, other: Any) -> Dim:
        return mod(other, self) if isinstance(other, (int, Expr)) else NotImplemented

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in sorted(self.terms.items(), key=term_key):
            factors = [str(a) if p == 1 else "*".join([str(a)] * p) for a, p in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            parts.append(f"{sign} {'*'.join(factors)}")
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    __repr__ = __str__


def term_key(term: tuple[_Monomial, int]) -> tuple[int, list[tuple[int, str]]]:
    """The order in which terms are printed: higher powers first, then by name."""
    monomial, _ = term
    return (-sum(p for _, p in monomial), [a.order for a, _ in monomial])


def _make(terms: Mapping[_Monomial, int]) -> Dim:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Expr(kept)


def _terms(dim: Dim) -> dict[_Monomial, int]:
    return dim.terms if isinstance(dim, Expr) else ({(): int(dim)} if dim else {})


def _sum(a: Dim, b: Dim) -> Dim:
    terms = dict(_terms(a))
    for monomial, coefficient in _terms(b).items():
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return _make(terms)


def _product(a: Dim, b: Dim) -> Dim:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return _polynomial_product(a, b)
    if isinstance(a, Expr):
        a, b = b, a
    return b if a == 1 else _make({m: c * int(a) for m, c in _terms(b).items()})


def _order(factor: tuple[Atom, int]) -> tuple[int, str]:
    return factor[0].order


@lru_cache(maxsize=1 << 14)
def _polynomial_product(a: Expr, b: Expr) -> Dim:
    spend("terms", len(a.terms) * len(b.terms), "a product of symbolic sizes takes")
    terms: dict[_Monomial, int] = {}
    for m1, c1 in _terms(a).items():
        for m2, c2 in _terms(b).items():
            powers: dict[Atom, int] = dict(m1)
            for atom, power in m2:
                powers[atom] = powers.get(atom, 0) + power
            monomial = tuple(sorted(powers.items(), key=_order))
            terms[monomial] = terms.get(monomial, 0) + c1 * c2
    return _make(terms)


def product_of_terms(factors: Iterable[Expr]) -> Dim:
    """The product of factors of one term each, in time linear in their number."""
    number, powers = 1, dict[Atom, int]()
    for factor in factors:
        ((monomial, coefficient),) = factor.terms.items()
        number *= coefficient
        for atom, power in monomial:
            powers[atom] = powers.get(atom, 0) + power
    return _make({tuple(sorted(powers.items(), key=_order)): number})


_NAMES: set[str] = set()


@lru_cache(maxsize=4096)
def symbol(name: str) -> Expr:
    """The named unknown size `name` (an identifier, or any text that ONNX allows as dim_param)."""
    _NAMES.add(name)
    return Expr({((Atom("symbol", name), 1),): 1})


def is_used(name: str) -> bool:
    """Whether any symbol of this name was made in this process."""
    return name in _NAMES


def function_of(kind: str, *args: Dim) -> Dim:
    """An indivisible function of dimensions: div, mod, max, min or broadcast."""
    return Expr({((Atom(kind, *args), 1),): 1})


def symbols(dim: Dim) -> set[str]:
    """Names of all symbols in `dim`."""
    if not isinstance(dim, Expr):
        return set()
    return set().union(*(atom.names for monomial in dim.terms for atom, _ in monomial))


def divisors(sizes: Iterable[Dim]) -> set[Dim]:
    """What is divided by in these sizes and is no number."""
    pending, result = [size for size in sizes if isinstance(size, Expr)], set[Dim]()
    while pending:
        for monomial in pending.pop().terms:
            for atom, _ in monomial:
                inner = [] if atom.kind == "symbol" else atom.args
                pending.extend(arg for arg in inner if isinstance(arg, Expr))
                if atom.kind in ("div", "mod") and isinstance(atom.args[1], Expr):
                    result.add(atom.args[1])
    return result


def is_static(dim: Dim) -> bool:
    """Whether `dim` is a number."""
    return not isinstance(dim, Expr)


def _divide_monomial(monomial: _Monomial, by: _Monomial) -> _Monomial | None:
    powers = dict(monomial)
    for atom, power in by:
        if powers.get(atom, 0) < power:
            return None
        powers[atom] -= power
    return tuple((a, p) for a, p in powers.items() if p)


def exact_divide(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where every term of `a` is divisible by `b` (a number or a single term), else
    None.
    """
    return 1 if a == b else _exact_quotient(a, b)


@lru_cache(maxsize=1 << 14)
def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    divisor = _terms(b)
    if len(divisor) != 1:
        return _divide_polynomial(a, b) if isinstance(a, Expr) and isinstance(b, Expr) else None
    ((by, factor),) = divisor.items()
    terms: dict[_Monomial, int] = {}
    for monomial, coefficient in _terms(a).items():
        rest = _divide_monomial(monomial, by)
        if rest is None or coefficient % factor:
            return None
        terms[rest] = coefficient // factor
    return _make(terms)


def _divide_polynomial(a: Expr, b: Expr) -> Dim | None:
    """Exact multivariate long division by the leading term, or None."""
    lead, lead_factor = min(b.terms.items(), key=term_key)
    quotient: Dim = 0
    rest: Dim = a
    for _ in range(len(a.terms) * 4):
        if not isinstance(rest, Expr):
            return quotient if rest == 0 else None
        monomial, coefficient = min(rest.terms.items(), key=term_key)
        factor = _divide_monomial(monomial, lead)
        if factor is None or coefficient % lead_factor:
            return None
        step = _make({factor: coefficient // lead_factor})
        quotient, rest = quotient + step, rest - _product(step, b)
    return None


def floordiv(a: Dim, b: Dim) -> Dim:
    """`a // b` rounded down; multiples of a numeric `b` are taken out, so (h - 1) // 2 + 1 is (h +
    1) // 2.
    """
    if isinstance(b, int) and b == 0:
        raise ShapeError(f"division of the dimension {a} by zero")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = exact_divide(a, b)
    if exact is not None:
        return exact
    if isinstance(b, int) and b > 0:
        whole = _make({m: c // b for m, c in _terms(a).items() if c % b == 0 or not m})
        if whole != 0:
            return whole + floordiv(a - whole * b, b)
    return function_of("div", a, b)


def mod(a: Dim, b: Dim) -> Dim:
    """`a - (a // b) * b`, the remainder with the sign of `b`."""
    if isinstance(b, int) and b == 0:
        raise ShapeError(f"division of the dimension {a} by zero")
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if exact_divide(a, b) is not None:
        return 0
    if isinstance(b, int) and b > 0:
        rest = _make({m: c % b for m, c in _terms(a).items()})
        if isinstance(rest, int):
            return rest % b
        return function_of("mod", rest, b)
    return function_of("mod", a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """`a / b` rounded up; a symbolic `b` must be positive."""
    return -floordiv(-a, b) if isinstance(b, int) and b < 0 else floordiv(a + b - 1, b)


def is_nonnegative(dim: Dim) -> bool:
    """Whether `dim` is certainly at least zero, symbols being sizes."""
    if isinstance(dim, int):
        return dim >= 0
    plain = all(c >= 0 and all(a.is_nonnegative for a, _ in m) for m, c in dim.terms.items())
    return plain or _nonnegative_by_cases(dim)


def is_at_most_one(dim: Dim) -> bool:
    """Whether `dim` is certainly 1 or less."""
    return dim <= 1 if isinstance(dim, int) else is_nonnegative(1 - dim)


def _nonnegative_by_cases(dim: Expr) -> bool:
    """Whether replacing a lone maximum or minimum by what it bounds, or else it or a broadcast size
    by each operand, leaves no doubt.
    """
    lone = [m for m in dim.terms if len(m) == 1 and m[0][1] == 1 and m[0][0].kind in _ONE_OF]
    if not 0 < len(lone) <= MOST_CASES:
        return False
    atom, coefficient = lone[0][0][0], dim.terms[lone[0]]
    rest = dim - _make({lone[0]: coefficient})
    bounded = atom.kind == ("max" if coefficient > 0 else "min")
    enough = any if bounded else all
    return enough(is_nonnegative(rest + coefficient * arg) for arg in atom.args)


def _atom_nonnegative(atom: Atom) -> bool:
    if atom.kind == "symbol":
        return True
    if atom.kind == "mod":
        return isinstance(atom.args[1], int) and atom.args[1] > 0
    if atom.kind == "max":
        return any(is_nonnegative(a) for a in atom.args)
    return all(is_nonnegative(a) for a in atom.args)
