"""Reloads, and loads with other configurations and files: behaviours that the list `L0_lifecycle`
of another server names; `docs/serving_tests.md` has the names.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infuse.errors import RepositoryError
from tests.serving.lifecycle_stage import ALL, Stage, ask, ready, stage, until

__all__ = ["stage"]
pytestmark = pytest.mark.row("S2")


# ---------------------------------------------------------------------------------------- reloading


@pytest.mark.parametrize("change", ["new version", "policy", "same version"])
def test_a_model_answers_while_it_is_loaded_again(change: str, stage: Stage) -> None:
    stage.write("m", 1, "times 1")
    if change == "policy":
        stage.configure("m", version_policy={"specific": [1]})
        stage.write("m", 2, "times 2")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["m"]) as engine:
            assert await ask(engine, "m") == ("1", 1)
            if change == "new version":
                stage.write("m", 2, "times 2")
            elif change == "policy":
                stage.configure("m", version_policy={"specific": [2]})
            else:
                stage.write("m", 1, "times 2")
            stage.gates.hold("load m")
            loading = asyncio.ensure_future(engine.admin.load("m"))
            await until(lambda: stage.gates.arrived["load m"] == 2)
            assert engine.ready()
            assert await ask(engine, "m") == ("1", 1)
            assert "LOADING" in {entry["state"] for entry in await engine.admin.index()}
            stage.gates.release("load m")
            await loading
            number = "1" if change == "same version" else "2"
            assert await ask(engine, "m") == (number, 2)
            assert ready(engine, "m", 1, 2) == [number == "1", number == "2"]

    asyncio.run(main())


def test_a_new_version_does_not_load_the_others_again(stage: Stage) -> None:
    stage.configure("m", **ALL)
    stage.write("m", 1, "times 1")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["m"]) as engine:
            await ask(engine, "m")
            for number in (2, 3):
                stage.write("m", number, f"times {number}")
                await engine.admin.load("m")
                assert stage.gates.arrived["load m"] == number
            assert await ask(engine, "m", 1) == ("1", 1)
            counts = {
                s["version"]: s["inference_stats"]["success"]["count"]
                for s in engine.admin.statistics("m")["model_stats"]
            }
            assert counts == {"1": 2, "2": 0, "3": 0}

    asyncio.run(main())


def test_a_reload_that_fails_leaves_what_served(stage: Stage) -> None:
    stage.write("m", 1, "times 1")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["m"]) as engine:
            stage.write("m", 2, "nonsense")
            with pytest.raises(RepositoryError, match="'nonsense' is not a model"):
                await engine.admin.load("m")
            assert ready(engine, "m", 1, 2) == [True, False]
            assert await ask(engine, "m") == ("1", 1)
            reasons = {entry["version"]: entry["reason"] for entry in await engine.admin.index()}
            assert "'nonsense' is not a model" in reasons["2"]

    asyncio.run(main())


def test_requests_are_answered_by_the_version_that_took_them(stage: Stage) -> None:
    stage.write("m", 1, "times 1")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["m"]) as engine:
            stage.gates.hold("run m")
            running = asyncio.ensure_future(ask(engine, "m"))
            await until(lambda: stage.gates.arrived["run m"] == 1)
            stage.write("m", 2, "times 2")
            loading = asyncio.ensure_future(engine.admin.load("m"))
            await until(lambda: ready(engine, "m", 2) == [True])
            stage.gates.release("run m")
            assert await running == ("1", 1)
            await loading
            assert await ask(engine, "m") == ("2", 2)

    asyncio.run(main())


# ----------------------------------------------------------------------- other configuration, files


def test_a_configuration_that_is_sent_stands_for_the_repositorys(stage: Stage) -> None:
    for number in (1, 2, 3):
        stage.write("m", number, f"times {number}" if number != 3 else "nonsense")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            with pytest.raises(RepositoryError):
                await engine.admin.load("m")
            await engine.admin.load("m", config='{"version_policy": {"specific": [2]}}')
            assert ready(engine, "m", 1, 2, 3) == [False, True, False]
            assert await ask(engine, "m") == ("2", 2)
            with pytest.raises(RepositoryError):
                await engine.admin.load("m")
            assert await ask(engine, "m") == ("2", 2)
            await engine.admin.unload("m")
            assert ready(engine, "m", 1, 2, 3) == [False] * 3

    asyncio.run(main())


def test_a_model_that_is_sent_stands_for_the_repositorys(stage: Stage) -> None:
    stage.write("m", 3, "times 3")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["m"]) as engine:
            await engine.admin.load("sent", files={"1/model.onnx": b"times 9"})
            assert await ask(engine, "sent") == ("1", 9)
            assert await ask(engine, "m") == ("3", 3)
            await engine.admin.load("m", files={"1/model.onnx": b"times 9"})
            assert ready(engine, "m", 1, 3) == [True, False]
            assert await ask(engine, "m") == ("1", 9)
            await engine.admin.load("m")
            assert ready(engine, "m", 1, 3) == [False, True]
            assert await ask(engine, "m") == ("3", 3)
            await engine.admin.unload("sent")
            assert ready(engine, "sent", 1) == [False]

    asyncio.run(main())


@pytest.mark.parametrize(
    "path", ["../../outside.txt", "/tmp/outside.txt", "1/../../../outside.txt", "..", "1/"]
)
def test_files_that_are_sent_stay_in_their_model(path: str, stage: Stage, tmp_path: Path) -> None:
    before = {str(file) for file in tmp_path.parent.rglob("outside*")}

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            with pytest.raises(RepositoryError, match="not a path in a model's folder"):
                await engine.admin.load(
                    "sent", files={path: b"nothing", "1/model.onnx": b"times 2"}
                )
            assert ready(engine, "sent") == [False]

    asyncio.run(main())
    assert {str(file) for file in tmp_path.parent.rglob("outside*")} == before
