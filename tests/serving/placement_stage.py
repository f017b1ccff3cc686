"""Engines whose models share workers: dense layers with weights of a chosen size."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from infuse.serving.config import ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from infuse.serving.workers.load import Load
from infuse.serving.workers.process_executor import ProcessExecutor
from infuse.serving.workers.replicas import Replica
from tests.serving import placement_stage as stage

ONE = {"replicas": 1, "batching": {"max_size": 1}}

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="groups need cores")
PATIENCE = 120.0


def dense(size: int, factor: float = 1.0) -> bytes:
    """y = (factor · x) · 1/size for rows of `size` numbers, by weights of size² floats."""
    weights = np.full((size, size), factor / size, np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", size])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def spread_out(columns: int) -> bytes:
    """y = x · w: rows of one number become rows of many: little to keep, much to work with."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "spread",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])],
        [numpy_helper.from_array(np.ones((1, columns), np.float32), "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def put(repository: Path, name: str, model: bytes, version: int = 1, **config: Any) -> None:
    """A version of a model, and the model's configuration."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model)
    if config:
        (repository / name / "config.yaml").write_text(yaml.safe_dump(config))


@asynccontextmanager
async def engine(folder: Path, **workers: Any) -> AsyncIterator[Engine]:
    """An engine over `folder`/models, packed onto two groups of cores if nothing else is said."""
    fields: Mapping[str, Any] = {
        "isolation": "packed",
        "groups": 2,
        "rebalance_seconds": 0,
        **workers,
    }
    config = ServerConfig(
        repository=str(folder / "models"),
        cache=folder / "cache",
        control="none",
        workers=Workers(**fields),
    )
    async with Engine(config) as opened:
        yield opened
    assert opened.pool.workers == []
    assert opened.pool.replicas == []


async def ask(opened: Engine, name: str, size: int, number: float = 1.0) -> float:
    """The answer to a row of `number`s; all its elements are alike."""
    row = np.full((1, size), number, np.float32)
    response = await opened.infer(InferRequest(name, inputs=[Tensor("x", "FP32", row)]))
    answer = response.outputs[0].data
    assert answer.shape == (1, size)
    assert np.ptp(answer) < 1e-3
    return float(answer[0, 0])


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until something is so."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, f"not within {PATIENCE} s: {what}"
        await asyncio.sleep(0.005)


def replica(opened: Engine, name: str, number: int = 0) -> Replica:
    """A replica of version 1 of a model."""
    found: Replica = opened.models[name].versions[1].instances[number]
    return found


def kinds(opened: Engine) -> list[str]:
    """The kinds of events so far."""
    return [event["kind"] for event in opened.events]


def remote(replica: Replica) -> ProcessExecutor:
    assert isinstance(replica.executor, ProcessExecutor)
    return replica.executor


def keep_busy(replica: Replica, cores: float) -> None:
    """Let it be as if the replica had kept so many cores busy."""
    load = Load(lambda: 0.0)
    load.add(cores)
    remote(replica).load = load


def small_models(folder: Path, *names: str) -> None:
    """Models of eight numbers; each multiplies by its place in the list."""
    for factor, name in enumerate(names, 1):
        stage.put(folder / "models", name, stage.dense(8, factor), **ONE)
