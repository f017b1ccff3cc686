"""Pipelines as graphs: how they run."""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import Any

import numpy as np
import pytest

from infuse.errors import (
    ConfigurationError,
    DeadlineError,
    InfuseError,
    InputError,
    ModelFailureError,
    OverloadError,
)
from infuse.serving.control.model_config import Pipeline
from infuse.serving.engine.pipelines import PipelineRunner, check_nesting
from infuse.serving.messages import InferRequest, InferResponse
from tests.serving.pipelines_stage import (
    DIAMOND,
    FLOATS,
    IMAGE,
    MODELS,
    Models,
    pipeline,
    request,
    run,
    step,
    unary,
)

pytestmark = pytest.mark.row("S1")


def test_values_flow_through_the_graph() -> None:
    (answer,) = run(pipeline(*DIAMOND))
    assert (answer.name, answer.datatype) == ("answer", "FP32")
    np.testing.assert_array_equal(answer.data, IMAGE)


def test_the_listing_does_not_matter() -> None:
    outputs = [{"name": name, **FLOATS} for name in ("answer", "n", "d", "image")]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        results = run(pipeline(*(DIAMOND[k] for k in order), outputs=outputs))
        assert [result.name for result in results] == ["answer", "n", "d", "image"]
        for result, expected in zip(results, (IMAGE, -IMAGE, IMAGE * 2, IMAGE)):
            np.testing.assert_array_equal(result.data, expected)


def test_only_what_is_asked_for_is_computed() -> None:
    outputs = [{"name": name, **FLOATS} for name in ("answer", "left", "right")]
    config = pipeline(
        *DIAMOND, step("ends", {"x": "answer"}, {"first": "left", "last": "right"}), outputs=outputs
    )
    models = Models()
    results = run(config, request("right", "answer"), models)
    assert [result.name for result in results] == ["right", "answer"]
    assert [output.name for output in models.asked[-1].outputs] == ["last"]
    models = Models()
    run(config, request("answer"), models)
    assert sorted(asked.model for asked in models.asked) == ["double", "negate", "sum"]
    with pytest.raises(InputError, match=r"no output 'rigth'.*did you mean 'right'"):
        run(config, request("rigth"))


def test_any_type_may_flow() -> None:
    texts = {"datatype": "BYTES", "shape": [-1]}
    config = pipeline(
        step("upper", {"x": "image"}, {"y": "answer"}),
        inputs=[{"name": "image", **texts}],
        outputs=[{"name": "answer", **texts}],
    )
    (answer,) = run(config, request(data=np.array([b"a\xff", b""], object)))
    assert answer.data.tolist() == [b"A\xff", b""]


def test_what_a_request_carries_is_passed_on() -> None:
    models = Models()
    deadline = time.monotonic() + 100
    fields = {"id": "7", "priority": 2, "deadline": deadline, "sticky": "ann", "trace": "00-1-2-01"}
    config = pipeline(step("double", {"x": "image"}, {"y": "answer"}, version="stable"))
    run(config, request(parameters={"k": 1}, **fields), models)
    (asked,) = models.asked
    assert {name: getattr(asked, name) for name in fields} == fields
    assert asked.version == "stable"
    assert asked.parameters == {"k": 1}


class Gates:
    """Models that wait until the test lets them go on."""

    def __init__(self) -> None:
        self.started: dict[str, asyncio.Event] = {name: asyncio.Event() for name in MODELS}
        self.gates: dict[str, asyncio.Future[None]] = {}
        self.cancelled: list[str] = []
        self.models = Models()

    async def __call__(self, request: InferRequest) -> InferResponse:
        gate = self.gates.setdefault(request.model, asyncio.get_running_loop().create_future())
        self.started[request.model].set()
        try:
            await gate
        except asyncio.CancelledError:
            self.cancelled.append(request.model)
            raise
        return await self.models(request)

    async def until(self, *names: str) -> None:
        for name in names:
            await asyncio.wait_for(self.started[name].wait(), 30)


def test_independent_steps_run_side_by_side() -> None:
    async def main() -> None:
        gates = Gates()
        runner = PipelineRunner("p", pipeline(*DIAMOND), gates, MODELS)
        running = asyncio.ensure_future(runner.run(request()))
        await gates.until("double", "negate")
        assert not gates.started["sum"].is_set()
        gates.gates["negate"].set_result(None)
        gates.gates["double"].set_result(None)
        await gates.until("sum")
        gates.gates["sum"].set_result(None)
        (answer,) = await running
        np.testing.assert_array_equal(answer.data, IMAGE)

    asyncio.run(main())


def test_a_step_begins_when_its_own_inputs_are_there() -> None:
    async def main() -> None:
        gates = Gates()
        outputs = [{"name": name, **FLOATS} for name in ("a", "b")]
        config = pipeline(
            step("double", {"x": "image"}, {"y": "d"}),
            step("negate", {"x": "image"}, {"y": "b"}),
            step("ends", {"x": "d"}, {"first": "a"}),
            outputs=outputs,
        )
        running = asyncio.ensure_future(PipelineRunner("p", config, gates, MODELS).run(request()))
        await gates.until("double", "negate")
        gates.gates["double"].set_result(None)
        await gates.until("ends")
        for gate in ("ends", "negate"):
            gates.gates[gate].set_result(None)
        assert [tensor.name for tensor in await running] == ["a", "b"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OverloadError("the queue is full", where="model 'negate'"),
            r"pipeline 'p': step 2 \(negate\): model 'negate'",
        ),
        (
            ZeroDivisionError("by zero"),
            r"step 2 \(negate\): it failed \(ZeroDivisionError: by zero\)",
        ),
        (asyncio.CancelledError(), r"step 2 \(negate\): it was cancelled"),
    ],
)
def test_a_failing_step_is_named_and_ends_the_others(error: BaseException, text: str) -> None:
    if isinstance(error, OverloadError):
        error.retry_after = 7

    async def main() -> None:
        gates = Gates()
        runner = PipelineRunner("p", pipeline(*DIAMOND), gates, MODELS)
        running = asyncio.ensure_future(runner.run(request()))
        await gates.until("double", "negate")
        gates.gates["negate"].set_exception(error) if isinstance(error, Exception) else gates.gates[
            "negate"
        ].cancel()
        with pytest.raises(InfuseError, match=text) as caught:
            await running
        assert gates.cancelled[-1] == "double"
        assert not gates.started["sum"].is_set()
        if isinstance(error, OverloadError):
            assert isinstance(caught.value, OverloadError)
            assert caught.value.retry_after == 7
            # Many requests may share the error of a batch.
            assert error.where == "model 'negate'"

    asyncio.run(main())


def test_cancelling_a_run_cancels_its_steps() -> None:
    async def main() -> None:
        gates = Gates()
        runner = PipelineRunner("p", pipeline(*DIAMOND), gates, MODELS)
        running = asyncio.ensure_future(runner.run(request()))
        await gates.until("double", "negate")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(gates.cancelled) == ["double", "negate"]

    asyncio.run(main())


def test_no_step_begins_after_the_deadline() -> None:
    models = Models()
    with pytest.raises(DeadlineError, match=r"step 1 \(double\)"):
        run(pipeline(*DIAMOND), request(deadline=time.monotonic() - 1), models)
    assert models.asked == []


def test_values_go_when_their_last_reader_is_done() -> None:
    async def main() -> None:
        gates = Gates()
        made: list[weakref.ref[Any]] = []

        async def call(asked: InferRequest) -> InferResponse:
            response = await gates(asked)
            if asked.model == "double":
                made.append(weakref.ref(response.outputs[0].data))
            gates.models.asked.clear()
            return response

        config = pipeline(
            step("double", {"x": "image"}, {"y": "d"}),
            step("ends", {"x": "d"}, {"first": "e"}),
            step("negate", {"x": "e"}, {"y": "answer"}),
        )
        running = asyncio.ensure_future(PipelineRunner("p", config, call, MODELS).run(request()))
        await gates.until("double")
        gates.gates["double"].set_result(None)
        await gates.until("ends")
        assert made[0]() is not None
        gates.gates["ends"].set_result(None)
        await gates.until("negate")
        assert made[0]() is None
        gates.gates["negate"].set_result(None)
        await running

    asyncio.run(main())


def test_pipelines_may_contain_pipelines() -> None:
    async def main() -> None:
        models = Models()
        inner = PipelineRunner("inner", pipeline(*DIAMOND), models, MODELS)

        async def call(asked: InferRequest) -> InferResponse:
            if asked.model == "inner":
                return InferResponse("inner", "1", asked.id, await inner.run(asked))
            return await models(asked)

        known = {**MODELS, "inner": unary(input="image", output="answer")}
        config = pipeline(
            step("inner", {"image": "image"}, {"answer": "i"}),
            step("negate", {"x": "i"}, {"y": "answer"}),
        )
        (answer,) = await PipelineRunner("outer", config, call, known).run(request())
        np.testing.assert_array_equal(answer.data, -IMAGE)

    asyncio.run(main())


def test_pipelines_that_run_themselves_are_found() -> None:
    def calls(model: str) -> Pipeline:
        return pipeline(step(model, {"x": "image"}, {"y": "answer"}))

    check_nesting({"a": calls("b"), "b": calls("c"), "d": calls("b")})
    check_nesting({"a": calls("a"), "b": calls("c")}, "b")
    with pytest.raises(ConfigurationError, match="it runs itself: c → b → c"):
        check_nesting({"b": calls("c"), "c": calls("b")}, "c")
    with pytest.raises(ConfigurationError, match="it runs itself: b → c → b"):
        check_nesting({"a": calls("b"), "b": calls("c"), "c": calls("b")})
    with pytest.raises(ConfigurationError, match="it runs itself: a → a"):
        check_nesting({"a": calls("a")})


def test_many_runs_at_once_stay_apart() -> None:
    async def main() -> None:
        runner = PipelineRunner("p", pipeline(*DIAMOND), Models(), MODELS)
        runs = [runner.run(request(data=IMAGE * k)) for k in range(50)]
        for k, (answer,) in enumerate(await asyncio.gather(*runs)):
            np.testing.assert_array_equal(answer.data, IMAGE * k)

    asyncio.run(main())


def test_a_built_in_runs_off_the_loop() -> None:
    config = pipeline(
        {"builtin": "softmax", "inputs": {"scores": "image"}, "outputs": {"probabilities": "p"}},
        step("double", {"x": "p"}, {"y": "answer"}),
    )
    (answer,) = run(config)
    expected = np.exp(IMAGE) / np.exp(IMAGE).sum(1, keepdims=True) * 2
    np.testing.assert_allclose(answer.data, expected, rtol=1e-6)


def test_a_closed_runner_says_so() -> None:
    async def main() -> None:
        runner = PipelineRunner(
            "p",
            pipeline(
                {
                    "builtin": "softmax",
                    "inputs": {"scores": "image"},
                    "outputs": {"probabilities": "answer"},
                }
            ),
            Models(),
        )
        runner.close()
        with pytest.raises(ModelFailureError, match=r"step 1 \(softmax\): .* shutdown"):
            await runner.run(request())

    asyncio.run(main())
