"""A repository with models of other formats: what `infuse.load` takes is served."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.models.make_pt2 import Small
from tests.models.tensorflow_files import DATA as TENSORFLOW, cases
from tests.serving.engine_stage import served

pytestmark = pytest.mark.row("S2")
DATA = Path(__file__).resolve().parents[1] / "models" / "data"
TREES = np.load(DATA / "trees" / "expected.npz")


def put(repository: Path, name: str, source: Path, target: str = "") -> None:
    """A version 1 of these files: a file by the name `target`, a folder's files, or as a folder."""
    folder = repository / name / "1"
    if source.is_dir():
        shutil.copytree(source, folder / target if target else folder)
    else:
        folder.mkdir(parents=True)
        shutil.copy(source, folder / target)


async def asked(engine: Engine, name: str, *arrays: Any) -> list[Any]:
    signature = engine.model_metadata(name)["inputs"]
    inputs = [
        Tensor(one["name"], one["datatype"], np.asarray(array))
        for one, array in zip(signature, arrays, strict=True)
    ]
    response = await engine.infer(InferRequest(name, inputs=inputs))
    return [tensor.data for tensor in response.outputs]


def test_models_of_other_formats_are_served(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    repository = tmp_path / "models"
    trees = {
        "xgboost": ("xgboost-squared.json", "model.json"),
        "xgboost_binary": ("xgboost-softprob.ubj", "any.ubj"),
        "lightgbm": ("lightgbm-regression.txt", "model.txt"),
    }
    for name, (file, target) in trees.items():
        put(repository, name, DATA / "trees" / file, target)
    put(repository, "program", DATA / "small.pt2", "small.pt2")
    put(repository, "saved", TENSORFLOW / "generation_1")
    put(repository, "triton", TENSORFLOW / "generation_1", "model.savedmodel")
    put(repository, "web", TENSORFLOW / "web")

    async def work(engine: Engine) -> None:
        assert {name: model.problem for name, model in engine.models.items() if model.problem} == {}
        for name, (file, _) in trees.items():
            (found,) = await asked(engine, name, TREES["x"].astype(np.float64))
            np.testing.assert_allclose(found, TREES[file], rtol=1e-5, atol=1e-6)
        for name in ("saved", "triton", "web"):
            case = cases("files.npz")["web" if name == "web" else "generation_1"]
            (found,) = await asked(engine, name, case["x"])
            np.testing.assert_allclose(found, case["y"], rtol=1e-5, atol=1e-6)
        torch.manual_seed(0)
        small = Small().eval()
        x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
        with torch.no_grad():
            first = torch.relu(small.first(torch.from_numpy(x))).sin()
        _, *found = await asked(engine, "program", x, np.array(True))
        np.testing.assert_allclose(found[0], first.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found[2], torch.topk(first, 2).indices.numpy())

    served(tmp_path, work)
