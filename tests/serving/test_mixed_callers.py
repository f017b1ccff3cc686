"""Callers at once, with numbers of different sizes: each gets what it would get alone, whatever the
model does with the rows of a batch.
"""

import asyncio
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from infuse.serving.control import descriptions
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.pure.row_programs import INDEPENDENT, MIXING, WIDTH, built
from tests.serving import models
from tests.serving.engine_stage import loaded, served

pytestmark = [pytest.mark.row("S4"), pytest.mark.timeout(600)]
MIXED = {
    "integers_added_up": "CumSum",
    "threshold_of_all": "ReduceMax",
    "quantized_at_run": "DynamicQuantizeLinear",
    "place_of_all": "ArgMax",
    "distinct": "Unique",
    "branch_on_all": "ReduceMax",
}
APART = ("layers", "last_of_each", "scale_of_each")
CALLERS, ROUNDS = 16, 6


def written(folder: Path, name: str) -> None:
    graph = built((MIXING | INDEPENDENT)[name])
    infuse.save(graph, folder / f"{name}.onnx")
    models.write(folder / "models", name, (folder / f"{name}.onnx").read_bytes())


@pytest.mark.parametrize("name", [*MIXED, *APART])
def test_each_caller_gets_its_own_answer(name: str, tmp_path: Path) -> None:
    written(tmp_path, name)
    graph = infuse.load(tmp_path / f"{name}.onnx")
    rng = np.random.default_rng(3)
    scales = [1.0, 20.0, 0.05, 3.0]
    sent = [
        (rng.standard_normal((1 + k % 2, WIDTH)) * scales[k % 4]).astype(np.float32)
        for k in range(CALLERS)
    ]
    expected = [evaluate(graph, {"x": x})["y"] for x in sent]

    async def caller(engine: Engine, number: int) -> int:
        rows = 0
        for _ in range(ROUNDS):
            request = InferRequest(model=name, inputs=[Tensor("x", "FP32", sent[number])])
            answer = await engine.infer(request)
            found, right = answer.outputs[0].data, expected[number]
            scale = np.abs(right).max()
            np.testing.assert_allclose(found, right, rtol=0, atol=1e-4 * scale + 1e-30)
            rows = max(rows, engine.models[name].version().most_rows)
        return rows

    async def work(engine: Engine) -> None:
        await loaded(engine, name, 1)
        most = await asyncio.gather(*(caller(engine, k) for k in range(CALLERS)))
        version = engine.models[name].version()
        parameters = descriptions.configuration(version)["parameters"]
        obstacle = parameters.get("infuse.requests_run_one_by_one", {}).get("string_value", "")
        if name in MIXED:
            assert set(most) == {1}
            assert MIXED[name] in obstacle
            assert any("requests run one by one" in note for note in version.notes)
        else:
            assert max(most) > 1
            assert not obstacle
            assert not version.notes

    served(tmp_path, work)
