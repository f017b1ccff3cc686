"""What ONNX Runtime computes otherwise than the standard says, on CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.doctor.facts import FileFacts, FileNode
from infuse.doctor.faults.operators import (
    ML,
    is_bounded,
    is_even_size,
    is_float,
    is_symbolic,
    labels,
    loses_base_value,
    splits_by_a_number,
)
from infuse.doctor.table import Fault, nodes, register

BY: Final = "onnxruntime"
_BOTH: Final = ("1.31.1", "1.32.0")
_NEW: Final = ("1.32.0",)
_TEST: Final = "tests/models/test_doctor_runtimes.py"
_MS: Final = "com.microsoft"
_MOVES: Final = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "MaxPool")


def _skips_softmax(node: FileNode) -> bool:
    """A classifier of two labels with one score."""
    if labels(node) != 2 or node.attribute("post_transform") not in ("SOFTMAX", "SOFTMAX_ZERO"):
        return False
    if node.kind == f"{ML}.LinearClassifier":
        columns = node.sizes(0)
        count = len(node.attribute("coefficients", ()))
        return columns is not None and columns[-1:] == (count,)
    ids = node.attribute("class_ids")
    return node.kind == f"{ML}.SVMClassifier" or (ids is not None and not any(ids))


def _joins_quantizations(node: FileNode) -> bool:
    """A QuantizeLinear that reads a DequantizeLinear of another scale, between two such pairs."""
    before = node.producer()
    if before is None or before.kind != "DequantizeLinear":
        return False
    first = before.producer()
    readers = node.readers()
    if first is None or first.kind != "QuantizeLinear" or len(before.readers()) != 1:
        return False
    if not readers or any(each.kind != "DequantizeLinear" for each in readers):
        return False
    scales = [each.constant(1) for each in (before, node)]
    return all(s is not None and s.size == 1 for s in scales) and scales[0] != scales[1]


def _may_open_mask(node: FileNode) -> bool:
    if not node.attribute("unidirectional", 0):
        return False
    queries, keys = node.sizes(0), node.sizes(1)
    if node.has(6) or queries is None or keys is None or len(queries) != len(keys):
        return True
    return bool(queries[1] != keys[1])


def _lacks_zero_point(node: FileNode) -> bool:
    return (
        not node.has(2)
        and node.dtype(0) == dtypes.int8
        and node.constant(0) is None
        and any(reader.kind in _MOVES for reader in node.readers())
    )


def _clips(facts: FileFacts) -> Iterator[FileNode]:
    return (n for n in facts.of("DequantizeLinear") if facts.opset <= 20 and _lacks_zero_point(n))


def _states_zero_point(node: FileNode) -> bool:
    return (
        node.has(2)
        and node.dtype(2) == dtypes.int8
        and node.constant(0) is None
        and any(reader.kind in _MOVES for reader in node.readers())
    )


def _is_refused(facts: FileFacts) -> Iterator[FileNode]:
    return (n for n in facts.of("DequantizeLinear") if facts.opset >= 21 and _states_zero_point(n))


def _divides_by_part(node: FileNode) -> bool:
    scale = node.constant(3)
    if scale is None or scale.size != 1 or not np.all(scale > 0):
        return False
    reciprocal = 1 / float(scale.reshape(()))
    return reciprocal != int(reciprocal)


def _weights_in_blocks(node: FileNode) -> bool:
    return (
        bool(node.attribute("block_size", 0))
        and node.constant(0) is not None
        and any(reader.kind == "MatMul" for reader in node.readers())
    )


def _half_scales(node: FileNode) -> bool:
    return (
        _weights_in_blocks(node)
        and node.dtype(1) == dtypes.float16
        and node.attribute("output_dtype", 0) == 1
    )


def _forgets_past(node: FileNode) -> bool:
    return node.has(6) and node.has(7) and not (node.gives(1) and node.gives(2))


def _sums_wide(node: FileNode) -> bool:
    return node.dtype(0) in (dtypes.int64, dtypes.uint64) and not is_bounded(node)


def _reads_sigmoid(node: FileNode) -> bool:
    return any(reader.kind == "Log" for reader in node.readers())


register(
    Fault(
        "onnxruntime-binary-classifiers-skip-softmax",
        BY,
        _BOTH,
        "post_transform SOFTMAX of a classifier gives probabilities",
        "scores of two labels stay as they are",
        "always",
        "write LOGISTIC, which is applied, or a Softmax behind post_transform NONE",
        _TEST,
        nodes(
            *(f"{ML}.{kind}Classifier" for kind in ("Linear", "SVM", "TreeEnsemble")),
            where=_skips_softmax,
        ),
    ),
    Fault(
        "onnxruntime-tree-regressor-drops-base-value",
        BY,
        _BOTH,
        "a target of TreeEnsembleRegressor begins at its base value",
        "0, where no leaf of the row votes for the target",
        "for rows that end in such leaves",
        "add a Constant behind the ensemble in place of base_values",
        _TEST,
        nodes(f"{ML}.TreeEnsembleRegressor", where=loses_base_value),
    ),
    Fault(
        "onnxruntime-optimizer-joins-two-quantizations",
        BY,
        _BOTH,
        "two pairs of QuantizeLinear and DequantizeLinear round, and limit, twice",
        "one pair with the smaller of both ranges",
        "always, by a step of the coarser scale",
        "give both pairs one scale, or disable the optimizer",
        _TEST,
        nodes("QuantizeLinear", where=_joins_quantizations),
    ),
    Fault(
        "onnxruntime-causal-mask-opens-for-last-query",
        BY,
        _BOTH,
        "unidirectional attention lets a query see the keys up to its own place",
        "the last query sees all keys, the others count from the first key",
        "for fewer queries than keys",
        "pass the mask as attention_bias",
        _TEST,
        nodes(f"{_MS}.MultiHeadAttention", where=_may_open_mask),
    ),
    Fault(
        "onnxruntime-scales-without-zero-points-clip-at-zero",
        BY,
        _BOTH,
        "DequantizeLinear of int8 without a zero point scales numbers of both signs",
        "negative numbers are 0 where an operator that moves elements follows (opsets to 20)",
        "for negative numbers",
        "state a zero point of 0",
        "findings/onnxruntime-scales-without-zero-points-clip-at-zero.sh",
        _clips,
    ),
    Fault(
        "onnxruntime-refuses-moved-int8-from-opset-21",
        BY,
        _BOTH,
        "DequantizeLinear of int8 with a zero point, then an operator that moves elements",
        "the session is refused: output_dtype INT8 does not match y_zero_point type UINT8",
        "at the default level of optimization, from opset 21 on",
        "leave the zero point of 0 out, or write opset 20 with it",
        "findings/onnxruntime-scales-without-zero-points-clip-at-zero.sh",
        _is_refused,
    ),
    Fault(
        "onnxruntime-softmax-of-bytes-divides-by-a-whole-number",
        BY,
        _BOTH,
        "QLinearSoftmax divides by the scale of its result",
        "the whole part of the scale's reciprocal multiplies: results are too small",
        "always, by up to one step",
        "use a scale of 1/256",
        "findings/onnxruntime-softmax-of-bytes-divides-by-a-whole-number.sh",
        nodes(f"{_MS}.QLinearSoftmax", where=_divides_by_part),
    ),
    Fault(
        "onnxruntime-refuses-weights-with-half-scales",
        BY,
        _BOTH,
        "weights in blocks with float16 scales and output_dtype float32 are valid",
        "the session is refused: MatMulNBits bound to different types",
        "from the level extended on",
        "store scales in float32",
        "findings/onnxruntime-refuses-weights-with-half-scales.sh",
        nodes("DequantizeLinear", where=_half_scales),
    ),
    Fault(
        "onnxruntime-attention-with-a-past-needs-present-outputs",
        BY,
        _NEW,
        "MultiHeadAttention with a past attends to past and new keys",
        "other numbers, which may change from run to run, without present outputs",
        "always",
        "name the outputs present_key and present_value",
        "findings/onnxruntime-attention-with-a-past-needs-present-outputs.sh",
        nodes(f"{_MS}.MultiHeadAttention", where=_forgets_past),
    ),
    Fault(
        "onnxruntime-log-of-sigmoid-is-infinite",
        BY,
        _BOTH,
        "log(sigmoid(x)) is x for large negative x",
        "-inf below -18: Sigmoid of float32 is 0 there",
        "for logits below -16 or so",
        "write Neg, Softplus, Neg",
        "findings/onnxruntime-sigmoid-is-zero-below-minus-18.sh",
        nodes("Sigmoid", where=_reads_sigmoid),
    ),
    Fault(
        "onnxruntime-refuses-normalization-over-even-windows",
        BY,
        _BOTH,
        "LRN over an even number of channels is valid",
        "the session is refused",
        "always",
        "export again with an odd size",
        _TEST,
        nodes("LRN", where=is_even_size),
    ),
    Fault(
        "onnxruntime-split-to-sequence-drops-an-axis",
        BY,
        _BOTH,
        "keepdims is ignored where SplitToSequence has the size of its parts",
        "parts of one row lose their axis, larger ones are an error",
        "always",
        "write keepdims=1",
        _TEST,
        nodes("SplitToSequence", where=splits_by_a_number),
    ),
    Fault(
        "onnxruntime-level-rounds-activations-to-bytes",
        BY,
        _BOTH,
        "a MatMul by weights in blocks multiplies float32 activations",
        "activations are rounded to 8 bits from the level extended on",
        "by about half a percent of the largest result",
        "set session.qdq_matmulnbits_accuracy_level to 0",
        "findings/onnxruntime-level-rounds-activations-to-bytes.sh",
        nodes("DequantizeLinear", where=_weights_in_blocks),
        note=True,
    ),
    Fault(
        "onnxruntime-group-normalization-far-from-zero-is-nan",
        BY,
        _NEW,
        "GroupNormalization subtracts the mean before it squares",
        "NaN, or off by hundreds: the variance is a difference of two large numbers",
        "where the mean is thousands of standard deviations",
        "write Reshape, InstanceNormalization, Reshape",
        "findings/onnxruntime-group-normalization-far-from-zero-is-nan.sh",
        nodes("GroupNormalization"),
        note=True,
    ),
    Fault(
        "onnxruntime-unique-loses-numbers-beside-nan",
        BY,
        _BOTH,
        "Unique gives each number once",
        "one NaN removes ordinary numbers",
        "for NaN",
        "replace NaN before",
        _TEST,
        nodes("Unique", where=is_float),
        note=True,
    ),
    Fault(
        "onnxruntime-maximum-depends-on-where-nan-stands",
        BY,
        _BOTH,
        "the largest of numbers with NaN among them is NaN",
        "NaN where it stands first, else a number, which need not be the largest",
        "for NaN",
        "test for NaN with IsNaN",
        _TEST,
        nodes("ReduceMax", "ReduceMin", where=is_float),
        note=True,
    ),
    Fault(
        "onnxruntime-sums-of-int64-are-computed-in-float64",
        BY,
        _BOTH,
        "sums, products and powers of int64 are exact, or wrap around",
        "they are computed in float64, and saturate",
        "beyond 2⁵³, as time stamps in nanoseconds and hashes are",
        "use MatMul, CumSum or ReduceMax for such numbers",
        "findings/onnxruntime-sums-of-int64-are-computed-in-float64.sh",
        nodes("ReduceSum", "ReduceProd", "ReduceMean", "ReduceL1", "Pow", where=_sums_wide),
        note=True,
    ),
    Fault(
        "onnxruntime-time-warping-of-equal-costs-goes-around-the-corner",
        BY,
        _NEW,
        "DynamicTimeWarping takes the shortest path",
        "the path goes down and right where costs are equal",
        "for equal costs",
        "do not rely on the path where costs are equal",
        "findings/onnxruntime-time-warping-of-equal-costs-goes-around-the-corner.sh",
        nodes(f"{_MS}.DynamicTimeWarping"),
        note=True,
    ),
    Fault(
        "onnxruntime-negative-axes-of-empty-tensors-are-ignored",
        BY,
        ("1.31.1",),
        "an axis counts from the end where it is negative",
        "such axes are ignored: the result has another shape",
        "for empty tensors",
        "update to 1.32.0, or write axes from 0 on",
        "findings/onnxruntime-negative-axes-of-empty-tensors-are-ignored.sh",
        nodes(
            *(f"Reduce{kind}" for kind in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2")),
            where=lambda node: is_symbolic(node) and _has_negative_axis(node),
        ),
        gone="1.32.0",
        note=True,
    ),
)


def _has_negative_axis(node: FileNode) -> bool:
    axes = node.constant(1) if node.has(1) else node.attribute("axes", ())
    return axes is not None and any(axis < 0 for axis in np.asarray(axes).reshape(-1).tolist())
