"""What a rollout goes on for, waits for and is rolled back for, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infuse.errors import (
    DeadlineError,
    InputError,
    NotFoundError,
    OverloadError,
    RequestError,
    UnavailableError,
)
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.messages import InferRequest, InferResponse, Outcome
from tests.serving.rollout_tools import CANARY, FAILURE, SHADOWED, Stage, response, running

pytestmark = pytest.mark.row("S3")


def test_a_good_version_gets_all_traffic_in_steps() -> None:
    stage = running()
    (event,) = stage.tick()
    assert (event.kind, event.model, event.version, event.share) == (
        "rollout_started",
        "digits",
        2,
        0.1,
    )
    assert event.at == 5e9 + stage.now
    assert stage.rollout["state"] == "running"
    assert (stage.rollout["from"], stage.rollout["to"]) == ([1], 2)
    happened = []
    for share in CANARY.steps:
        assert stage.rollout["share"] == share
        assert stage.traffic.describe()["shares"]["2"] == share
        assert stage.traffic.pinned() == {1, 2}
        stage.send(600)
        assert stage.kinds(9) == []
        happened += [(event.kind, event.share) for event in stage.tick(1)]
    assert happened == [("step", 0.5), ("step", 1.0), ("promoted", 1.0)]
    assert stage.rollout["state"] == "promoted"
    assert set(stage.send(50)) == {2}
    assert stage.traffic.pinned() == frozenset()


def test_a_step_waits_for_its_requests() -> None:
    stage = running()
    stage.tick()
    assert stage.kinds(1000) == []
    assert stage.rollout["windows"]["waits_for"] == "0 of 20 requests"
    stage.send(1000)
    assert stage.kinds() == ["step"]
    assert stage.rollout["windows"]["waits_for"] == "10 s of the step are left"


def test_it_is_rolled_back_for_errors_at_once() -> None:
    stage = running()
    stage.tick()
    stage.send(400, errors={2: FAILURE})
    (event,) = stage.tick(0.1)
    assert (event.kind, event.version, event.share) == ("rolled_back", 2, 0.0)
    assert "error rate" in event.reason
    assert set(stage.send(200)) == {1}
    assert stage.traffic.pinned() == {1}
    assert stage.traffic.describe()["refused"] == {"2": event.reason}
    assert (stage.rollout["state"], stage.rollout["share"], stage.rollout["reason"]) == (
        "rolled_back",
        0.0,
        event.reason,
    )


def test_it_is_rolled_back_for_latency_that_lasts() -> None:
    stage = running()
    stage.tick()
    stage.send(400, v2=0.05)
    assert stage.tick(0.1) == []
    stage.send(400, v2=0.05)
    (event,) = stage.tick(2.6)
    assert event.kind == "rolled_back"
    assert event.reason.startswith("latency: 5")
    assert "0.95 quantile" in event.reason


def test_a_stall_that_many_requests_shared_is_forgiven() -> None:
    stage = running()
    stage.tick()
    stage.send(400, v2=0.05)
    assert stage.tick(0.1) == []
    for _ in range(20):
        stage.send(400)
        assert stage.tick(0.1) == []
    stage.send(4000)
    assert stage.kinds(10) == ["step"]


def test_a_little_slower_is_good_enough() -> None:
    stage = running()
    stage.tick()
    stage.send(2000, v2=0.017)
    assert stage.kinds(10) == ["step"]


def test_it_is_rolled_back_for_drift_at_once() -> None:
    stage = running(canary=SHADOWED)
    stage.tick()
    for turn in range(40):
        stage.traffic.compare(
            2, response(1, [1.0, 2.0]), response(2, [1.0, 2.0 if turn % 2 else 2.5])
        )
    (event,) = stage.tick(0.1)
    assert event.kind == "rolled_back"
    assert event.reason.startswith("drift: 20 of 40 compared answers differ by more than 0.05")


def test_few_differences_are_no_drift_and_neither_are_missing_answers() -> None:
    stage = running(canary=SHADOWED)
    stage.tick()
    for turn in range(200):
        stage.traffic.compare(2, response(1, [1.0]), response(2, [1.5 if turn == 7 else 1.01]))
        for error in (OverloadError("full"), DeadlineError("late"), UnavailableError("drains")):
            stage.traffic.compare(2, response(1, [1.0]), error)
    assert stage.kinds(0.1) == []
    assert (stage.rollout["compared"], stage.rollout["drifted"]) == (200, 1)


def test_it_is_rolled_back_when_it_fails() -> None:
    stage = running()
    stage.traffic.rollouts.failed(1, "the old one is not concerned")
    stage.traffic.rollouts.failed(2, "its workers died 5 times")
    events = stage.tick()
    assert [event.kind for event in events] == ["rollout_started", "rolled_back"]
    assert events[-1].reason == "it failed: its workers died 5 times"
    assert set(stage.send(20)) == {1}


def test_it_is_rolled_back_by_hand() -> None:
    stage = running()
    stage.traffic.rollouts.rollback("the customer says so")
    assert stage.rollout["reason"] == "the customer says so"
    assert set(stage.send(100)) == {1}


def test_it_is_rolled_back_when_its_files_are_gone() -> None:
    stage = running()
    stage.tick()
    stage.known.remove(2)
    assert [event.reason for event in stage.tick(0.1)] == ["its files are gone"]


@pytest.mark.parametrize(
    "error",
    [
        InputError("wrong shape"),
        RequestError("no JSON"),
        NotFoundError("no output z"),
        asyncio.CancelledError(),
    ],
)
def test_callers_mistakes_never_roll_back(error: Any) -> None:
    stage = running()
    stage.tick()
    stage.send(1000, errors={2: error})
    assert stage.kinds(5) == []
    assert stage.rollout["windows"]["new"]["requests"] == 0


@pytest.mark.parametrize("error", [OverloadError("full"), FAILURE, DeadlineError("late")])
def test_trouble_of_both_never_rolls_back(error: Exception) -> None:
    stage = running()
    stage.tick()
    for _ in range(50):
        stage.send(40, errors={1: error, 2: error})
        assert stage.kinds(0.1) == []


def test_overload_of_the_new_version_alone_rolls_back() -> None:
    stage = running()
    stage.tick()
    stage.send(400, errors={2: OverloadError("full")})
    assert stage.kinds(0.1) == ["rolled_back"]


def test_overload_without_the_old_version_beside_it_says_nothing() -> None:
    stage = running(canary=Canary(steps=(1.0,), step_seconds=10, min_requests=20))
    stage.tick()
    stage.send(400, errors={2: OverloadError("full")})
    assert stage.kinds(20) == []
    assert stage.rollout["windows"]["waits_for"] == "0 of 20 requests"


def test_few_requests_prove_nothing() -> None:
    stage = running()
    stage.tick()
    while stage.rollout["windows"]["new"]["requests"] < 19:
        stage.send(1, errors={2: FAILURE}, v2=9.0)
    assert stage.kinds(0.1) == []


def test_errors_without_a_reference_are_held_to_the_limit() -> None:
    stage = running(canary=Canary(steps=(1.0,), step_seconds=10, min_requests=20))
    stage.tick()
    stage.send(20, errors={2: FAILURE})
    assert stage.kinds(0.1) == ["rolled_back"]


def test_the_last_step_is_judged_by_the_minute_before() -> None:
    stage = Stage(ModelConfig(canary=Canary(steps=(1.0,), step_seconds=10, min_requests=20)))
    stage.send(100, 0.01)
    stage.arrive(2)
    stage.tick()
    assert stage.rollout["windows"]["old_before"]["requests"] == 100
    stage.send(100, 0.05)
    assert stage.tick(0.1) == []
    stage.send(100, 0.05)
    assert "latency" in stage.tick(2.6)[0].reason


def test_the_last_step_is_judged_by_the_step_before() -> None:
    stage = running()
    for _ in range(2):
        stage.send(600, 0.01)
        stage.tick(10)
    assert stage.rollout["share"] == 1.0
    assert stage.rollout["windows"]["old"]["requests"] == 0
    stage.send(100, 0.05)
    assert stage.tick(0.1) == []
    stage.send(100, 0.05)
    assert "latency" in stage.tick(2.6)[0].reason


def test_requests_that_name_their_version_and_shadows_are_no_evidence() -> None:
    stage = running()
    stage.tick()
    for _ in range(100):
        stage.finish(InferRequest("digits", "2"), 2, 0.01, FAILURE)
        stage.traffic.observe(Outcome(InferRequest("digits"), 2, None, FAILURE, shadow=True))
    assert stage.kinds(0.1) == []
    assert stage.rollout["windows"]["new"]["requests"] == 0
    assert stage.traffic.describe()["windows"]["2"]["failed"] == 100


def test_a_step_with_few_requests_of_the_old_version_adds_to_what_is_known_of_it() -> None:
    stage = Stage(ModelConfig(canary=Canary(steps=(0.9, 1.0), step_seconds=10, min_requests=20)))
    stage.send(30, 0.01)
    stage.arrive(2)
    while stage.rollout["windows"]["new"]["requests"] < 20:
        stage.send(1)
    old = stage.rollout["windows"]["old"]["requests"]
    assert old < 20
    assert stage.kinds(10) == ["rollout_started", "step"]
    assert stage.rollout["windows"]["old_before"]["requests"] == 30 + old


def test_shadows_of_other_versions_are_no_drift_of_the_rollout() -> None:
    stage = running(loaded={1, 3}, canary=SHADOWED)
    stage.traffic.start_rollout(1, SHADOWED)
    for _ in range(50):
        stage.traffic.compare(2, response(3, [1.0]), response(2, [2.0]))
    assert stage.rollout["compared"] == 0
    assert stage.traffic.describe()["windows"]["2"]["drifted"] == 50


def test_a_step_of_copies_alone_waits_for_comparisons() -> None:
    stage = running(canary=Canary(steps=(0.0, 1.0), step_seconds=1, min_requests=20, shadow=1.0))
    stage.tick()
    assert set(stage.send(100)) == {1}
    assert stage.kinds(5) == []
    for _ in range(20):
        stage.traffic.compare(2, response(1, [1.0]), response(2, [1.0]))
    assert stage.kinds() == ["step"]
    assert set(stage.send(20)) == {2}


def test_a_broken_answer_of_a_shadow_is_drift() -> None:
    stage = running(canary=SHADOWED)
    stage.tick()
    for _ in range(30):
        stage.traffic.compare(2, response(1, [1.0]), InputError("it takes other inputs"))
    assert "30 of 30" in stage.tick(0.1)[0].reason
    empty = InferResponse("digits", "2", "", [])
    stage.traffic.compare(2, response(1, [1.0]), empty)
    assert stage.rollout["drifted"] == 30
