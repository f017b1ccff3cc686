"""ONNX Runtime, which is the witness, and Infuse's module with the same interface."""

from types import ModuleType
from typing import Any

import pytest

import infuse.onnxruntime
from infuse.onnxruntime.notices import forget_notices
from tests.native.session_models import ADDER

onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime"
)


@pytest.fixture(params=[onnxruntime, infuse.onnxruntime], ids=["onnxruntime", "infuse"])
def ort(request: pytest.FixtureRequest) -> ModuleType:
    """The module under test."""
    forget_notices()
    module: ModuleType = request.param
    return module


def state(ort: ModuleType) -> ModuleType:
    """The module that code imports the errors of."""
    module: ModuleType = ort.capi.onnxruntime_pybind11_state
    return module


def quiet(ort: ModuleType) -> Any:
    """Options without messages on the console."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def session_of(ort: ModuleType, model: Any = ADDER, options: Any = None) -> Any:
    return ort.InferenceSession(model, options or quiet(ort), providers=["CPUExecutionProvider"])
