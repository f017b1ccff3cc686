"""Going back to a version that the policy let go: it is loaded again, serves, and stays over a
restart.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import NotFoundError, OptionError, UnavailableError
from infuse.serving.control.model_config import Canary
from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.engine_stage import loaded, served
from tests.serving.models import ask, write
from tests.serving.processes import ServeProcess

pytestmark = pytest.mark.row("S3")


async def swapped(engine: Engine, repository: Path) -> None:
    """Version 2 comes, and version 1 is let go by the policy that nobody has changed."""
    write(repository, "add", models.adder(2), 2)
    await loaded(engine, "add", 2)


def test_a_rollback_loads_the_version_before_and_keeps_it(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def first(engine: Engine) -> None:
        await swapped(engine, repository)
        assert await ask(engine, "add", 1) == 3
        await engine.admin.rollback("add", "worse")
        assert await ask(engine, "add", 1) == 2
        told = engine.admin.traffic("add").describe()
        assert (told["settled"], told["pinned"], told["shares"]) == (1, [1], {"1": 1.0})
        assert told["refused"] == {"2": "worse"}
        await models.until(lambda: 1 in engine.models["add"].versions, "it stays")
        await engine.catalog.reconcile()
        assert await ask(engine, "add", 1) == 2

    async def again(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2
        await engine.catalog.reconcile()
        assert await ask(engine, "add", 1) == 2

    async def forward(engine: Engine) -> None:
        write(repository, "add", models.adder(3), 3)
        await loaded(engine, "add", 3)
        assert await ask(engine, "add", 1) == 4

    for work in (first, again, again, forward):
        served(tmp_path, work)


def test_a_promoted_version_goes_back_to_one_that_was_let_go(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(
        repository,
        "add",
        models.adder(1),
        config="canary: {steps: [1.0], step_seconds: 0.0, min_requests: 0}\n",
    )

    async def work(engine: Engine) -> None:
        write(repository, "add", models.adder(2), 2)
        await loaded(engine, "add", 2)
        assert engine.admin.traffic("add").describe()["rollout"]["state"] == "promoted"
        await engine.admin.rollback("add", "second thoughts")
        assert await ask(engine, "add", 1) == 2
        assert engine.admin.traffic("add").describe()["rollout"]["state"] == "rolled_back"

    served(tmp_path, work)


@pytest.mark.parametrize("version", [1, 3])
def test_a_rollout_loads_its_version_which_gets_no_more_than_its_share(
    version: int, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        config = "version_policy: {specific: [2]}\n"
        write(tmp_path / "models", "add", models.adder(number), number, config=config)

    async def work(engine: Engine) -> None:
        answers: list[float] = []
        done = asyncio.Event()

        async def client() -> None:
            while not done.is_set():
                answers.append(await ask(engine, "add", 1))
                await asyncio.sleep(0)

        asking = asyncio.ensure_future(client())
        await engine.admin.start_rollout(
            "add", version, Canary(steps=(0.0, 1.0), step_seconds=3600)
        )
        count = len(answers)
        await models.until(lambda: len(answers) > count + 100, "requests are answered")
        done.set()
        await asking
        assert set(answers) == {3.0}
        assert sorted(engine.models["add"].versions) == sorted({2, version})
        engine.admin.traffic("add").rollouts.promote()
        assert await ask(engine, "add", 1) == 1 + version

    served(tmp_path, work)


def test_what_cannot_be_gone_back_to_says_why_and_changes_nothing(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        with pytest.raises(OptionError, match="nothing to roll back to"):
            await engine.admin.rollback("add", "")
        await swapped(engine, repository)
        (repository / "add" / "1" / "model.onnx").write_bytes(b"no model")
        with pytest.raises(
            UnavailableError, match=r"version 1 is needed, and cannot be loaded: .*infuse rollout"
        ):
            await engine.admin.rollback("add", "worse")
        with pytest.raises(NotFoundError, match="there is no version 9"):
            await engine.admin.start_rollout("add", 9)
        told = engine.admin.traffic("add").describe()
        assert (told["settled"], told["pinned"], told["refused"]) == (None, [], {})
        assert await ask(engine, "add", 1) == 3

    served(tmp_path, work)


def infuse(*words: str) -> str:
    command = [sys.executable, "-m", "infuse", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def test_the_command_goes_back_with_nothing_configured(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    def ready(server: ServeProcess, version: int) -> bool:
        return server.get(f"/v2/models/add/versions/{version}/ready") == 200

    def answer(server: ServeProcess) -> Any:
        tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}
        status, body = server.ask("POST", "/v2/models/add/infer", {"inputs": [tensor]})
        assert status == 200
        return body["outputs"][0]["data"][0], body["model_version"]

    with ServeProcess(repository, tmp_path).serve() as server:
        write(repository, "add", models.adder(2), 2)
        server.until(lambda: ready(server, 2) and not ready(server, 1), "version 2 is alone")
        assert answer(server) == (3, "2")
        said = infuse("rollback", "add", "--admin", f"http://127.0.0.1:{server.admin}")
        assert "version 1: 100% of the traffic" in said
        assert "version 1 stays loaded and serves, also after a restart" in said
        assert answer(server) == (2, "1")
        server.tell()
        assert server.end() == 0
    with ServeProcess(repository, tmp_path).serve() as server:
        assert answer(server) == (2, "1")
        told = json.loads(
            infuse("rollout", "add", "--json", "--admin", f"http://127.0.0.1:{server.admin}")
        )
        assert told["settled"] == 1
