"""Pointwise work before and after movements, sums and products with constants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from infuse.ops.arithmetic import Add, Max, Mul
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import (
    Equal,
    comes_by,
    equality,
    is_spread,
    place_in,
    taken,
    turned,
    widened,
    with_operands,
)
from infuse.search.equalities.movement import MOST_PIECES, sizes_along
from infuse.search.terms import (
    ConcatTerm,
    Expression,
    GatherTerm,
    Head,
    ReshapeTerm,
    SliceTerm,
    Term,
    TransposeTerm,
    apply,
    is_pointwise,
)


def spread_terms(g: EGraph, number: int) -> list[Term]:
    """The pointwise terms of a class whose operands are constants or have its shape."""
    return [t for t in g.terms(number) if is_pointwise(t.head) and is_spread(g, number, t)]


@equality("SliceTerm", "GatherTerm", "TransposeTerm")
def movement_of_pointwise(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Slice(f(x, c)) = f(Slice(x), Slice(c)) (Gather and Transpose too)"""
    head = term.head
    rank = len(g.shape(term.args[0]))
    for inner in spread_terms(g, term.args[0]):
        if isinstance(head, TransposeTerm):
            parts = [turned(g, head, a) for a in inner.args]
        else:
            assert isinstance(head, (SliceTerm, GatherTerm))
            parts = [taken(g, head, a, rank) for a in inner.args]
        yield Equal(at, with_operands(inner, *parts), (inner,))


@equality("pointwise")
def pointwise_of_movement(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """f(Gather(x), c) = Gather(f(x, c in the order before)) (Transpose, Slice and Reshape too,
    where c allows it)
    """
    if not is_spread(g, at, term):
        return
    free = [a for a in term.args if not g.is_const(a)]
    for first in g.terms(free[0], "SliceTerm", "GatherTerm", "TransposeTerm", "ReshapeTerm"):
        lines = {
            a: next((t for t in g.terms(a, first.kind) if t.head == first.head), None) for a in free
        }
        sources = {a: line.args[0] for a, line in lines.items() if line is not None}
        if len(sources) < len(lines) or len({g.shape(s) for s in sources.values()}) != 1:
            continue
        source = g.shape(first.args[0])
        parts = [
            sources[a] if a in sources else _before(g, first.head, a, source, len(g.shape(at)))
            for a in term.args
        ]
        if None not in parts:
            operands = [p for p in parts if p is not None]
            yield Equal(
                at,
                apply(first.head, with_operands(term, *operands)),
                tuple(t for t in lines.values() if t),
            )


def _before(
    g: EGraph, head: Head, constant: int, source: tuple[object, ...], rank: int
) -> Expression | None:
    """A constant as it meets the tensor before the movement, None where there is none."""
    if all(size == 1 for size in g.shape(constant)) and len(g.shape(constant)) <= len(source):
        return constant
    if isinstance(head, TransposeTerm):
        return turned(g, head.inverse, constant)
    if isinstance(head, SliceTerm):
        return constant if place_in(g, constant, head.axis, rank) is None else None
    if isinstance(head, GatherTerm):
        place = place_in(g, constant, head.axis, rank)
        if place is None:
            return constant
        if not head.is_permutation or len(head.places) != source[head.axis]:
            return None
        inverse = tuple(head.places.index(i) for i in range(len(head.places)))
        return apply(GatherTerm(place, inverse), constant)
    assert isinstance(head, ReshapeTerm)
    whole = g.shape(constant) == head.target and all(isinstance(size, int) for size in source)
    return apply(ReshapeTerm(source), constant) if whole else None  # type: ignore[arg-type]


@equality("pointwise")
def pointwise_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """f(Concat(x, y), c) = Concat(f(x, Slice(c)), f(y, Slice(c)))"""
    if not is_spread(g, at, term):
        return
    rank = len(g.shape(at))
    for index, arg in enumerate(term.args):
        if g.is_const(arg):
            continue
        for inner in g.terms(arg, "ConcatTerm"):
            head = inner.head
            assert isinstance(head, ConcatTerm)
            sizes = sizes_along(g, inner.args, head.axis)
            if sizes is None or len(inner.args) > MOST_PIECES:
                continue
            parts = []
            begin = 0
            for piece, size in zip(inner.args, sizes):
                each = SliceTerm(head.axis, begin, begin + size)
                others = [
                    piece if i == index else taken(g, each, a, rank)
                    for i, a in enumerate(term.args)
                ]
                parts.append(with_operands(term, *others))
                begin += size
            yield Equal(at, apply(head, *parts), (inner,))


@equality("ConcatTerm")
def joined_of_pointwise(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(f(x, c), f(y, d)) = f(Concat(x, y), Concat(c, d))"""
    head = term.head
    assert isinstance(head, ConcatTerm)
    if len(term.args) > MOST_PIECES:
        return
    rank = len(g.shape(at))
    for first in spread_terms(g, term.args[0]):
        lines = [
            next((t for t in spread_terms(g, a) if _alike(g, t, first)), None) for a in term.args
        ]
        rows = [line for line in lines if line is not None]
        if len(rows) < len(lines):
            continue
        operands = [
            _together(g, head.axis, rank, list(column))
            for column in zip(*(line.args for line in rows))
        ]
        if None not in operands:
            yield Equal(
                at, with_operands(first, *(o for o in operands if o is not None)), tuple(rows)
            )


def _alike(g: EGraph, term: Term, other: Term) -> bool:
    return (
        term.head == other.head
        and len(term.args) == len(other.args)
        and [g.is_const(a) for a in term.args] == [g.is_const(a) for a in other.args]
    )


def _together(g: EGraph, axis: int, rank: int, column: list[int]) -> Expression | None:
    """The operands of pointwise work on parts, as the operand of the same on all; None where there
    is none.
    """
    if not g.is_const(column[0]):
        return apply(ConcatTerm(axis), *column)
    if all(c == column[0] for c in column) and place_in(g, column[0], axis, rank) is None:
        return column[0]
    shapes = [g.shape(c) for c in column]
    places = [place_in(g, c, axis, rank) for c in column]
    if None in places or len({len(s) for s in shapes}) != 1:
        return None
    place = places[0]
    assert place is not None
    if len({(*s[:place], *s[place + 1 :]) for s in shapes}) != 1:
        return None
    return apply(ConcatTerm(place), *column)


# -- sums and products -----------------------------------------------------------------------------


_SUMS = ("add_constant_later", "pointwise_at_once")
"""Equalities whose sums have constants that were put together already."""


@equality("Add")
def add_constant_later(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x + c) + y = (x + y) + c for a constant c; (x + c) + d = x + (c + d)"""
    shape = g.shape(at)
    for index, arg in enumerate(term.args):
        other = term.args[1 - index]
        for inner in g.terms(arg, "Add"):
            for place, c in enumerate(inner.args):
                x = inner.args[1 - place]
                if not g.is_const(c) or g.is_const(x) or g.shape(x) != shape:
                    continue
                if g.is_const(other):
                    if comes_by(g, inner, *_SUMS) or comes_by(g, term, *_SUMS):
                        continue
                    yield Equal(at, apply(Add(), x, apply(Add(), c, other)), (inner,))
                elif g.shape(other) == shape:
                    yield Equal(at, apply(Add(), apply(Add(), x, other), c), (inner,))


@equality("Mul")
def merge_factors(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x · c) · d = x · (c · d) for constants"""
    for index, arg in enumerate(term.args):
        other = term.args[1 - index]
        if not g.is_const(other):
            continue
        for inner in g.terms(arg, "Mul"):
            for place, c in enumerate(inner.args):
                x = inner.args[1 - place]
                if g.is_const(c) and not g.is_const(x) and g.shape(x) == g.shape(at):
                    yield Equal(at, apply(Mul(), x, apply(Mul(), c, other)), (inner,))


# -- neighbours ------------------------------------------------------------------------------------

_NEUTRAL = {"Add": 0.0, "Mul": 1.0, "Relu": -np.inf}


@equality("SliceTerm")
def pointwise_at_once(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """f(Slice(x, 0 to a), c), f(Slice(x, a to b), d), … = cuts of f(x, Concat(c, d)), f being +, ·
    or Relu (as Max)
    """
    source = term.args[0]
    head = term.head
    assert isinstance(head, SliceTerm)
    if head.start != 0 or head.step != 1:
        return
    parts = _tiling(g, source, head.axis)
    if parts is None or len(parts) > MOST_PIECES:
        return
    rank = len(g.shape(source))
    for kind, neutral in _NEUTRAL.items():
        users = [_user(g, number, kind, head.axis, rank) for number, _, _ in parts]
        if sum(user is not None for user in users) < 2:
            continue
        if kind == "Relu" and all(users):
            continue
        constants = [
            _constant(g, source, user, kind, neutral, head.axis, stop - start)
            for user, (_, start, stop) in zip(users, parts)
        ]
        whole = apply(
            Max() if kind == "Relu" else {"Add": Add(), "Mul": Mul()}[kind],
            source,
            apply(ConcatTerm(head.axis), *constants),
        )
        operands = tuple(user[1] for user in users if user is not None)
        for (number, start, stop), user in zip(parts, users):
            yield Equal(
                number if user is None else user[0],
                apply(SliceTerm(head.axis, start, stop), whole),
                operands,
            )


def _tiling(g: EGraph, source: int, axis: int) -> list[tuple[int, int, int]] | None:
    """The parts that cut all of a class along an axis: class, begin, end; None where there are no
    such.
    """
    cuts: dict[int, tuple[int, int]] = {}
    for number, term in g.parents(source, "SliceTerm"):
        head = term.head
        assert isinstance(head, SliceTerm)
        if head.axis == axis and head.step == 1 and head.start not in cuts:
            cuts[head.start] = (number, head.stop)
    tiles, begin = [], 0
    while begin in cuts:
        number, stop = cuts[begin]
        tiles.append((number, begin, stop))
        begin = stop
    return tiles if begin == g.shape(source)[axis] and len(tiles) > 1 else None


def _user(g: EGraph, part: int, kind: str, axis: int, rank: int) -> tuple[int, Term] | None:
    """Work of this kind on a part, with a constant that varies along the axis where it takes
    one.
    """
    for number, term in g.parents(part, kind):
        if kind == "Relu":
            return number, term
        others = [a for a in term.args if g.is_const(a)]
        if (
            len(others) == 1
            and g.shape(number) == g.shape(part)
            and place_in(g, others[0], axis, rank) is not None
        ):
            shape = g.shape(others[0])
            if all(size == 1 for i, size in enumerate(shape) if i != axis - (rank - len(shape))):
                return number, term
    return None


def _constant(
    g: EGraph,
    source: int,
    user: tuple[int, Term] | None,
    kind: str,
    neutral: float,
    axis: int,
    size: int,
) -> Expression:
    """The constant that a part meets, one number for each place along the axis."""
    rank = len(g.shape(source))
    shape = tuple(size if i == axis else 1 for i in range(rank))
    if user is None:
        return g.constant(np.full(shape, neutral), g.dtype(source))
    if kind == "Relu":
        return g.constant(np.zeros(shape), g.dtype(source))
    return widened(g, next(a for a in user[1].args if g.is_const(a)), rank)
