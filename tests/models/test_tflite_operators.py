"""Every operator of TensorFlow Lite by itself, against LiteRT's own kernels."""

import pytest

import tests.models.tflite_cases_moved
import tests.models.tflite_cases_quantized  # noqa: F401  both add their cases
from tests.models.tflite_cases import CASES
from tests.models.tflite_tools import agree


@pytest.mark.parametrize("name", list(CASES))
def test_operator(name: str) -> None:
    net, feeds = CASES[name]()
    agree(net, *feeds, tolerance=2e-6)
