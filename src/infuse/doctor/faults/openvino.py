"""What OpenVINO computes otherwise than the standard says, on CPUs."""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.doctor.facts import FileNode
from infuse.doctor.faults.operators import is_bounded, is_even_size
from infuse.doctor.table import Condition, Fault, nodes, register

BY: Final = "openvino"
_SEEN: Final = ("2026.4.1",)
_TEST: Final = "tests/models/test_doctor_runtimes.py"
_ARITHMETIC: Final = ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "MatMul", "ReduceSum", "CumSum")
_COMPARED: Final = (
    "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Div", "Mod", "ReduceMax",
    "ReduceMin", "ReduceSum", "MatMul",
)  # fmt: skip
_WIDE: Final = (dtypes.int64, dtypes.uint64, dtypes.float64)
_SHORT: Final = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.uint32)
_WORDS: Final = (dtypes.int16, dtypes.uint16)


def _large(*types: dtypes.DType) -> Condition:
    """Numbers of these types that nothing in the file bounds."""
    return lambda node: node.dtype(0) in types and not is_bounded(node)


def _keeps_ratio(node: FileNode) -> bool:
    return node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch" and node.has(3)


def _drops_words(node: FileNode) -> bool:
    """A QuantizeLinear to 16 bits that a DequantizeLinear reads."""
    return node.dtype(2) in _WORDS and any(
        reader.kind == "DequantizeLinear" for reader in node.readers()
    )


register(
    Fault(
        "openvino-resize-ignores-aspect-policy",
        BY,
        _SEEN,
        "Resize with keep_aspect_ratio_policy keeps the ratio of sides",
        "the image is stretched; the result has another shape",
        "where the ratio of sizes changes",
        "compute the sizes before, and leave the policy out",
        _TEST,
        nodes("Resize", where=_keeps_ratio),
    ),
    Fault(
        "openvino-lstm-ignores-peepholes",
        BY,
        _SEEN,
        "the gates of an LSTM read the cell through peepholes P",
        "P is ignored",
        "always",
        "use another runtime",
        _TEST,
        nodes("LSTM", where=lambda node: node.has(7)),
    ),
    Fault(
        "openvino-drops-16-bit-quantization",
        BY,
        _SEEN,
        "QuantizeLinear to 16 bits limits to the range of its type",
        "the pair of QuantizeLinear and DequantizeLinear is left out, with its limits",
        "for numbers beyond the range, such as those that a merged ReLU cuts off",
        "state the limits by Clip before",
        "findings/openvino-drops-16-bit-quantization.sh",
        nodes("QuantizeLinear", where=_drops_words),
    ),
    Fault(
        "openvino-normalizes-even-windows-elsewhere",
        BY,
        _SEEN,
        "LRN over an even number of channels reaches one further up than down",
        "another window",
        "always",
        "export again with an odd size",
        _TEST,
        nodes("LRN", where=is_even_size),
    ),
    Fault(
        "openvino-64-bits-are-computed-in-32",
        BY,
        _SEEN,
        "int64 and float64 have 64 bits",
        "they are computed in int32 and float32",
        "beyond 2³¹, or beyond 7 digits",
        "check the range of such values",
        "findings/openvino-64-bits-are-computed-in-32.sh",
        nodes(*_ARITHMETIC, where=_large(*_WIDE)),
        note=True,
    ),
    Fault(
        "openvino-compares-integers-as-floats",
        BY,
        _SEEN,
        "int32 numbers are compared, divided and reduced exactly",
        "in float32",
        "beyond 2²⁴",
        "split such numbers in two before they are compared",
        "findings/openvino-compares-integers-as-floats.sh",
        nodes(*_COMPARED, where=_large(dtypes.int32, dtypes.int64)),
        note=True,
    ),
    Fault(
        "openvino-short-integers-saturate",
        BY,
        _SEEN,
        "sums and differences of short integers wrap around",
        "they saturate, and uint32 is taken for signed",
        "for results beyond the type",
        "cast to int32 before",
        "findings/openvino-short-integers-saturate.sh",
        nodes("Add", "Sub", "Mul", "Div", where=_large(*_SHORT)),
        note=True,
    ),
)
