"""Every rule of the package: fires on its own spellings with the same result, and refuses with the
reason.

The cases are generated from the rules themselves (infuse.testing.rules); what must not fire is
listed below.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.ir.clone import clone
from infuse.ir.expression import Call, Variable
from infuse.ir.types import tensor
from infuse.ops.core.samples import Bools, Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.options import Options
from infuse.passes.rules import ALL_RULES
from infuse.passes.run import optimize_in_place
from infuse.rewrite import Driver, Rule, explain
from infuse.testing import rule_cases, rules as generated
from infuse.testing.patterns import graph_of
from tests.pure import refused_onnxruntime, refused_quantized
from tests.pure.refused_algebra import REFUSED

X, M, V = Variable("X"), Variable("M"), Variable("V")
OPERANDS = {"X": (2, 3, 4), "M": (3, 4), "V": (4,), "P": (1, 4, 5, 5)}
HALVES = ops.split(M, num_outputs=2, axis=1)
IMAGE = (1, 4, 5, 5)
FILTERS = {"w": (4, 4, 3, 3), "b": (4,)}
STATISTICS = {"scale": (4,), "shift": (4,), "mean": (4,), "var": (4,)}


def f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSALS: dict[str, tuple[Any, str]] = {
    **REFUSED,
    "RemoveIdentity": (-X, "the graph has no Identity node"),
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
    "RemoveReshapeBeforeBroadcast": (
        {"x": (4,), "more": int64s(4, 1), "y": (4, 3)},
        "it does more than to add axes",
    ),
    "RemoveExpandBeforeBroadcast": (
        {"x": (4,), "shape": int64s(3, 4), "y": (1, 4)},
        "the expansion makes the shape",
    ),
    "MergeSlices": (
        {"x": (9,), "a": [int64s(0), int64s(9), int64s(0), int64s(2)], "b": [int64s(1), int64s(3)]},
        "it steps through the elements",
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
    "DivideByPowerOfTwo": ({"x": (2,), "c": f32(2, 3)}, "it is no power of two"),
    "DivideByConstant": ({"x": (2,), "c": f32(2, 0)}, "the reciprocal is not a normal number"),
    "PowAsProduct": ({"x": Ints((3,))}, "it needs floats, found int64"),
    "RemoveNotBeforeWhere": (ops.where(Bools((3, 4)), M, M), "Not is needed as input of Where"),
    "FuseErfGelu": (
        (X * (ops.erf(X * 0.70710678) + 1.0)) * 0.25,
        "the constant 0.5 is needed as input of Mul",
    ),
    "FuseTanhGelu": (
        (X * (ops.tanh(X) + 1.0)) * 0.5,
        "is needed as input of Tanh, found an input of the graph",
    ),
    "FuseSwish": ({"x": (2,), "a": f32(1, 2)}, "the constant varies"),
    "FuseHardSwish": (
        (X * ops.clip(X + 3.0, 0.0, 6.0)) * 0.5,
        "the constant 0.16666666666666666 is needed",
    ),
    "FuseHardSigmoid": (
        ops.clip(X + 3.0, 0.0, 1.0) / 6.0,
        "the constant 6.0 is needed as input of Clip",
    ),
    "FuseMish": (X * ops.tanh(ops.softplus(-X)), "x must be the same value in both places"),
    "PReluAsLeakyRelu": ({"x": (2,), "s": f32(0.1, 0.2)}, "the slopes differ"),
    "RemoveRepeated": (
        ops.relu(ops.abs(X)),
        "Abs is needed as input of Abs, found an input of the graph",
    ),
    "RemoveInverse": (-ops.abs(X), "Neg is needed, Abs found"),
    "MergeClips": (
        {"x": (4,), "a": f32(3)[0], "b": f32(2)[0], "c": f32(0)[0], "d": f32(6)[0]},
        "the lower limit is above the upper one",
    ),
    "LimitAsClip": ({"x": (2,), "c": f32(1, 2)}, "the limit varies"),
    "ClipAsRelu": ({"x": (4,), "high": f32(6)[0]}, "there is an upper limit"),
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
    "FuseAttention": (
        {
            **{
                "q": (2, 3, 5, 4),
                "kt": (1, 3, 4, 6),
                "v": (2, 3, 6, 7),
                "mask": (5, 6),
                "more": (5, 6),
            },
            **{"q_factor": f32(0.5)[0], "k_factor": f32(0.5)[0], "s_factor": f32(2)[0]},
        },
        "batch or heads are broadcast",
    ),
    "FlattenAttention": (
        {"operands": [(2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)], "moved": {"perm": (0, 2, 1, 3)}},
        "is not cut from rows of all heads",
    ),
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
    "ScaleOneOperand": (
        {"x": (2, 3), "a": f32(1e20)[0], "y": (3, 2), "b": f32(1e20)[0]},
        "the product of the factors is too large or too small",
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
    "FuseRotaryEmbedding": (
        {
            **{"x": (2, 3, 5, 4), "a": (2, 3, 5, 2), "b": (2, 3, 5, 2), "joined": {"axis": -1}},
            **{"cos": (1, 1, 5, 4), "sin": (1, 1, 5, 4)},
        },
        "the parts are no halves of what is turned",
    ),
    "FusePartialRotaryEmbedding": (
        {
            "x": (2, 3, 5, 4),
            "rest": (2, 3, 5, 2),
            "cos": (2, 5, 2),
            "sin": (2, 5, 2),
            "root": {"axis": -1},
        },
        "the parts do not come from one value",
    ),
    "ShareHeads": (
        {
            **{"q": (2, 6, 5, 4), "k": (2, 1, 6, 7, 4), "v": (2, 1, 6, 7, 4), "more": []},
            **{
                "wide": int64s(2, 1, 6, 7, 4),
                "k_shape": int64s(2, 6, 7, 4),
                "v_shape": int64s(2, 6, 7, 4),
            },
        },
        "other axes are repeated",
    ),
    "CausalMask": (
        {
            "q": (2, 3, 5, 4),
            "k": (2, 3, 5, 4),
            "v": (2, 3, 5, 4),
            "mask": np.tri(5, k=1, dtype=bool),
        },
        "the mask hides other keys, or shows some later ones",
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
        {"y": Call("Add", ((3, 4), (3, 4))), "cut": [int64s(1), int64s(2), int64s(0)]},
        "no operand takes work to make",
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
        "float32 is no half precision",
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
    **refused_onnxruntime.REFUSED,
    **refused_quantized.REFUSED,
}


def by_rule(select: Callable[[Rule], bool] = lambda rule: True) -> Any:
    rows = [
        pytest.param(rule, id=rule.name, marks=pytest.mark.row(*rule.rows))
        for rule in ALL_RULES
        if select(rule)
    ]
    return pytest.mark.parametrize("rule", rows)


@by_rule()
def test_a_rule_fires_on_every_spelling_and_keeps_the_meaning(rule: Rule) -> None:
    """Same results, names and types; operands swapped; interior values read elsewhere; in branches,
    loops and files; with other types, sizes, axes, attributes and constants, and symbolic sizes.
    """
    evidence = generated.check_rule(rule)
    assert len(evidence.cases) >= len(rule.patterns)
    assert evidence.fired > 0


@pytest.mark.full
@pytest.mark.timeout(1200)
@by_rule()
def test_a_rule_keeps_the_meaning_of_many_variants(rule: Rule) -> None:
    generated.check_rule(rule, 1, 2000)


# Rules whose generated graphs other rules spoil, and why that is right.
SPOILT = {
    "AbsorbNegation": "an operand is a constant, and so is its negation",
    "FuseUnshiftedSoftmax": "one element is summed",
    "FuseLogSoftmaxParts": "one element is summed",
    "FuseSoftmax": "one element is summed",
    "FuseRotaryEmbedding": "sines stand for cosines, and are a common factor",
    "TransposeInsideMatMul": "it moves axes of size one",
    "RemoveReshapesAround": (
        "a Gemm takes the bias, until UnflattenGemm undoes it at the next level"
    ),
}


@by_rule(lambda rule: rule.name not in SPOILT)
def test_no_other_rule_comes_in_the_way(rule: Rule, rng: np.random.Generator) -> None:
    """The whole pipeline leaves no more of a rule's pattern than the rule alone."""
    options = Options(
        rule.level, runtime=rule.runtime, enable=frozenset([rule.name] if rule.opt_in else [])
    )
    for case in rule_cases.cases(rule, rng):
        alone, whole = clone(case.graph), clone(case.graph)
        Driver([rule]).run(alone)
        report = optimize_in_place(whole, options)
        assert len(whole) <= len(alone), (
            f"{case}: {dict(report.fired)} leave {[n.kind for n in whole.nodes]}"
        )


@by_rule()
def test_a_rule_refuses_with_the_reason(rule: Rule, rng: np.random.Generator) -> None:
    operands, reason = REFUSALS[rule.name]
    written = isinstance(operands, Call)
    graph = (
        graph_of(operands, **OPERANDS)
        if written
        else rule_cases.example_case(rule, operands, rng).graph
    )
    said = explain(rule, graph)
    assert not any(e.fires for e in said), f"it fires on {graph}"
    assert any(reason in e.reason for e in said), [e.reason for e in said]


def test_every_rule_has_a_case_that_it_refuses() -> None:
    assert REFUSALS.keys() == {rule.name for rule in ALL_RULES}


def test_every_rule_says_what_it_does_and_for_which_rows() -> None:
    for rule in ALL_RULES:
        assert "→" in (type(rule).__doc__ or ""), f"{rule.name}: the docstring is the equation"
        assert rule.rows, f"{rule.name} delivers no row"
    assert len({rule.name for rule in ALL_RULES}) == len(ALL_RULES)
