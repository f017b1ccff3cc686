"""Cuts, concatenations, choices and orders of axes among each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infuse.ir import dims
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import Equal, equality
from infuse.search.terms import (
    ConcatTerm,
    Expression,
    GatherTerm,
    ReshapeTerm,
    SliceTerm,
    Term,
    TransposeTerm,
    apply,
)

MOST_PIECES = 16
"""Operands of a concatenation up to which it is taken apart."""


def sizes_along(g: EGraph, parts: Sequence[int], axis: int) -> list[int] | None:
    """The sizes of the parts along an axis where all are numbers."""
    sizes = [g.shape(p)[axis] for p in parts]
    return (
        [size for size in sizes if isinstance(size, int)]
        if all(isinstance(s, int) for s in sizes)
        else None
    )


def joined(axis: int, parts: Sequence[Expression]) -> Expression:
    """The concatenation of one or more parts."""
    return parts[0] if len(parts) == 1 else apply(ConcatTerm(axis), *parts)


def cut(g: EGraph, number: int, axis: int, start: int, stop: int) -> Expression:
    """A part of a class; all of it where that is what is asked for."""
    return (
        number
        if (start, stop) == (0, g.shape(number)[axis])
        else apply(SliceTerm(axis, start, stop), number)
    )


@equality("SliceTerm")
def cut_of_cut(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Slice(Slice(x)) = Slice(x); Slice(x) of everything = x; cuts along two axes in any order"""
    outer = term.head
    assert isinstance(outer, SliceTerm)
    if (outer.start, outer.step) == (0, 1) and outer.stop == g.shape(term.args[0])[outer.axis]:
        yield Equal(at, term.args[0])
    for inner in g.terms(term.args[0], "SliceTerm"):
        first = inner.head
        assert isinstance(first, SliceTerm)
        if first.axis == outer.axis:
            start, step = first.start + outer.start * first.step, first.step * outer.step
            stop = start + (outer.size - 1) * step + 1
            yield Equal(
                at, apply(SliceTerm.to(outer.axis, start, stop, step), inner.args[0]), (inner,)
            )
        else:
            yield Equal(at, apply(first, apply(outer, inner.args[0])), (inner,))


@equality("SliceTerm")
def cut_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Slice(Concat(x, y)) = Concat(Slice(x), Slice(y)), or one of them"""
    outer = term.head
    assert isinstance(outer, SliceTerm)
    for inner in g.terms(term.args[0], "ConcatTerm"):
        head = inner.head
        assert isinstance(head, ConcatTerm)
        if len(inner.args) > MOST_PIECES:
            continue
        if head.axis != outer.axis:
            yield Equal(at, apply(head, *(apply(outer, a) for a in inner.args)), (inner,))
            continue
        sizes = sizes_along(g, inner.args, head.axis)
        if sizes is None or outer.step != 1:
            continue
        parts: list[Expression] = []
        begin = 0
        for arg, size in zip(inner.args, sizes):
            start, stop = max(outer.start - begin, 0), min(outer.stop - begin, size)
            if start < stop:
                parts.append(cut(g, arg, outer.axis, start, stop))
            begin += size
        yield Equal(at, joined(outer.axis, parts), (inner,))


@equality("ConcatTerm")
def joined_of_cuts(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(Slice(x, a to b), Slice(x, b to c)) = Slice(x, a to c)"""
    head = term.head
    assert isinstance(head, ConcatTerm)
    for index in range(len(term.args) - 1):
        for left in g.terms(term.args[index], "SliceTerm"):
            for right in g.terms(term.args[index + 1], "SliceTerm"):
                a, b = left.head, right.head
                assert isinstance(a, SliceTerm)
                assert isinstance(b, SliceTerm)
                if left.args != right.args or a.axis != head.axis or b.axis != head.axis:
                    continue
                if a.stop == b.start and a.step == b.step == 1:
                    whole = cut(g, left.args[0], head.axis, a.start, b.stop)
                    parts = [*term.args[:index], whole, *term.args[index + 2 :]]
                    yield Equal(at, joined(head.axis, parts), (left, right))


@equality("ConcatTerm")
def joined_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(Concat(x, y), z) = Concat(x, y, z) along one axis; along two: rows of columns =
    columns of rows
    """
    head = term.head
    assert isinstance(head, ConcatTerm)
    if len(term.args) > MOST_PIECES:
        return
    for index, arg in enumerate(term.args):
        for inner in g.terms(arg, "ConcatTerm"):
            if inner.head == head and len(inner.args) + len(term.args) <= MOST_PIECES:
                parts = [*term.args[:index], *inner.args, *term.args[index + 1 :]]
                yield Equal(at, apply(head, *parts), (inner,))
    first = [t for t in g.terms(term.args[0], "ConcatTerm") if t.head != head]
    for inner in first:
        lines = [_same_cuts(g, inner, other) for other in term.args]
        if all(line is not None for line in lines):
            columns = zip(*(line.args for line in lines if line is not None))
            rows = [apply(head, *column) for column in columns]
            yield Equal(
                at, apply(inner.head, *rows), tuple(line for line in lines if line is not None)
            )


def _same_cuts(g: EGraph, like: Term, number: int) -> Term | None:
    """A concatenation in a class with parts as large as those of another one."""
    assert isinstance(like.head, ConcatTerm)
    sizes = [g.shape(a)[like.head.axis] for a in like.args]
    for term in g.terms(number, "ConcatTerm"):
        if term.head == like.head and [g.shape(a)[like.head.axis] for a in term.args] == sizes:
            return term
    return None


# -- orders of axes --------------------------------------------------------------------------------


@equality("TransposeTerm")
def moved_of_moved(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Transpose(Transpose(x)) = Transpose(x), or x"""
    outer = term.head
    assert isinstance(outer, TransposeTerm)
    if outer.perm == tuple(range(len(outer.perm))):
        yield Equal(at, term.args[0])
    for inner in g.terms(term.args[0], "TransposeTerm"):
        assert isinstance(inner.head, TransposeTerm)
        both = tuple(inner.head.perm[p] for p in outer.perm)
        yield Equal(at, apply(TransposeTerm(both), inner.args[0]), (inner,))


@equality("TransposeTerm")
def moved_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Transpose(Concat(x, y)) = Concat(Transpose(x), Transpose(y)); Transpose(Slice(x)) =
    Slice(Transpose(x))
    """
    outer = term.head
    assert isinstance(outer, TransposeTerm)
    for inner in g.terms(term.args[0], "ConcatTerm", "SliceTerm"):
        head = inner.head
        if isinstance(head, ConcatTerm):
            yield Equal(
                at,
                apply(
                    ConcatTerm(outer.perm.index(head.axis)), *(apply(outer, a) for a in inner.args)
                ),
                (inner,),
            )
        elif isinstance(head, SliceTerm):
            other = SliceTerm(outer.perm.index(head.axis), head.start, head.stop, head.step)
            yield Equal(at, apply(other, apply(outer, inner.args[0])), (inner,))


@equality("ConcatTerm")
def joined_of_moved(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(Transpose(x), Transpose(y)) = Transpose(Concat(x, y))"""
    head = term.head
    assert isinstance(head, ConcatTerm)
    for first in g.terms(term.args[0], "TransposeTerm"):
        moved = first.head
        assert isinstance(moved, TransposeTerm)
        lines = [
            next((t for t in g.terms(a, "TransposeTerm") if t.head == moved), None)
            for a in term.args
        ]
        if all(line is not None for line in lines):
            parts = [line.args[0] for line in lines if line is not None]
            operands = tuple(line for line in lines if line is not None)
            yield Equal(
                at, apply(moved, apply(ConcatTerm(moved.perm[head.axis]), *parts)), operands
            )


@equality("SliceTerm")
def cut_of_moved(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Slice(Transpose(x)) = Transpose(Slice(x))"""
    outer = term.head
    assert isinstance(outer, SliceTerm)
    for inner in g.terms(term.args[0], "TransposeTerm"):
        moved = inner.head
        assert isinstance(moved, TransposeTerm)
        cut_first = apply(
            SliceTerm(moved.perm[outer.axis], outer.start, outer.stop, outer.step), inner.args[0]
        )
        yield Equal(at, apply(moved, cut_first), (inner,))


@equality("ReshapeTerm")
def shaped_of_shaped(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Reshape(Reshape(x)) = Reshape(x), or x"""
    assert isinstance(term.head, ReshapeTerm)
    if g.shape(term.args[0]) == term.head.target:
        yield Equal(at, term.args[0])
    for inner in g.terms(term.args[0], "ReshapeTerm"):
        yield Equal(at, apply(term.head, inner.args[0]), (inner,))


# -- choices of places -----------------------------------------------------------------------------


@equality("ReshapeTerm")
def shuffle_as_pick(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Reshape(Transpose(Reshape(x))) that splits an axis in two, swaps these and joins them =
    Gather(x)
    """
    for moved in g.terms(term.args[0], "TransposeTerm"):
        for inner in g.terms(moved.args[0], "ReshapeTerm"):
            assert isinstance(moved.head, TransposeTerm)
            assert isinstance(inner.head, ReshapeTerm)
            source, split, perm = g.shape(inner.args[0]), inner.head.target, moved.head.perm
            if g.shape(at) != source or len(split) != len(source) + 1:
                continue
            for axis in range(len(source)):
                swap = (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
                if perm != swap or (*source[:axis], *source[axis + 1 :]) != (
                    *split[:axis],
                    *split[axis + 2 :],
                ):
                    continue
                groups, each = split[axis : axis + 2]
                if isinstance(groups, int) and isinstance(each, int):
                    places = tuple(i * each + j for j in range(each) for i in range(groups))
                    yield Equal(at, apply(GatherTerm(axis, places), inner.args[0]), (moved, inner))


@equality("GatherTerm")
def pick_as_cut(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Gather(x) of neighbouring places = Slice(x)"""
    head = term.head
    assert isinstance(head, GatherTerm)
    first = head.places[0]
    if head.places == tuple(range(first, first + len(head.places))):
        yield Equal(at, cut(g, term.args[0], head.axis, first, first + len(head.places)))


@equality("GatherTerm", "SliceTerm")
def pick_of_pick(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Gather(Gather(x)), Slice(Gather(x)) = Gather(x)"""
    outer = term.head
    assert isinstance(outer, (GatherTerm, SliceTerm))
    for inner in g.terms(term.args[0], "GatherTerm"):
        first = inner.head
        assert isinstance(first, GatherTerm)
        if first.axis == outer.axis:
            chosen = (
                outer.places
                if isinstance(outer, GatherTerm)
                else range(outer.start, outer.stop, outer.step)
            )
            yield Equal(
                at,
                apply(
                    GatherTerm(outer.axis, tuple(first.places[i] for i in chosen)), inner.args[0]
                ),
                (inner,),
            )


@equality("GatherTerm")
def pick_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Gather(Concat(x, y)) = Gather(Concat(Slice(x), Slice(y))), only what is taken, where that is
    a range of each
    """
    outer = term.head
    assert isinstance(outer, GatherTerm)
    for inner in g.terms(term.args[0], "ConcatTerm"):
        assert isinstance(inner.head, ConcatTerm)
        sizes = sizes_along(g, inner.args, outer.axis) if inner.head.axis == outer.axis else None
        if sizes is None or len(inner.args) > MOST_PIECES:
            continue
        parts: list[Expression] = []
        new: dict[int, int] = {}
        begin = 0
        for arg, size in zip(inner.args, sizes):
            used = sorted({p - begin for p in outer.places if begin <= p < begin + size})
            if used and used != list(range(used[0], used[-1] + 1)):
                break
            if used:
                new.update({begin + p: len(new) + i for i, p in enumerate(used)})
                parts.append(cut(g, arg, outer.axis, used[0], used[-1] + 1))
            begin += size
        else:
            if len(new) == sum(sizes):
                continue
            places = tuple(new[p] for p in outer.places)
            yield Equal(
                at, apply(GatherTerm(outer.axis, places), joined(outer.axis, parts)), (inner,)
            )


@equality("ConcatTerm")
def joined_of_pick(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(Gather(x), y) = Gather(Concat(x, y))"""
    head = term.head
    assert isinstance(head, ConcatTerm)
    sizes = sizes_along(g, term.args, head.axis)
    if sizes is None or len(term.args) > MOST_PIECES:
        return
    for index, arg in enumerate(term.args):
        for inner in g.terms(arg, "GatherTerm"):
            pick = inner.head
            assert isinstance(pick, GatherTerm)
            width = g.shape(inner.args[0])[head.axis] if pick.axis == head.axis else None
            if not isinstance(width, int):
                continue
            before, after = sum(sizes[:index]), sum(sizes[index + 1 :])
            places = (
                *range(before),
                *(before + p for p in pick.places),
                *range(before + width, before + width + after),
            )
            parts = [*term.args[:index], inner.args[0], *term.args[index + 1 :]]
            yield Equal(at, apply(GatherTerm(head.axis, places), apply(head, *parts)), (inner,))


def total(sizes: Sequence[dims.Dim]) -> dims.Dim:
    """The sum of sizes."""
    sum_: dims.Dim = 0
    for size in sizes:
        sum_ = sum_ + size
    return sum_
