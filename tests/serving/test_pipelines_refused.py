"""Pipelines as graphs: what is refused when they are loaded, and in requests and answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infuse.errors import (
    ConfigurationError,
    InputError,
    ModelFailureError,
)
from infuse.serving.control.model_config import Pipeline
from infuse.serving.control.reading import convert
from infuse.serving.engine.pipelines import PipelineRunner
from infuse.serving.messages import InferRequest, InferResponse, Tensor
from tests.serving.pipelines_stage import (
    DIAMOND,
    FLOATS,
    IMAGE,
    MODELS,
    Models,
    pipeline,
    run,
    step,
)

pytestmark = pytest.mark.row("S1")


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "input 'image' is missing"),
        ([Tensor("image", "FP32", IMAGE)] * 2, "given twice"),
        ([Tensor("imgae", "FP32", IMAGE)], "no input 'imgae'.*did you mean 'image'"),
        (
            [Tensor("image", "FP64", IMAGE.astype(np.float64))],
            r"takes FP32\[-1, 2\], found FP64\[2, 2\]",
        ),
        ([Tensor("image", "FP32", IMAGE[:, :1])], r"found FP32\[2, 1\]"),
        ([Tensor("image", "FP32", IMAGE[0])], r"found FP32\[2\]"),
    ],
)
def test_inputs_are_checked(inputs: list[Tensor], text: str) -> None:
    with pytest.raises(InputError, match=text):
        run(pipeline(*DIAMOND), InferRequest("p", inputs=inputs))


def test_what_models_give_is_checked() -> None:
    async def other_type(request: InferRequest) -> InferResponse:
        return InferResponse("double", "1", "", [Tensor("y", "FP64", IMAGE.astype(np.float64))])

    async def nothing(request: InferRequest) -> InferResponse:
        return InferResponse("double", "1", "", [])

    config = pipeline(step("double", {"x": "image"}, {"y": "answer"}))
    with pytest.raises(
        ModelFailureError, match=r"'answer' is declared as FP32\[-1, 2\], and is FP64"
    ):
        run(config, call=other_type)
    with pytest.raises(ModelFailureError, match=r"step 1 \(double\): it gave no output 'y'"):
        run(config, call=nothing)


WRONG: dict[str, tuple[Any, str]] = {
    "unknown model": (
        [step("dobule", {"x": "image"}, {"y": "answer"})],
        "step 1 .dobule.: .*did you mean 'double'",
    ),
    "unknown value": (
        [step("double", {"x": "img"}, {"y": "answer"})],
        "'img', which nothing makes",
    ),
    "unknown input": (
        [step("double", {"z": "image"}, {"y": "answer"})],
        "step 1 .double.: it has no input 'z'",
    ),
    "unknown output": (
        [step("double", {"x": "image"}, {"z": "answer"})],
        "step 1 .double.: it has no output 'z'",
    ),
    "input not given": (
        [step("sum", {"a": "image"}, {"y": "answer"})],
        "step 1 .sum.: nothing is given .* 'b'",
    ),
    "output not made": (
        [step("double", {"x": "image"}, {"y": "d"})],
        "nothing makes the output 'answer'",
    ),
    "made twice": (
        [*DIAMOND, step("negate", {"x": "image"}, {"y": "d"})],
        "step 4 .negate.: it makes the value 'd', which is there already from step 1 .double.",
    ),
    "input made again": (
        [step("double", {"x": "image"}, {"y": "image"})],
        "it makes the value 'image', which is there already from the pipeline's inputs",
    ),
    "cycle": (
        [
            step("double", {"x": "image"}, {"y": "d"}),
            step("sum", {"a": "d", "b": "n"}, {"y": "answer"}),
            step("negate", {"x": "answer"}, {"y": "n"}),
        ],
        "steps wait for each other: step 2 .sum. → step 3 .negate. → step 2 .sum.",
    ),
    "step for nothing": (
        [*DIAMOND, step("negate", {"x": "image"}, {"y": "z"})],
        "step 4 .negate.: no output of the pipeline needs it",
    ),
    "type": (
        [step("upper", {"x": "image"}, {"y": "answer"})],
        r"'x' takes BYTES\[-1\], and the value 'image' is FP32",
    ),
    "no model": (
        [{"inputs": {}, "outputs": {"y": "answer"}}],
        "step 1: it needs either a model or a built-in",
    ),
    "two of them": (
        [step("double", {"x": "image"}, {"y": "answer"}, builtin="softmax")],
        "it needs either a model or a built-in",
    ),
    "no outputs": ([step("double", {"x": "image"}, {})], "it names no outputs"),
    "options of a model": (
        [step("double", {"x": "image"}, {"y": "answer"}, options={"k": 1})],
        "a model has none",
    ),
    "version of a built-in": (
        [
            {
                "builtin": "softmax",
                "version": "2",
                "inputs": {"scores": "image"},
                "outputs": {"probabilities": "answer"},
            }
        ],
        "'softmax' has no versions",
    ),
    "unknown built-in": (
        [
            {
                "builtin": "sofmax",
                "inputs": {"scores": "image"},
                "outputs": {"probabilities": "answer"},
            }
        ],
        "step 1 .sofmax.: there is no built-in 'sofmax'.*did you mean 'softmax'",
    ),
    "unknown option": (
        [
            {
                "builtin": "softmax",
                "options": {"axes": 1},
                "inputs": {"scores": "image"},
                "outputs": {"probabilities": "answer"},
            }
        ],
        "step 1 .softmax.: Object contains unknown field `axes`",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_graphs_that_are_refused(case: str) -> None:
    steps, text = WRONG[case]
    with pytest.raises(ConfigurationError, match=text) as caught:
        PipelineRunner("p", pipeline(*steps), Models(), MODELS)
    assert "pipeline 'p'" in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "outputs", "text"),
    [
        ([{"name": "image", "datatype": "FLOAT", "shape": [-1, 2]}], None, "'FLOAT'"),
        ([{"name": "image", **FLOATS}] * 2, None, "'image' is declared twice"),
        (
            [{"name": "image", **FLOATS}, {"name": "z", **FLOATS}],
            None,
            "no step reads the input 'z'",
        ),
        ([{"name": "image", "datatype": "FP32", "shape": [-2, 2]}], None, "negative size"),
        (
            [{"name": "image", "datatype": "FP32", "shape": [-1, 3]}],
            None,
            r"takes FP32\[-1, 2\], and .* FP32\[-1, 3\]",
        ),
        (
            None,
            [{"name": "answer", "datatype": "INT32", "shape": [-1, 2]}],
            "'answer' is declared as INT32",
        ),
    ],
)
def test_declarations_that_are_refused(inputs: Any, outputs: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        PipelineRunner("p", pipeline(*DIAMOND, inputs=inputs, outputs=outputs), Models(), MODELS)


def test_a_pipeline_without_outputs_is_refused() -> None:
    config = convert(Pipeline, {"inputs": [], "outputs": [], "steps": []}, "test")
    with pytest.raises(ConfigurationError, match="it has no outputs"):
        PipelineRunner("p", config, Models(), MODELS)


def test_without_metadata_the_calls_decide() -> None:
    runner = PipelineRunner("p", pipeline(step("later", {"x": "image"}, {"y": "answer"})), Models())
    assert runner.models == {"later"}
