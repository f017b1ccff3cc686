"""Invented models whose steps make up pipelines, and a run of such a pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse.serving.control.model_config import Pipeline
from infuse.serving.control.reading import convert
from infuse.serving.engine.pipelines import PipelineRunner
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor

FLOATS = {"datatype": "FP32", "shape": [-1, 2]}


def unary(**names: str) -> dict[str, Any]:
    return {
        "inputs": [{"name": names.get("input", "x"), **FLOATS}],
        "outputs": [{"name": names.get("output", "y"), **FLOATS}],
    }


MODELS: dict[str, dict[str, Any]] = {
    "double": unary(),
    "negate": unary(),
    "sum": {
        "inputs": [{"name": "a", **FLOATS}, {"name": "b", **FLOATS}],
        "outputs": [{"name": "y", **FLOATS}],
    },
    "ends": {
        "inputs": [{"name": "x", **FLOATS}],
        "outputs": [{"name": "first", **FLOATS}, {"name": "last", **FLOATS}],
    },
    "upper": {
        "inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": "y", "datatype": "BYTES", "shape": [-1]}],
    },
}
KERNELS = {
    "double": lambda x: {"y": x["x"] * 2},
    "negate": lambda x: {"y": -x["x"]},
    "sum": lambda x: {"y": x["a"] + x["b"]},
    "ends": lambda x: {"first": x["x"][:, :1].repeat(2, 1), "last": x["x"][:, 1:].repeat(2, 1)},
    "upper": lambda x: {"y": np.array([part.upper() for part in x["x"]], object)},
}


def step(
    model: str, inputs: Mapping[str, str], outputs: Mapping[str, str], **more: Any
) -> dict[str, Any]:
    return {"model": model, "inputs": dict(inputs), "outputs": dict(outputs), **more}


def pipeline(*steps: dict[str, Any], inputs: Any = None, outputs: Any = None) -> Pipeline:
    plain = {
        "inputs": inputs or [{"name": "image", **FLOATS}],
        "outputs": outputs or [{"name": "answer", **FLOATS}],
        "steps": list(steps),
    }
    return convert(Pipeline, plain, "test")


# image → double → d → negate → n; d + n → answer
DIAMOND = (
    step("double", {"x": "image"}, {"y": "d"}),
    step("negate", {"x": "image"}, {"y": "n"}),
    step("sum", {"a": "d", "b": "n"}, {"y": "answer"}),
)
IMAGE = np.array([[1, 2], [3, 4]], np.float32)


class Models:
    """Stands for the engine: answers requests with NumPy, and writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[InferRequest] = []

    async def __call__(self, request: InferRequest) -> InferResponse:
        self.asked.append(request)
        await asyncio.sleep(0)
        found = KERNELS[request.model]({tensor.name: tensor.data for tensor in request.inputs})
        wanted = [output.name for output in request.outputs]
        outputs = [
            Tensor(name, "BYTES" if found[name].dtype == object else "FP32", found[name])
            for name in wanted
        ]
        return InferResponse(request.model, "1", request.id, outputs)


def request(*outputs: str, data: Any = IMAGE, **fields: Any) -> InferRequest:
    inputs = [Tensor("image", "BYTES" if data.dtype == object else "FP32", data)]
    return InferRequest(
        "p", inputs=inputs, outputs=[RequestedOutput(name) for name in outputs], **fields
    )


def run(
    config: Pipeline, asked: InferRequest | None = None, call: Any = None, **more: Any
) -> list[Tensor]:
    runner = PipelineRunner("p", config, call or Models(), MODELS, **more)
    try:
        return asyncio.run(runner.run(asked or request()))
    finally:
        runner.close()
