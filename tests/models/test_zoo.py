"""Well-known networks from both of PyTorch's exporters, against ONNX Runtime. `make test` runs the
small ones.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse
from benchmarks.architectures import NAMES, files
from benchmarks.inputs import make_inputs
from benchmarks.measure import difference

SMALL = {"squeezenet1_1", "shufflenet_v2", "mobilenet_v3_large", "minilm_l6"}
TOLERANCE = 1e-4  # of the largest output
PLAN = 1.02  # of the most bytes that are live at once
SIZES = [{"batch": 1, "seq": 8}, {"batch": 1, "seq": 128}, {"batch": 4, "seq": 77}]


def networks() -> list[object]:
    marks = {name: [] if name in SMALL else [pytest.mark.zoo] for name in NAMES}
    return [pytest.param(file, marks=marks[name]) for name in NAMES for file in files(name)]


def reference(path: Path) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.row("C1")
@pytest.mark.row("C7")
@pytest.mark.row("R1")
@pytest.mark.parametrize("name", networks())
def test_a_network_gives_the_answer_of_onnxruntime(
    name: str, zoo_model: Callable[[str], Path]
) -> None:
    path = zoo_model(name)
    model, expected = (
        infuse.compile(infuse.optimize(infuse.load(path), "all")),
        reference(path),
    )
    is_text = any(isinstance(size, str) for spec in model.inputs for size in spec.shape)
    for dims in SIZES if is_text else SIZES[:1]:
        inputs = make_inputs(path, dims)
        assert difference(model.run(inputs), expected(inputs)) <= TOLERANCE, dims
        assert model.arena_bytes <= PLAN * model.arena_lower_bound, dims
