"""Operators that move elements: what stays true when less is known, what is refused, and corners of
evaluation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.errors import InfuseError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir import OptionalType, SequenceType, TensorType, Value, constant, dims, tensor
from infuse.ir.dims import symbol
from infuse.ops import (
    blocks,
    creation,
    indexing,
    movement,
    padding,
    pass_through,
    selection,
    sequences,
    shaping,
)
from infuse.ops.blocks import DepthToSpace, SpaceToDepth
from infuse.ops.core.base import REGISTRY, Op, Sample
from infuse.ops.core.samples import Bools, Floats, Ints, sample_rows
from infuse.ops.core.signatures import signature
from infuse.ops.core.sizes import fresh_dim, numbering
from infuse.ops.creation import ConstantOfShape, EyeLike, RandomNormal, Range
from infuse.ops.indexing import Gather, GatherElements, GatherND, ScatterElements, ScatterND
from infuse.ops.movement import Concat, Slice, Split, Tile, Trilu
from infuse.ops.padding import CenterCropPad, Pad
from infuse.ops.pass_through import Dropout
from infuse.ops.ranking import TopK
from infuse.ops.selection import Compress, NonMaxSuppression, NonZero, Unique
from infuse.ops.sequences import Optional, SequenceAt, SequenceInsert
from infuse.ops.shaping import Expand, Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from tests.pure.typed_nodes import INDEX, SIZES, X, inferred, node

FAMILIES = {
    module.__name__
    for module in (
        *(blocks, creation, indexing, movement, padding, pass_through),
        *(selection, sequences, shaping),
    )
}
OPERATORS = {name: op for (_, name), op in REGISTRY.items() if op.__module__ in FAMILIES}

# -- what stays true when less is known ------------------------------------------------------------


def drawn(spec: Any, rng: np.random.Generator) -> Any:
    """An array for a sample's input."""
    if isinstance(spec, list):
        return [drawn(part, rng) for part in spec]
    if isinstance(spec, Ints):
        return rng.integers(spec.low, spec.high, spec.shape).astype(spec.dtype.numpy)
    if isinstance(spec, Floats):
        return rng.uniform(spec.low, spec.high, spec.shape).astype(spec.dtype.numpy)
    if isinstance(spec, Bools):
        return rng.random(spec.shape) < 0.5
    return rng.uniform(-3, 3, spec).astype(np.float32) if isinstance(spec, tuple) else spec


def arguments(op: type[Op], row: Sample, rng: np.random.Generator) -> list[Any]:
    """The inputs of a sample in order; a list is a sequence where the parameter takes one value."""
    found: list[Any] = []
    expected = signature(op)
    for name in expected.names:
        given = drawn(row.inputs.get(name), rng)
        found += (
            given
            if expected.variadic and name == expected.names[-1] and given is not None
            else [given]
        )
    return found


def value_of(given: Any, knowledge: str, index: int) -> Value | None:
    """A value of which only so much is known as `knowledge` says."""
    if given is None:
        return None
    if isinstance(given, list):
        return Value(SequenceType(TensorType(dtypes.by_numpy(given[0].dtype), None)))
    value = constant(given)
    if knowledge == "constants" or (knowledge == "symbols" and given.dtype.kind != "f"):
        return value
    sizes = tuple(symbol(f"s{index}_{axis}") for axis in range(given.ndim))
    shape = {"symbols": sizes, "shapes": given.shape, "types": None}[knowledge]
    return Value(TensorType(value.dtype, shape))


def check_type(inferred: Any, actual: Any, sizes: dict[str, int]) -> None:
    if isinstance(inferred, OptionalType):
        if actual is not None:
            check_type(inferred.element, actual, sizes)
    elif isinstance(inferred, SequenceType):
        for part in actual:
            check_type(inferred.element, part, sizes)
    else:
        assert inferred.dtype.numpy == actual.dtype
        if inferred.shape is not None:
            assert len(inferred.shape) == actual.ndim
            known = [dims.substitute(d, sizes) for d in inferred.shape]
            assert all(k == n for k, n in zip(known, actual.shape) if isinstance(k, int)), (
                inferred,
                actual.shape,
            )


@pytest.mark.parametrize("knowledge", ["constants", "shapes", "symbols", "types"])
@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_inferred_holds(name: str, knowledge: str, rng: np.random.Generator) -> None:
    op = OPERATORS[name]
    rows = sample_rows(op)
    assert rows
    for row in rows:
        operator = op(**row.attributes)
        given = arguments(op, row, rng)
        results = operator.eval(*given)
        results = results if isinstance(results, tuple) else (results,)
        if any(g == [] for g in given if isinstance(g, list)):
            continue
        inputs = [value_of(g, knowledge, i) for i, g in enumerate(given)]
        sizes = {
            f"s{i}_{a}": n
            for i, g in enumerate(given)
            if isinstance(g, np.ndarray)
            for a, n in enumerate(g.shape)
        }
        made = node(operator, *inputs, outputs=len(results))
        for value, result in zip(made.outputs, results):
            check_type(value.type, result, sizes)
            if value.content is not None:
                known = [
                    dims.substitute(d, sizes) if isinstance(d, dims.Expr) else d
                    for d in value.content.reshape(-1)
                ]
                assert known == result.reshape(-1).tolist()


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        (Reshape(), (tensor(dtypes.float32, 2, 3), [4]), "6 elements and does not reshape to"),
        (Reshape(), (tensor(dtypes.float32, 2, 3), [4, -1]), "do not reshape to"),
        (Reshape(), (X, [-1, -1]), "is not determined"),
        (Reshape(allowzero=1), (X, [0, -1]), "is not determined"),
        (Reshape(), (X, [1, 1, 1, 0]), "keeps the size of axis 3"),
        (Flatten(axis=4), (X,), "axis 4 of Flatten"),
        (Squeeze(), (X, [2]), "has not size one"),
        (Squeeze(), (X, [0, -3]), "names an axis twice"),
        (Unsqueeze(), (X, [5]), "axis 5 of Unsqueeze"),
        (Expand(), (tensor(dtypes.float32, 3), [4]), "do not broadcast"),
        (Transpose(perm=(0, 1)), (X,), "not an order of the axes"),
        (Concat(axis=0), (X, tensor(dtypes.float32, 2, 2, 2)), "must be equal"),
        (Concat(axis=0), (X, tensor(dtypes.float32, 2)), "equal ranks"),
        (Concat(axis=3), (X,), "axis 3 of Concat"),
        (Split(), (tensor(dtypes.float32, 4), [3, 2]), "do not add up to 4"),
        (Split(num_outputs=4), (tensor(dtypes.float32, 5),), "does not split into 4 parts"),
        (Split(), (X,), "needs the sizes of its parts or their number"),
        (Slice(), (tensor(dtypes.float32, 4), [0], [2], [0], [0]), "step of Slice is zero"),
        (Slice(), (X, [0], [2], [7]), "axis 7 of Slice"),
        (Slice(), (X, [0, 1], [2]), "one start, end and step for each of its 2 axes"),
        (Reshape(), (X, [-2, 0]), "has a negative size"),
        (ConstantOfShape(), ([3, -1],), "has a negative size"),
        (Range(), ([0, 1], [3], [1]), "needs a single number"),
        (Pad(), (X, [1, 2]), "needs 6 amounts"),
        (Tile(), (X, [1, 2]), "needs 3 counts"),
        (CenterCropPad(), (X, [1, 2]), "is given 2 sizes"),
        (Range(), (0, 4, 0), "step of Range is zero"),
        (EyeLike(), (X,), "needs a matrix"),
        (Trilu(), (tensor(dtypes.float32, 3),), "needs matrices"),
        (GatherElements(), (X, tensor(dtypes.int64, 3)), "needs equal ranks"),
        (GatherND(), (X, tensor(dtypes.int64, 2, 4)), "cannot index"),
        (ScatterND(), (X, tensor(dtypes.int64, 2, 4), X), "cannot index"),
        (
            ScatterElements(),
            (X, tensor(dtypes.int64, 2, 2, 4), tensor(dtypes.float32, 2, 2, 3)),
            "must be equal",
        ),
        (TopK(), (X, [800]), "TopK asks for: 800 is more than 768"),
        (DepthToSpace(blocksize=2), (tensor(dtypes.float32, 1, 6, 2, 2),), "multiple of 4"),
        (SpaceToDepth(blocksize=2), (tensor(dtypes.float32, 1, 6, 3, 2),), "multiple of 2"),
        (DepthToSpace(blocksize=2), (X,), "rank 4"),
        (DepthToSpace(blocksize=0), (X,), "is not positive"),
        (NonMaxSuppression(), (tensor(dtypes.float32, 1, 6, 3), X), "four numbers per box"),
        (Compress(), (X, tensor(dtypes.bool_, 1, 2)), "rank 1"),
    ],
)
def test_shapes_that_do_not_fit(op: Op, inputs: Sequence[Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        node(op, *inputs)
    assert caught.value.where == f"{op.name} node 'n'"


@pytest.mark.parametrize(
    ("op", "inputs", "kind", "message"),
    [
        (Concat(axis=0), (X, tensor(dtypes.int64, 2)), TypeMismatchError, "one element type"),
        (Gather(), (X, X), TypeMismatchError, "integer indices"),
        (SequenceAt(), (X, INDEX), TypeMismatchError, "needs a sequence"),
        (SequenceInsert(), (SequenceType(X), INDEX), TypeMismatchError, "no common type"),
        (Optional(), (), TypeMismatchError, "needs an input or a type"),
        (Compress(), (X, tensor(dtypes.int64, 2)), TypeMismatchError, "boolean condition"),
        (Pad(mode="mirror"), (X, [0] * 6), UnsupportedOperatorError, "mode 'mirror'"),
        (
            DepthToSpace(blocksize=2, mode="RDC"),
            (X,),
            UnsupportedOperatorError,
            "neither DCR nor CRD",
        ),
        (ScatterND(reduction="xor"), (X, SIZES, X), UnsupportedOperatorError, "reduction 'xor'"),
        (Dropout(), (X, None, np.array(True)), UnsupportedOperatorError, "training mode"),
        (Reshape(), (X,), TypeMismatchError, "takes data, shape"),
        (Concat(axis=0), (), TypeMismatchError, "takes one or more inputs"),
        (Concat(axis=0), (None, X), TypeMismatchError, "none of them absent"),
    ],
)
def test_types_and_attributes_that_do_not_fit(
    op: Op, inputs: Sequence[Any], kind: type[InfuseError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        node(op, *inputs)


# -- evaluation ------------------------------------------------------------------------------------


def test_fresh_sizes_never_meet() -> None:
    first, second = fresh_dim("hint"), fresh_dim("hint")
    assert first != second
    taken = symbol("_hint_900")
    assert fresh_dim("hint") not in (first, second, taken)
    with numbering(["_hint_1"]):
        assert str(fresh_dim("hint")) == "_hint_2"
        with numbering([]):
            assert str(fresh_dim("hint")) == "_hint_3"


def test_negative_pads_cut() -> None:
    data = np.arange(12).reshape(3, 4)
    cut = Pad().eval(data, np.array([-1, 2, 0, -1]), np.array(7))
    assert cut.tolist() == [[7, 7, 4, 5, 6], [7, 7, 8, 9, 10]]


def test_a_reversed_slice_may_start_beyond_the_end() -> None:
    data = np.arange(5)
    one = np.array([0])

    def reverse(start: int, end: int, step: int) -> Any:
        return (
            Slice().eval(data, np.array([start]), np.array([end]), one, np.array([step])).tolist()
        )

    assert reverse(9, -9, -1) == [4, 3, 2, 1, 0]
    assert reverse(-9, -99, -1) == [0]
    assert reverse(3, 1, -1) == [3, 2]
    assert Slice().eval(data[:0], np.array([4]), np.array([-9]), one, np.array([-1])).tolist() == []


def test_indices_may_be_fewer_than_elements() -> None:
    data = np.arange(20).reshape(4, 5)
    picked = GatherElements().eval(data, np.array([[3, -4], [0, 1]]))
    assert picked.tolist() == [[15, 1], [0, 6]]
    empty = Gather(axis=1).eval(data, np.zeros((2, 0), np.int32))
    assert empty.shape == (4, 2, 0)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (Gather(), (np.zeros(3), np.array([3]))),
        (Gather(), (np.zeros(3), np.array([-4]))),
        (GatherElements(), (np.zeros(3), np.array([3]))),
        (GatherND(), (np.zeros((2, 2)), np.array([[0, 2]]))),
        (ScatterND(), (np.zeros(3), np.array([[3]]), np.zeros(1))),
        (ScatterElements(), (np.zeros(3), np.array([-5]), np.zeros(1))),
        (SequenceAt(), ([np.zeros(3)], np.array(1))),
    ],
)
def test_places_outside_are_refused(op: Op, inputs: Sequence[Any]) -> None:
    with pytest.raises(ShapeError, match="lies outside"):
        op.eval(*inputs)


def test_ties_keep_their_order_and_nan_is_largest() -> None:
    values, places = TopK().eval(np.float32([2, 5, 5, np.nan, 1]), np.array([3]))
    assert places.tolist() == [3, 1, 2]
    assert values[1:].tolist() == [5, 5]
    _, lowest = TopK(largest=0).eval(np.array([7, 0, 7, 0], np.uint8), np.array([3]))
    assert lowest.tolist() == [1, 3, 0]


def test_unique_in_order_of_appearance() -> None:
    values, first, inverse, counts = Unique(sorted=0).eval(np.array([[2, 1], [1, 3], [4, 3]]))
    assert [x.tolist() for x in (values, first, inverse, counts)] == [
        [2, 1, 3, 4],
        [0, 1, 3, 4],
        [0, 1, 1, 2, 3, 2],
        [1, 2, 2, 1],
    ]


def test_nonzero_of_a_scalar_counts_it() -> None:
    assert NonZero().eval(np.array(3)).shape == (0, 1)
    assert NonZero().eval(np.array(0)).shape == (0, 0)


def test_boxes_that_overlap_or_score_too_low_are_dropped() -> None:
    boxes = np.float32([[[0, 0, 1, 1], [1, 1.05, 0, 0.05], [0, 2, 1, 3], [0, 4, 1, 5]]])
    scores = np.float32([[[0.8, 0.9, 0.7, 0.1]]])
    most, overlap, least = np.array([5]), np.float32([0.5]), np.float32([0.2])
    kept = NonMaxSuppression().eval(boxes, scores, most, overlap, least)
    assert kept.tolist() == [[0, 0, 1], [0, 0, 2]]
    assert NonMaxSuppression().eval(boxes, scores).shape == (0, 3)
    centers = np.float32(
        [[[0.5, 0.5, 1, 1], [0.55, 0.5, 1, 1], [2.5, 0.5, 1, 1], [4.5, 0.5, 1, 1]]]
    )
    again = NonMaxSuppression(center_point_box=1).eval(centers, scores, most, overlap, least)
    assert again.tolist() == kept.tolist()


def test_split_checks_its_parts() -> None:
    with pytest.raises(ShapeError, match="do not add up to 5"):
        Split().eval(np.arange(5), np.array([2, 2]))


def test_random_numbers_repeat_with_a_seed() -> None:
    first, second = (RandomNormal(shape=(4,), seed=2.5).eval() for _ in range(2))
    assert np.array_equal(first, second)
    free = [RandomNormal(shape=(4,)).eval() for _ in range(2)]
    assert not np.array_equal(*free)
    many = creation.RandomUniform(shape=(1000,), low=2.0, high=3.0, seed=1.0).eval()
    assert 2 <= many.min() < 2.1 < 2.9 < many.max() < 3
    drawn = creation.Multinomial(sample_size=4000, seed=1.0).eval(
        np.log(np.float32([[0.1, 0.7, 0.2]]))
    )
    assert np.abs(np.bincount(drawn[0]) / 4000 - [0.1, 0.7, 0.2]).max() < 0.03
    assert (
        abs(creation.Bernoulli(seed=1.0).eval(np.full(4000, 0.3, np.float32)).mean() - 0.3) < 0.03
    )


def test_a_filled_tensor_is_told_by_value_and_type() -> None:
    op = ConstantOfShape(value=np.array([3], np.int32))
    assert (op.value, op.dtype) == (3, dtypes.int32)
    assert op == ConstantOfShape(value=3, dtype=dtypes.int32)
    assert hash(op) == hash(ConstantOfShape(value=3, dtype=dtypes.int32))
    assert op != ConstantOfShape(value=3)


def test_dropout_keeps_everything() -> None:
    data = np.float32([1, 2])
    result, mask = Dropout().eval(data, np.float32(0.9))
    assert result is data
    assert mask.all()
    with pytest.raises(UnsupportedOperatorError, match="training"):
        Dropout().eval(data, None, np.array(True))


def test_absent_values() -> None:
    absent = Optional(type=X)
    assert absent.eval() is None
    assert inferred(absent) == f"optional({X})"
    assert not sequences.OptionalHasElement().eval(None)
    with pytest.raises(TypeMismatchError, match="absent value"):
        sequences.OptionalGetElement().eval(None)
    assert inferred(sequences.OptionalGetElement(), OptionalType(X)) == str(X)
