"""Products of matrices and their generalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_equal
from infuse.ir.types import Shape, TensorType
from infuse.ops.convolution import SUMS
from infuse.ops.core.axes import Axes, aligned, broadcast_operand
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, require_shape, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.traits import Trait


def _match(op: str, a: Dim, b: Dim) -> None:
    if not must_equal(a, b):
        raise ShapeError(f"{op} sums over sizes that differ: {a} and {b}")


class MatMul(Op):
    """Matrix product over the last two axes, the others broadcast; vectors as NumPy's matmul takes
    them.
    """

    traits = Trait.TOTAL | Trait.FLOAT32
    since = 13
    fixed_axes = 2
    accuracy = SUMS
    samples = cases(
        a=[(4, 7), (2, 3, 7), (2, 1, 4, 7), (7,), (3, 4, 7), (7,), Ints((3, 4))],
        b=[(7, 5), (7, 5), (3, 7, 5), (7, 5), (7,), (7,), Ints((4, 2))],
    )

    def infer(self, a: Value, b: Value) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, a, b), "fiu")
        if a.tensor.shape is None or b.tensor.shape is None:
            return TensorType(dtype, None)
        if not a.shape or not b.shape:
            raise ShapeError("MatMul takes vectors, matrices and stacks of them, found a scalar")
        left, right = a.shape, b.shape
        rows = left[-2:-1]
        columns = right[-1:] if len(right) > 1 else ()
        _match(self.name, left[-1], right[-2] if len(right) > 1 else right[0])
        stack = broadcast_shapes(left[:-2], right[:-2])
        assert stack is not None
        return TensorType(dtype, (*stack, *rows, *columns))

    def shared_axes(self, node: Node) -> Axes | None:
        a, b = node.inputs[0], node.inputs[1]
        assert a is not None
        assert b is not None
        first, second, result = a.tensor.shape, b.tensor.shape, node.output.tensor.shape
        if first is None or second is None or result is None or min(len(first), len(second)) < 2:
            return None
        depth = len(result)
        left, right = aligned(first[:-2], result[:-2]), aligned(second[:-2], result[:-2])
        if left is None or right is None:
            return None
        operands = ((*left, depth - 2, depth), (*right, depth, depth - 1))
        return Axes(operands, tuple(range(depth)), frozenset({depth}))

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        a, b = axes.operands
        (depth,) = axes.mixed
        assert a is not None
        assert b is not None
        before = self.shared_axes(node)
        if before is None or a[-1:] != (depth,) or b[-2:] != (depth, before.result[-1]):
            return None
        if len(b) == 2:
            return self.called(args) if axes.result == (*a[:-1], b[-1]) else None
        fits = len(a) > 1 and axes.result[-2:] == (a[-2], b[-1])
        stacks = [order[:-2] for order in (a, b)]
        stack = axes.result[:-2]
        fits = fits and all(order == stack[len(stack) - len(order) :] for order in stacks)
        return self.called(args) if fits else None

    def eval(self, a: Array, b: Array) -> Array:
        return np.asarray(np.matmul(widened(a), widened(b)), dtype=a.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made * shapes.input(0)[-1])


class Gemm(Op):
    """alpha · A · B + beta · C for matrices A and B (transposed if asked) and C broadcast to the
    result; a C whose beta is zero is not read.
    """

    traits = Trait.TOTAL | Trait.FLOAT32
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0

    since = 13
    accuracy = Rounding(
        ulp=4, abs=4e-6, why="long sums round in another order, and C may cancel them"
    )
    samples = (
        cases(
            a=[(4, 7), (4, 7), (4, 7), (4, 7)],
            b=[(7, 5), (7, 5), (7, 5), (7, 5)],
            c=[(5,), None, (4, 1), ()],
            alpha=[1.0, 0.5],
            beta=[1.0, 2.0],
        ),
        cases(a=[(7, 4)], b=[(5, 7)], c=[(4, 5)], transA=[1], transB=[1]),
        cases(a=[Ints((3, 4))], b=[Ints((4, 2))], c=[Ints((2,))]),
    )

    def infer(self, a: Value, b: Value, c: Value | None = None) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, a, b, c), "fiu")
        if a.tensor.shape is None or b.tensor.shape is None:
            return TensorType(dtype, None)
        if a.rank != 2 or b.rank != 2:
            raise ShapeError(f"Gemm takes two matrices, found {a.type} and {b.type}")
        rows, depth = a.shape[::-1] if self.transA else a.shape
        inner, columns = b.shape[::-1] if self.transB else b.shape
        _match(self.name, depth, inner)
        result: Shape = (rows, columns)
        if c is not None:
            require_shape(self.name, broadcast_shapes(result, c.tensor.shape, exact=True), result)
        return TensorType(dtype, result)

    def shared_axes(self, node: Node) -> Axes | None:
        c = node.input(2)
        added = None if c is None else aligned(c.tensor.shape, node.output.tensor.shape)
        if node.output.tensor.shape is None or (c is not None and added is None):
            return None
        a, b = (2, 0) if self.transA else (0, 2), (1, 2) if self.transB else (2, 1)
        return Axes((a, b, added)[: len(node.inputs)], (0, 1), frozenset({2}))

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Any:
        (a, b), own = axes.operands[:2], self.shared_axes(node)
        if own is None or a is None or b != own.operands[1] or len(a) < 2:
            return None
        c, added = (*args[2:], None)[0], (*axes.operands[2:], None)[0]
        if c is not None and added is not None:
            c = broadcast_operand(c, added, axes.result)
            if c is None:
                return None
        if (a, axes.result) == (own.operands[0], own.result):
            return self.called((*args[:2], c)[: len(args)])
        return self._of_rows(node, args, c) if axes.result == (*a[:-1], 1) else None

    def _of_rows(self, node: Node, args: Sequence[Any], c: Any) -> Any:
        """The product of rows that are no matrix any more, c added; None where weights would have
        to change.
        """
        weights = node.inputs[1]
        assert weights is not None
        if (
            type(self) is not Gemm
            or self.transA
            or self.alpha != 1
            or self.beta != 1
            or weights.const is None
        ):
            return None
        product = Call("MatMul", (args[0], weights.const.T if self.transB else args[1]))
        return product if c is None else product + c

    def eval(self, a: Array, b: Array, c: Array | None = None) -> Array:
        left, right = widened(a), widened(b)
        result = (left.T if self.transA else left) @ (right.T if self.transB else right)
        if self.alpha != 1:
            result = result * self.alpha
        if c is not None and self.beta != 0:
            result = result + (widened(c) if self.beta == 1 else widened(c) * self.beta)
        return np.asarray(result, dtype=a.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        depth = shapes.input(0)[0 if self.transA else -1]
        added = 1 + int(self.beta != 1) if shapes.has(2) and self.beta != 0 else 0
        return Flops(shapes.made * depth, shapes.made * (added + int(self.alpha != 1)))


class Einsum(Op):
    """Einstein's summation: products over named axes, summed over those that the result does not
    name.
    """

    traits = Trait.FLOAT32

    equation: str

    since = 12
    accuracy = SUMS
    samples = (
        cases(xs=[[(4, 7), (7, 5)]], equation=["ij,jk->ik", "ij, jk", "ij,jk->", "ij,jk->kij"]),
        cases(
            xs=[[(2, 3, 4), (2, 4, 5)]],
            equation=["bij,bjk->bik", "...ij,...jk->...ik", "b...j,bjk->b...k"],
        ),
        cases(xs=[[(4, 4)]], equation=["ii->i", "ii", "ij->ji", "i...->..."]),
        cases(xs=[[(2, 3), (3, 4), (4,)]], equation=["ij,jk,k->i"]),
        cases(xs=[[(2, 3, 1, 4), (2, 3, 5, 4)]], equation=["bhid,bhjd->bhij"]),
    )

    def infer(self, *xs: Value) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, *xs), "fiu")
        terms, result = parse_equation(self.equation, len(xs))
        shapes = [x.tensor.shape for x in xs]
        if any(s is None for s in shapes):
            return TensorType(dtype, None)
        return TensorType(dtype, _einsum_shape(terms, result, [s for s in shapes if s is not None]))

    def eval(self, *xs: Array) -> Array:
        compute = np.einsum(self.equation, *(widened(x) for x in xs), optimize=len(xs) > 2)
        return np.asarray(compute, dtype=xs[0].dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """From left to right, two operands at a time; labels that nobody needs any more are summed
        over at once.
        """
        terms, result = parse_equation(self.equation, len(shapes.inputs))
        sizes: dict[str, Dim] = {}
        for number, term in enumerate(terms):
            _name_sizes(term, shapes.input(number), sizes)
        total = Flops()
        held = terms[0]
        for number, term in enumerate([*terms[1:], ""] if len(terms) == 1 else terms[1:], 2):
            here = "".join(dict.fromkeys(held + term))
            remaining = "".join(
                c for c in here if c in result or any(c in later for later in terms[number:])
            )
            work = dims.product(sizes[c] for c in here)
            summed = remaining != here
            if term and summed:
                total = Flops(total.macs + work, total.others)
            elif term or summed:
                total = Flops(total.macs, total.others + work)
            held = remaining
        return total


def parse_equation(equation: str, operands: int) -> tuple[list[str], str]:
    """Labels of the operands and of the result; an ellipsis is the label "."."""
    text = equation.replace(" ", "").replace("...", ".")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != operands:
        raise ShapeError(f"the equation {equation!r} has {len(terms)} terms for {operands} inputs")
    labels = left.replace(",", "")
    bad = sorted(c for c in set(labels + right) if not (c.isalpha() and c.isascii()) and c != ".")
    if bad or any(t.count(".") > 1 for t in [*terms, right]):
        raise ShapeError(f"the equation {equation!r} is not well formed")
    if not arrow:
        once = sorted(c for c in set(labels) if labels.count(c) == 1 and c != ".")
        right = ("." if "." in labels else "") + "".join(once)
    unknown = sorted(set(right) - set(labels))
    if unknown or len(set(right)) < len(right):
        raise ShapeError(f"the result of {equation!r} must name labels of the inputs, each once")
    return terms, right


def _einsum_shape(terms: Sequence[str], result: str, shapes: Sequence[Shape]) -> Shape:
    sizes: dict[str, Dim] = {}
    batch: Shape = ()
    for term, shape in zip(terms, shapes):
        named = len(term) - term.count(".")
        if named > len(shape) or ("." not in term and named != len(shape)):
            raise ShapeError(
                f"the term {term.replace('.', '...')!r} does not fit an input of rank {len(shape)}"
            )
        spare = len(shape) - named
        start = term.index(".") if "." in term else len(term)
        if "." in term:
            common = broadcast_shapes(batch, shape[start : start + spare], exact=True)
            assert common is not None
            batch = common
        for label, size in zip(term.replace(".", ""), shape[:start] + shape[start + spare :]):
            sizes[label] = _common(label, sizes.get(label, 1), size)
    pieces: list[Shape] = [batch if label == "." else (sizes[label],) for label in result]
    return tuple(size for piece in pieces for size in piece)


def _common(label: str, a: Dim, b: Dim) -> Dim:
    if a == 1 or b == 1:
        return b if a == 1 else a
    if not must_equal(a, b):
        raise ShapeError(f"the label {label!r} of Einsum stands for the sizes {a} and {b}")
    return a if isinstance(a, int) else b


def _name_sizes(term: str, shape: Shape, sizes: dict[str, Dim]) -> None:
    """Note in `sizes` how large the labels of a term are; "." stands for all axes without one."""
    spare = len(shape) - (len(term) - term.count("."))
    pieces: list[Dim] = list(shape)
    if "." in term:
        at = term.index(".")
        pieces[at : at + spare] = [dims.product(shape[at : at + spare])]
    for label, size in zip(term, pieces):
        if sizes.get(label, 1) == 1:
            sizes[label] = size
