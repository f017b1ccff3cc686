"""Recurrent layers with weights of 8 bits: compiled, beside ONNX Runtime and the interpreter, which
computes in float64.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.native.builder import Builder
from tests.native.foreign import needs_emulator, run_foreign
from tests.native.kernel_tools import has_target, targets
from tests.native.ort_fixtures import onnxruntime, quiet
from tests.native.recurrent_models import GATES, feeds_of, recurrent

pytestmark = pytest.mark.row("Z1")
BOUND = 2e-5
"""Sums of tens of products in float32, and what a step makes of the error of the one before."""


def agree(outputs: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        assert outputs[name].dtype == array.dtype
        np.testing.assert_allclose(outputs[name], array, BOUND, BOUND)


def of_onnxruntime(b: Builder, feeds: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "model.onnx"
    infuse.save(b.graph, path)
    session = onnxruntime.InferenceSession(
        str(path), quiet(onnxruntime), providers=["CPUExecutionProvider"]
    )
    return dict(zip(b.graph.output_names, session.run(None, feeds)))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_all_kinds(kind: str, direction: str, tmp_path: Path) -> None:
    b = recurrent(kind, steps="steps", batch="batch", direction=direction, has_lengths=True)
    with infuse.compile(b.graph, infuse.CompileOptions(threads=2)) as model:
        for steps, batch in ((1, 1), (9, 3), (4, 13)):
            feeds = feeds_of(b, steps, batch)
            outputs = model.run(feeds)
            agree(outputs, evaluate(b.graph, feeds))
            # ONNX Runtime gives no last state of an example without steps.
            feeds["lengths"] = np.maximum(feeds["lengths"], 1)
            agree(model.run(feeds), of_onnxruntime(b, feeds, tmp_path))


def test_the_weight_file_has_a_byte_for_each_weight(tmp_path: Path) -> None:
    b = recurrent("LSTM", width=64, hidden=128)
    infuse.compile(b.graph, output=tmp_path / "model").close()
    rows = 4 * 128
    # A bias, and for both matrices a scale and a sum of each row.
    assert (tmp_path / "model" / "weights.bin").stat().st_size <= rows * (64 + 128 + 5 * 4)


QUADS = ("x86-64-v4+avx512_vnni", "x86-64-v3+avx_vnni")
"""Targets whose instructions add up four products of bytes, by their vectors."""


@pytest.mark.parametrize("target", [*targets()[1:], *filter(has_target, QUADS)])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_other_processors(kind: str, target: str) -> None:
    b = recurrent(kind, hidden=37, direction="bidirectional", grain="rows")
    feeds = feeds_of(b, 7, 3)
    with infuse.compile(b.graph, infuse.CompileOptions(threads=2, target=target)) as model:
        agree(model.run(feeds), evaluate(b.graph, feeds))


@needs_emulator
@pytest.mark.parametrize("units", ["", "+asimddp", "+i8mm"])
def test_arm(units: str, tmp_path: Path) -> None:
    b = recurrent("LSTM", hidden=37, grain="rows")
    feeds = feeds_of(b, 7, 3)
    model = infuse.compile(
        b.graph,
        infuse.CompileOptions(threads=2, target=f"aarch64{units}"),
        output=tmp_path / "model",
    )
    agree(run_foreign(model, feeds, tmp_path), evaluate(b.graph, feeds))


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-3, 1e4, 1e30])
def test_states_of_any_size(size: float) -> None:
    """States that nothing bounds: a sum of integers in steps of the largest of them."""
    b = recurrent("RNN", hidden=29, activations=("LeakyRelu",), activation_alpha=(0.5,))
    feeds = feeds_of(b, 7, 3)
    feeds["x"] *= np.float32(size)
    feeds["h"] *= np.float32(size)
    with infuse.compile(b.graph, infuse.CompileOptions(threads=1)) as model:
        outputs = model.run(feeds)
    for name, array in evaluate(b.graph, feeds).items():
        bound = BOUND * max(np.abs(array).max(), 1)
        np.testing.assert_allclose(outputs[name], array, BOUND, bound)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_states_that_are_not_finite(odd: float) -> None:
    """They are multiplied number by number, and other examples do not see them."""
    functions = {"activations": ("LeakyRelu",), "activation_alpha": (0.5,)}
    b = recurrent("RNN", batch=4, hidden=29, **functions)
    feeds = feeds_of(b, 7, 4)
    feeds["h"][0, 1, 5] = odd
    with infuse.compile(b.graph, infuse.CompileOptions(threads=1)) as model:
        outputs = model.run(feeds)
    with np.errstate(invalid="ignore"):
        expected = evaluate(b.graph, feeds)
    agree(outputs, expected)
    assert not np.isfinite(outputs["y1"][0, 1]).any()
    assert np.isfinite(outputs["y1"][0, [0, 2, 3]]).all()
