"""Equality saturation: every equality at every term, again and again, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from infuse.errors import InfuseError
from infuse.search.egraph import EGraph, Reason
from infuse.search.equalities import EQUALITIES, Equal, Equality
from infuse.search.terms import Term


@dataclass(frozen=True)
class Bounds:
    """How far an e-graph may grow: rounds of all equalities, and terms."""

    iterations: int = 8
    terms: int = 6000


def saturate(
    g: EGraph,
    bounds: Bounds,
    expired: Callable[[], bool] = lambda: False,
    equalities: Iterable[Equality] = EQUALITIES.values(),
) -> str:
    """Add what equals the terms of `g`; why it ended: "saturated", "iterations", "terms" or "time".

    With the same bounds and without `expired` it does the same to the same graph every time.
    """
    chosen = tuple(equalities)
    for _ in range(bounds.iterations):
        if expired():
            return "time"
        before = len(g), g.unions
        matches: list[tuple[Equality, Term, Equal]] = []
        for each in _matches(g, chosen):
            matches.append(each)
            if len(matches) % 64 == 0 and expired():
                return "time"
        for equality, term, equal in matches:
            if len(g) >= bounds.terms:
                g.rebuild()
                return "terms"
            _apply(g, equality, term, equal)
        g.rebuild()
        if (len(g), g.unions) == before:
            return "saturated"
    return "iterations"


def _matches(g: EGraph, equalities: tuple[Equality, ...]) -> Iterator[tuple[Equality, Term, Equal]]:
    by_kind: dict[str, list[Equality]] = {}
    for number, each in list(g.classes.items()):
        if each.is_const or not each.type.dtype.is_float:
            continue
        for term in list(each.terms):
            if term.kind not in by_kind:
                by_kind[term.kind] = [e for e in equalities if e.applies(term)]
            for equality in by_kind[term.kind]:
                for equal in equality.find(g, number, term):
                    yield equality, term, equal


def _apply(g: EGraph, equality: Equality, term: Term, equal: Equal) -> None:
    """Join the class with the expression; what does not fit, or has another type, is left alone."""
    before = len(g)
    try:
        number = g.build(equal.to, Reason(equality.name, (term, *equal.by)))
    except InfuseError:
        return
    if g[number].type == g[equal.at].type and g.union(equal.at, number) and len(g) == before:
        g.merged[equality.name] = None
