"""What a server must not forget of its rollouts: by repository, owned by one server, in every state
they can be in.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ConfigurationError
from infuse.serving.config import ServerConfig
from infuse.serving.control.model_config import Canary
from infuse.serving.control.rollout import StateFile, Traffic
from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.engine_stage import loaded, served
from tests.serving.models import ask, config, write

pytestmark = [pytest.mark.row("S2"), pytest.mark.row("S3")]
ALL = "version_policy: {all: true}\n"
SLOW = Canary(steps=(0.2, 0.5, 1.0), step_seconds=3600)


def repository(folder: Path, *versions: int) -> Path:
    for version in versions:
        write(folder / "models", "add", models.adder(version), version, ALL)
    return folder


def test_repositories_with_the_same_names_have_states_of_their_own(tmp_path: Path) -> None:
    here, there = repository(tmp_path / "here", 1, 2), repository(tmp_path / "there", 1, 2)
    cache = tmp_path / "cache"

    async def roll_back(engine: Engine) -> None:
        engine.admin.traffic("add").rollouts.rollback("worse")

    async def serves(engine: Engine, version: int) -> None:
        assert {(await ask(engine, "add", 1)) for _ in range(10)} == {1 + version}

    served(here, roll_back, cache=cache)
    served(there, lambda engine: serves(engine, 2), cache=cache)
    served(here, lambda engine: serves(engine, 1), cache=cache)
    assert len(list((cache / "state").glob("*.json"))) == 2


def test_a_repository_is_the_same_by_every_name_of_its_folder(tmp_path: Path) -> None:
    repository(tmp_path, 1, 2)
    (tmp_path / "link").symlink_to(tmp_path / "models")

    async def roll_back(engine: Engine) -> None:
        engine.admin.traffic("add").rollouts.rollback("worse")

    async def still(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2

    served(tmp_path, roll_back)
    served(tmp_path, still, repository=str(tmp_path / "link"))


def test_two_servers_at_once_share_a_cache_but_no_repository(tmp_path: Path) -> None:
    here, there = repository(tmp_path / "here", 1), repository(tmp_path / "there", 1)
    cache = tmp_path / "cache"

    async def run() -> None:
        async with Engine(config(here, cache=cache)) as first:
            async with Engine(config(there, cache=cache)) as second:
                assert await ask(second, "add", 1) == 2
            with pytest.raises(
                ConfigurationError,
                match=rf"process {os.getpid()} on .*end that server first.*`state`",
            ):
                async with Engine(config(here, cache=cache)):
                    pass
            assert await ask(first, "add", 1) == 2
            async with Engine(config(here, cache=cache, state=tmp_path / "own.json")) as third:
                assert await ask(third, "add", 1) == 2
        async with Engine(config(here, cache=cache)) as again:
            assert await ask(again, "add", 1) == 2

    asyncio.run(run())


def test_a_server_that_was_killed_leaves_its_state_to_the_next(tmp_path: Path) -> None:
    file = StateFile.of("repository", tmp_path)
    code = (
        "import sys, time; from pathlib import Path;"
        "from infuse.serving.control.rollout import StateFile;"
        "StateFile.of('repository', Path(sys.argv[1])).claim.hold(); print('held', flush=True); "
        "time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(ConfigurationError, match=f"process {other.pid} on"):
                file.claim.hold()
        finally:
            other.kill()
    file.claim.hold()
    file.claim.release()


def test_a_state_file_of_another_repository_is_refused_and_stays(tmp_path: Path) -> None:
    here, there = repository(tmp_path / "here", 1), repository(tmp_path / "there", 1)
    state = tmp_path / "state.json"

    async def nothing(engine: Engine) -> None:
        pass

    served(here, nothing, state=state)
    before = state.read_bytes()
    assert json.loads(before)["repository"] == str((here / "models").resolve())
    with pytest.raises(
        ConfigurationError, match=r"the state is that of the repository .*here.*name another file"
    ):
        served(there, nothing, state=state)
    assert state.read_bytes() == before


def test_the_cache_variable_moves_copies_and_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "chosen"))
    repository(tmp_path, 1)

    async def nothing(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2

    served(tmp_path, nothing, cache=None)
    assert ServerConfig().cache_folder == tmp_path / "chosen" / "serving"
    assert list((tmp_path / "chosen" / "serving" / "state").glob("*.json"))
    assert not (tmp_path / "cache").exists()


# ----------------------------------------------------------------------------------------- restarts


def at_step(step: int) -> Callable[[Traffic], None]:
    def work(traffic: Traffic) -> None:
        traffic.rollouts.rollback("it was better before")
        traffic.start_rollout(2, SLOW)
        for _ in range(step):
            assert traffic.rollouts.active is not None
            traffic.rollouts.active.advance()

    return work


def shadowed(traffic: Traffic) -> None:
    at_step(0)(traffic)
    traffic.routing.set_shadow({"2": 0.5})


def paused(traffic: Traffic) -> None:
    at_step(1)(traffic)
    traffic.rollouts.pause()


def back_by_itself(traffic: Traffic) -> None:
    at_step(1)(traffic)
    traffic.rollouts.failed(2, "its workers died")


def promoted(traffic: Traffic) -> None:
    at_step(2)(traffic)
    traffic.rollouts.promote()


STATES: dict[str, tuple[Callable[[Traffic], None], dict[str, float]]] = {
    "steady": (lambda traffic: None, {"2": 1.0}),
    "first step": (at_step(0), {"1": 0.8, "2": 0.2}),
    "second step": (at_step(1), {"1": 0.5, "2": 0.5}),
    "last step": (at_step(2), {"1": 0.0, "2": 1.0}),
    "shadow": (shadowed, {"1": 0.8, "2": 0.2}),
    "paused": (paused, {"1": 0.5, "2": 0.5}),
    "rolled back by hand": (lambda traffic: traffic.rollouts.rollback("worse"), {"1": 1.0}),
    "rolled back by itself": (back_by_itself, {"1": 1.0}),
    "promoted": (promoted, {"2": 1.0}),
    "split": (lambda traffic: traffic.set_split({"1": 3, "2": 1}), {"1": 0.75, "2": 0.25}),
}


def told(engine: Engine) -> dict[str, Any]:
    """What `describe` says that a restart must not change."""
    plain = engine.admin.traffic("add").describe()
    plain.pop("windows")
    if plain["rollout"]:
        plain["rollout"].pop("windows")
    return plain


@pytest.mark.parametrize("state", STATES)
def test_a_restart_keeps_every_state_of_a_rollout(state: str, tmp_path: Path) -> None:
    work, shares = STATES[state]
    repository(tmp_path, 1, 2)
    before: list[dict[str, Any]] = []

    async def first(engine: Engine) -> None:
        work(engine.admin.traffic("add"))
        before.append(told(engine))
        assert before[0]["shares"] == pytest.approx(shares)

    async def again(engine: Engine) -> None:
        assert told(engine) == before[0]

    for step in (first, again, again):
        served(tmp_path, step)


def test_a_model_that_is_away_or_broken_for_a_while_is_not_forgotten(tmp_path: Path) -> None:
    repository(tmp_path, 1, 2)
    place = tmp_path / "models" / "add"

    async def roll_back(engine: Engine) -> None:
        engine.admin.traffic("add").rollouts.rollback("worse")

    async def returns(engine: Engine) -> None:
        assert "add" not in engine.models
        (tmp_path / "away").rename(place)
        await loaded(engine, "add", 1, 2)
        assert await ask(engine, "add", 1) == 2
        place.rename(tmp_path / "away")
        await models.until(lambda: "add" not in engine.models, "the model is gone")

    async def heals(engine: Engine) -> None:
        assert engine.models["add"].problem
        (place / "config.yaml").write_text(ALL)
        await loaded(engine, "add", 1, 2)
        assert await ask(engine, "add", 1) == 2

    served(tmp_path, roll_back)
    place.rename(tmp_path / "away")
    served(tmp_path, returns)
    (tmp_path / "away").rename(place)
    (place / "config.yaml").write_text("no_such_field: 1\n")
    served(tmp_path, heals)
