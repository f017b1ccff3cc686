"""Gradients of products of matrices."""

from __future__ import annotations

import string

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value, constant
from infuse.ops.contraction import Einsum, Gemm, MatMul, parse_equation
from infuse.ops.core.differentiation import first, gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients


@gradient_of(MatMul)
def matmul_gradient(op: MatMul, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """G · bᵀ and aᵀ · g, summed over the stacks that were broadcast."""
    a, b, g = operand(node), operand(node, 1), first(grads)
    if min(a.rank, b.rank) < 2:
        return through(make, node, grads, [_of_matrices(make, a, b)])
    left = make.sum_to(make("MatMul", g, _turned(make, b)), a) if make.needs(a) else None
    right = _right(make, a, b, g) if make.needs(b) else None
    return left, right


def _of_matrices(make: GradientBuilder, a: Value, b: Value) -> Value:
    """The product of vectors as one of matrices."""
    rows = make("Unsqueeze", a, make.ints(0)) if a.rank == 1 else a
    columns = make("Unsqueeze", b, make.ints(1)) if b.rank == 1 else b
    product = make("MatMul", rows, columns)
    axes = [-2] * (a.rank == 1) + [-1] * (b.rank == 1)
    return make("Squeeze", product, make.ints(*axes))


def _turned(make: GradientBuilder, x: Value) -> Value:
    """The matrices of a stack transposed."""
    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return make("Transpose", x, perm=order)


def _right(make: GradientBuilder, a: Value, b: Value, g: Value) -> Value | None:
    depth, columns = a.shape[-1], b.shape[-1]
    if b.rank > 2 or not isinstance(depth, int) or not isinstance(columns, int):
        return make.sum_to(make("MatMul", _turned(make, a), g), b)
    if a.rank > 2:
        a = make("Reshape", a, make.ints(-1, depth))
        g = make("Reshape", g, make.ints(-1, columns))
    return make("Gemm", a, g, transA=1)


@gradient_of(Gemm)
def gemm_gradient(op: Gemm, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Products of the gradient with the other matrix."""
    a, b, c, g = operand(node), operand(node, 1), node.input(2), first(grads)
    left = right = added = None
    if make.needs(a):
        left = (
            make("Gemm", b, g, alpha=op.alpha, transA=op.transB, transB=1)
            if op.transA
            else make("Gemm", g, b, alpha=op.alpha, transB=1 - op.transB)
        )
    if make.needs(b):
        right = (
            make("Gemm", g, a, alpha=op.alpha, transA=1, transB=op.transA)
            if op.transB
            else make("Gemm", a, g, alpha=op.alpha, transA=1 - op.transA)
        )
    if c is not None and make.needs(c):
        added = make.sum_to(g if op.beta == 1 else make("Mul", g, op.beta), c)
    return (left, right, added)[: len(node.inputs)]


@gradient_of(Einsum)
def einsum_gradient(op: Einsum, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """For each operand the product of the gradient with the others, summed to its labels."""
    xs = [operand(node, i) for i in range(len(node.inputs))]
    terms, result = _without_ellipses(*parse_equation(op.equation, len(xs)), xs)
    return [
        _einsum_operand(make, xs, terms, result, i, first(grads)) if make.needs(x) else None
        for i, x in enumerate(xs)
    ]


def _einsum_operand(
    make: GradientBuilder, xs: list[Value], terms: list[str], result: str, own: int, g: Value
) -> Value | None:
    """The gradient of one operand. What the equation names nowhere else it sums over: a vector of
    ones stands for that, and an identity for the diagonal that a label written twice takes.
    """
    operands, labels = [g], [result]
    for i, (x, term) in enumerate(zip(xs, terms)):
        if i != own:
            operands.append(x)
            labels.append(term)
    spare = iter(c for c in string.ascii_letters if c not in "".join([*terms, result]))
    target = ""
    for label, size in zip(terms[own], xs[own].shape):
        if label in target:
            other = next(spare)
            operands.append(_identity(xs[own], size))
            labels.append(label + other)
            target += other
            continue
        target += label
        if not any(label in term for term in labels):
            operands.append(make("Expand", make.number(1, g.dtype), make.ints(size)))
            labels.append(label)
    equation = f"{','.join(labels)}->{target}"
    return make.sum_to(make("Einsum", *operands, equation=equation), xs[own])


def _without_ellipses(terms: list[str], result: str, xs: list[Value]) -> tuple[list[str], str]:
    """The same equation with a label for each axis that an ellipsis stands for."""
    spans = [x.rank - len(term) + 1 if "." in term else 0 for term, x in zip(terms, xs)]
    used = "".join([*terms, result])
    names = [c for c in reversed(string.ascii_letters) if c not in used][: max(spans)]
    letters = "".join(names)
    plain = [term.replace(".", letters[len(letters) - span :]) for term, span in zip(terms, spans)]
    return plain, result.replace(".", letters)


def _identity(x: Value, size: object) -> Value:
    if not isinstance(size, int):
        raise UnsupportedOperatorError("the diagonal of a matrix of unknown size has no gradient")
    return constant(np.eye(size, dtype=x.dtype.numpy))
