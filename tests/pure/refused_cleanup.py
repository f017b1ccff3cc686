"""What rules about work without meaning and about arithmetic must not fire on,
and what they say then.
"""

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call
from infuse.ir.types import TensorType
from infuse.ops.core.samples import Bools, Ints
from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import HALVES, M, V, X, f32

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "WriteOutScalar": (-X, "the graph has no AddScalar or DivScalar"),
    "WriteOutWeightedSum": (-X, "the graph has no WeightedSum node"),
    "ScalarAsAttribute": ({"x": (4,), "c": f32(-0.0)}, "does not keep the sign of zero"),
    "FuseWeightedSum": (
        {"x": (4,), "y": f32(1, 2, 3, 4), "first": {"value": 0.3}},
        "an operand is a constant",
    ),
    "RemoveIdentity": (-X, "the graph has no Identity node"),
    "RemoveOptional": (
        ops.optional_get_element(ops.optional(type=TensorType(dtypes.float32, (2,)))),
        "nobody knows whether it is there",
    ),
    "RemoveDropout": ({"x": (4,), "more": [f32(0.5)], "outputs": 2}, "the mask is read"),
    "RemoveCast": (
        {"x": (4,), "y": (4,), "root": {"to": dtypes.int64}},
        "it converts float32 to int64",
    ),
    "RemoveExpand": ({"x": (1, 4), "shape": int64s(3, 4)}, "it stretches"),
    "RemoveReshape": ({"x": (2, 3), "more": [int64s(3, 2)]}, "it changes the shape"),
    "RemoveTile": ({"x": (4,), "repeats": int64s(2)}, "it repeats"),
    "RemoveSlice": (
        {
            "x": (4,),
            "starts": int64s(-1),
            "ends": int64s(-9),
            "axes": int64s(0),
            "steps": int64s(-1),
        },
        "it steps through the elements",
    ),
    "RemoveIdleStates": (
        {
            "x": (3, 2, 5),
            "w": (1, 4, 5),
            "r": (1, 4, 4),
            "more": [(1, 8), np.array([3, 2], np.int32), (1, 2, 4)],
        },
        "its states and lengths matter",
    ),
    "RemoveTranspose": ({"x": (4, 4), "root": {"perm": (1, 0)}}, "it moves axes"),
    "RemovePad": ({"x": (4,), "pads": int64s(1, -1), "more": []}, "it pads"),
    "RemoveSingle": (HALVES[1], "there are several parts"),
    "RemoveEmptyOperands": ({"xs": [(4, 4), (1, 4)], "root": {"axis": 0}}, "no operand is empty"),
    "RemovePool": (
        {"x": (1, 1, 4, 4), "root": {"kernel_shape": (1, 1), "strides": (2, 2)}},
        "it skips pixels",
    ),
    "RemoveNeutral": (V + np.zeros((3, 1), np.float32), "the constant stretches the shape"),
    "RemoveWhere": ({"c": np.array([True, False]), "a": (2,), "b": (2,)}, "the condition varies"),
    "RemoveReduction": ({"x": (1, 4), "axes": int64s(0, 1)}, "an axis has more than one element"),
    "RemoveClip": ({"x": (4,), "low": f32(-np.inf)[0], "high": f32(6)[0]}, "it has a limit"),
    "MergeAddedConstants": (
        {"x": (2, 3), "a": (3,), "b": (2, 1)},
        "the merged constant would be larger",
    ),
    "MergeFactors": (
        {"x": (2,), "a": f32(1e30), "b": f32(1e30)},
        "the merged constant is not finite",
    ),
    "AddThroughReshape": (
        {"x": (6, 2), "inside": int64s(2, 3, 2), "c": (1, 3, 1), "outside": int64s(6, 2)},
        "the constant repeats inside of an axis",
    ),
    "SubtractAsAdd": (
        {"x": Ints((2,), 5, 9, dtypes.uint8), "c": np.array([3], np.uint8)},
        "uint8 has no negative",
    ),
    "AbsorbNegation": (X + X, "Neg is needed as input of Add"),
    "DoubleAsProduct": ({"x": Ints((2,))}, "it needs floats, found int64"),
    "SumAsAdd": (ops.sum(X, X, X), "Sum has 1 more inputs than the pattern"),
    "ReciprocalAsQuotient": (Call("Div", (1, Ints((2,), 1, 5))), "it needs floats, found int64"),
    "DivideByPowerOfTwo": ({"x": (2,), "c": f32(2, 3)}, "it is not a power of two"),
    "DivideByConstant": ({"x": (2,), "c": f32(2, 0)}, "the reciprocal is not a normal number"),
    "PowAsProduct": ({"x": Ints((3,))}, "it needs floats, found int64"),
    "RemoveNotBeforeWhere": (ops.where(Bools((3, 4)), M, M), "Not is needed as input of Where"),
    "RemoveReductionOfNothing": (
        {"x": (3, 4), "axes": int64s(), "root": {"noop_with_empty_axes": 0}},
        "without axes it reduces all",
    ),
    "ShiftBitsAfterSum": (
        {
            "x": Call("Cast", (Ints((3, 4), 0, 9),), {"to": 12}),
            "k": np.uint32(3),
            "axes": int64s(1),
            "inner": {"direction": "RIGHT"},
        },
        "bits that fall out would be summed",
    ),
}
