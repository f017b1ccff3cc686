"""Every operator of TensorFlow Lite by itself, against LiteRT's own kernels."""

import pytest

import tests.models.tflite_cases_moved
import tests.models.tflite_cases_quantized  # noqa: F401  both add their cases
from tests.models.tflite_cases import CASES
from tests.models.tflite_tools import agree

FIXED = (
    *("BATCH_MATMUL-adjoint", "DYNAMIC_UPDATE_SLICE-1", "DYNAMIC_UPDATE_SLICE--5"),
    *("SQUEEZE-all", "RFFT2D-SQUEEZE-all", "MIRROR_PAD-symmetric"),
)
"""Cases whose inputs have different first sizes, or that need to know it."""


@pytest.mark.parametrize("name", list(CASES))
def test_operator(name: str) -> None:
    net, feeds = CASES[name]()
    agree(net, *feeds, tolerance=2e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n not in FIXED])
def test_operator_of_a_batch_that_is_not_fixed(name: str) -> None:
    net, feeds = CASES[name]()
    for index in net.graph.inputs:
        tensor = net.graph.tensors[index]
        if len(tensor.shape) > 2:
            tensor.shapeSignature = [-1, *tensor.shape[1:]]
    agree(net, *feeds, tolerance=2e-6)
