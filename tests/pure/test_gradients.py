"""Gradients of all operators against central differences in float64, made from their samples."""

from __future__ import annotations

import numpy as np
import pytest

from infuse.ops import REGISTRY
from infuse.ops.core.base import Op
from infuse.ops.core.composite import Composite
from infuse.ops.core.differentiation import has_gradient
from infuse.ops.core.traits import Trait
from infuse.testing.gradients import differences
from infuse.testing.samples import Row, rows

pytestmark = pytest.mark.row("Z5")

# Central differences of smooth functions in float64 are right to about 1e-9; where a function is
# steep, to 1e-6 of its slope.
CLOSE = 1e-5

# Operators of ONNX with inputs of floats that have no gradient, by the reason.
WITHOUT_GRADIENT = {
    "their results are integers, booleans or texts": """
        ArgMax ArgMin BitCast ConvInteger DynamicQuantizeLinear ImageDecoder MatMulInteger
        NonMaxSuppression NonZero OptionalHasElement QLinearConv QLinearMatMul
        RegexFullMatch SequenceLength Shape Size StringConcat StringNormalizer StringSplit
        TfIdfVectorizer""",
    "their results depend on sizes and settings only": """
        BlackmanWindow ConstantOfShape HammingWindow HannWindow MelWeightMatrix Range""",
    "they hold values": """
        ConcatFromSequence Optional OptionalGetElement SequenceAt SequenceConstruct SequenceEmpty
        SequenceErase SequenceInsert SequenceMap SplitToSequence Unique""",
    "not yet": """
        CausalConvWithState CumProd DFT DeformConv Det GridSample LinearAttention Loop
        MaxRoiPool RoiAlign STFT Scan TensorScatter""",
}

# Samples at which central differences say nothing: where a function jumps or has a corner, or is
# so steep that the difference is another one.
NOT_SMOOTH = {
    "BatchNormalization[float32[1, 3, 7]": "a variance of zero",
    "Cast[float32[5]": "numbers so large that a millionth is rounded away",
    "CastLike[float32[5]": "numbers so large that a millionth is rounded away",
    "DynamicQuantizeMatMul[": "its first operand is rounded",
    "LpNormalization[float32[2, 2]": "the norm of zeros",
    "ScatterElements[float32[4, 5], int64[1, 5]": "indices that come twice",
}
MOST_ELEMENTS = 300


def operators() -> list[type[Op]]:
    """Those of ONNX, and those with a body, whose gradient is its."""
    return [
        op
        for (domain, _), op in sorted(REGISTRY.items())
        if domain == "" or issubclass(op, Composite)
    ]


def test_what_has_no_gradient_is_listed() -> None:
    listed = sorted(name for names in WITHOUT_GRADIENT.values() for name in names.split())
    missing = [
        op.name
        for op in operators()
        if not has_gradient(op)
        and Trait.ZERO_GRADIENT not in op.traits
        and op.__module__.startswith("infuse.")
    ]
    assert missing == listed


def cases() -> list[object]:
    """One case for each operator, with those of its samples that say something."""
    return [
        pytest.param(op, id=f"{op.domain}.{op.name}" if op.domain else op.name)
        for op in operators()
        if has_gradient(op) and any(row.has_random_floats for row in samples(op))
    ]


def samples(op: type[Op]) -> list[Row]:
    return [
        row
        for row in rows(op, np.random.default_rng(7))
        if not any(str(row).startswith(start) for start in NOT_SMOOTH)
        and all(getattr(x, "size", 0) <= MOST_ELEMENTS for x in row.inputs)
    ]


@pytest.mark.parametrize("op", cases())
def test_gradients_are_those_of_central_differences(op: type[Op]) -> None:
    rng = np.random.default_rng(11)
    compared = 0
    for row in samples(op):
        for difference in differences(row, rng) or ():
            assert difference.largest < CLOSE, f"{row}: {difference}"
            compared += 1
    assert compared or has_no_float_result(op), f"no sample of {op.name} compares anything"


def has_no_float_result(op: type[Op]) -> bool:
    """Whether an operator only tells something of floats."""
    return all(
        not np.issubdtype(np.asarray(row.op.eval(*row.inputs)).dtype, np.floating)
        for row in samples(op)
    )
