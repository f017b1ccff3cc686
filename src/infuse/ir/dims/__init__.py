"""Symbolic dimensions: integer polynomials over named symbols, floor quotients, remainders, maxima,
minima and broadcast sizes.

A dimension is a Python int or an `Expr`. Arithmetic is canonical: equal polynomials are equal
objects under `==` and `hash`, and an expression that is a plain number becomes an int. Symbols
stand for sizes, so they are at least zero.
"""

from infuse.ir.dims.cases import always_equal
from infuse.ir.dims.expression import (
    LONGEST,
    Atom,
    Dim,
    Expr,
    ceildiv,
    divisors,
    exact_divide,
    floordiv,
    function_of,
    is_at_most_one,
    is_nonnegative,
    is_static,
    is_used,
    mod,
    symbol,
    symbols,
    term_key,
)
from infuse.ir.dims.order import (
    COMPARISONS,
    broadcast,
    broadcasts,
    compare,
    is_limited,
    limit_of,
    maximum,
    minimum,
)
from infuse.ir.dims.substitution import evaluate, product, replace, substitute

__all__ = [
    "COMPARISONS",
    "LONGEST",
    "Atom",
    "Dim",
    "Expr",
    "always_equal",
    "broadcast",
    "broadcasts",
    "ceildiv",
    "compare",
    "evaluate",
    "exact_divide",
    "divisors",
    "floordiv",
    "function_of",
    "is_at_most_one",
    "is_limited",
    "is_nonnegative",
    "is_static",
    "is_used",
    "limit_of",
    "maximum",
    "minimum",
    "mod",
    "product",
    "replace",
    "substitute",
    "symbol",
    "symbols",
    "term_key",
]
