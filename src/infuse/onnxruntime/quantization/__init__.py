"""ONNX Runtime's quantization, which Infuse does not have: its names are there, so that programs
that may quantize can be imported, and whoever uses one is told of `infuse compress`.
"""

from __future__ import annotations

import enum
from typing import Final

from infuse.onnxruntime.unavailable import Unavailable, unavailable_class, unavailable_function

_WHAT: Final = "quantization under ONNX Runtime's names"
_HINT: Final = "use `infuse compress`, or infuse.compress(): docs/compression.md"


class QuantType(enum.Enum):
    """Types of quantized elements."""

    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6
    QInt2 = 7
    QUInt2 = 8

    def __str__(self) -> str:
        return self.name


class QuantFormat(enum.Enum):
    """How quantized operators are written."""

    QOperator = 0
    QDQ = 1

    def __str__(self) -> str:
        return self.name


class QuantizationMode(enum.Enum):
    """What is quantized."""

    IntegerOps = 0
    QLinearOps = 1

    def __str__(self) -> str:
        return self.name


class CalibrationMethod(enum.Enum):
    """How ranges of activations are found."""

    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class CalibrationDataReader(Unavailable):
    """What gives inputs to calibrate with."""

    what, hint = _WHAT, _HINT


CalibraterBase, ONNXQuantizer, QDQQuantizer, StaticQuantConfig, DynamicQuantConfig, QuantConfig = (
    unavailable_class(name, _WHAT, _HINT)
    for name in (
        "CalibraterBase",
        "ONNXQuantizer",
        "QDQQuantizer",
        "StaticQuantConfig",
        "DynamicQuantConfig",
        "QuantConfig",
    )
)
create_calibrator, quantize, quantize_dynamic, quantize_static, quant_pre_process = (
    unavailable_function(name, _WHAT, _HINT)
    for name in (
        "create_calibrator",
        "quantize",
        "quantize_dynamic",
        "quantize_static",
        "quant_pre_process",
    )
)
get_qdq_config, write_calibration_table = (
    unavailable_function(name, _WHAT, _HINT)
    for name in ("get_qdq_config", "write_calibration_table")
)

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "DynamicQuantConfig",
    "ONNXQuantizer",
    "QDQQuantizer",
    "QuantConfig",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "StaticQuantConfig",
    "create_calibrator",
    "get_qdq_config",
    "quant_pre_process",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
    "write_calibration_table",
]
