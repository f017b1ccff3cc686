"""Broken models, polling and explicit control: behaviours that the list `L0_lifecycle` of another
server names; `docs/serving_tests.md` has the names.
"""

from __future__ import annotations

import asyncio

import pytest

from infuse.errors import InfuseError, NotFoundError, RepositoryError, UnavailableError
from tests.serving.lifecycle_stage import ALL, Stage, ask, ready, stage, until

__all__ = ["stage"]
pytestmark = pytest.mark.row("S2")


# ------------------------------------------------------------------------------------ broken models


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("how", ["model", "config", "no version"])
def test_a_broken_model_leaves_the_others_alone(strict: bool, how: str, stage: Stage) -> None:
    stage.write("good")
    if how == "no version":
        stage.configure("bad")
    else:
        stage.write("bad", text="nonsense" if how == "model" else "times 2")
    if how == "config":
        stage.configure("bad", "replica: 3")

    async def main() -> None:
        async with stage.engine(strict_readiness=strict) as engine:
            assert engine.live()
            assert engine.ready() is not strict
            assert ready(engine, "bad") == [False]
            assert ready(engine, "good", 1) == [True]
            assert await ask(engine, "good") == ("1", 2)
            with pytest.raises(UnavailableError, match="no version of it is loaded: "):
                await ask(engine, "bad")
            (entry,) = [entry for entry in await engine.admin.index() if entry["name"] == "bad"]
            assert entry["state"] == "UNAVAILABLE"
            assert {"model": "not a model", "config": "replica", "no version": "no version"}[
                how
            ] in entry["reason"]

    asyncio.run(main())


@pytest.mark.parametrize("name", ["01", "007", "abc", "2b", "-2", "1.5"])
def test_folders_that_are_no_versions_are_passed_over(name: str, stage: Stage) -> None:
    stage.write("m", 1, "times 3")
    stage.write("m", name, "nonsense")

    async def main() -> None:
        async with stage.engine() as engine:
            assert engine.ready()
            assert await ask(engine, "m") == ("1", 3)
            assert [entry["version"] for entry in await engine.admin.index()] == ["1"]

    asyncio.run(main())


# ------------------------------------------------------------------------------------------ polling


def test_models_come_and_go_with_the_repository(stage: Stage) -> None:
    stage.write("stays")

    async def main() -> None:
        async with stage.engine() as engine:
            with pytest.raises(NotFoundError):
                await ask(engine, "guest")
            for _ in range(2):
                stage.configure("guest", **ALL)
                stage.write("guest", 1)
                stage.write("guest", 3, "times 5")
                await until(lambda: ready(engine, "guest", 1, 3) == [True, True])
                stats = {
                    entry["version"]: entry
                    for entry in engine.admin.statistics("guest")["model_stats"]
                }
                assert [stats[v]["inference_stats"]["success"]["count"] for v in "13"] == [0, 0]
                assert await ask(engine, "guest") == ("3", 5)
                stats = {
                    entry["version"]: entry
                    for entry in engine.admin.statistics("guest")["model_stats"]
                }
                assert [stats[v]["inference_stats"]["success"]["count"] for v in "13"] == [0, 1]
                stage.remove("guest")
                await until(lambda: "guest" not in engine.models)
                with pytest.raises(NotFoundError):
                    await ask(engine, "guest")
                assert ready(engine, "stays", 1) == [True]
                assert engine.ready()

    asyncio.run(main())


def test_versions_come_and_go_with_the_repository(stage: Stage) -> None:
    stage.configure("m", **ALL)
    for number in (1, 2, 3):
        stage.write("m", number, f"times {number}")

    async def main() -> None:
        async with stage.engine() as engine:
            assert ready(engine, "m", 1, 2, 3) == [True] * 3
            assert await ask(engine, "m", 1) == ("1", 1)
            stage.remove("m", "1")
            await until(lambda: ready(engine, "m", 1, 2, 3) == [False, True, True])
            with pytest.raises(InfuseError):
                await ask(engine, "m", 1)
            stage.write("m", 7, "times 7")
            await until(lambda: ready(engine, "m", 2, 3, 7) == [True] * 3)
            assert await ask(engine, "m") == ("7", 7)

    asyncio.run(main())


@pytest.mark.parametrize("control", ["none", "explicit"])
def test_without_polling_nothing_changes_by_itself(control: str, stage: Stage) -> None:
    stage.configure("m", **ALL)
    for number in (1, 2):
        stage.write("m", number, f"times {number}")

    async def main() -> None:
        chosen = {"models": ["m"]} if control == "explicit" else {}
        async with stage.engine(control=control, **chosen) as engine:
            stage.write("other")
            stage.write("m", 7)
            stage.remove("m", "1")
            await asyncio.sleep(0.1)  # many times as long as a poll would wait
            assert ready(engine, "m", 1, 2, 7) == [True, True, False]
            assert ready(engine, "other") == [False]
            assert await ask(engine, "m", 1) == ("1", 1)

    asyncio.run(main())


def test_a_changed_configuration_is_taken(stage: Stage) -> None:
    for number in (1, 3):
        stage.write("m", number, f"times {number}")
    stage.configure("m", **ALL)

    async def main() -> None:
        async with stage.engine() as engine:
            assert ready(engine, "m", 1, 3) == [True, True]
            stage.configure("m", labels={"stable": 1}, **ALL)
            await until(lambda: ready(engine, "m", "stable") == [True])
            assert await ask(engine, "m", "stable") == ("1", 1)
            stage.configure("m", version_policy={"latest": 1})
            await until(lambda: ready(engine, "m", 1, 3) == [False, True])
            with pytest.raises(InfuseError):
                await ask(engine, "m", 1)
            assert await ask(engine, "m", 3) == ("3", 3)

    asyncio.run(main())


def test_a_configuration_that_is_gone_is_the_default_one(stage: Stage) -> None:
    for number in (1, 3):
        stage.write("m", number, f"times {number}")
    stage.configure("m", **ALL)

    async def main() -> None:
        async with stage.engine() as engine:
            assert ready(engine, "m", 1, 3) == [True, True]
            stage.remove("m", "config.yaml")
            await until(lambda: ready(engine, "m", 1, 3) == [False, True])
            assert await ask(engine, "m") == ("3", 3)

    asyncio.run(main())


# --------------------------------------------------------------------------------- explicit control


def test_models_are_loaded_and_unloaded_when_asked_for(stage: Stage) -> None:
    stage.configure("m", **ALL)
    for number in (1, 3):
        stage.write("m", number, f"times {number}")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            assert engine.ready()
            assert ready(engine, "m", 1, 3) == [False, False]
            for act in (engine.admin.load, engine.admin.unload):
                with pytest.raises(NotFoundError):
                    await act("unknown")
            await engine.admin.load("m")
            assert ready(engine, "m", 1, 3) == [True, True]
            stage.remove("m", "config.yaml")
            assert ready(engine, "m", 1, 3) == [True, True]
            await engine.admin.load("m")
            assert ready(engine, "m", 1, 3) == [False, True]
            await engine.admin.unload("m")
            assert ready(engine, "m", 1, 3) == [False, False]
            with pytest.raises(UnavailableError):
                await ask(engine, "m")
            await engine.admin.load("m")
            assert await ask(engine, "m") == ("3", 3)

    asyncio.run(main())


def test_a_load_that_fails_says_so_each_time(stage: Stage) -> None:
    stage.write("m", text="nonsense")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            for _ in range(2):
                with pytest.raises(
                    RepositoryError, match=r"it cannot be loaded: .*'nonsense' is not a model"
                ):
                    await engine.admin.load("m")
            stage.write("m", text="times 4")
            await engine.admin.load("m")
            assert await ask(engine, "m") == ("1", 4)

    asyncio.run(main())


def test_models_of_the_command_line_are_loaded_at_the_start(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.write(name)
    stage.chain("chain", "a", "b")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["chain", "a", "b"]) as engine:
            assert [ready(engine, name)[0] for name in ("a", "b", "chain", "c")] == [
                True,
                True,
                True,
                False,
            ]
            assert await ask(engine, "chain") == ("1", 4)
            states = {entry["name"]: entry["state"] for entry in await engine.admin.index()}
            assert states == {"a": "READY", "b": "READY", "chain": "READY", "c": "UNKNOWN"}
            assert [entry["name"] for entry in await engine.admin.index(ready=True)] == [
                "a",
                "b",
                "chain",
            ]

    asyncio.run(main())


@pytest.mark.parametrize("dependents", [True, False])
def test_a_pipeline_is_unloaded_with_or_without_its_models(dependents: bool, stage: Stage) -> None:
    for name in ("a", "b"):
        stage.write(name)
    stage.chain("chain", "a", "b")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            await engine.admin.load("chain")
            assert await ask(engine, "chain") == ("1", 4)
            await engine.admin.unload("chain", dependents=dependents)
            assert [ready(engine, name)[0] for name in ("chain", "a", "b")] == [
                False,
                not dependents,
                not dependents,
            ]

    asyncio.run(main())
