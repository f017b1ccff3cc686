"""Products with weights: convolutions and matrix products, moved past sums, cuts, poolings and each
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from infuse.ir.types import Shape
from infuse.ops.arithmetic import Add, Sub
from infuse.ops.convolution import Conv
from infuse.ops.pooling import AveragePool, GlobalAveragePool
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import Equal, comes_by, equality, with_operands
from infuse.search.equalities.movement import MOST_PIECES, joined, sizes_along
from infuse.search.terms import (
    Apply,
    ConcatTerm,
    Expression,
    GatherTerm,
    SliceTerm,
    Term,
    apply,
)

CHANNELS = 1
"""The axis of an image's channels."""


MOST_SUMMANDS = 3
"""Operands of a concatenation up to which a product of it is taken apart into a sum."""


def conv_of(term: Term) -> Conv:
    """The operator of a convolution."""
    assert isinstance(term.head, Conv)
    return term.head


def is_static(shape: Shape) -> bool:
    """Whether all sizes are numbers."""
    return all(isinstance(size, int) for size in shape)


def is_unpadded(op: Conv) -> bool:
    """Whether nothing is added around the image."""
    return op.auto_pad == "VALID" or (op.auto_pad == "NOTSET" and not any(op.pads))


def is_point(g: EGraph, term: Term) -> bool:
    """Whether a convolution in one group sees one pixel at a time, and each in turn."""
    op, kernel = conv_of(term), g.shape(term.args[1])[2:]
    return (
        op.group == 1
        and is_unpadded(op)
        and all(k == 1 for k in kernel)
        and all(step == 1 for step in op.steps(len(kernel)))
    )


def is_depthwise(g: EGraph, term: Term) -> bool:
    """Whether every channel has a filter of its own."""
    shape = g.shape(term.args[1])
    return conv_of(term).group == shape[0] == g.shape(term.args[0])[CHANNELS] and shape[1] == 1


def is_matrix(g: EGraph, number: int) -> bool:
    """Whether a class is a matrix of known sizes."""
    return len(g.shape(number)) == 2 and is_static(g.shape(number))


def product(term: Term, x: Expression, w: Expression) -> Apply:
    """The same product of other operands."""
    return with_operands(term, x, w)


# -- sums and concatenations -----------------------------------------------------------------------


def weight_axes(g: EGraph, term: Term) -> tuple[int, int, int, int] | None:
    """The axis of x that a product sums over, the one of its result that it makes, and those of the
    weights; None for a product in groups, or with weights that are no matrix.
    """
    if term.kind == "Conv":
        return (CHANNELS, CHANNELS, 1, 0) if conv_of(term).group == 1 else None
    rank = len(g.shape(term.args[0]))
    return (rank - 1, rank - 1, 0, 1) if is_matrix(g, term.args[1]) and rank > 1 else None


@equality("Conv", "MatMul")
def product_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(x, y) · w = x · Slice(w) + y · Slice(w), along what is summed; along other axes
    Concat(x · w, y · w)
    """
    axes = weight_axes(g, term)
    if axes is None:
        return
    depth, _, inner_axis, _ = axes
    x, w = term.args
    for inner in g.terms(x, "ConcatTerm"):
        assert isinstance(inner.head, ConcatTerm)
        if len(inner.args) > MOST_PIECES:
            continue
        if inner.head.axis == depth:
            if len(inner.args) > MOST_SUMMANDS:
                continue
            sizes = sizes_along(g, inner.args, depth)
            if sizes is None:
                continue
            parts, begin = [], 0
            for piece, size in zip(inner.args, sizes):
                parts.append(
                    product(term, piece, apply(SliceTerm(inner_axis, begin, begin + size), w))
                )
                begin += size
            whole: Expression = parts[0]
            for part in parts[1:]:
                whole = apply(Add(), whole, part)
            yield Equal(at, whole, (inner,))
        elif term.kind == "MatMul" or inner.head.axis == 0:
            yield Equal(
                at, apply(inner.head, *(product(term, piece, w) for piece in inner.args)), (inner,)
            )


@equality("Add")
def sum_of_products(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """X · a + y · b = Concat(x, y) · Concat(a, b); x · a + x · b = x · (a + b)"""
    left, right = term.args
    for one in g.terms(left, "Conv", "MatMul"):
        axes = weight_axes(g, one)
        if axes is None:
            continue
        depth, _, inner_axis, _ = axes
        for two in g.terms(right, one.kind):
            made = comes_by(g, one, "product_of_joined") or comes_by(g, two, "product_of_joined")
            if (
                made
                or two.head != one.head
                or two == one
                or not (g.is_const(one.args[1]) and g.is_const(two.args[1]))
            ):
                continue
            (x, a), (y, b) = one.args, two.args
            if x == y and g.shape(a) == g.shape(b):
                yield Equal(at, product(one, x, apply(Add(), a, b)), (one, two))
            elif fit(g.shape(x), g.shape(y), depth) and fit(g.shape(a), g.shape(b), inner_axis):
                both = apply(ConcatTerm(depth), x, y)
                yield Equal(at, product(one, both, apply(ConcatTerm(inner_axis), a, b)), (one, two))


def fit(a: Shape, b: Shape, axis: int) -> bool:
    """Whether two shapes differ along this axis only."""
    return len(a) == len(b) and all(i == axis or p == q for i, (p, q) in enumerate(zip(a, b)))


@equality("Conv", "MatMul")
def product_of_sum(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """(x + y) · w = x · w + y · w (also - )"""
    x, w = term.args
    for inner in g.terms(x, "Add", "Sub"):
        if all(g.shape(a) == g.shape(x) and not g.is_const(a) for a in inner.args):
            parts = [product(term, a, w) for a in inner.args]
            yield Equal(at, with_operands(inner, *parts), (inner,))


@equality("Add", "Sub")
def sum_before_product(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """X · w + y · w = (x + y) · w (also - )"""
    for one in g.terms(term.args[0], "Conv", "MatMul"):
        for two in g.terms(term.args[1], one.kind):
            same = (
                two.head == one.head and two.args[1] == one.args[1] and two.args[0] != one.args[0]
            )
            if same and g.shape(one.args[0]) == g.shape(two.args[0]):
                total = apply(Add() if term.kind == "Add" else Sub(), one.args[0], two.args[0])
                yield Equal(at, product(one, total, one.args[1]), (one, two))


@equality("ConcatTerm")
def joined_products(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Concat(x · a, x · b) = x · Concat(a, b) of columns or filters"""
    head = term.head
    assert isinstance(head, ConcatTerm)
    for first in g.terms(term.args[0], "Conv", "MatMul"):
        axes = weight_axes(g, first)
        if axes is None or axes[1] != head.axis:
            continue
        lines = []
        for arg in term.args:
            products = (
                t
                for t in g.terms(arg, first.kind)
                if t.head == first.head and t.args[0] == first.args[0]
            )
            lines.append(
                next(
                    (
                        t
                        for t in products
                        if fit(g.shape(t.args[1]), g.shape(first.args[1]), axes[3])
                    ),
                    None,
                )
            )
        parts = [line for line in lines if line is not None]
        if len(parts) == len(lines):
            weights = apply(ConcatTerm(axes[3]), *(part.args[1] for part in parts))
            yield Equal(at, product(first, first.args[0], weights), tuple(parts))


# -- cuts ----------------------------------------------------------------------------------------


@equality("SliceTerm", "GatherTerm")
def cut_of_product(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Slice(x · w) = x · Slice(w) for columns or filters, Slice(x) · w for rows or images (Gather
    too)
    """
    outer = term.head
    assert isinstance(outer, (SliceTerm, GatherTerm))
    for inner in g.terms(term.args[0], "Conv", "MatMul"):
        axes = weight_axes(g, inner)
        if axes is None:
            continue
        x, w = inner.args
        if outer.axis == axes[1]:
            yield Equal(at, product(inner, x, apply(replace(outer, axis=axes[3]), w)), (inner,))
        elif inner.kind == "MatMul" or outer.axis == 0:
            yield Equal(at, product(inner, apply(outer, x), w), (inner,))


@equality("Conv")
def steps_as_cut(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Conv of one pixel with steps = Conv without steps of every other pixel"""
    op = conv_of(term)
    x, w = term.args
    kernel = g.shape(w)[2:]
    steps = op.steps(len(kernel))
    if all(step == 1 for step in steps) or not is_unpadded(op) or any(k != 1 for k in kernel):
        return
    sizes = g.shape(x)[2:]
    if not is_static(sizes):
        return
    source: Expression = x
    for axis, (size, step) in enumerate(zip(sizes, steps)):
        if step > 1:
            assert isinstance(size, int)
            source = apply(SliceTerm.to(axis + 2, 0, size, step), source)
    yield Equal(at, apply(op.replace(strides=()), source, w))


@equality("Conv")
def order_into_weights(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Conv(Gather(x), w) = Conv(x, w in the order before); of one channel each: Gather(Conv(x, w in
    that order))
    """
    x, w = term.args
    for inner in g.terms(x, "GatherTerm"):
        pick = inner.head
        assert isinstance(pick, GatherTerm)
        if (
            pick.axis != CHANNELS
            or not pick.is_permutation
            or len(pick.places) != g.shape(inner.args[0])[CHANNELS]
        ):
            continue
        inverse = tuple(pick.places.index(i) for i in range(len(pick.places)))
        if conv_of(term).group == 1:
            yield Equal(
                at, product(term, inner.args[0], apply(GatherTerm(1, inverse), w)), (inner,)
            )
        elif is_depthwise(g, term):
            filters = product(term, inner.args[0], apply(GatherTerm(0, inverse), w))
            yield Equal(at, apply(pick, filters), (inner,))


@equality("Conv")
def depthwise_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """Conv of each channel of Concat(x, y) = Concat(Conv(x), Conv(y))"""
    if not is_depthwise(g, term):
        return
    x, w = term.args
    for inner in g.terms(x, "ConcatTerm"):
        sizes = sizes_along(g, inner.args, CHANNELS)
        if inner.head != ConcatTerm(CHANNELS) or sizes is None or len(sizes) > MOST_PIECES:
            continue
        parts, begin = [], 0
        for piece, size in zip(inner.args, sizes):
            op = conv_of(term).replace(group=size)
            parts.append(apply(op, piece, apply(SliceTerm(0, begin, begin + size), w)))
            begin += size
        yield Equal(at, joined(CHANNELS, parts), (inner,))


# -- poolings --------------------------------------------------------------------------------------


@equality("AveragePool", "GlobalAveragePool")
def product_before_pool(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """AveragePool(x · w) = AveragePool(x) · w for one pixel a window (global pools too)"""
    for inner in g.terms(term.args[0], "Conv"):
        if is_point(g, inner):
            yield Equal(
                at, product(inner, with_operands(term, inner.args[0]), inner.args[1]), (inner,)
            )


@equality("Conv")
def pool_before_product(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """AveragePool(x) · w = AveragePool(x · w) for one pixel a window"""
    if not is_point(g, term):
        return
    for inner in g.terms(term.args[0], "AveragePool", "GlobalAveragePool"):
        assert isinstance(inner.head, (AveragePool, GlobalAveragePool))
        yield Equal(at, with_operands(inner, product(term, inner.args[0], term.args[1])), (inner,))


@equality("AveragePool", "GlobalAveragePool")
def pool_of_joined(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
    """AveragePool(Concat(x, y)) = Concat(AveragePool(x), AveragePool(y)) of channels"""
    for inner in g.terms(term.args[0], "ConcatTerm"):
        if inner.head == ConcatTerm(CHANNELS) and len(inner.args) <= MOST_PIECES:
            yield Equal(
                at,
                apply(ConcatTerm(CHANNELS), *(with_operands(term, a) for a in inner.args)),
                (inner,),
            )
