"""What rules about normalizations and reductions must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import X, f32

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "FuseLayerNormalization": (
        {"x": (2, 3, 4), "a": int64s(1), "e": f32(1e-5)[0]},
        "it does not normalize the last axes",
    ),
    "FuseRMSNormalization": (
        {"x": (2, 3, 4), "a": int64s(-1), "e": f32(1, 2, 3, 4)},
        "the constant varies",
    ),
    "FuseNormalizationScale": (
        {"x": (2, 3, 4), "s": (4,), "b": (4,), "c": (3, 1)},
        "the constant varies over what is normalized",
    ),
    "FuseNormalizationShift": (
        {"x": (2, 4, 3), "s": (4,), "b": (4,), "c": (3,), "norm": {"num_groups": 2}},
        "the constant varies over pixels or images",
    ),
    "FuseGroupNormalization": (
        {
            "x": (2, 4, 3),
            "s": int64s(0, 2, -1),
            "a": f32(1, 2),
            "b": f32(0, 0),
            "t": int64s(2, 4, 3),
        },
        "the groups are scaled",
    ),
    "FuseSoftmax": (
        {"x": (2, 3), "a": int64s(1), "b": int64s(0)},
        "maximum and sum run over different axes",
    ),
    "GlobalAveragePool": ({"x": (2, 3, 4, 5), "a": int64s(2)}, "other axes than the spatial ones"),
    "MergeReductions": (
        {"x": (2, 3, 4), "a": int64s(1), "b": int64s(1, 2)},
        "an axis is reduced twice",
    ),
    "FuseReductionReshape": (
        {"x": (4, 3, 2), "a": int64s(1), "more": [int64s(2, 4)]},
        "it does more than to drop or restore the axes",
    ),
    "FuseL2Normalization": (
        {"x": (2, 4), "a": int64s(-1), "e": f32(0)[0]},
        "nothing keeps it from dividing by zero",
    ),
    "FuseLpNormalization": (
        {"x": (2, 4), "a": int64s(-1), "e": f32(1e-3)[0]},
        "short vectors stay short",
    ),
    "FuseShiftedNormalization": (
        {"x": (2, 4), "a": int64s(-1), "e": f32(1e-3)[0], "s": (2, 1), "b": (4,)},
        "scale and shift are not those of what is normalized",
    ),
    "FuseInstanceNormalization": (
        {
            "x": (2, 3, 4, 5),
            "a": np.ones((4, 5), np.float32),
            "s": (4, 1),
            "b": (3, 1, 1),
            "norm": {"axis": 2},
        },
        "the constant varies over pixels or images",
    ),
    "FuseGroupedNormalization": (
        {"x": (2, 4, 3), "s": int64s(2, 2, 6), "a": f32(1, 2, 3, 4, 5, 6), "t": int64s(2, 4, 3)},
        "the elements are scaled",
    ),
    "FuseUnshiftedSoftmax": ({"x": (2, 3), "a": int64s(0, 1)}, "it runs over several axes"),
    "FuseLogSoftmaxParts": (
        {"x": (2, 3), "a": int64s(0, 1), "b": int64s(0)},
        "it runs over several axes",
    ),
    "FuseNormalizationCasts": (
        {
            "x": (3, 4),
            "s": f32(1, 1, 1, 1),
            "up": {"to": dtypes.float64},
            "down": {"to": dtypes.float32},
        },
        "float32 is not half precision",
    ),
    "FuseShiftedInstance": (
        {"x": (2, 3, 4, 5), "a": int64s(3), "e": f32(1e-3)[0], "s": (1, 3, 1, 1), "b": (3, 1, 1)},
        "it does not run over pixels",
    ),
    "SumAsMean": (
        {"x": (2, 3, 4), "a": int64s(-1), "c": f32(5)[0], "sum": {"keepdims": 1}},
        "it is not the mean of 4 elements",
    ),
    "FuseLogSumExp": (
        ops.log(ops.reduce_sum(ops.abs(X), int64s(1))),
        "Exp is needed",
    ),
    "RemoveShiftBeforeSoftmax": (
        {"x": (2, 3, 4), "a": int64s(1), "root": {"axis": 2}},
        "it runs over other axes",
    ),
    "ExpOfLogSoftmax": (ops.exp(ops.softmax(X)), "LogSoftmax is needed, Softmax found"),
    "FuseFastVariance": (
        {"x": (2, 3, 4), "a": int64s(1), "e": f32(1e-5)[0], "s": (4,)},
        "it does not normalize the last axes",
    ),
}
