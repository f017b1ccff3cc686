"""Symbolic inference of the operators that move elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from infuse import dtypes
from infuse.ir import SequenceType, dims, tensor
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import symbol
from infuse.ops.blocks import DepthToSpace, SpaceToDepth
from infuse.ops.core.base import Op
from infuse.ops.creation import ConstantOfShape, EyeLike, Range
from infuse.ops.indexing import Gather, GatherElements, GatherND, OneHot, ScatterND
from infuse.ops.movement import Concat, Slice, Split, Tile, Trilu, equal_parts
from infuse.ops.padding import CenterCropPad, Pad
from infuse.ops.pass_through import Identity
from infuse.ops.ranking import TopK
from infuse.ops.selection import Compress, NonMaxSuppression, NonZero, Unique
from infuse.ops.sequences import (
    ConcatFromSequence,
    Optional,
    SequenceAt,
    SequenceInsert,
    SplitToSequence,
)
from infuse.ops.shaping import Expand, Flatten, Reshape, Shape, Size, Squeeze, Transpose, Unsqueeze
from tests.pure.typed_nodes import (
    INDEX,
    SIZE_LIST,
    SIZES,
    UNKNOWN_RANK,
    X,
    as_value,
    inferred,
    node,
)

bounds = st.one_of(st.integers(-9, 9), st.sampled_from([2**63 - 1, 2**31 - 1, -(2**31), -(2**63)]))
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (Reshape(), (X, [0, 0, 12, 64]), "float32[batch, seq, 12, 64]"),
        (Reshape(), (X, [0, -1, 768]), "float32[batch, seq, 768]"),
        (Reshape(), (X, [-1, 768]), "float32[batch*seq, 768]"),
        (Reshape(), (X, [-1]), "float32[768*batch*seq]"),
        (Reshape(), (X, ["batch", "seq", 12, -1]), "float32[batch, seq, 12, 64]"),
        (Reshape(), (X, ["batch*seq", 768]), "float32[batch*seq, 768]"),
        (Reshape(), (X, [-1, 7]), "float32[((768*batch*seq) // 7), 7]"),
        (Reshape(), (X, SIZES), "float32[_reshape_1, _reshape_2, _reshape_3]"),
        (Reshape(), (X, SIZE_LIST), "float32[?]"),
        (Reshape(), (X, tensor(dtypes.int64, 1)), "float32[768*batch*seq]"),
        (Reshape(), (UNKNOWN_RANK, [0, -1, 4]), "float32[_reshape_1, _reshape_2, 4]"),
        (Reshape(allowzero=1), (tensor(dtypes.float32, 0, "n"), [3, 0]), "float32[3, 0]"),
        (Flatten(), (X,), "float32[batch, 768*seq]"),
        (Flatten(axis=-1), (X,), "float32[batch*seq, 768]"),
        (Flatten(), (UNKNOWN_RANK,), "float32[_flatten_1, _flatten_2]"),
        (Squeeze(), (tensor(dtypes.float32, "n", 1, 3), [1]), "float32[n, 3]"),
        (Squeeze(), (tensor(dtypes.float32, "n", 1), [0]), "float32[1]"),
        (Squeeze(), (tensor(dtypes.float32, "n", 1),), "float32[?]"),
        (Squeeze(), (tensor(dtypes.float32, "n + 2", 1),), "float32[n + 2]"),
        (Squeeze(), (X, tensor(dtypes.int64, 1)), "float32[_squeeze_1, _squeeze_2]"),
        (Unsqueeze(), (X, [1, -1]), "float32[batch, 1, seq, 768, 1]"),
        (Unsqueeze(), (tensor(dtypes.float32, "n"), tensor(dtypes.int64, 1)),
            "float32[_unsqueeze_1, _unsqueeze_2]"),
        (Expand(), (tensor(dtypes.float32, 1, "seq", 1), ["batch", 1, 64]),
            "float32[batch, seq, 64]"),
        (Expand(), (tensor(dtypes.float32, "seq"), ["batch", 1]), "float32[batch, seq]"),
        (Expand(), (tensor(dtypes.float32, 5, 1), tensor(dtypes.int64, 2)),
            "float32[5, _expand_1]"),
        (Transpose(), (X,), "float32[768, seq, batch]"),
        (Transpose(perm=(1, 0, 2)), (X,), "float32[seq, batch, 768]"),
        (Transpose(perm=(1, 0)), (UNKNOWN_RANK,), "float32[_transpose_1, _transpose_2]"),
        (Concat(axis=1), (X, X, tensor(dtypes.float32, "batch", 1, 768)),
            "float32[batch, 2*seq + 1, 768]"),
        (Concat(axis=1), (tensor(dtypes.float32, "m", 4), tensor(dtypes.float32, 3, "k")),
            "float32[3, k + 4]"),
        (Concat(axis=0), (UNKNOWN_RANK, tensor(dtypes.float32, 3, 4)), "float32[_concat_1 + 3, 4]"),
        (Slice(), (X, [1], [2**63 - 1], [1]), "float32[batch, max(0, seq - 1), 768]"),
        (Slice(), (X, [0], [-1], [1]), "float32[batch, max(0, seq - 1), 768]"),
        (Slice(), (X, [-4], [2**31 - 1], [2]), "float32[batch, seq, 4]"),
        (Slice(), (X, [0], [2**63 - 1], [1], [2]), "float32[batch, ((seq + 1) // 2), 768]"),
        (Slice(), (X, [-1], [-(2**63) + 1], [1], [-1]), "float32[batch, seq, 768]"),
        (Slice(), (X, [0], ["seq"], [1]), "float32[batch, seq, 768]"),
        (Slice(), (X, ["seq"], ["2*seq"], [1]), "float32[batch, 0, 768]"),
        (Slice(), (tensor(dtypes.float32, 1, 1024), [0], ["seq"], [1]),
            "float32[1, min(1024, seq)]"),
        (Slice(), (tensor(dtypes.float32, "past + seq"), ["past"], ["past + seq"], [0]),
            "float32[seq]"),
        (Slice(), (X, [0], ["seq - 3"], [1]), "float32[batch, _slice_1, 768]"),
        (Slice(), (X, [0], tensor(dtypes.int64, 1), [1]), "float32[batch, _slice_1, 768]"),
        (Slice(), (X, tensor(dtypes.int64, 1), tensor(dtypes.int64, 1)),
            "float32[_slice_1, seq, 768]"),
        (Slice(), (X, SIZE_LIST, SIZE_LIST), "float32[_slice_1, _slice_2, _slice_3]"),
        (Pad(), (X, [0, 1, 0, 0, 2, -8]), "float32[batch, seq + 3, 760]"),
        (Pad(), (X, ["seq", 2], None, [1]), "float32[batch, 2*seq + 2, 768]"),
        (Pad(), (X, SIZE_LIST, None, [1]), "float32[batch, _pad_1, 768]"),
        (Tile(), (X, [1, 2, "k"]), "float32[batch, 2*seq, 768*k]"),
        (Tile(), (UNKNOWN_RANK, SIZES), "float32[_tile_1, _tile_2, _tile_3]"),
        (CenterCropPad(axes=(1,)), (X, ["k"]), "float32[batch, k, 768]"),
        (DepthToSpace(blocksize=2), (tensor(dtypes.float32, "n", "4*c", "h", 5),),
            "float32[n, c, 2*h, 10]"),
        (SpaceToDepth(blocksize=2), (tensor(dtypes.float32, "n", 3, "2*h", 6),),
            "float32[n, 12, h, 3]"),
        (ConstantOfShape(), (["batch", 4],), "float32[batch, 4]"),
        (ConstantOfShape(value=np.array([1])), (SIZES,), "int64[_filled_1, _filled_2, _filled_3]"),
        (Range(), (0, "seq", 1), "int64[seq]"),
        (Range(), (1, "seq", 2), "int64[(seq // 2)]"),
        (Range(), ("seq", 0, -1), "int64[seq]"),
        (Range(), (0, INDEX, 1), "int64[_range_1]"),
        (EyeLike(), (UNKNOWN_RANK,), "float32[_eye_1, _eye_2]"),
        (Gather(axis=1), (X, tensor(dtypes.int64, "k", 2)), "float32[batch, k, 2, 768]"),
        (Gather(axis=1), (X, INDEX), "float32[batch, 768]"),
        (GatherElements(axis=2), (X, tensor(dtypes.int64, "batch", 5, 1)), "float32[batch, 5, 1]"),
        (GatherND(batch_dims=1), (X, tensor(dtypes.int64, "batch", 5, 1)),
            "float32[batch, 5, 768]"),
        (GatherND(), (X, tensor(dtypes.int64, "k", 2)), "float32[k, 768]"),
        (ScatterND(), (X, tensor(dtypes.int64, "k", 1), tensor(dtypes.float32, "k", "seq", 768)),
            f"{X}"),
        (OneHot(), (tensor(dtypes.int64, "n"), "classes", np.float32([0, 1])),
            "float32[n, classes]"),
        (OneHot(axis=0), (tensor(dtypes.int64, "n"), INDEX, np.float32([0, 1])),
            "float32[_depth_1, n]"),
        (TopK(), (X, [5]), "float32[batch, seq, 5]"),
        (TopK(axis=1), (X, tensor(dtypes.int64, 1)), "float32[batch, _top_1, 768]"),
        (NonZero(), (X,), "int64[3, _nonzero_1]"),
        (Compress(axis=1), (X, tensor(dtypes.bool_, "seq")), "float32[batch, _compress_1, 768]"),
        (Compress(), (X, np.array([True, False, True])), "float32[2]"),
        (Unique(axis=1), (X,), "float32[batch, _unique_1, 768]"),
        (NonMaxSuppression(), (tensor(dtypes.float32, "n", "b", 4), X), "int64[_boxes_1, 3]"),
        (Trilu(), (X,), f"{X}"),
        (SequenceAt(), (SequenceType(X), INDEX), f"{X}"),
        (SequenceInsert(), (SequenceType(X), tensor(dtypes.float32, "batch", 1, 768)),
         "seq(float32[batch, _element_1, 768])"),
        (ConcatFromSequence(axis=1), (SequenceType(X),), "float32[batch, _concat_1, 768]"),
        (ConcatFromSequence(axis=0, new_axis=1), (SequenceType(X),),
            "float32[_concat_1, batch, seq, 768]"),
        (SplitToSequence(axis=2), (X, np.array(256)), "seq(float32[batch, seq, 256])"),
        (SplitToSequence(axis=1, keepdims=0), (X,), "seq(float32[batch, 768])"),
        (Optional(), (X,), f"optional({X})"),
    ],
)  # fmt: skip
def test_symbolic_shapes(op: Op, inputs: Sequence[Any], expected: str) -> None:
    given = (
        [[x] if isinstance(x, str) else x for x in inputs]
        if isinstance(op, (Range, OneHot))
        else inputs
    )
    assert inferred(op, *given) == expected


def test_parts_of_split() -> None:
    def parts(op: Op, *inputs: Any, count: int) -> list[str]:
        return [str(v.type) for v in node(op, *inputs, outputs=count).outputs]

    assert parts(Split(axis=2, num_outputs=3), X, count=3) == ["float32[batch, seq, 256]"] * 3
    assert parts(Split(axis=2), X, [1, 767], count=2) == [
        "float32[batch, seq, 1]",
        "float32[batch, seq, 767]",
    ]
    assert parts(Split(axis=-1), X, ["k", "768 - k"], count=2) == [
        "float32[batch, seq, k]",
        "float32[batch, seq, -k + 768]",
    ]
    odd = ["float32[batch, ((seq + 1) // 2), 768]", "float32[batch, seq - ((seq + 1) // 2), 768]"]
    assert parts(Split(axis=1, num_outputs=2), X, count=2) == odd
    unknown = ["float32[_split_1, seq, 768]", "float32[_split_2, seq, 768]"]
    assert parts(Split(), X, tensor(dtypes.int64, 2), count=2) == unknown
    assert parts(Split(), X, SIZE_LIST, count=2) == unknown
    assert parts(Split(), UNKNOWN_RANK, SIZE_LIST, count=1) == ["float32[?]"]


# -- contents --------------------------------------------------------------------------------------


def content(op: Op, *inputs: Any, output: int = 0) -> list[Any] | None:
    known = node(op, *inputs, outputs=output + 1).outputs[output].content
    return None if known is None else known.tolist()


BATCH, SEQ = symbol("batch"), symbol("seq")


def test_sizes_travel_through_shape_arithmetic() -> None:
    assert content(Shape(), X) == [BATCH, SEQ, 768]
    assert content(Shape(start=1, end=-1), X) == [SEQ]
    assert content(Shape(), UNKNOWN_RANK) is None
    assert content(Size(), X) == BATCH * SEQ * 768
    sizes = ["batch", "seq", 768]
    assert content(Gather(), sizes, 1) == SEQ
    assert content(Gather(), sizes, [2, -3]) == [768, BATCH]
    assert content(Slice(), sizes, [1], [2**63 - 1]) == [SEQ, 768]
    assert content(Slice(), sizes, [-1], [-9], [0], [-2]) == [768, BATCH]
    assert content(Concat(axis=0), ["batch"], [12, -1]) == [BATCH, 12, -1]
    assert content(Unsqueeze(), ["seq"], [0]) == [[SEQ]]
    assert content(Squeeze(), ["seq"], [0]) == SEQ
    assert content(Reshape(), ["a", "b", 3, 4], [2, 2]) == [[symbol("a"), symbol("b")], [3, 4]]
    assert content(Transpose(), as_value(["a", "b"])) == [symbol("a"), symbol("b")]
    assert content(Expand(), ["seq"], [3]) == [SEQ] * 3
    assert content(Tile(), ["seq", 1], [2]) == [SEQ, 1, SEQ, 1]
    assert content(Split(num_outputs=3), sizes, output=1) == [SEQ]
    assert content(Identity(), sizes) == [BATCH, SEQ, 768]
    assert content(ConstantOfShape(value=np.array([1])), [3]) == [1, 1, 1]
    assert content(Range(), 1, 9, 3) == [1, 4, 7]
    assert content(ScatterND(), sizes, np.array([[1]]), [7]) == [BATCH, 7, 768]
    assert content(Pad(), ["seq"], [1, 0], 5) == [5, SEQ]


def test_contents_end_where_a_size_would_have_to_be_a_number() -> None:
    assert content(Gather(), [1, 2, 3], ["batch"]) is None
    assert content(Slice(), [1, 2, 3], ["batch"], [3]) is None
    assert content(Gather(), SIZES, 0) is None
    assert content(ConstantOfShape(value=np.array([1])), ["batch"]) is None
    assert content(ConstantOfShape(value=np.array([1])), [1000]) is None
    assert content(Identity(), X) is None


def test_a_list_of_sizes_shapes_a_tensor() -> None:
    """What exporters write for x.view(x.size(0), -1, 12, 64)."""
    batch = node(Gather(), node(Shape(), X).output, 0).output
    row = node(Unsqueeze(), batch, [0]).output
    target = node(Concat(axis=0), row, [-1, 12, 64]).output
    assert inferred(Reshape(), X, target) == "float32[batch, seq, 12, 64]"
    assert inferred(Range(), 0, batch, 1) == "int64[batch]"


# -- against numbers -------------------------------------------------------------------------------


@relaxed
@given(st.integers(0, 7), bounds, bounds, st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_slices_of_symbolic_axes(size: int, start: int, end: int, step: int) -> None:
    shape = node(Slice(), tensor(dtypes.float32, "n"), [start], [end], [0], [step]).output.shape
    data = np.arange(size)
    result = Slice().eval(data, np.array([start]), np.array([end]), np.array([0]), np.array([step]))
    assert dims.evaluate(shape[0], {"n": size}) == len(result)
    static = node(Slice(), tensor(dtypes.float32, size), [start], [end], [0], [step]).output.shape
    assert static == (len(result),)
    if step > 0 and abs(start) < 10:
        assert result.tolist() == data[start:end:step].tolist()


@relaxed
@given(st.integers(0, 20), st.integers(1, 5))
def test_equal_parts_of_symbolic_axes(size: int, count: int) -> None:
    assume(size >= -(-size // count) * (count - 1))
    parts = equal_parts(symbol("n"), count)
    assert [dims.evaluate(p, {"n": size}) for p in parts] == equal_parts(size, count)
    assert sum(equal_parts(size, count)) == size


@relaxed
@given(st.integers(0, 20), st.integers(-5, 5), st.sampled_from([-3, -1, 1, 2, 5]))
def test_ranges_to_symbolic_limits(limit: int, start: int, delta: int) -> None:
    value = as_value(["n"])
    assert value is not None
    shape = node(Range(), [start], value, [delta]).output.shape
    expected = list(range(start, limit, delta))
    assert dims.evaluate(shape[0], {"n": limit}) == len(expected)
    assert Range().eval(np.array(start), np.array(limit), np.array(delta)).tolist() == expected


def test_sizes_that_are_equal_in_every_case_broadcast_to_the_simpler_one() -> None:
    """torch.export writes x[:, 1:] of x after its own first element so."""
    seq = symbol("seq")
    shifted = dims.maximum(0, seq + dims.minimum(1, seq) - 1)
    assert broadcast_shapes((1, shifted), (1, seq)) == (1, seq)
    assert broadcast_shapes((1, seq), (1, shifted)) == (1, seq)
