"""Rows through control flow: bodies are walked as the graph is."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.graph import Node, Value
from infuse.ops.control import If, Loop, Scan
from infuse.ops.core.rows import (
    ACROSS,
    CONSTANT,
    Dependence,
    Kind,
    Mixes,
    RowProof,
    rows_of,
)

Results = Sequence[Dependence]
_BRANCH = "which way it takes depends on the rows"


def _require_constant(proof: RowProof, *values: Value | None) -> None:
    if not all(map(proof.is_constant, values)):
        raise Mixes(_BRANCH)


def _require(found: Sequence[Dependence]) -> Sequence[Dependence]:
    """What a body gives, where nothing of it is mixed; `Mixes` tells which of its nodes is."""
    for state in found:
        if state.kind is Kind.MIXED:
            what = f" {state.node.kind}:" if state.node is not None else ""
            raise Mixes(f"in its body,{what} {state.why}")
    return found


@rows_of(If)
def branches(op: If, node: Node, proof: RowProof) -> Results:
    """All rows take the same branch, and both branches have rows along the same axes."""
    _require_constant(proof, node.inputs[0])
    found = [_require(proof.body(body, [])) for body in node.subgraphs.values()]
    first, *others = found
    if any(list(other) != list(first) for other in others):
        raise Mixes("its branches have rows along different axes")
    return first


@rows_of(Loop)
def repeated(op: Loop, node: Node, proof: RowProof) -> Results:
    """How often it runs is the same for all rows, and what it carries has them along one axis."""
    body = node.subgraphs["body"]
    _require_constant(proof, node.input(0), node.input(1))
    carried = [proof.of(value) for value in node.inputs[2:]]
    count = len(carried)
    found = _require(proof.body(body, [CONSTANT, CONSTANT, *carried]))
    if list(found[1 : 1 + count]) != carried:
        raise Mixes("what it carries has rows along different axes before and after")
    _require_constant(proof, body.outputs[0])
    return [*carried, *map(_stacked, found[1 + count :])]


def _stacked(state: Dependence) -> Dependence:
    return state.moved(state.axis + 1) if state.kind is Kind.ROWS else state


@rows_of(Scan)
def scanned(op: Scan, node: Node, proof: RowProof) -> Results:
    """Slices along another axis than that of the rows; what it carries has them along one axis."""
    body, count = node.subgraphs["body"], len(node.inputs) - op.num_scan_inputs
    carried = [proof.of(value) for value in node.inputs[:count]]
    scanned = node.inputs[count:]
    axes = op.scan_input_axes or (0,) * len(scanned)
    slices = [_sliced(proof, value, axis) for value, axis in zip(scanned, axes)]
    found = _require(proof.body(body, [*carried, *slices]))
    if list(found[:count]) != carried:
        raise Mixes("what it carries has rows along different axes before and after")
    outputs = found[count:]
    places = op.scan_output_axes or (0,) * len(outputs)
    values = node.outputs[count:]
    return [*carried, *(_put(s, v, axis) for s, v, axis in zip(outputs, values, places))]


def _sliced(proof: RowProof, value: Value | None, axis: int) -> Dependence:
    state = proof.of(value)
    if state.kind is not Kind.ROWS or value is None:
        return state
    axis %= value.rank
    if axis == state.axis:
        raise Mixes(ACROSS)
    return state.moved(state.axis - (axis < state.axis))


def _put(state: Dependence, value: Value, axis: int) -> Dependence:
    if state.kind is not Kind.ROWS:
        return state
    if value.tensor.rank is None:
        raise Mixes("the shape of its result is not known")
    return state.moved(state.axis + (axis % value.rank <= state.axis))
