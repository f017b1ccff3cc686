"""Versions that failed for a passing reason: tried again ever more seldom, and told of once."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import UnavailableError
from infuse.serving.config import Workers
from infuse.serving.control import failures as control_failures
from infuse.serving.control.failures import Failure
from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.engine_stage import served
from tests.serving.models import ask, write

pytestmark = pytest.mark.row("S2")


def test_waits_double_up_to_a_limit() -> None:
    failure = Failure("key", "no room", True)
    waits = []
    last: Failure | None = None
    for _ in range(40):
        last = failure.after(last)
        waits.append(last.again)
    steps = [later - former for former, later in pairwise(waits)]
    assert 0.05 < steps[0] < 0.15
    assert 0.15 < steps[1] < 0.25
    assert max(steps[-3:]) < 1
    assert last is not None
    assert last.tries == 40
    assert Failure("another", "no room", True).after(last).tries == 1


def test_no_room_is_waited_out_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_failures, "RETRY_SECONDS", 1000.0)
    repository = tmp_path / "models"
    write(repository, "a", models.adder(1))

    async def work(engine: Engine) -> None:
        tries: list[str] = []
        load: Any = engine.catalog._load

        async def counted(model: Any, *rest: Any) -> Any:
            tries.append(model.name)
            return await load(model, *rest)

        monkeypatch.setattr(engine.catalog, "_load", counted)
        assert await ask(engine, "a", 1) == 2
        write(repository, "b", models.adder(2))
        await models.until(lambda: "b" in engine.models and engine.models["b"].failures, "no room")
        seen = set()
        for _look in range(10):
            await engine.catalog.look()
            await engine.catalog.reconcile()
            seen |= {state for _, state, _ in engine.models["b"].states()}
        assert tries == ["b"]
        assert seen == {"UNAVAILABLE"}
        with pytest.raises(UnavailableError, match="replicas of all models run"):
            await ask(engine, "b", 1)
        told = [event for event in engine.journal.recent() if event.kind == "load_failed"]
        assert len(told) == 1
        await engine.admin.unload("a")
        await models.until(lambda: engine.models["b"].ready, "there is room")
        assert await ask(engine, "b", 1) == 3

    served(tmp_path, work, workers=Workers(mode="inprocess", max_all_replicas=1))


def test_a_retry_that_fails_alike_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_failures, "RETRY_SECONDS", 0.0)
    write(tmp_path / "models", "a", models.adder(1))

    async def work(engine: Engine) -> None:
        tries: list[str] = []

        async def failing(model: Any, *rest: Any) -> Any:
            tries.append(model.name)
            await asyncio.sleep(0)
            raise RuntimeError("no disk" if len(tries) < 5 else "no network")

        monkeypatch.setattr(engine.catalog, "_load", failing)
        write(tmp_path / "models", "b", models.adder(2))
        await models.until(lambda: len(tries) > 8, "it is tried again and again")
        told = [event for event in engine.journal.recent() if event.kind == "load_failed"]
        assert ["disk" in str(event.fields["reason"]) for event in told] == [True, False]
        assert engine.models["a"].ready

    served(tmp_path, work)
