"""Parts that kernels read where they are joined: compiled, beside ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.ir.graph import Graph
from tests.native.concat_models import MODELS, Joined
from tests.native.foreign import needs_emulator, run_foreign
from tests.native.kernel_tools import targets
from tests.native.ort_fixtures import onnxruntime, quiet

pytestmark = pytest.mark.row("R1")
named = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
SIDES = (10, 14)


def expected(graph: Graph, feeds: dict[str, np.ndarray], folder: Path) -> list[np.ndarray]:
    """What ONNX Runtime gives."""
    path = folder / "model.onnx"
    infuse.save(graph, path)
    session = onnxruntime.InferenceSession(
        str(path), quiet(onnxruntime), providers=["CPUExecutionProvider"]
    )
    results: list[np.ndarray] = session.run(None, feeds)
    return results


def agree(outputs: dict[str, np.ndarray], wanted: list[np.ndarray]) -> None:
    """Winograd's tiles of 4 lose some bits of sums of a few hundred products; halves have 11."""
    for output, array in zip(outputs.values(), wanted, strict=True):
        assert output.shape == array.shape
        bound = 2.0**-9 if array.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(output, array, bound, bound * max(np.abs(array).max(), 1))


@named
def test_batches_and_sizes(model: Joined, tmp_path: Path) -> None:
    b = model.make("n", "side")
    compiled = infuse.compile(b.graph, infuse.CompileOptions(threads=2))
    for batch, side in ((1, SIDES[0]), (3, SIDES[1])):
        feeds = b.feeds({"n": batch, "side": side}, low=-9, high=9)
        agree(compiled.run(feeds), expected(b.graph, feeds, tmp_path))


@pytest.mark.parametrize("target", targets()[1:])
@pytest.mark.parametrize("name", ["odd_chain", "halves", "rows"])
def test_other_processors(name: str, target: str, tmp_path: Path) -> None:
    b = MODELS[name].make("n", 10)
    compiled = infuse.compile(b.graph, infuse.CompileOptions(threads=2, target=target))
    for batch in (1, 3):
        feeds = b.feeds({"n": batch}, low=-9, high=9)
        agree(compiled.run(feeds), expected(b.graph, feeds, tmp_path))


@needs_emulator
def test_arm(tmp_path: Path) -> None:
    b = MODELS["odd_chain"].make("n", 10)
    compiled = infuse.compile(
        b.graph, infuse.CompileOptions(threads=2, target="aarch64"), output=tmp_path / "model"
    )
    for batch in (1, 3):
        feeds = b.feeds({"n": batch}, low=-9, high=9)
        agree(run_foreign(compiled, feeds, tmp_path), expected(b.graph, feeds, tmp_path))
