"""What is said of the rows of a batch holds by brute force: for samples of every operator, each row
of a result is what the operator gives for that row alone.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from infuse.dtypes import by_numpy
from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.core.rows import Dependence, Kind, RowProof
from infuse.testing.samples import Row, results, rows

Array = np.ndarray[Any, Any]
Axes = dict[int, int]
"""The axis along which an operand has the rows, by its number."""
WITHOUT_ROWS = {
    # all elements, or those of other rows
    *("Compress", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicTimeWarping"),
    *("MaxRoiPool", "MaxUnpool", "PagedAttention"),
    *("NegativeLogLikelihoodLoss", "NonMaxSuppression", "NonZero", "RoiAlign", "ScatterND"),
    *(
        "SoftmaxCrossEntropyLoss",
        "StringNormalizer",
        "StringSplit",
        "Tokenize",
        "Tokenizer",
        "Unique",
    ),
    # no elements of rows
    *("BlackmanWindow", "ConstantOfShape", "EyeLike", "HammingWindow", "HannWindow"),
    *("MelWeightMatrix", "Range", "Shape", "Size"),
    # sequences, optional values, maps, texts and files
    *(
        "CastMap",
        "ConcatFromSequence",
        "CountTerms",
        "FindTerms",
        "JoinRuns",
        "JoinText",
        "SplitText",
        "Detokenize",
        "DictVectorizer",
        "ImageDecoder",
        "Optional",
    ),
    *("OptionalGetElement", "OptionalHasElement", "RegexFullMatch", "SequenceAt"),
    *("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"),
    *("SplitToSequence", "StringConcat", "CategoryMapper", "HashText", "MissingText", "ZipMap"),
    *("ChangeText", "ReplaceText", "SubText", "TextBucket", "TextLength"),
    # training
    *("Adagrad", "Adam", "Gradient", "Momentum"),
    # not looked at, or samples of one row or of given numbers
    *("AffineGrid", "BiasSoftmax", "CenterCropPad", "MultiplyAdd", "ReduceLogSum"),
}
"""Operators of which nothing is proven for any sample."""


def given(row: Row) -> list[int]:
    """The operands that a run may bring: arrays of numbers."""
    return [
        number
        for number, x in enumerate(row.inputs)
        if isinstance(x, np.ndarray) and x.dtype.kind in "fiub" and not row.fixed[number]
    ]


def layouts(row: Row) -> Iterator[Axes]:
    """Ways in which operands may have rows: one or several of them, each along one axis, which have
    as many places.
    """
    arrays = (x for x in row.inputs if x is not None)
    numbers = given(row) if all(isinstance(x, np.ndarray) for x in arrays) else []
    first = [k for k, x in enumerate(row.inputs) if numbers and x is not None and x.ndim]
    if first and (size := row.inputs[first[0]].shape[0]) > 1:
        yield {k: 0 for k in first if row.inputs[k].shape[0] == size}
    for count in range(1, min(len(numbers), 3) + 1):
        for chosen in combinations(numbers, count):
            sizes = {n for k in chosen for n in row.inputs[k].shape if n > 1}
            for size in sorted(sizes):
                axes = [[a for a, n in enumerate(row.inputs[k].shape) if n == size] for k in chosen]
                if all(axes):
                    yield {k: own[0] for k, own in zip(chosen, axes)}
                    if any(len(own) > 1 for own in axes):
                        yield {k: own[-1] for k, own in zip(chosen, axes)}


def proof_of(row: Row, axes: Axes) -> tuple[Node, RowProof] | None:
    """The node of a sample whose operands have rows so, and what is proven of it; None where its
    sizes cannot be symbols.
    """
    graph, states = Graph("sample"), {}
    inputs: list[Value | None] = []
    for number, x in enumerate(row.inputs):
        if x is None:
            inputs.append(None)
            continue
        if number not in axes:
            inputs.append(constant(x))
            continue
        shape = [dims.symbol("batch") if a == axes[number] else n for a, n in enumerate(x.shape)]
        value = graph.add_input(f"x{number}", TensorType(by_numpy(x.dtype), tuple(shape)))
        states[value] = Dependence(Kind.ROWS, axes[number])
        inputs.append(value)
    outputs = [Value(TensorType(None, None), f"y{i}") for i in range(len(results(row)))]
    node = graph.add_node(Node(row.op, inputs, outputs))
    try:
        row.op.infer_node(node)
    except InfuseError:
        return None
    return node, RowProof(graph, states, ["batch"])


def part(array: Array, state: Dependence, index: int, batch: int) -> Array:
    """What belongs to one row."""
    outer, inner = int(state.outer), int(state.inner)
    shape = array.shape
    split = array.reshape(*shape[: state.axis], outer, batch, inner, *shape[state.axis + 1 :]).take(
        [index], axis=state.axis + 1
    )
    return split.reshape(*shape[: state.axis], outer * inner, *shape[state.axis + 1 :])


def alone(row: Row, axes: Axes, index: int) -> list[Any]:
    inputs = [x.take([index], axis=axes[k]) if k in axes else x for k, x in enumerate(row.inputs)]
    found = row.op.eval(*inputs)
    return list(found) if isinstance(found, tuple | list) else [found]


def check(row: Row, axes: Axes) -> bool:
    """Whether something is proven of a sample; fails where it does not hold."""
    proven = proof_of(row, axes)
    if proven is None:
        return False
    node, proof = proven
    if not all(isinstance(value.type, TensorType) for value in node.outputs):
        return False
    states = [proof.of(value) for value in node.outputs]
    if all(state.kind is Kind.MIXED for state in states):
        return False
    batch = next(row.inputs[k].shape[a] for k, a in axes.items())
    whole = results(row)
    for index in range(batch):
        for state, one, all_rows in zip(states, alone(row, axes, index), whole):
            if state.kind is Kind.ROWS:
                expected = part(np.asarray(all_rows), state, index, batch)
            elif state.kind is Kind.CONSTANT:
                expected = np.asarray(all_rows)
            else:
                continue
            one = np.asarray(one)
            assert one.shape == expected.shape, (row.op, axes, state)
            if one.dtype.kind in "fV":
                one, expected = one.astype(np.float64), expected.astype(np.float64)
                scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
                np.testing.assert_allclose(
                    one, expected, rtol=1e-5, atol=1e-5 * scale, err_msg=f"{row.op} {axes} {state}"
                )
            else:
                np.testing.assert_array_equal(one, expected, f"{row.op} {axes} {state}")
    return any(state.kind is Kind.ROWS for state in states)


def is_plain(op: type[Op]) -> bool:
    return op.eval is not Op.eval and op.deterministic


@pytest.mark.row("S4")
@pytest.mark.parametrize(
    "op",
    [op for _, op in sorted(REGISTRY.items()) if is_plain(op)],
    ids=lambda op: f"{op.domain}::{op.name}",
)
def test_rows_alone_are_rows_together(op: type[Op]) -> None:
    for row in rows(op, np.random.default_rng(5)):
        for axes in layouts(row):
            check(row, axes)


def test_what_is_proven() -> None:
    """Of which operators rows are known to be independent for some sample."""
    names = set()
    for op in filter(is_plain, REGISTRY.values()):
        for row in rows(op, np.random.default_rng(5)):
            if any(check(row, axes) for axes in layouts(row)):
                names.add(op.name)
                break
    missing = {op.name for op in REGISTRY.values() if is_plain(op)} - names
    assert missing == WITHOUT_ROWS
