"""Rollouts of versions that do not answer: what is under way is evidence, a stall of everything is
none.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import OverloadError
from infuse.serving.config import Security, Workers
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.control.rollout import Event, trial
from infuse.serving.control.rollout.flight import Flight
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest
from tests.serving import models
from tests.serving.rollout_tools import CANARY, FAILURE, Stage, running

pytestmark = pytest.mark.row("S3")

NEVER = float("inf")
TICK = 0.1
LONG = Canary(steps=(0.1, 1.0), step_seconds=60, min_requests=20)


def good(version: int) -> float:
    return 0.01


def hung(version: int) -> float:
    return NEVER if version == 2 else 0.01


@dataclass
class Flow:
    """Requests of many callers over time; each takes as long as `seconds` says of its version."""

    stage: Stage
    seconds: Callable[[int], float] = good
    rate: int = 20  # requests in a tick
    patience: float = NEVER  # seconds after which a caller leaves
    under_way: list[tuple[float, float, InferRequest, int]] = field(
        default_factory=list
    )  # began, due
    events: list[Event] = field(default_factory=list)
    asked: int = 0

    def run(self, seconds: float, *, stalled: bool = False) -> list[str]:
        """Let time pass, while nothing ends if it is stalled, until a rollback; the kinds of what
        happened.
        """
        began, before = self.stage.now, len(self.events)
        while self.stage.now < began + seconds - 1e-9 and "rolled_back" not in [
            event.kind for event in self.events
        ]:
            for asked, version in self.stage.begin(self.rate):
                self.asked += 1
                self.under_way.append(
                    (self.stage.now, self.stage.now + self.seconds(version), asked, version)
                )
            self.events += self.stage.tick(TICK)
            if not stalled:
                self._end()
        return [event.kind for event in self.events[before:]]

    def _end(self) -> None:
        now, left = self.stage.now, []
        for began, due, asked, version in self.under_way:
            if due <= now:
                # Beyond the granularity of a tick, what is done in time took no longer than it
                # takes.
                self.stage.finish(asked, version, due - began if due > now - TICK else now - began)
            elif began + self.patience <= now:
                self.stage.finish(asked, version, now - began, asyncio.CancelledError())  # type: ignore[arg-type]
            else:
                left.append((began, due, asked, version))
        self.under_way = left


def hold(stage: Stage, count: int) -> list[InferRequest]:
    """The requests that go to version 2 of so many, which are not answered; the others are."""
    held = []
    for asked, version in stage.begin(count):
        if version == 2:
            held.append(asked)
        else:
            stage.finish(asked, version, 0.01)
    return held


def test_a_version_that_never_answers_is_rolled_back() -> None:
    flow = Flow(running())
    began = flow.stage.now
    flow.seconds = hung
    assert flow.run(60) == ["rollout_started", "rolled_back"]
    assert 3 < flow.stage.now - began < 6
    reason = flow.events[-1].reason
    assert reason.startswith("latency: ")
    assert "requests are under way, one for" in reason
    assert flow.stage.rollout["windows"]["new"]["requests"] == 0


def test_a_slow_version_is_rolled_back_before_it_answers() -> None:
    flow = Flow(running(), lambda version: 30.0 if version == 2 else 0.01)
    assert flow.run(60)[-1] == "rolled_back"
    assert flow.stage.rollout["windows"]["new"]["requests"] == 0


def test_callers_who_do_not_wait_are_evidence_too() -> None:
    flow = Flow(running(), hung, patience=1.0)
    assert flow.run(60)[-1] == "rolled_back"
    assert flow.stage.rollout["windows"]["new"]["requests"] == 0


def test_few_callers_who_all_wait_are_enough_after_a_longer_time() -> None:
    """Eight callers who each wait for their answer can never make twenty requests of a version that
    hangs.
    """
    stage = Stage(ModelConfig(canary=Canary(steps=(0.5, 1.0), step_seconds=60, min_requests=20)))
    stage.send(200)
    stage.arrive(2)
    held = hold(stage, 16)
    assert 3 <= len(held) < 20
    assert "rolled_back" not in [kind for _ in range(100) for kind in stage.kinds(TICK)]
    assert "rolled_back" in [kind for _ in range(20) for kind in stage.kinds(TICK)]


def test_two_requests_that_hang_prove_nothing() -> None:
    stage = running(canary=Canary(steps=(0.5, 1.0), step_seconds=600, min_requests=1))
    stage.send(1)
    while stage.rollout["windows"]["new"]["in_flight"] < 2:
        hold(stage, 1)
    assert "rolled_back" not in [kind for _ in range(600) for kind in stage.kinds(TICK)]


@pytest.mark.parametrize("seed", range(10))
def test_a_stall_that_holds_up_both_sides_rolls_nothing_back(seed: int) -> None:
    stage = Stage(ModelConfig(canary=LONG), seed=seed)
    stage.tick()
    stage.arrive(2)
    flow = Flow(stage)
    flow.run(seed)
    assert "rolled_back" not in flow.run(20, stalled=True)
    assert flow.run(60)[-1] == "step"


def test_a_stall_beside_no_old_version_must_be_long() -> None:
    """In the last step there is nobody beside it: a stall looks as if the version were slow."""
    flow = Flow(running(canary=Canary(steps=(0.5, 1.0), step_seconds=10, min_requests=20)))
    flow.run(11)
    assert flow.stage.rollout["share"] == 1.0
    assert flow.run(9.5, stalled=True) == []
    assert flow.run(3, stalled=True) == ["rolled_back"]


def test_the_last_step_notices_a_version_that_hangs() -> None:
    flow = Flow(running(canary=Canary(steps=(0.5, 1.0), step_seconds=10, min_requests=20)))
    flow.run(11)
    flow.seconds = hung
    assert flow.run(30) == ["rolled_back"]
    assert "are under way" in flow.events[-1].reason


@pytest.mark.parametrize("seed", range(10))
def test_a_good_version_with_long_requests_is_not_rolled_back(seed: int) -> None:
    draw = random.Random(1000 + seed).random
    stage = Stage(
        ModelConfig(canary=Canary(steps=(0.1, 0.5, 1.0), step_seconds=20, min_requests=20)),
        seed=seed,
    )
    stage.tick()
    stage.arrive(2)
    flow = Flow(stage, lambda version: 25.0 if draw() < 0.04 else 0.01)
    assert flow.run(70) == ["rollout_started", "step", "step", "promoted"]


def test_long_requests_of_the_step_before_are_no_evidence() -> None:
    """They are what is left of many requests."""
    stage = running(canary=Canary(steps=(0.5, 1.0), step_seconds=30, min_requests=20))
    stage.send(4000)
    held = [entry for entry in stage.begin(100) if entry[1] == 2]
    for _ in range(30):
        stage.send(1000)
        stage.tick(1.0)
    assert stage.rollout["share"] == 1.0
    assert stage.rollout["windows"]["new"]["in_flight"] == len(held)
    stage.send(20)
    assert [kind for _ in range(20) for kind in stage.kinds(1.0)] == []


def test_a_stall_of_the_server_is_one_look() -> None:
    stage = running(canary=LONG)
    stage.send(400)
    flow = list(stage.begin(1000))
    assert stage.kinds(45) == ["rollout_started"]
    for asked, version in flow:
        stage.finish(asked, version, 45.0)
    assert stage.kinds(0.1) == []


def test_a_step_does_not_end_while_requests_hang() -> None:
    flow = Flow(running())
    flow.run(9)
    flow.seconds, flow.rate = hung, 200
    assert flow.run(1.5) == []
    assert flow.stage.rollout["windows"]["waits_for"].startswith("requests take too long under way")
    assert flow.run(5) == ["rolled_back"]


def test_a_step_goes_on_when_they_are_answered_after_all() -> None:
    stage = running()
    stage.send(400)
    stage.tick(9.0)
    held = hold(stage, 600)
    assert stage.kinds(1.5) == []
    assert stage.rollout["windows"]["waits_for"].startswith("requests take too long under way")
    for asked in held:
        stage.finish(asked, 2, 1.5)
    stage.send(40000)
    assert [stage.kinds(0.5) for _ in range(2)] == [[], ["step"]]


def test_a_paused_rollout_is_judged() -> None:
    stage = running()
    stage.traffic.rollouts.pause()
    assert Flow(stage, hung).run(20) == ["rollout_started", "paused", "rolled_back"]
    stage = running()
    stage.traffic.rollouts.pause()
    flow = Flow(stage, lambda version: 0.05 if version == 2 else 0.01)
    assert flow.run(20)[-1] == "rolled_back"


def test_refused_and_named_requests_are_no_flight() -> None:
    stage = running()
    stage.send(400)
    for _ in range(50):
        asked = InferRequest("digits", "2")
        stage.traffic.begin(asked, 2)
    assert stage.rollout["windows"]["new"]["in_flight"] == 0
    for asked, version in stage.begin(400):
        stage.now += 0.1
        error = OverloadError("full") if version == 2 else None
        stage.finish(asked, version, 0.1, error)
    flight = Flight(0.0)
    for key in range(3):
        flight.begin(key, 0.0)
    flight.end(0, 1.0, counts=False)
    flight.end(1, 1.0, counts=True)
    flight.end(9, 1.0, counts=True)
    assert flight.times(5.0).answered == 2


def test_failures_count_with_the_time_that_they_took() -> None:
    stage = running()
    trial_of = list(stage.begin(400))
    for asked, version in trial_of:
        stage.finish(asked, version, 7.0, FAILURE if version == 2 else None)
    assert [kind for kind in stage.kinds(0.1) if kind == "rolled_back"] == ["rolled_back"]
    assert "error rate" in stage.rollout["reason"]


def test_what_is_under_way_is_told_and_forgotten() -> None:
    stage = running()
    flight = list(stage.begin(100))
    stage.now += 2.5
    sides = stage.rollout["windows"]
    count = sum(version == 2 for _, version in flight)
    assert (sides["new"]["in_flight"], sides["new"]["oldest_ms"]) == (count, 2500.0)
    assert (sides["old"]["in_flight"], sides["old"]["oldest_ms"]) == (100 - count, 2500.0)
    stage.traffic.rollouts.rollback("asked for")
    for asked, version in flight:
        stage.finish(asked, version, 3.0)
    sides = stage.rollout["windows"]
    assert (sides["new"]["in_flight"], sides["new"]["oldest_ms"]) == (0, None)
    assert sides["old"]["in_flight"] == 0
    assert sides["new"]["requests"] == 0


def test_the_figures_are_there_before_any_request() -> None:
    assert running(canary=CANARY).rollout["windows"]["new"]["in_flight"] == 0


def test_a_model_that_hangs_loses_its_rollout_before_its_requests_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_STALL", "_LONG_STALL"):
        monkeypatch.setattr(trial, name, 0.3)
    monkeypatch.setattr(trial, "UPKEEP_SECONDS", 0.1)
    repository = tmp_path / "models"
    text = "timeout_ms: 100000\ncanary: {steps: [0.5, 1.0], step_seconds: 100, min_requests: 20}\n"
    models.write(repository, "add", models.adder(1), config=text)
    models.hanging(tmp_path / "made", 2.0)

    async def check() -> None:
        given: dict[str, Any] = {
            "workers": Workers(),
            "security": Security(compiled_folders=(repository,)),
        }
        async with Engine(models.config(tmp_path, exit_seconds=0.1, **given)) as engine:
            callers: list[asyncio.Task[float]] = []

            async def ask_on() -> float:
                while True:
                    await models.ask(engine, "add", models.rows(models.POISON))

            def rollout() -> dict[str, Any]:
                return engine.admin.traffic("add").describe()["rollout"] or {}

            for _ in range(40):
                await models.ask(engine, "add", models.rows(models.POISON))
            shutil.copytree(tmp_path / "made", repository / "add" / ".2" / "compiled")
            (repository / "add" / ".2" / "_SUCCESS").touch()
            (repository / "add" / ".2").rename(repository / "add" / "2")
            await models.until(lambda: rollout().get("state") == "running", "it is rolled out")
            callers += [asyncio.ensure_future(ask_on()) for _ in range(6)]
            await models.until(lambda: rollout()["state"] == "rolled_back", "it is rolled back")
            assert "requests are under way" in rollout()["reason"]
            assert not any(caller.done() for caller in callers)
            assert await models.ask(engine, "add", models.rows(models.POISON)) == models.POISON + 1
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)

    asyncio.run(check())
