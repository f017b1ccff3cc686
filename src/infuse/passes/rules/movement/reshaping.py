"""Changes of shape exchanged with operators, to where they cancel or leave less to compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    permutation,
    regroup,
    require_shape,
    reshapes,
)
from infuse.passes.rules.movement.rows import Rows
from infuse.rewrite import Rule, require

_WEIGHTS = tuple(
    np.linspace(-1, 1, a * b, dtype=np.float32).reshape(a, b) for a, b in ((4, 6), (6, 5), (1, 5))
)


def _bent(x: Any) -> Any:
    return x * ops.tanh(x * 0.5 + np.arange(4, dtype=np.float32))


def _cut(x: Any) -> Any:
    return ops.cast(ops.clip(x, 0.0, 2.0), to=11)


def _chosen(x: Any) -> Any:
    return ops.where(ops.greater(x, 0.0), x, np.ones((1, 1, 1), np.float32))


def _product(x: Any) -> Any:
    return ops.matmul(x, _WEIGHTS[0][:, :4]) + np.ones((1, 4), np.float32)


_BETWEEN: tuple[tuple[Any, str, tuple[int, ...], list[Any], list[Any]], ...] = (
    (ops.relu, "Reshape", (3, 8), [int64s(3, 2, 4)], []),
    (_bent, "Reshape", (6, 4), [int64s(2, 3, 4)], [int64s(6, 4)]),
    (_cut, "Reshape", (6, 4), [int64s(24)], [int64s(6, 4)]),
    (_chosen, "Reshape", (6, 4), [int64s(3, 2, 4)], [int64s(6, 4)]),
    (_product, "Reshape", (2, 3, 4), [int64s(6, 4)], [int64s(3, 2, 4)]),
    (ops.sigmoid, "Unsqueeze", (6, 4), [int64s(1)], [int64s(1)]),
    (ops.sigmoid, "Unsqueeze", (6, 4), [int64s(0)], [int64s(6, 4)]),
    (ops.sigmoid, "Reshape", (1,), [int64s()], [int64s(-1)]),
    (ops.sigmoid, "Squeeze", (6, 1, 4), [int64s(1)], [int64s(1)]),
)


class _OfRows(Rule):
    """A Reshape that only arranges rows, moved beyond what computes each row alone."""

    shares = True

    def build(self, analysis: Rows) -> Any:
        return analysis.result

    def covers(self, analysis: Rows) -> list[Node]:
        return analysis.nodes


class RemoveReshapesAround(_OfRows):
    """Reshape(f(Reshape(x), c)) → f(x, c), its operand given another shape once at most, for any
    work f on elements or rows
    """

    rows = ("G9", "G24")
    rounding = "sums of products may run in another order"
    examples = tuple(
        {"x": f(Call(inner, (x, *target))), "more": more} for f, inner, x, target, more in _BETWEEN
    )

    def match(self, x: Variable, more: Variable) -> Any:
        return reshapes(x, more)

    def when(self, x: Value, root: Node) -> Rows:
        rows = Rows(x, root, anywhere=False)
        require(rows.gain > 0, "it is not fewer nodes")
        return rows


_FLAT = Call("Reshape", ((2, 3, 4), int64s(6, 4)))


class UnflattenRows(_OfRows):
    """Reshape(Gemm(f(Gemm(Reshape(x), w), …), v)) that only arranges rows → f(x · w) · v, where
    that is fewer nodes
    """

    level = "extended"
    rows = ("G7", "G24")
    rounding = "the bias may be added later"
    examples = tuple(
        {
            "y": Call(
                "Gemm", (Call("Gelu", (Call("Gemm", (_FLAT, _WEIGHTS[0])),)), *_WEIGHTS[1:end])
            ),
            "t": int64s(*shape),
        }
        for end, shape in ((2, (2, 3, 5)), (3, (2, 3, 5)), (2, (3, 1, 2, 5)))
    )

    def match(self, y: Variable, t: Variable) -> Any:
        return ops.reshape(y, t)

    def when(self, y: Value, root: Node) -> Rows:
        require(root.output.rank >= 3, "the result is a matrix")
        rows = Rows(y, root, anywhere=True)
        require(rows.products, "no Gemm is between")
        require(rows.gain > 0, "it is not fewer nodes")
        return rows


class MergeTransposesAroundReshape(Rule):
    """Transpose(Reshape(Transpose(x))) → one Transpose beside the Reshape, which cuts each axis on
    its own, or joins neighbours
    """

    rows = ("G8", "G24")
    examples = tuple(
        {"x": shape, "s": s, "first": {"perm": first}, "last": {"perm": last}}
        for shape, first, s, last in (
            ((2, 6, 3, 5), (0, 2, 3, 1), int64s(2, 3, 5, 2, 3), (0, 1, 2, 4, 3)),
            ((2, 3, 4, 5), (0, 2, 3, 1), int64s(2, 20, 3), (0, 2, 1)),
            ((2, 3, 4, 5), (1, 0, 2, 3), int64s(6, 20), (1, 0)),
        )
    )

    def match(self, x: Variable, s: Variable) -> Any:
        between = ops.reshape(ops.transpose(x, name="first"), s, name="between")
        return ops.transpose(between, name="last")

    def when(self, x: Value, first: Node, between: Node, last: Node) -> None:
        require_shape(x, between.output, last.output)
        sizes = (*x.shape, *between.output.shape)
        require(all(isinstance(n, int) and n > 1 for n in sizes), "a size is one, or is not known")
        self._merged(x, first, between, last)

    def build(self, x: Value, first: Node, between: Node, last: Node) -> Any:
        return self._merged(x, first, between, last)

    def _merged(self, x: Value, first: Node, between: Node, last: Node) -> Any:
        moved, shape = permutation(first), between.output.shape
        middle = [x.shape[axis] for axis in moved]
        cut = regroup(shape, middle)
        if cut is not None:
            by_axis = [cut[moved.index(axis)] for axis in range(x.rank)]
            order = [axis for group in by_axis for axis in group]
            target = np.asarray([shape[axis] for axis in order], dtype=np.int64)
            perm = tuple(order.index(axis) for axis in permutation(last))
            return _in_order(ops.reshape(x, target), perm)
        joined = regroup(middle, shape)
        require(joined is not None, "it cuts and joins axes at once")
        places = [moved[m] for axis in permutation(last) for m in (joined or [])[axis]]
        target = np.asarray(last.output.shape, dtype=np.int64)
        return ops.reshape(_in_order(x, tuple(places)), target)


def _in_order(x: Any, perm: tuple[int, ...]) -> Any:
    return x if perm == tuple(range(len(perm))) else ops.transpose(x, perm=perm)


RULES = (RemoveReshapesAround, UnflattenRows, MergeTransposesAroundReshape)
