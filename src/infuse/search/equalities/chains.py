"""Products behind each other, and beside each other."""

from __future__ import annotations

from collections.abc import Iterator

from infuse.ops.contraction import MatMul
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import Equal, comes_by, equality
from infuse.search.equalities.linear import (
    conv_of,
    fit,
    is_matrix,
    is_point,
    is_static,
    product,
    weight_axes,
)
from infuse.search.terms import (
    ConcatTerm,
    PadTerm,
    ReshapeTerm,
    SliceTerm,
    Term,
    apply,
)


@equality("MatMul")
def associate(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x · a) · b = x · (a · b) for a matrix b and a matrix a, and back"""
    x, w = term.args
    for inner in g.terms(x, "MatMul"):
        if is_matrix(g, inner.args[1]) and is_matrix(g, w):
            yield Equal(
                at, product(term, inner.args[0], apply(MatMul(), inner.args[1], w)), (inner,)
            )
    for inner in g.terms(w, "MatMul"):
        if all(is_matrix(g, a) for a in inner.args):
            yield Equal(at, product(term, product(term, x, inner.args[0]), inner.args[1]), (inner,))


@equality("Conv")
def merge_points(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Conv(Conv(x, a), b) = Conv(x, b · a) for one pixel a window"""
    if not is_point(g, term) or not is_static(g.shape(term.args[1])):
        return
    b = term.args[1]
    for inner in g.terms(term.args[0], "Conv"):
        a = inner.args[1]
        if not is_point(g, inner) or not (g.is_const(a) and g.is_const(b)):
            continue
        (filters, middle), (_, depth) = g.shape(b)[:2], g.shape(a)[:2]
        flat = apply(
            MatMul(),
            apply(ReshapeTerm((filters, middle)), b),
            apply(ReshapeTerm((middle, depth)), a),
        )
        shape = (filters, depth, *g.shape(b)[2:])
        yield Equal(at, product(term, inner.args[0], apply(ReshapeTerm(shape), flat)), (inner,))


_MAKERS = (
    "products_at_once",
    "cut_of_product",
    "points_as_windows",
    "product_of_joined",
    "sum_of_products",
)
"""Equalities whose products are made of others, or parts of others: putting these together leads
nowhere new.
"""


@equality("Conv", "MatMul")
def products_at_once(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """X · a, x · b, … = cuts of x · Concat(a, b, …) of columns or filters"""
    axes = weight_axes(g, term)
    x, w = term.args
    if axes is None or not g.is_const(w):
        return
    users: dict[int, Term] = {}
    for number, other in g.parents(x, term.kind):
        same = other.head == term.head and other.args[0] == x and g.is_const(other.args[1])
        if (
            same
            and fit(g.shape(other.args[1]), g.shape(w), axes[3])
            and not comes_by(g, other, *_MAKERS)
        ):
            users.setdefault(number, other)
    if len(users) < 2 or next(iter(users)) != at:
        return
    ordered = list(users.items())
    groups = (
        [ordered]
        if len(ordered) < 3
        else [ordered, *(ordered[:i] + ordered[i + 1 :] for i in range(len(ordered)))]
    )
    for group in groups:
        whole = product(term, x, apply(ConcatTerm(axes[3]), *(t.args[1] for _, t in group)))
        begin = 0
        for number, other in group:
            size = g.shape(other.args[1])[axes[3]]
            assert isinstance(size, int)
            yield Equal(
                number,
                apply(SliceTerm(axes[1], begin, begin + size), whole),
                tuple(t for _, t in group),
            )
            begin += size


@equality("Conv")
def points_as_windows(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Conv(x, w) of one pixel = Conv(x, w with zeros around it) beside a Conv of x with larger
    windows
    """
    if not is_point(g, term) or not is_static(g.shape(term.args[1])):
        return
    x, w = term.args
    rank = len(g.shape(w)) - 2
    for _, other in g.parents(x, "Conv"):
        op = conv_of(other)
        kernel = g.shape(other.args[1])[2:]
        pads = op.pads[:rank]
        usual = (
            op.group == 1
            and op.auto_pad == "NOTSET"
            and len(op.pads) == 2 * rank
            and other.args[0] == x
        )
        if not usual or not any(pads) or not is_static(kernel):
            continue
        spread = op.spread(rank)
        sizes = [int(k) for k in kernel if isinstance(k, int)]
        centred = all(s == 1 for s in op.steps(rank)) and op.pads[rank:] == pads
        if centred and all(2 * p == (k - 1) * d for p, k, d in zip(pads, sizes, spread)):
            sides = (0, 0, *((k - 1) // 2 for k in sizes))
            yield Equal(at, apply(op, x, apply(PadTerm(sides, sides), w)), (other,))
