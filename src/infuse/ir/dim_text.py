"""Dimensions as text: the C expression of one, and one from its printed form."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

from infuse.ir.dims import (
    Atom,
    Dim,
    Expr,
    broadcast,
    floordiv,
    maximum,
    minimum,
    mod,
    symbol,
    term_key,
)

NAMELESS = frozenset(
    [
        "_",
        "?",
        "*",
        "-1",
        "None",
        "none",
        "unk",
        "unknown",
        "Unknown",
        "dynamic",
        "Dynamic",
        "undefined",
    ]
)
"""What exporters write for sizes that they know nothing of: it names no size, and one need not be
another.
"""


Terms = Callable[[Atom], str | None]
"""Gives the variable that holds the result of a function; None where there is none."""


def _no_variable(atom: Atom) -> None:
    """Of terms that are all written out."""


C_LONG: Final[Mapping[str, str]] = {
    "div": "floor_div",
    "mod": "floor_mod",
    "max": "max_long",
    "min": "min_long",
    "broadcast": "broadcast_size",
}
"""The functions of C that compute what sizes are functions of, as a long."""
C_ESTIMATE: Final[Mapping[str, str]] = {
    name: f"estimated_{name}" for name in ("div", "mod", "max", "min", "broadcast")
}
"""Those that compute it as a double."""


def c_text(
    dim: Dim,
    name: Callable[[str], str],
    suffix: str = "L",
    term: Terms = _no_variable,
    functions: Mapping[str, str] = C_LONG,
) -> str:
    """`dim` as a C expression of type long; `name` gives the variable of a symbol, and `term` that
    of a function's result where there is one.

    With ".0" as `suffix` of numbers, variables of type double and the functions `C_ESTIMATE`, it is
    one of type double, which does not overflow.
    """
    if not isinstance(dim, Expr):
        return f"{dim}{suffix}"
    terms = []
    for monomial, coefficient in sorted(dim.terms.items(), key=term_key):
        factors = [f"{coefficient}{suffix}"] if coefficient != 1 or not monomial else []
        factors += [
            term(atom) or c_term(atom, name, suffix, term, functions)
            for atom, power in monomial
            for _ in range(power)
        ]
        terms.append("*".join(factors))
    alone = len(terms) == 1 and "*" not in terms[0]
    return terms[0] if alone else f"({' + '.join(terms)})"


def c_term(
    atom: Atom,
    name: Callable[[str], str],
    suffix: str = "L",
    term: Terms = _no_variable,
    functions: Mapping[str, str] = C_LONG,
) -> str:
    """The C expression of a symbol or a function (see `c_text`)."""
    if atom.kind == "symbol":
        return name(atom.args[0])
    arguments = ", ".join(c_text(a, name, suffix, term, functions) for a in atom.args)
    return f"{functions[atom.kind]}({arguments})"


_BINARY: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_CALLS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "max": maximum,
    "min": minimum,
    "broadcast": broadcast,
}


def parse(text: str) -> Dim:
    """A dimension from its printed form; any text that is no expression is one symbol of that
    name.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _parse(tree)
    except (SyntaxError, ValueError, RecursionError):
        return symbol(text)


def _parse(node: ast.expr) -> Dim:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_parse(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_parse(node.left), _parse(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        function = _CALLS.get(node.func.id.lower())
        if function is not None:
            return function(_parse(node.args[0]), _parse(node.args[1]))
    raise ValueError("not a dimension expression")
