"""What benchmarks.zoo takes from PyTorch: networks with a free batch, and runtimes of modules."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

torch = pytest.importorskip("torch")

from benchmarks import torch_engines  # noqa: E402
from benchmarks.engines import ENGINES, REFERENCE  # noqa: E402
from benchmarks.inputs import VOCABULARY, make_inputs, symbols  # noqa: E402
from benchmarks.measure import difference  # noqa: E402
from benchmarks.torchvision_schemas import make_importable  # noqa: E402
from benchmarks.zoo_models import Recipe, free_batch, recipe, write  # noqa: E402

TOLERANCE = 1e-5
"""Of the largest output: sums in fp32 in another order."""


class Small(torch.nn.Module):
    """A convolution, tokens, a product, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.embedding = torch.nn.Embedding(VOCABULARY, 8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, input: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pooled channels with the token's row, and their product with a matrix."""
        pooled = self.convolution(input).relu().mean((2, 3)) + self.embedding(ids)
        return pooled, self.linear(pooled)


@pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision")
@pytest.mark.parametrize("dynamo", [False, True])
def test_a_network_with_a_free_batch_takes_any(tmp_path: Path, dynamo: bool) -> None:
    make_importable()
    made = free_batch(recipe("squeezenet1_1"))
    path = tmp_path / "squeezenet1_1.onnx"
    write(made, path, dynamo)
    assert symbols(path) == {"batch"}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        inputs = make_inputs(path, {"batch": batch})
        with torch.no_grad():
            expected = made.model(torch.from_numpy(inputs["input"])).numpy()
        assert expected.shape == (batch, 1000)
        answer = session.run(None, inputs)[0]
        assert difference({"output": answer}, {"output": expected}) < TOLERANCE


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a network that stands in for one of the zoo."""
    example = torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64)
    made = Recipe(Small().eval(), example, ["input", "ids"], ["a", "b"], {})
    path = tmp_path / "resnet18.onnx"
    write(made, path, dynamo=False)
    monkeypatch.setattr(torch_engines, "recipe", {"resnet18": made}.__getitem__)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    threads = torch.get_num_threads()
    yield path
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")  # of what inductor and the converter import
@pytest.mark.parametrize(
    ("engine", "package"), [("torch-inductor", "torch"), ("litert", "litert_torch")]
)
def test_engines_of_modules_answer_as_the_file_does(small: Path, engine: str, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"needs {package}")
    inputs = make_inputs(small, {})
    expected = ENGINES[REFERENCE](small, 1).answer(inputs)
    opened = ENGINES[engine](small, 1)
    answer = opened.answer(inputs)
    assert {name: array.dtype for name, array in answer.items()} == dict.fromkeys("ab", np.float32)
    assert difference(answer, expected) < TOLERANCE
    assert opened.facts["compile_s"] > 0
    other = {"input": -inputs["input"], "ids": inputs["ids"] // 2}
    expected = ENGINES[REFERENCE](small, 1).answer(other)
    assert difference(opened.answer(other), expected) < TOLERANCE


@pytest.mark.parametrize("engine", ["torch-inductor", "litert"])
def test_a_file_without_a_module_is_refused(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ValueError, match=r"no network of benchmarks\.zoo_models"):
        ENGINES[engine](tmp_path / "other.onnx", 1)
