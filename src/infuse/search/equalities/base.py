"""What an equality is, and what many of them ask of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from infuse.ops.core.base import Op
from infuse.rewrite.record import unwrapped
from infuse.search.egraph import EGraph
from infuse.search.terms import (
    Apply,
    Expression,
    GatherTerm,
    ReshapeTerm,
    SliceTerm,
    Term,
    TransposeTerm,
    apply,
    is_pointwise,
)


class Equal(NamedTuple):
    """A class equals an expression; `by` are the terms besides the matched one that show it."""

    at: int
    to: Expression
    by: tuple[Term, ...] = ()


Finder = Callable[[EGraph, int, Term], Iterator[Equal]]


@dataclass(frozen=True)
class Equality:
    """An equality of terms: it looks at every term of some kinds (of all pointwise ones with the
    kind "pointwise"), in float classes that are not constant, and tells what equals what. `about`
    is its equation.
    """

    name: str
    about: str
    kinds: frozenset[str]
    find: Finder

    def applies(self, term: Term) -> bool:
        """Whether it looks at a term."""
        return term.kind in self.kinds or ("pointwise" in self.kinds and is_pointwise(term.head))


EQUALITIES: dict[str, Equality] = {}
"""All equalities by name."""


def equality(*kinds: str) -> Callable[[Finder], Finder]:
    """Register a function as an equality; its docstring is its equation."""

    def register(function: Finder) -> Finder:
        name = function.__name__
        EQUALITIES[name] = Equality(name, unwrapped(function.__doc__), frozenset(kinds), function)
        return function

    return register


def comes_by(g: EGraph, term: Term, *names: str) -> bool:
    """Whether a term was made by one of these equalities."""
    reason = g.reasons.get(term)
    return reason is not None and reason.equality in names


# -- movements -------------------------------------------------------------------------------------


def is_spread(g: EGraph, at: int, term: Term) -> bool:
    """Whether every operand of a pointwise term is a constant or has the shape of the result, and
    not all are constants.
    """
    shape = g.shape(at)
    free = [a for a in term.args if not g.is_const(a)]
    return (
        bool(free)
        and all(g.shape(a) == shape for a in free)
        and all(_static(g, a) for a in term.args if a not in free)
    )


def _static(g: EGraph, number: int) -> bool:
    return all(isinstance(size, int) for size in g.shape(number))


def place_in(g: EGraph, constant: int, axis: int, rank: int) -> int | None:
    """The axis of a constant that meets an axis of the tensor of this rank; None where the constant
    is the same along it.
    """
    shape = g.shape(constant)
    place = axis - (rank - len(shape))
    return None if place < 0 or shape[place] == 1 else place


def taken(g: EGraph, head: SliceTerm | GatherTerm, operand: int, rank: int) -> Expression:
    """What a Slice or Gather of the result of pointwise work takes of an operand."""
    if not g.is_const(operand):
        return apply(head, operand)
    place = place_in(g, operand, head.axis, rank)
    return operand if place is None else apply(replace(head, axis=place), operand)


def turned(g: EGraph, head: TransposeTerm, operand: int) -> Expression:
    """An operand of pointwise work with its axes moved as those of the result."""
    if not g.is_const(operand):
        return apply(head, operand)
    shape, rank = g.shape(operand), len(head.perm)
    if all(size == 1 for size in shape):
        return operand
    return apply(head, widened(g, operand, rank))


def widened(g: EGraph, operand: int, rank: int) -> Expression:
    """A constant with axes of size one in front, up to a rank."""
    shape = g.shape(operand)
    return (
        operand
        if len(shape) == rank
        else apply(ReshapeTerm((1,) * (rank - len(shape)) + shape), operand)
    )


def with_operands(term: Term, *args: Expression) -> Apply:
    """The term on other operands."""
    return Apply(term.head, args)


def operator(term: Term) -> Op:
    """The operator of a term that is no movement."""
    assert isinstance(term.head, Op)
    return term.head
