"""What rules about linear operators, pixels and arithmetic must not fire on, and what they say
then.
"""

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import FILTERS, IMAGE, STATISTICS, M, P, V, X, f32

STATISTICS5 = {"scale": (5,), "shift": (5,), "mean": (5,), "var": (5,)}
MINUS = -P
PARTS = ops.split(P, num_outputs=2, axis=1)

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "MergeMatMuls": (
        {"x": (2, 8), "a": (8, 2), "p": (2,), "b": (2, 8)},
        "one operator would multiply more often",
    ),
    "MergeGemms": (
        {"x": (4, 4), "a": (4, 4), "p": (4,), "b": (4, 4), "q": (4,), "second": {"transA": 1}},
        "rows become columns in between",
    ),
    "MergeConvs": (
        {
            "x": IMAGE,
            "a": (9, 4, 1, 1),
            "p": (9,),
            "b": (2, 9, 3, 3),
            "q": (2,),
            "second": {"pads": (1, 1, 1, 1)},
        },
        "it pads with zeros, and the inner bias is none",
    ),
    "FuseConvMatMul": (
        {
            "x": IMAGE,
            "w": (6, 4, 1, 1),
            "b": (6,),
            "s": int64s(1, 6, 25),
            "m": (25, 2),
            "rows": {"perm": (0, 1, 2)},
        },
        "it does not move the channels last",
    ),
    "DropPaddedTaps": (
        {"x": IMAGE, "w": (4, 4, 3, 3), "b": (4,), "root": {"pads": (1, 1, 1, 1)}},
        "all taps meet a pixel, or may",
    ),
    "PoolBeforeConv": (
        {"x": IMAGE, "w": (4, 4, 3, 3), "b": (4,), "pool": {"kernel_shape": (2, 2)}},
        "the convolution sees several pixels",
    ),
    "FuseConvGemm": (
        {
            "x": (2, 3, 2, 2),
            "w": (3, 3, 2, 1),
            "p": (3,),
            "m": (6, 5),
            "q": (5,),
            "more": [int64s(2, 6)],
        },
        "there are several pixels",
    ),
    "PullStride": (
        {
            "x": IMAGE,
            "a": (3, 4, 3, 3),
            "b": (4, 3, 1, 1),
            "more": [],
            "rest": [],
            "outer": {"strides": (1, 1)},
        },
        "it takes every pixel",
    ),
    "PoolAsGlobalPool": (
        {"x": IMAGE, "root": {"kernel_shape": (5, 4)}},
        "the window does not see all pixels",
    ),
    "FusePadPool": (
        {
            **{"x": IMAGE, "p": int64s(0, 0, 1, 1, 0, 0, 1, 1), "fill": f32(0)[0]},
            "root": {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)},
        },
        "the padding is not counted as zeros",
    ),
    "AddMatMuls": ({"x": (2, 3), "a": (3, 4), "b": (3, 1)}, "the products have different shapes"),
    "AddConvs": (
        {
            "x": IMAGE,
            "a": (4, 4, 3, 3),
            "p": (4,),
            "b": (4, 4, 1, 1),
            "q": (4,),
            "two": {"pads": (1, 1, -3, -3)},
        },
        "one window does not lie inside of the other",
    ),
    "AddInputToConv": (
        {"x": IMAGE, "w": (4, 4, 2, 2), "b": (4,), "conv": {"pads": (-1, 0, 2, 1)}},
        "no tap meets the pixel itself",
    ),
    "CommonFactor": ({"x": (3,), "y": (2, 1), "a": (2, 3)}, "the operands have different shapes"),
    "CommonOperand": (
        {"x": (2,), "a": f32(1, 2), "b": f32(1, -2)},
        "the constants have different signs",
    ),
    "MergeAffine": (
        {"x": (2,), "a": f32(1, 0), "b": f32(1), "c": f32(2)},
        "a constant is zero, infinite",
    ),
    "MergeQuotients": (
        {"x": (2, 3), "a": (3,), "b": (2, 1)},
        "the merged constant would be larger",
    ),
    "NegateConstant": (
        -Call("Div", (Ints((3,), 1, 5), np.array([3]))),
        "not for int64",
    ),
    "NegateDifference": (-(V + M), "Sub is needed, Add found"),
    "ProductAsNegation": (V * np.full((1, 1), -1, np.float32), "the constant stretches the shape"),
    "RemoveNegationBeforeAbs": (
        ops.abs(V),
        "Neg is needed as input of Abs, found an input of the graph",
    ),
    "PowAsRoot": (V ** np.full((1, 1), 0.5, np.float32), "the exponent stretches the shape"),
    "NotOfComparison": ({"x": (3,), "y": (3,)}, "NaN may be among float32"),
    "FusePRelu": ({"x": (2,), "a": f32(0.5, np.inf)}, "a slope is infinite"),
    "FuseLeakyRelu": ({"x": (2,), "a": f32(0.5, 0.1)}, "the constant varies"),
    "FuseClippedLine": ({"x": (2,), "a": f32(1), "b": f32(1, 2)}, "the constant varies"),
    "FuseSigmoid": (
        ops.reciprocal(ops.exp(-V) + 2.0),
        "the constant 1.0 is needed as input of Add",
    ),
    "FuseTanh": (ops.sigmoid(V) * 2.0 - 1.0, "Mul is needed as input of Sigmoid"),
    "FuseSoftsign": (V / (ops.abs(M) + 1.0), "x must be the same value in both places"),
    "FuseLogSoftmax": (ops.log(ops.sigmoid(V)), "Softmax is needed, Sigmoid found"),
    "ArgMaxBeforeSoftmax": ({"x": (3, 4), "root": {"axis": 0}}, "it runs over another axis"),
    "FuseReduction": ({"x": Ints((3, 4)), "axes": int64s(0)}, "it needs floats, found int64"),
    "FuseSumSquare": (
        ops.reduce_sum(V ** np.full((1, 1), 2, np.float32), int64s(0)),
        "the exponent stretches the shape",
    ),
    "RemoveReluOfPositive": (ops.relu(ops.tanh(V)), "is needed, Tanh found"),
    "MergeSplitConvs": (
        ops.concat(
            *(ops.conv(PARTS[i], np.ones((3, 2, 2, 2), np.float32)) for i in (1, 0)), axis=1
        ),
        "the parts are in another order",
    ),
    "MergeFilters": (
        ops.concat(
            *(ops.conv(MINUS, np.ones((2, 4, 3, 3), np.float32), pads=(n,) * 4) for n in (0, 0)),
            axis=2,
        ),
        "it does not join channels",
    ),
    "SplitGroupedConv": (
        {"x": IMAGE, "w": (8, 1, 3, 3), "b": (8,), "conv": {"group": 4}},
        "each channel is a group",
    ),
    "FuseDepthToSpace": (
        {
            "x": IMAGE,
            "s": int64s(1, 2, 2, 1, 5, 5),
            "t": int64s(1, 1, 10, 10),
            "moved": {"perm": (0, 3, 4, 2, 5, 1)},
        },
        "the order of the axes is another",
    ),
    "FuseSpaceToDepth": (
        {
            **{"x": (1, 4, 6, 6), "s": int64s(1, 4, 2, 3, 3, 2), "t": int64s(1, 24, 2, 3)},
            "moved": {"perm": (0, 3, 5, 1, 2, 4)},
        },
        "it does not cut pixels into squares",
    ),
    "SlicesAsSpaceToDepth": (
        ops.concat(*(ops.slice(MINUS, *map(int64s, (0, 5, n, 5))) for n in (2, 2, 2, 2)), axis=1),
        "there are not as many as pixels in a square",
    ),
    "FuseSlicesConv": (
        ops.conv(
            ops.concat(MINUS, ops.slice(MINUS, int64s(0), int64s(5)), axis=1),
            np.ones((2, 8, 1, 1), np.float32),
        ),
        "an operand is not a Slice for it alone",
    ),
    "FuseOrderConv": (
        {"x": IMAGE, "i": int64s(0, 1, 2, 2), **FILTERS},
        "channels are left out or come twice",
    ),
    "FuseConvOrder": ({"x": IMAGE, "i": int64s(0, 1, 1), **FILTERS}, "a channel comes twice"),
    "SeparateConv": (
        {"x": IMAGE, **FILTERS, "conv": {"strides": (2, 2)}},
        "it would multiply as often",
    ),
    "GemmAsConv": (
        {"x": (3, 2), "w": (3, 4), "b": (4,), "gemm": {"transA": 1}},
        "rows become columns",
    ),
    "ConvAsGemm": ({"x": IMAGE, "w": (4, 4, 1, 1), "b": (4,)}, "x has several pixels"),
    "FuseNormScale": (
        {"x": IMAGE, **STATISTICS, "c": (1, 1, 5)},
        "the constant varies over pixels or images",
    ),
    "FuseNormShift": (
        {"x": (2, 4), **STATISTICS, "c": (2, 1)},
        "the constant varies over pixels or images",
    ),
    "FuseAffineNorm": (
        {"x": (1, 4), **STATISTICS, "c": (2, 4)},
        "the constant stretches the shape",
    ),
    "MergeNorms": (
        ops.batch_normalization(ops.batch_normalization(P, *(V,) * 4), *(f32(1, 2, 3, 4),) * 4),
        "scale must be a constant",
    ),
    "FuseProductNorm": (
        {"x": (3, 5, 2), "w": (2, 4), "b": (4,), **STATISTICS5, "moved": {"perm": (2, 1, 0)}},
        "the channels are not the columns",
    ),
    "FuseProductScale": (
        {"x": (2, 3, 4), "w": (4, 5), "b": (5,), "c": (2, 1), "moved": {"perm": (2, 0, 1)}},
        "the constant varies over rows",
    ),
    "FuseNormGemm": (
        {"x": (3, 4), "w": (3, 5), "b": (5,), **STATISTICS, "gemm": {"transA": 1}},
        "rows become columns",
    ),
    "FuseAffineConv": (
        ops.conv(
            P + np.ones((4, 1, 1), np.float32), np.ones((2, 4, 3, 3), np.float32), pads=(1, 1, 1, 1)
        ),
        "it pads with zeros",
    ),
    "ScaleAfterReduction": (
        {"x": (3, 4), "axes": int64s(1), "c": (4,)},
        "the constant varies along what is reduced",
    ),
    "ShiftAfterReduction": (
        {"x": (3, 4), "axes": int64s(1), "c": f32(np.inf)},
        "the constant is infinite",
    ),
    "AffineAfterPool": (
        {"x": IMAGE, "c": f32(2), "pool": {"kernel_shape": (2, 2), "strides": (1, 1)}},
        "as many pixels remain",
    ),
    "RemoveResize": ({"x": (4,), "scales": f32(1.1)}, "a factor is not one"),
    "RemoveGlobalPool": ({"x": IMAGE}, "there are several pixels"),
    "RemoveZeroBias": ({"x": (2, 3), "w": (3, 4), "b": f32(0, 0, 0, 1)}, "the bias is not zero"),
    "GatherAsSlice": ({"x": (9,), "i": int64s(1, 2, 4)}, "the indices are not neighbours"),
    "RemoveScatter": (
        {"x": (3, 4), "i": np.array([[0], [2], [1]]), "u": (3, 4)},
        "it leaves places out",
    ),
    "ConcatAsExpand": (ops.concat(MINUS, MINUS, axis=1), "the axis has several elements"),
    "FuseUpsample": (
        {
            "x": (1, 2, 3, 4),
            "s": int64s(1, 2, 3, 1, 4, 1),
            "r": int64s(1, 1, 1, 2, 2, 1),
            "t": int64s(1, 2, 6, 8),
        },
        "it repeats more than pixels",
    ),
    "RemoveExpandBeforeMatMul": (
        {"x": (3, 4), "s": int64s(2, 1, 1), "y": (4, 5)},
        "the expansion makes the shape",
    ),
    "FuseGemmSum": ({"x": (1, 4), "w": (4, 5), "y": (3, 5)}, "the addend stretches the result"),
    "EinsumOfOne": ({"x": (3, 3), "root": {"equation": "ii->i"}}, "a label comes twice"),
    "CastConstantOfShape": (
        {"s": int64s(2), "made": {"value": f32(0.5)}, "root": {"to": dtypes.int64}},
        "it is rounded",
    ),
    "RemoveTwin": (ops.max(V, M), "x must be the same value in both places"),
    "WidenLater": (
        {"x": (3, 4), "i": int64s(1), "wider": {"to": dtypes.float16}},
        "it makes elements smaller",
    ),
    "MergeDifferences": (
        {"x": (3, 4), "a": f32(2.0**25)[0], "b": f32(2.0**25)[0]},
        "the constants cancel each other",
    ),
    "MergeExponentials": ({"x": (3, 4), "y": (4,)}, "an exponent is broadcast"),
    "SquareOfRoot": ({"x": (3, 4)}, "x may be negative, and its root NaN"),
    "RootOfSquare": (ops.sqrt(X**3.0), "the constant 2.0 is needed as input of Pow"),
    "IntegerTimesZero": ({"x": (3, 4), "c": f32(0)[0]}, "zero times an element of float32"),
}
