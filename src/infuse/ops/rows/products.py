"""Rows through products of matrices, of floats and of integers, and through quantizers."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.graph import Node, Value
from infuse.ops.contraction import Einsum, parse_equation
from infuse.ops.core.axes import aligned
from infuse.ops.core.base import Op, normalize_axis
from infuse.ops.core.rows import (
    ACROSS,
    APART,
    COUNTED,
    UNKNOWN,
    Dependence,
    Kind,
    Mixes,
    RowProof,
    carried,
    rows_of,
)
from infuse.ops.domains.microsoft import FusedMatMul, product_order
from infuse.ops.domains.microsoft_bits import MatMulNBits
from infuse.ops.domains.microsoft_integers import (
    DynamicQuantizeMatMul,
    MatMulIntegerToFloat,
    QGemm,
    RuntimeDequantizeLinear,
    RuntimeQuantizeLinear,
)
from infuse.ops.domains.microsoft_quantized import (
    QLinearAdd,
    QLinearConcat,
    QLinearLeakyRelu,
    QLinearMul,
    QLinearSigmoid,
    QLinearSoftmax,
)
from infuse.ops.integers import MatMulInteger, QLinearMatMul
from infuse.ops.quantization import DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear
from infuse.ops.quantized_weights import GatherBlocks, MatMulBlocks

Results = Sequence[Dependence]
WHOLE = "its scale is that of all rows together"


@rows_of(Einsum)
def summed(op: Einsum, node: Node, proof: RowProof) -> Results:
    """Axes by their letters; those that the result lacks are summed over."""
    terms, result = parse_equation(op.equation, len(node.inputs))
    letters = {letter: n for n, letter in enumerate(sorted(set("".join(terms)) - {"."}))}
    if "." in result or any("." in term or len(set(term)) < len(term) for term in terms):
        raise Mixes(UNKNOWN)
    orders = [[letters[c] for c in term] for term in terms]
    kept = [letters[c] for c in result]
    return [carried(node, proof, orders, kept)]


@rows_of(FusedMatMul)
def fused_product(op: FusedMatMul, node: Node, proof: RowProof) -> Results:
    """Of operands whose axes are in another order."""
    a, b = node.inputs
    if a is None or b is None or op.transBatchA or op.transBatchB:
        raise Mixes(UNKNOWN)
    left, right, result, depth = product_orders(a, b, node.output)
    left = [left[axis] for axis in product_order(a.rank, op.transA, 0)] if op.transA else left
    right = [right[axis] for axis in product_order(b.rank, op.transB, 0)] if op.transB else right
    return [carried(node, proof, [left, right], result, (depth,))]


def product_orders(
    a: Value | None, b: Value | None, result: Value
) -> tuple[Sequence[int], Sequence[int], Sequence[int], int]:
    """Numbers of the axes of the operands of a product of stacks of matrices and of its result, and
    the one that is summed over.
    """
    if a is None or b is None or None in (a.tensor.rank, b.tensor.rank, result.tensor.rank):
        raise Mixes(UNKNOWN)
    if min(a.rank, b.rank) < 2:
        raise Mixes(UNKNOWN)
    rows, columns, depth = result.rank - 2, result.rank - 1, result.rank
    left, right = (aligned(x.shape[:-2], result.shape[:-2]) for x in (a, b))
    if left is None or right is None:
        raise Mixes(UNKNOWN)
    return (*left, rows, depth), (*right, depth, columns), range(result.rank), depth


def _product(node: Node, proof: RowProof, second: int, of_first: Sequence[int]) -> Results:
    """`second`: the number of the other matrix; `of_first`: those of the scale and zero point of
    the first one, which must be one for all its rows.
    """
    left, right, result, depth = product_orders(node.inputs[0], node.inputs[second], node.output)
    orders: list[Sequence[int] | None] = [None] * len(node.inputs)
    orders[0], orders[second] = left, right
    found = carried(node, proof, orders, result, (depth,))
    numbers = [n for n in range(len(node.inputs)) if n not in (0, second)]
    if found.axis < len(result) - 1:
        numbers = [n for n in numbers if n in of_first]  # others may be those of columns
    if not all(_is_single(node.input(n)) for n in numbers):
        raise Mixes(APART)
    return [found]


def _is_single(value: Value | None) -> bool:
    shape = () if value is None else value.tensor.shape
    return shape is not None and all(size == 1 for size in shape)


@rows_of(MatMulInteger, MatMulIntegerToFloat)
def integer_product(op: Op, node: Node, proof: RowProof) -> Results:
    """Rows of either operand, with scales and zero points that are constant."""
    return _product(node, proof, 1, (2,) if isinstance(op, MatMulInteger) else (2, 4))


@rows_of(QLinearMatMul)
def quantized_product(op: Op, node: Node, proof: RowProof) -> Results:
    """As MatMulInteger."""
    return _product(node, proof, 3, (1, 2, 6, 7))


@rows_of(DynamicQuantizeLinear, DynamicQuantizeMatMul)
def quantized_by_all(op: Op, node: Node, proof: RowProof) -> Results:
    """The extremes of all elements decide about the scale."""
    raise Mixes(WHOLE)


@rows_of(QGemm)
def quantized_gemm(op: QGemm, node: Node, proof: RowProof) -> Results:
    """Rows of the first matrix."""
    return [proof.rows_in(node, {0: 1 if op.transA else 0}).moved(0)]


@rows_of(MatMulNBits, MatMulBlocks)
def packed_product(op: Op, node: Node, proof: RowProof) -> Results:
    """Rows of the first operand, by weights that are constant."""
    found = proof.rows_in(node, {0: None})
    if node.output.tensor.rank is None or found.axis == node.output.rank - 1:
        raise Mixes(ACROSS)
    return [found]


@rows_of(GatherBlocks)
def stored_rows(op: GatherBlocks, node: Node, proof: RowProof) -> Results:
    """Rows of the indices, by weights that are constant."""
    return [proof.rows_in(node, {1: None})]


@rows_of(QuantizeLinear, DequantizeLinear, RuntimeQuantizeLinear, RuntimeDequantizeLinear)
def quantized(op: Op, node: Node, proof: RowProof) -> Results:
    """Scales that are constant and not those of rows, or one for each row."""
    data, *scales = node.inputs
    state = proof.of(data)
    if data is None or data.tensor.rank is None or state.kind is not Kind.ROWS:
        raise Mixes(COUNTED if state.kind is Kind.COUNT else UNKNOWN)
    own = getattr(op, "axis", None)
    own = 1 if own is None else own
    for value in filter(None, scales):
        if value.tensor.shape is None:
            raise Mixes(UNKNOWN)
        scale = proof.of(value)
        if scale.kind is Kind.CONSTANT and _is_single(value):
            continue
        along = normalize_axis(own, data.rank, op.name) if value.rank == 1 else state.axis
        if scale.kind is Kind.CONSTANT and value.rank == 1 and along != state.axis:
            continue
        own_axis = 0 if value.rank == 1 else state.axis
        if along != state.axis or scale != state.moved(own_axis):
            raise Mixes(APART)
    return [state]


@rows_of(QLinearSigmoid, QLinearLeakyRelu)
def quantized_alone(op: Op, node: Node, proof: RowProof) -> Results:
    """Each element by itself."""
    return [proof.rows_in(node, {0: None})]


@rows_of(QLinearAdd, QLinearMul)
def quantized_pair(op: Op, node: Node, proof: RowProof) -> Results:
    """Two operands that are broadcast."""
    whole = node.output.tensor.shape
    orders: list[Sequence[int] | None] = [None] * len(node.inputs)
    for number in (0, 3):
        value = node.inputs[number]
        orders[number] = aligned(value.tensor.shape, whole) if value is not None else None
        if orders[number] is None or whole is None:
            raise Mixes(UNKNOWN)
    return [carried(node, proof, orders, range(len(whole or ())))]


@rows_of(QLinearSoftmax)
def quantized_softmax(op: QLinearSoftmax, node: Node, proof: RowProof) -> Results:
    """Along one axis, before opset 13 along all from it on."""
    found = proof.rows_in(node, {0: None})
    if node.output.tensor.rank is None:
        raise Mixes(UNKNOWN)
    axis = op.axis % node.output.rank
    if found.axis == axis or (op.opset < 13 and found.axis > axis):
        raise Mixes(ACROSS)
    return [found]


@rows_of(QLinearConcat)
def quantized_join(op: QLinearConcat, node: Node, proof: RowProof) -> Results:
    """Operands side by side: each must have the rows."""
    tensors = node.inputs[2::3]
    if node.output.tensor.rank is None or any(proof.of(v).kind is not Kind.ROWS for v in tensors):
        raise Mixes(APART)
    first = proof.of(tensors[0])
    found = proof.rows_in(node, {2 + 3 * n: first.axis for n in range(len(tensors))})
    if found.axis == op.axis % node.output.rank:
        raise Mixes(ACROSS)
    return [found]
