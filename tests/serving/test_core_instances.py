"""Instances per core: one request alone has all cores, requests that meet each other run side by
side.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infuse.serving.config import ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.serving.batcher_stage import Bench, HeldExecutor, unmeasured

pytestmark = [  # its model multiplies large matrices: at -O0 that is most of the time
    pytest.mark.row("S4"),
    pytest.mark.usefixtures("product_compiler"),
]


def with_core_instances(
    work: Callable[[Bench, list[HeldExecutor]], Coroutine[Any, Any, None]], **config: Any
) -> None:
    async def main() -> None:
        bench = Bench(**config)
        core_instances = [HeldExecutor(), HeldExecutor()]
        bench.batcher.places.add_core_instances(*core_instances)
        bench.batcher.places.core_times = unmeasured()
        await work(bench, core_instances)

    asyncio.run(main())


def test_a_request_that_meets_no_other_has_all_cores() -> None:
    async def work(bench: Bench, core_instances: list[HeldExecutor]) -> None:
        for mark in range(3):
            asked = bench.ask(2, mark=mark)
            assert len(bench.executors[0].runs) == 1
            bench.executors[0].finish()
            await asked.check()
        assert not core_instances[0].sizes

    with_core_instances(work)


def test_requests_that_meet_run_in_core_instances_once_all_cores_are_free() -> None:
    async def work(bench: Bench, core_instances: list[HeldExecutor]) -> None:
        first, second, third = (bench.ask(1, mark=mark, width=16 + mark) for mark in range(3))
        assert len(bench.executors[0].runs) == 1
        assert not core_instances[0].runs
        bench.executors[0].finish()
        assert [len(instance.runs) for instance in core_instances] == [1, 1]
        core_instances[0].finish()
        fourth = bench.ask(1, mark=3)
        assert [len(instance.runs) for instance in core_instances] == [1, 1]
        assert not bench.executors[0].runs
        for instance in core_instances:
            instance.finish()
        for asked in (first, second, third, fourth):
            await asked.check()

    with_core_instances(work)


def test_what_waits_is_shared_among_core_instances() -> None:
    async def work(bench: Bench, core_instances: list[HeldExecutor]) -> None:
        bench.hold()
        for mark in range(4):
            bench.ask(1, mark=mark)
        bench.executors[0].finish()
        assert [instance.sizes for instance in core_instances] == [[2], [2]]

    with_core_instances(work)


def test_a_version_gets_core_instances_and_gives_right_answers_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "infuse.serving.engine.executor_admission.GAIN", 0.0
    )  # whatever the clock says here
    weights = np.random.default_rng(0).standard_normal((768, 768)).astype(np.float32) / 28
    nodes = [
        helper.make_node("MatMul", ["x" if n == 0 else f"h{n}", "w"], [f"h{n + 1}"])
        for n in range(24)
    ]
    nodes.append(helper.make_node("Identity", ["h24"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [96, 768])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [96, 768])],
        [numpy_helper.from_array(weights, "w")],
    )
    folder = tmp_path / "models" / "products" / "1"
    folder.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "model.onnx",
    )
    config = ServerConfig(
        repository=str(tmp_path / "models"), cache=tmp_path / "cache", workers=Workers(cores=2)
    )

    async def ask(engine: Engine, number: int) -> None:
        x = np.random.default_rng(number).standard_normal((96, 768)).astype(np.float32)
        answer = await engine.infer(InferRequest("products", inputs=[Tensor("x", "FP32", x)]))
        expected = x.astype(np.float64)
        for _ in nodes[:-1]:
            expected = expected @ weights
        error = np.max(np.abs(answer.outputs[0].data - expected)) / np.max(np.abs(expected))
        assert error < 1e-4  # 24 products of 768 terms in float32

    async def main() -> None:
        async with Engine(config) as engine:
            (version,) = engine.versions()
            if engine.cores < 2:
                pytest.skip("instances per core need two cores")
            before = version.core_times
            await asyncio.gather(*(ask(engine, number) for number in range(24)))
            assert version.statistics.total().successes == 24
            assert version.core_times
            assert version.core_times != before

    asyncio.run(main())
