"""Rows through operators that look elements up by number."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value
from infuse.ops.conversion import Cast
from infuse.ops.core.base import normalize_axis
from infuse.ops.core.rows import (
    ACROSS,
    APART,
    COUNTED,
    UNKNOWN,
    Dependence,
    Kind,
    Mixes,
    RowProof,
    by_axes_all,
    carried,
    reads_numbers,
    rows_of,
)
from infuse.ops.creation import Range
from infuse.ops.indexing import (
    Gather,
    GatherElements,
    GatherND,
    OneHot,
    ReverseSequence,
    ScatterElements,
    ScatterND,
)
from infuse.ops.movement import Concat
from infuse.ops.pass_through import Identity
from infuse.ops.ranking import TopK
from infuse.ops.shaping import Expand, Reshape, Unsqueeze

Results = Sequence[Dependence]
OTHER_ROWS = "it reads whichever row the indices say"


def _rank(value: Value | None) -> int:
    if value is None or value.tensor.rank is None:
        raise Mixes("the shape of an operand is not known")
    return value.rank


@rows_of(Gather)
def gathered(op: Gather, node: Node, proof: RowProof) -> Results:
    """A table that is constant is read by each row; rows keep what constant indices take."""
    data, indices = node.inputs
    axis = normalize_axis(op.axis, _rank(data), op.name)
    rows, taken = proof.of(data), proof.of(indices)
    if Kind.COUNT in (rows.kind, taken.kind):
        raise Mixes(COUNTED)
    if rows.kind is Kind.CONSTANT:
        return [taken.moved(axis + taken.axis)]
    if taken.kind is Kind.ROWS or rows.axis == axis:
        raise Mixes(OTHER_ROWS)
    return [rows.moved(rows.axis + (_rank(indices) - 1) * (rows.axis > axis))]


@rows_of(GatherElements)
def gathered_elements(op: GatherElements, node: Node, proof: RowProof) -> Results:
    """Along all axes but one, places of data and indices go together."""
    data, indices = node.inputs
    rank = _rank(data)
    axis = normalize_axis(op.axis, rank, op.name)
    if proof.is_constant(data) and proof.of(indices).kind is Kind.ROWS:
        if proof.of(indices).axis != axis:
            raise Mixes(APART)
        return [proof.of(indices)]
    if proof.of(data).kind is not Kind.ROWS or proof.of(indices).kind is not Kind.ROWS:
        raise Mixes(OTHER_ROWS)
    return [carried(node, proof, [range(rank)] * 2, range(rank), (axis,))]


@rows_of(ScatterElements)
def scattered_elements(op: ScatterElements, node: Node, proof: RowProof) -> Results:
    """As GatherElements; each operand must have the rows."""
    rank = _rank(node.inputs[0])
    axis = normalize_axis(op.axis, rank, op.name)
    if any(proof.of(value).kind is not Kind.ROWS for value in node.inputs):
        raise Mixes(APART)
    return [carried(node, proof, [range(rank)] * 3, range(rank), (axis,))]


@reads_numbers
@rows_of(GatherND)
def gathered_blocks(op: GatherND, node: Node, proof: RowProof) -> Results:
    """Rows among the first `batch_dims` axes, rows of indices into a constant, or rows that are
    counted: [0, …], [1, …], … as the indices of an element for each row.
    """
    data, indices = node.inputs
    rows, taken = proof.of(data), proof.of(indices)
    if rows.kind is Kind.CONSTANT and taken.kind is Kind.ROWS:
        if taken.axis < op.batch_dims or taken.axis == _rank(indices) - 1:
            raise Mixes(APART)
        return [taken]
    if rows.kind is not Kind.ROWS:
        raise Mixes(COUNTED)
    if taken.kind is Kind.ROWS and rows.axis == taken.axis < op.batch_dims:
        return [proof.rows_in(node, {0: rows.axis, 1: taken.axis})]
    if taken.kind is not Kind.NUMBERED or op.batch_dims or (rows.axis, *rows.layout) != (0, 1, 1):
        raise Mixes(OTHER_ROWS)
    return [rows.moved(taken.axis)]


@rows_of(Concat)
def joined(op: Concat, node: Node, proof: RowProof) -> Results:
    """Operands side by side: each must have the rows, or the first one their numbers."""
    first, *others = node.inputs
    if all(proof.of(value).kind is Kind.ROWS for value in node.inputs):
        return by_axes_all(op, node, proof)
    axis, rank = _axis_of_numbers(first, proof), node.output.tensor.rank
    if first is None or axis is None or rank is None or op.axis % rank != rank - 1:
        raise Mixes(APART)
    rows = Dependence(Kind.ROWS, axis)
    if first.shape[-1] != 1 or axis == rank - 1:
        raise Mixes(COUNTED)
    if any(not proof.is_constant(value) and proof.of(value) != rows for value in others):
        raise Mixes(APART)
    return [Dependence(Kind.NUMBERED, axis)]


def _axis_of_numbers(value: Value | None, proof: RowProof) -> int | None:
    """The axis along which a value counts the rows from 0 on; None where it is not known to."""
    node = value.producer if value is not None else None
    if value is None or node is None or value.tensor.shape is None:
        return None
    if isinstance(node.op, Range):
        start, _, step = (known_ints(x) for x in node.inputs)
        counts = (start, step) == ((0,), (1,)) and proof.split(value.shape[0], 1) == 1
        return 0 if counts else None
    source = node.inputs[0]
    if isinstance(node.op, Cast | Identity):
        return _axis_of_numbers(source, proof)
    if not isinstance(node.op, Reshape | Unsqueeze | Expand):
        return None
    inner = _axis_of_numbers(source, proof)
    axes = [axis for axis, size in enumerate(value.shape) if proof.has_rows(size)]
    if inner is None or len(axes) != 1 or proof.split(value.shape[axes[0]], 1) != 1:
        return None
    if isinstance(node.op, Expand):
        assert source is not None
        return axes[0] if axes[0] == inner + value.rank - source.rank else None
    return axes[0]  # all others have one place, or the elements would be more


@rows_of(ScatterND)
def scattered_blocks(op: ScatterND, node: Node, proof: RowProof) -> Results:
    """Which elements are written may be said by any row."""
    raise Mixes(OTHER_ROWS)


@rows_of(ReverseSequence)
def reversed_sequences(op: ReverseSequence, node: Node, proof: RowProof) -> Results:
    """Each example along `batch_axis` has a length of its own."""
    rank, (data, lengths) = _rank(node.inputs[0]), node.inputs
    batch, time = op.batch_axis % rank, op.time_axis % rank
    if proof.is_constant(data):
        raise Mixes(APART)
    if proof.of(data).axis == time:
        raise Mixes(ACROSS)
    if proof.is_constant(lengths):
        if proof.of(data).axis == batch:
            raise Mixes(APART)
        return [proof.of(data)]
    return [proof.rows_in(node, {0: batch, 1: 0})]


@rows_of(OneHot)
def one_hot(op: OneHot, node: Node, proof: RowProof) -> Results:
    """An axis more, which is not that of the rows."""
    indices, *others = node.inputs
    state, rank = proof.of(indices), _rank(indices) + 1
    if not all(map(proof.is_constant, others)) or state.kind is not Kind.ROWS:
        raise Mixes(UNKNOWN)
    return [state.moved(state.axis + (op.axis % rank <= state.axis))]


rows_of(TopK)(by_axes_all)
