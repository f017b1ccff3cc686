"""What rules about shapes, parts and order of elements must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call
from infuse.ir.types import tensor
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import HALVES, M, X, f32

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "MergeTransposes": (ops.transpose(-X), "Transpose is needed, Neg found"),
    "MergeReshapes": (
        ops.reshape(ops.transpose(M), int64s(12)),
        "Reshape is needed, Transpose found",
    ),
    "MaterializeReshape": ({"x": (4, 6), "shape": Ints((2,))}, "the sizes come from data"),
    "MergeCasts": (
        {"x": (4,), "inner": {"to": dtypes.int64}, "outer": {"to": dtypes.float32}},
        "int64 does not hold every float32",
    ),
    "CastLikeAsCast": ({"x": (4,), "y": (1,)}, "it converts nothing"),
    "SqueezeAsReshape": (
        {"x": tensor(dtypes.float32, "a", "b", "c", "d"), "more": [], "root": {"axis": 2}},
        "two sizes change symbolically",
    ),
    "TransposeAsReshape": ({"x": (3, 4), "root": {"perm": (1, 0)}}, "it moves axes"),
    "MoveReshapeUp": (
        {
            "x": (24,),
            "inner": [int64s(2, 3, 4)],
            "transpose": {"perm": (0, 2, 1)},
            "outer": [int64s(8, 3)],
        },
        "it joins or mixes axes",
    ),
    "MoveUnitAxesUp": (
        {"x": (2, 3, 4), "transpose": {"perm": (0, 2, 1)}, "outer": [int64s(2, 2, 2, 3)]},
        "it cuts, joins or mixes axes",
    ),
    "RemoveReshapeBeforeBroadcast": (
        {"x": (4,), "more": int64s(4, 1), "y": (4, 3)},
        "it does more than to add axes",
    ),
    "RemoveExpandBeforeBroadcast": (
        {"x": (4,), "shape": int64s(3, 4), "y": (1, 4)},
        "the expansion makes the shape",
    ),
    "MergeSlices": (
        {"x": (9,), "a": [int64s(0), Ints((1,), 1, 9)], "b": [int64s(1), int64s(3)]},
        "the range is computed",
    ),
    "MergeConcats": (
        ops.concat(ops.concat(M, M, axis=1), (3, 8), axis=0),
        "no operand is a Concat for it alone",
    ),
    "RemoveSplitConcat": (
        ops.concat(HALVES[1], HALVES, axis=1),
        "it does not join all parts in order",
    ),
    "RemoveConcatSplit": (
        {
            "xs": [(1, 4), (3, 4)],
            "more": [],
            "concat": {"axis": 0},
            "split": {"num_outputs": 2},
            "outputs": 2,
        },
        "it cuts at other places",
    ),
    "RemoveConcatSlice": (
        {"xs": [(2,), (2,)], "more": [int64s(1), int64s(3)], "concat": {"axis": 0}},
        "it takes elements of several operands",
    ),
    "CountIndicesFromFront": ({"x": (4,), "i": int64s(1, 2)}, "no index counts from the end"),
    "SqueezeSliceAsGather": (
        {"x": (1, 4), "cut": [int64s(2), int64s(3), int64s(1)], "axes": int64s(0)},
        "other axes go",
    ),
    "TileAsExpand": ({"x": (3,), "repeats": int64s(2)}, "it repeats more than one element"),
    "MergePads": (
        {"x": (4,), "a": int64s(1, 1), "b": int64s(1, 1), "fill": f32(1)[0], "other": f32(2)[0]},
        "they fill with different numbers",
    ),
    "MergeExpands": ({"x": (1,), "a": int64s(4), "b": Ints((2,))}, "the shape is not known"),
    "RemoveReshapesAround": (
        {
            "x": ops.matmul(Call("Reshape", ((2, 3, 4), int64s(6, 4))), np.ones((4, 6), "f4")),
            "more": [int64s(2, 3, 2, 3)],
        },
        "an operand has its own shape",
    ),
    "RemoveTransposesAround": (
        {
            "y": ops.matmul(
                Call("Transpose", ((2, 3, 4),), {"perm": (0, 2, 1)}), np.ones((3, 5), "f4")
            ),
            "root": {"perm": (1, 0, 2)},
        },
        "MatMul needs its axes as they are",
    ),
    "RemoveGatherInOrder": (
        {"x": (4, 3), "i": int64s(0, 0, 2, 3)},
        "it does not read everything in order",
    ),
    "GatherEqualElements": ({"x": np.arange(6), "i": Ints((4,), 0, 6)}, "the elements differ"),
    "AddEqualRows": (
        {"y": (1, 4), "t": (5, 4), "i": np.array([[2]]), "s": int64s(2, 3)},
        "the rows make the shape",
    ),
    "AddIntoTable": (
        {"x": (2, 4), "t": (5, 4), "i": Ints((2,), 0, 5), "c": (2, 1)},
        "the constant varies from place",
    ),
    "SliceGatheredTable": (
        {
            "t": (2, 4),
            "i": np.zeros((1, 6), np.int64),
            "n": Call("Shape", ((4,),)),
            "axes": int64s(1),
        },
        "the table would grow",
    ),
    "UnflattenRows": (
        ops.reshape(ops.gemm((6, 4), np.ones((4, 5), np.float32)), int64s(2, 3, 5)),
        "there is one change of shape",
    ),
    "CutOperand": (
        {"y": Call("Softmax", ((3, 4),)), "cut": [int64s(1), int64s(2), int64s(1)]},
        "it cuts what is computed together",
    ),
    "CutOperands": (
        {"y": Call("Add", ((3, 4), (3, 4))), "cut": [int64s(1), int64s(3), int64s(0)]},
        "no operand takes work to make",
    ),
    "SinkTranspose": (
        {"x": (1, 4), "c": (3, 1, 1), "moved": {"perm": (1, 0)}},
        "the constant stretches",
    ),
    "SinkTransposes": (
        {
            "xs": [
                Call("Transpose", ((4, 4),), {"perm": (1, 0)}),
                Call("Transpose", ((4, 4),), {"perm": (0, 1)}),
            ]
        },
        "the orders differ",
    ),
    "SinkTransposeResidual": (
        {"x": Call("Relu", ((2, 3, 4, 5),)), "y": (2, 4, 5, 3), "moved": {"perm": (0, 2, 3, 1)}},
        "it does not move channels to the front",
    ),
    "ReadShapeEarlier": (
        ops.shape(ops.transpose(M)),
        "no operand of what makes it has the same shape",
    ),
    "NeutralAsExpand": (
        {"y": (4,), "s": int64s(3, 4), "wide": {"value": f32(2)}},
        "the number changes y",
    ),
    "CompareRange": (
        {
            "a": np.array(0),
            "n": Call("Size", ((3,),)),
            "d": np.array(1),
            "b": np.array(1),
            "s": int64s(-1, 1),
        },
        "some numbers may be smaller",
    ),
    "SinkExpand": ({"x": (3, 4), "s": int64s(4)}, "it stretches nothing"),
    "RemoveExpandBeforeAttention": (
        {
            "q": (2, 3, 5, 4),
            "k": (2, 3, 6, 4),
            "v": (2, 3, 6, 4),
            "mask": (5, 1),
            "s": int64s(5, 6),
        },
        "the mask has one column for all keys",
    ),
    "ComputeInTable": (
        ops.matmul(
            ops.gather(np.ones((5, 4), np.float32), Ints((2,), 0, 5)), np.ones((4, 9), np.float32)
        ),
        "the table would grow",
    ),
    "ComputeBeforeExpand": (
        {"xs": [Call("Expand", ((1, 3, 4), int64s(5, 3, 4))), (4, 5)]},
        "an operand is computed",
    ),
    "MergeTransposesAroundReshape": (
        {
            "x": (2, 6, 4),
            "s": int64s(8, 6),
            "first": {"perm": (1, 2, 0)},
            "last": {"perm": (1, 0)},
        },
        "it cuts and joins axes at once",
    ),
}
