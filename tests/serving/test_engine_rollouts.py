"""Rollouts, labels and splits in an engine: what they do by themselves, and what outlives the
server.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ConfigurationError, RuntimeFailure
from infuse.serving.control.model_config import Canary
from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.engine_stage import served
from tests.serving.models import ask, config, request, write

pytestmark = [pytest.mark.row("S2"), pytest.mark.row("S3")]
ALL = "version_policy: {all: true}\n"


def test_labels_splits_and_rollouts_survive_a_restart(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write(tmp_path / "models", "add", models.adder(version), version, ALL)
    state = tmp_path / "state.json"

    async def first(engine: Engine) -> None:
        traffic = engine.admin.traffic("add")
        traffic.routing.set_label("stable", 1)
        traffic.routing.set_label("canary", 2)
        traffic.routing.set_shadow({"2": 0.5})
        traffic.rollouts.rollback("it was better before")
        traffic.start_rollout(3, Canary(steps=(0.25, 1.0), step_seconds=3600))
        assert await ask(engine, "add", 1, "stable") == 2

    async def second(engine: Engine) -> None:
        told = engine.admin.traffic("add").describe()
        assert told["labels"] == {"stable": 1, "canary": 2}
        assert told["shadow"] == {"2": 0.5}
        assert (told["rollout"]["to"], told["rollout"]["state"], told["rollout"]["share"]) == (
            3,
            "running",
            0.25,
        )
        assert await ask(engine, "add", 1, "stable") == 2
        assert await ask(engine, "add", 1, "canary") == 3
        engine.admin.traffic("add").rollouts.rollback("enough")

    async def third(engine: Engine) -> None:
        assert {await ask(engine, "add", 1) for _ in range(20)} == {3}

    for work in (first, second, third):
        served(tmp_path, work, state=state)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 99, "models": {}}', b"\xff\xfe"]
)
def test_a_state_that_is_broken_is_set_aside(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    state = tmp_path / "state.json"
    state.write_bytes(content)

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2

    served(tmp_path, work, state=state)
    assert (tmp_path / "state.json.broken").read_bytes() == content
    assert json.loads(state.read_text())["format"] == 1
    assert "set aside" in caplog.text


def test_a_state_that_cannot_be_written_costs_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    (tmp_path / "file").write_text("in the way")
    caplog.set_level(logging.ERROR)

    async def run() -> None:
        engine = Engine(config(tmp_path, state=tmp_path / "file" / "state.json"))
        with pytest.raises(ConfigurationError, match="state"):
            await engine.start()
        await engine.stop(0)

    asyncio.run(run())


# ----------------------------------------------------------------------------------------- rollouts


# Every fourth request of a failing version fails: of 10, none does in one step of twenty, of 60
# none in one of 30 million.
CANARY = """
canary: {steps: [0.5, 1.0], step_seconds: 0.2, min_requests: 60, shadow: 0.5}
"""
# A step waits for compared answers only where it answers nothing itself: on a busy machine, a step
# of one half ends before there are sixty.
SHADOWS_FIRST = CANARY.replace("[0.5, 1.0]", "[0.0, 0.5, 1.0]")


def faulty(kind: str) -> bytes:
    """A second version that is not like the first."""
    from benchmarks import serving_faults

    return serving_faults.model(kind, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("good", "promoted"),
        ("failing", "rolled_back"),
        ("drifting", "rolled_back"),
        ("slow", "rolled_back"),
    ],
)
def test_a_canary_goes_on_or_back_by_itself(kind: str, state: str, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    canary = SHADOWS_FIRST if kind == "drifting" else CANARY
    write(repository, "add", models.adder(1), config=canary)

    async def work(engine: Engine) -> None:
        done = asyncio.Event()
        wrong: list[Any] = []
        failed: list[float] = []

        async def client(number: int) -> None:
            value = 1000.0 + 2 * number
            while not done.is_set():
                value += 2
                await asyncio.sleep(0.001)  # loads go on beside requests, not behind all of them
                try:
                    response = await engine.infer(request("add", value))
                except RuntimeFailure:
                    failed.append(value)
                    continue
                factor = 1.5 if (kind, response.version) == ("drifting", "2") else 1.0
                if models.first(response) != factor * value + int(response.version):
                    wrong.append((response.version, value, models.first(response)))

        clients = [asyncio.ensure_future(client(number)) for number in range(3)]
        write(repository, "add", faulty(kind), 2)

        def rollout() -> Any:
            return engine.admin.traffic("add").describe()["rollout"]

        await models.until(
            lambda: rollout() and rollout()["state"] not in ("running", "paused"), "it has ended"
        )
        assert (rollout()["to"], rollout()["state"]) == (2, state)
        kinds = [event["kind"] for event in engine.events]
        assert kinds.count("rollout_started") == 1
        assert kinds.count(state) == 1
        done.set()
        await asyncio.gather(*clients)
        answers = {(await engine.infer(request("add", 2000.0))).version for _ in range(20)}
        assert answers == ({"2"} if state == "promoted" else {"1"})
        assert wrong == []
        assert not failed or kind == "failing"

    served(tmp_path, work)


def test_shadows_are_compared_and_nobody_waits_for_them(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    for version in (1, 2):
        write(
            repository,
            "add",
            models.adder(version),
            version,
            ALL + 'split: {"1": 1}\nshadow: {"2": 1.0}\n',
        )

    async def work(engine: Engine) -> None:
        seen = []
        engine.observers.append(lambda outcome: seen.append((outcome.shadow, outcome.version)))
        for turn in range(20):
            assert await ask(engine, "add", float(turn)) == turn + 1
        await models.until(lambda: len(seen) == 40, "all copies have run")
        assert seen.count((False, 1)) == seen.count((True, 2)) == 20
        window = engine.admin.traffic("add").describe()["windows"]["2"]
        assert (window["compared"], window["drifted"]) == (
            20,
            20 - sum(0.05 * (t + 1) >= 1 for t in range(20)),
        )

    served(tmp_path, work)
