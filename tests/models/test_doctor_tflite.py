"""Faults of TensorFlow's converter and of LiteRT in files of TensorFlow Lite."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from tests.models.tflite_tools import Net, litert

X = np.array([100.0, 0.0, -100.0], np.float32)


def softplus(net: Net, x: int) -> int:
    """As tf.lite.TFLiteConverter of TensorFlow 2.21.0 writes tf.math.softplus."""
    total: int = net.op(
        "ADD", [net.op("EXP", [x], "float32"), net.const(np.float32(1))], "float32",
        fusedActivationFunction="none",
    )  # fmt: skip
    result: int = net.op("LOG", [total], "float32")
    return result


def log1p(net: Net, x: int) -> int:
    total = net.op("ADD", [x, net.const(np.float32(1))], "float32", fusedActivationFunction="none")
    result: int = net.op("LOG", [total], "float32")
    return result


def expm1(net: Net, x: int) -> int:
    one = net.const(np.float32(1))
    result: int = net.op(
        "SUB", [net.op("EXP", [x], "float32"), one], "float32", fusedActivationFunction="none"
    )
    return result


def written(build: Callable[[Net, int], int], path: Path) -> Net:
    net = Net()
    net.outputs(build(net, net.input("float32", X.shape)))
    path.write_bytes(net.bytes())
    return net


@pytest.mark.parametrize(
    ("build", "fault", "note"),
    [
        (softplus, "tflite-converter-unfolds-softplus", False),
        (log1p, "tflite-converter-unfolds-log1p-and-expm1", True),
        (expm1, "tflite-converter-unfolds-log1p-and-expm1", True),
    ],
)
def test_unfolded_functions_are_seen(
    build: Callable[[Net, int], int], fault: str, note: bool, tmp_path: Path
) -> None:
    written(build, tmp_path / "m.tflite")
    diagnosis = infuse.diagnose(tmp_path / "m.tflite")
    shown = diagnosis.notes if note else diagnosis.faults
    assert fault in [each.fault.name for each in shown]
    names = {each.fault.name for each in diagnosis.diagnostics}
    assert names <= {fault, "litert-delegate-sine-of-large-numbers-is-none"}


def test_softplus_overflows_in_litert(tmp_path: Path) -> None:
    net = written(softplus, tmp_path / "m.tflite")
    (result,) = litert(net.bytes(), [X])
    assert np.logaddexp(0, X)[0] == 100
    assert abs(result[0] - 100) > 10


def logarithm(x: Any) -> Any:
    return x.__array_namespace__().log(x + 1)


def test_other_formats_have_other_faults(tmp_path: Path) -> None:
    infuse.save(
        infuse.trace(logarithm, [infuse.Spec("float32", (3,))]),
        tmp_path / "m.onnx",
    )
    assert not infuse.diagnose(tmp_path / "m.onnx").diagnostics
    names = ["litert", "tflite.converter"]
    assert not infuse.diagnose(tmp_path / "m.onnx", names).diagnostics
