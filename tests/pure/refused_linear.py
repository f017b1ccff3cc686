"""What rules about convolutions and matrix products must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse import ops
from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import FILTERS, IMAGE, STATISTICS, M, X, f32

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "FuseConvBatchNormalization": (
        ops.batch_normalization(ops.conv(IMAGE, (4, 4, 3, 3)), *(f32(1, 2, 3, 4),) * 4),
        "w must be a constant",
    ),
    "FuseConvScale": (
        {"x": IMAGE, **FILTERS, "c": (4, 1, 3)},
        "the constant varies over pixels or images",
    ),
    "FuseConvAdd": (
        {"x": IMAGE, **FILTERS, "c": (2, 1, 1, 1)},
        "the constant varies over pixels or images",
    ),
    "FuseBatchNormalizationConv": (
        {"x": IMAGE, **FILTERS, **STATISTICS, "conv": {"pads": (1, 1, 1, 1)}},
        "it pads with zeros",
    ),
    "BatchNormalizationAsScale": (
        ops.batch_normalization(IMAGE, (4,), (4,), (4,), (4,)),
        "scale must be a constant",
    ),
    "FusePadConv": (
        {
            "x": IMAGE,
            "p": int64s(0, 0, 1, 1, 0, 0, 1, 1),
            "fill": f32(1)[0],
            "rest": [(4, 4, 3, 3)],
        },
        "the padding is not zero",
    ),
    "FuseMatMulAdd": ({"x": (2, 3), "w": (3, 4), "b": (2, 1)}, "the constant varies over rows"),
    "FuseGemmAdd": (
        {"x": (2, 3), "w": (3, 4), "c": (2, 4), "b": (4,)},
        "the constant varies over rows",
    ),
    "FoldGemmFactors": (
        {"x": (2, 3), "w": (3, 4), "b": (4,), "gemm": {"beta": 0.0}},
        "the factor is zero",
    ),
    "FuseGemmScale": (ops.gemm(M, np.ones((4, 2), np.float32)) / f32(1, 0), "it divides by zero"),
    "FuseGemmBatchNormalization": (
        {"x": (2, 3), "w": (3, 4), "b": (4,), **STATISTICS, "gemm": {"beta": 2.0}},
        "the bias is scaled",
    ),
    "FuseMatMulScale": (
        {"x": (5, 2, 3), "w": (3, 4), "c": (2, 1)},
        "the constant varies over rows",
    ),
    "FuseScaleMatMul": ({"x": (2, 1), "w": (3, 4), "c": (3,)}, "the constant stretches the rows"),
    "FuseTransposeGemm": (
        {"x": (2, 3), "y": (3, 4), "rest": [], "moved": {"perm": (0, 1)}},
        "the order of the axes",
    ),
    "UnflattenGemm": (
        {"x": (2, 3, 4), "s": int64s(6, 4), "w": (4, 5), "b": (5,), "t": int64s(5, 2, 3)},
        "the columns are arranged anew",
    ),
    "EinsumAsMatMul": (
        {"x": (2, 3), "y": (3, 4), "root": {"equation": "ij,jk->i"}},
        "it sums over one operand alone",
    ),
    "ScaleOneOperand": (
        {"x": (2, 3), "a": f32(1e20)[0], "y": (3, 2), "b": f32(1e20)[0]},
        "the product of the factors is too large or too small",
    ),
    "NegateWeights": (-ops.gemm(M, (4, 5)), "w must be a constant"),
    "MatMulOfTranspose": (
        ops.matmul(ops.transpose(X, perm=(0, 2, 1)), X),
        "the operands are not matrices",
    ),
    "TransposeOfProduct": (
        ops.transpose(ops.matmul(X, (4, 5)), perm=(0, 2, 1)),
        "the operands are not matrices",
    ),
    "FuseGemmFactor": (
        {"x": (3, 4), "y": (4, 5), "c": f32(0)[0]},
        "the factor is zero, infinite or no number",
    ),
    "FuseFlattenedAffine": (
        ops.matmul(ops.reshape(X * f32(2), int64s(-1, 4)), np.ones((4, 5), np.float32)),
        "it does not flatten each row",
    ),
    "RemoveUnitBlocks": ({"x": (2, 4, 4, 6), "root": {"blocksize": 2}}, "a block has several"),
    "RemoveBlocksAround": (
        {
            "x": (2, 16, 4, 8),
            "inner": {"blocksize": 4},
            "root": {"blocksize": 2},
        },
        "the blocks differ",
    ),
    "ConvTransposeAsConv": (
        {"x": (2, 3, 4, 5), "w": (3, 6, 2, 1), "b": (6,)},
        "it spreads a pixel over several",
    ),
    "CutFilters": (
        {
            **{"x": (2, 4, 5), "w": (6, 2, 3), "b": (6,), "conv": {"group": 2}},
            **{"cut": [int64s(1), int64s(5), int64s(1)], "i": int64s(1), "read": {"axis": 1}},
        },
        "there are groups",
    ),
    "RowsAsConv": ({"x": (5, 3), "w": (3, 6)}, "the operands are not batches of rows"),
}
