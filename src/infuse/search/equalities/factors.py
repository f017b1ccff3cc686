"""Numbers, factors and orders of axes moved past products with weights."""

from __future__ import annotations

from collections.abc import Iterator

from infuse.ops.arithmetic import Mul
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import Equal, equality, place_in, with_operands
from infuse.search.equalities.linear import is_matrix, product, weight_axes
from infuse.search.terms import Expression, ReshapeTerm, Term, TransposeTerm, apply


@equality("Mul")
def factor_into_weights(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x · w) · c = x · (w · c), one number or one for each column or filter"""
    for index, arg in enumerate(term.args):
        c = term.args[1 - index]
        if not g.is_const(c) or g.shape(arg) != g.shape(at):
            continue
        for inner in g.terms(arg, "Conv", "MatMul"):
            axes = weight_axes(g, inner)
            if axes is not None:
                factor = _along(
                    g, c, axes[1], len(g.shape(at)), axes[3], len(g.shape(inner.args[1]))
                )
                if factor is not None:
                    yield Equal(
                        at,
                        product(inner, inner.args[0], apply(Mul(), inner.args[1], factor)),
                        (inner,),
                    )


@equality("Conv", "MatMul")
def factor_from_operand(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x · c) · w = x · (c · w), one number or one for each row or channel"""
    axes = weight_axes(g, term)
    if axes is None:
        return
    x, w = term.args
    for inner in g.terms(x, "Mul"):
        for index, c in enumerate(inner.args):
            y = inner.args[1 - index]
            if not g.is_const(c) or g.is_const(y) or g.shape(y) != g.shape(x):
                continue
            factor = _along(g, c, axes[0], len(g.shape(x)), axes[2], len(g.shape(w)))
            if factor is not None:
                yield Equal(at, product(term, y, apply(Mul(), w, factor)), (inner,))


def _along(g: EGraph, c: int, axis: int, rank: int, place: int, weights: int) -> Expression | None:
    """A constant that varies along one axis only, as a factor of weights along another; None where
    it varies more.
    """
    shape = g.shape(c)
    if all(size == 1 for size in shape):
        return apply(ReshapeTerm((1,) * weights), c)
    start = place_in(g, c, axis, rank)
    if start is None or any(size != 1 for i, size in enumerate(shape) if i != start):
        return None
    return apply(ReshapeTerm(tuple(shape[start] if i == place else 1 for i in range(weights))), c)


@equality("MatMul")
def number_past_product(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x · s) · y = (x · y) · s for one number s (also x · (y · s))"""
    for index, arg in enumerate(term.args):
        for inner in g.terms(arg, "Mul"):
            for place, s in enumerate(inner.args):
                x = inner.args[1 - place]
                if (
                    all(size == 1 for size in g.shape(s))
                    and g.shape(x) == g.shape(arg)
                    and not g.is_const(x)
                ):
                    if len(g.shape(s)) > len(g.shape(at)):
                        continue
                    args = [x if i == index else a for i, a in enumerate(term.args)]
                    yield Equal(at, apply(Mul(), with_operands(term, *args), s), (inner,))


@equality("Mul")
def number_into_product(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x · y) · s = (x · s) · y = x · (y · s) for one number s"""
    for index, arg in enumerate(term.args):
        s = term.args[1 - index]
        if not all(size == 1 for size in g.shape(s)) or g.shape(arg) != g.shape(at):
            continue
        for inner in g.terms(arg, "MatMul"):
            for place, x in enumerate(inner.args):
                if len(g.shape(s)) <= len(g.shape(x)):
                    args = [
                        apply(Mul(), x, s) if i == place else a for i, a in enumerate(inner.args)
                    ]
                    yield Equal(at, with_operands(inner, *args), (inner,))


# -- orders of axes --------------------------------------------------------------------------------


@equality("MatMul")
def product_of_moved(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Transpose(x) · w = Transpose(x · w) for a matrix w, where the last axis stays"""
    x, w = term.args
    rank = len(g.shape(x))
    if not is_matrix(g, w):
        return
    for inner in g.terms(x, "TransposeTerm"):
        assert isinstance(inner.head, TransposeTerm)
        if inner.head.perm[-1] == rank - 1:
            yield Equal(at, apply(inner.head, product(term, inner.args[0], w)), (inner,))


@equality("TransposeTerm")
def moved_of_product(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Transpose(x · w) = Transpose(x) · w, where the last axis stays; (x · y) turned = y turned · x
    turned
    """
    moved = term.head
    assert isinstance(moved, TransposeTerm)
    rank = len(moved.perm)
    swap = TransposeTerm((*range(rank - 2), rank - 1, rank - 2))
    for inner in g.terms(term.args[0], "MatMul"):
        x, w = inner.args
        if moved.perm[-1] == rank - 1 and is_matrix(g, w):
            yield Equal(at, product(inner, apply(moved, x), w), (inner,))
        if moved == swap and len(g.shape(x)) == len(g.shape(w)) == rank:
            yield Equal(at, product(inner, apply(swap, w), apply(swap, x)), (inner,))
