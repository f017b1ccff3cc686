"""Rows through operators that move, repeat and make elements."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.dims.expression import exact_divide
from infuse.ir.dims.substitution import product
from infuse.ir.graph import Node
from infuse.ops.core.base import Op, normalize_axis
from infuse.ops.core.rows import (
    ACROSS,
    COUNT,
    COUNTED,
    UNKNOWN,
    Dependence,
    Kind,
    Mixes,
    RowProof,
    carried,
    makes_rows,
    rows_of,
)
from infuse.ops.creation import ConstantOfShape
from infuse.ops.gated import BitCast
from infuse.ops.movement import Slice, Split, Tile, Trilu
from infuse.ops.padding import Pad
from infuse.ops.pass_through import Assert, Dropout, Identity
from infuse.ops.resampling import Resize
from infuse.ops.shaping import Expand, Flatten, Reshape, Squeeze, Unsqueeze

Results = Sequence[Dependence]


@rows_of(Identity, Dropout, BitCast)
def unchanged(op: Op, node: Node, proof: RowProof) -> Results:
    """Each place of the results has what lies there in the first operand."""
    if not all(map(proof.is_constant, node.inputs[1:])):
        raise Mixes(UNKNOWN)
    return [proof.of(node.inputs[0])] * len(node.outputs)


@rows_of(Assert)
def asserted(op: Assert, node: Node, proof: RowProof) -> Results:
    """A condition on rows fails for all of them."""
    if not proof.is_constant(node.inputs[1]):
        raise Mixes("it fails for all rows where the condition does not hold for one")
    return [proof.of(node.inputs[0])]


@rows_of(Reshape, Flatten, Squeeze, Unsqueeze)
def reshaped(op: Op, node: Node, proof: RowProof) -> Results:
    """The elements in their order: rows lie along the axis with as many places before and behind
    them as they had.
    """
    data, result = node.inputs[0], node.output.tensor.shape
    state = proof.of(data)
    if any(proof.of(value).kind is Kind.ROWS for value in node.inputs[1:]):
        raise Mixes("its shape depends on elements of the rows")
    if state.kind is not Kind.ROWS:
        return [COUNT]
    if data is None or data.tensor.shape is None or result is None:
        raise Mixes("the shape of its result is not known")
    before = product((*data.shape[: state.axis], state.outer))
    behind = product((state.inner, *data.shape[state.axis + 1 :]))
    for axis, size in enumerate(result):
        outer = exact_divide(before, product(result[:axis])) if proof.has_rows(size) else None
        inner = None if outer is None else proof.split(size, outer)
        if outer is None or inner is None:
            continue
        if product((inner, *result[axis + 1 :])) == behind:
            return [Dependence(Kind.ROWS, axis, outer, inner)]
    raise Mixes("rows do not lie along one axis of its result")


@makes_rows
@rows_of(Expand)
def expanded(op: Expand, node: Node, proof: RowProof) -> Results:
    """Rows stay; a constant that is repeated for each row has them."""
    data, shape = node.inputs
    state = proof.of(data)
    if proof.of(shape).kind is Kind.ROWS:
        raise Mixes("its shape depends on elements of the rows")
    if state.kind is Kind.COUNT:
        return [COUNT]
    if state.kind is Kind.CONSTANT:
        return [proof.places(node.output)]
    rank = node.output.tensor.rank
    if data is None or data.tensor.rank is None or rank is None:
        raise Mixes("the shape of its result is not known")
    return [state.moved(state.axis + rank - data.rank)]


@makes_rows
@rows_of(ConstantOfShape)
def filled(op: ConstantOfShape, node: Node, proof: RowProof) -> Results:
    """One number everywhere: as many rows as its shape has."""
    if proof.of(node.inputs[0]).kind is Kind.ROWS:
        raise Mixes("its shape depends on elements of the rows")
    return [proof.places(node.output)]


@makes_rows
@rows_of(Tile)
def tiled(op: Tile, node: Node, proof: RowProof) -> Results:
    """Rows that are repeated as a whole lie in several rounds; a constant that is repeated for each
    row has them.
    """
    data, state = node.inputs[0], proof.of(node.inputs[0])
    if proof.of(node.inputs[1]).kind is Kind.ROWS:
        raise Mixes("its shape depends on elements of the rows")
    if state.kind is Kind.COUNT:
        return [COUNT]
    if state.kind is Kind.CONSTANT:
        return [proof.places(node.output)]
    repeats = known_ints(node.inputs[1])
    if repeats is None or data is None or any(map(proof.has_rows, repeats)):
        raise Mixes(UNKNOWN)
    outer = product((repeats[state.axis], state.outer))
    return [Dependence(Kind.ROWS, state.axis, outer, state.inner)]


@rows_of(Split)
def parted(op: Split, node: Node, proof: RowProof) -> Results:
    """Parts along one axis have the rows along another one."""
    data, state = node.inputs[0], proof.of(node.inputs[0])
    if data is None or data.tensor.rank is None or not proof.is_constant(node.input(1)):
        raise Mixes(UNKNOWN)
    if state.kind is Kind.COUNT:
        return [COUNT] * len(node.outputs)
    if state.axis == normalize_axis(op.axis, data.rank, op.name):
        raise Mixes(ACROSS)
    return [state] * len(node.outputs)


@rows_of(Slice)
def cut(op: Slice, node: Node, proof: RowProof) -> Results:
    """Ranges along other axes than that of the rows, which are the same for all."""
    axes = op.cut_axes(node)
    data, state = node.inputs[0], proof.of(node.inputs[0])
    if axes is None or data is None or data.tensor.rank is None:
        raise Mixes(UNKNOWN)
    for value in node.inputs[1:]:
        if proof.is_constant(value):
            continue
        known = known_ints(value)
        if known is None or any(map(proof.has_rows, known)):
            raise Mixes("its range depends on the rows")
    if state.kind is Kind.COUNT:
        return [COUNT]
    if state.axis in axes:
        raise Mixes("it takes some of the rows")
    return [state]


@rows_of(Pad)
def padded(op: Pad, node: Node, proof: RowProof) -> Results:
    """Places that are added along other axes."""
    data, state = node.inputs[0], proof.of(node.inputs[0])
    added = known_ints(node.inputs[1])
    if data is None or data.tensor.rank is None or state.kind is not Kind.ROWS:
        raise Mixes(COUNTED)
    if added is None or not all(map(proof.is_constant, node.inputs[1:])):
        raise Mixes(UNKNOWN)
    axes = known_ints(node.input(3)) if node.input(3) else range(data.rank)
    if axes is None or any(not isinstance(axis, int) for axis in axes):
        raise Mixes(UNKNOWN)
    places = [axis % data.rank for axis in axes if isinstance(axis, int)]
    ends: list[Dim] = [n for n, axis in zip([*added], places * 2) if axis == state.axis]
    if any(size != 0 for size in ends):
        raise Mixes(ACROSS)
    return [state]


@rows_of(Resize)
def resized(op: Resize, node: Node, proof: RowProof) -> Results:
    """Other sizes along axes beside that of the rows."""
    axes = op.shared_axes(node)
    sizes = node.input(3)
    if axes is None or not all(proof.is_constant(v) for v in node.inputs[1:] if v is not sizes):
        raise Mixes(UNKNOWN)
    if proof.of(sizes).kind is Kind.ROWS or proof.of(node.inputs[0]).kind is not Kind.ROWS:
        raise Mixes("its sizes depend on the rows")
    state = proof.of(node.inputs[0])
    if state.axis in axes.mixed:
        raise Mixes(ACROSS)
    return [state]


@rows_of(Trilu)
def triangles(op: Trilu, node: Node, proof: RowProof) -> Results:
    """Triangles of matrices, which lie along the last two axes."""
    state, rank = proof.of(node.inputs[0]), node.output.tensor.rank
    if rank is None or not proof.is_constant(node.input(1)):
        raise Mixes(UNKNOWN)
    if state.kind is Kind.COUNT:
        return [COUNT]
    order = range(rank)
    return [carried(node, proof, [order, None], order, (rank - 2, rank - 1))]
