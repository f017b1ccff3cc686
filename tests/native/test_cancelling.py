"""Runs end while they are under way, when another thread says so."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import infuse
from infuse import onnxruntime as ours
from infuse.errors import CancelledError, RuntimeFailure
from infuse.options import CompileOptions

LONG, SHORT, SIZE = 1 << 40, 3, 1 << 16
pytestmark = pytest.mark.row("R5")


def counting() -> bytes:
    """Adds x to itself as often as `n` says."""
    scalar = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "x"], ["next"]),
            helper.make_node("Identity", ["on"], ["more"]),
        ],
        "body",
        [
            scalar("i", TensorProto.INT64, []),
            scalar("on", TensorProto.BOOL, []),
            scalar("sum", TensorProto.FLOAT, [SIZE]),
        ],
        [scalar("more", TensorProto.BOOL, []), scalar("next", TensorProto.FLOAT, [SIZE])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        "counting",
        [scalar("n", TensorProto.INT64, []), scalar("x", TensorProto.FLOAT, [SIZE])],
        [scalar("y", TensorProto.FLOAT, [SIZE])],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return bytes(model.SerializeToString())


def feed(times: int) -> dict[str, Any]:
    return {"n": np.array(times), "x": np.ones(SIZE, np.float32)}


def ended(cancel: Callable[[], None], run: Callable[[], object], error: type[Exception]) -> str:
    """The text of the error of a run that is cancelled once it is under way."""
    timer = threading.Timer(0.05, cancel)
    timer.start()
    with pytest.raises(error) as raised:
        run()
    timer.join()
    return str(raised.value)


def is_ended_and_goes_on(options: CompileOptions) -> None:
    with infuse.compile(counting(), options) as model:
        cancellation = infuse.Cancellation()
        with cancellation:
            assert set(model.run(feed(SHORT))["y"]) == {4}
            text = ended(cancellation.cancel, lambda: model.run(feed(LONG)), CancelledError)
            assert "INF-505" in text
            assert cancellation.is_cancelled
            with pytest.raises(CancelledError, match="before it began"):
                model.run(feed(SHORT))
            cancellation.reset()
            assert set(model.run(feed(SHORT))["y"]) == {4}
            cancellation.cancel()
        assert set(model.run(feed(SHORT))["y"]) == {4}


@pytest.mark.parametrize("target", ["native", "c"])
def test_a_run_ends_when_another_thread_says_so(target: str) -> None:
    is_ended_and_goes_on(CompileOptions(threads=2, target=target))


def test_one_cancellation_ends_runs_of_many_threads_and_of_no_other() -> None:
    with infuse.compile(counting(), CompileOptions(compile="wait", threads=1)) as model:
        cancellation, outcomes = infuse.Cancellation(), []

        def work(times: int) -> None:
            with cancellation:
                try:
                    model.run(feed(times))
                except CancelledError:
                    outcomes.append(times)

        threads = [threading.Thread(target=work, args=(LONG + i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert set(model.run(feed(SHORT))["y"]) == {4}
        cancellation.cancel()
        for thread in threads:
            thread.join(30)
        assert sorted(outcomes) == [LONG, LONG + 1, LONG + 2]
        assert set(model.run(feed(SHORT))["y"]) == {4}


def test_blocks_lie_in_one_another() -> None:
    with infuse.compile(counting(), CompileOptions(compile="wait", threads=1)) as model:
        outer, inner = infuse.Cancellation(), infuse.Cancellation()
        outer.cancel()
        with outer:
            with inner, inner:
                model.run(feed(SHORT))
            with pytest.raises(CancelledError):
                model.run(feed(SHORT))
        model.run(feed(SHORT))


def test_options_of_a_run_end_it_as_in_onnxruntime() -> None:
    session = ours.InferenceSession(counting())
    options = ours.RunOptions()

    def cancel() -> None:
        options.terminate = True

    def run() -> object:
        return session.run(None, feed(LONG), options)

    assert "terminate" in ended(cancel, run, ours.capi.onnxruntime_pybind11_state.Fail)
    options.terminate = False
    assert set(session.run(None, feed(SHORT), options)[0]) == {4}


@pytest.mark.parametrize("target", ["native", "c"])
def test_a_session_that_two_threads_call_says_so(target: str) -> None:
    options = CompileOptions(target=target, threads=2)
    with infuse.compile(counting(), options) as model, model.session() as session:
        cancellation, outcomes = infuse.Cancellation(), []

        def work() -> None:
            with cancellation:
                try:
                    session.run(feed(LONG))
                except CancelledError:
                    outcomes.append("ended")

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.1)
        with pytest.raises(RuntimeFailure, match=r"runs another call.*a session of its own"):
            session.run(feed(SHORT))
        cancellation.cancel()
        thread.join(30)
        assert outcomes == ["ended"]
        assert set(session.run(feed(SHORT))["y"]) == {4}
