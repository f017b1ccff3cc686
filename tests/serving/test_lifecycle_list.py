"""The behaviours that the list `L0_lifecycle` of another server names; `docs/serving_tests.md` has
the names.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infuse.errors import InfuseError, NotFoundError, RepositoryError, UnavailableError
from tests.serving.lifecycle_stage import Stage, ask, ready, stage, until

__all__ = ["stage"]
pytestmark = pytest.mark.row("S2")

ALL = {"version_policy": {"all": True}}


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
            assert {"model": "no model", "config": "replica", "no version": "no version"}[
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
                    RepositoryError, match=r"it cannot be loaded: .*'nonsense' is no model"
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
            with pytest.raises(RepositoryError, match="'nonsense' is no model"):
                await engine.admin.load("m")
            assert ready(engine, "m", 1, 2) == [True, False]
            assert await ask(engine, "m") == ("1", 1)
            reasons = {entry["version"]: entry["reason"] for entry in await engine.admin.index()}
            assert "'nonsense' is no model" in reasons["2"]

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
            with pytest.raises(RepositoryError, match="no path in a model's folder"):
                await engine.admin.load(
                    "sent", files={path: b"nothing", "1/model.onnx": b"times 2"}
                )
            assert ready(engine, "sent") == [False]

    asyncio.run(main())
    assert {str(file) for file in tmp_path.parent.rglob("outside*")} == before


# ----------------------------------------------------------------------------------------- shutdown


@pytest.mark.parametrize("name", ["m", "chain"])
def test_what_was_accepted_is_finished_and_nothing_new_is(name: str, stage: Stage) -> None:
    stage.write("m")
    stage.chain("chain", "m", "m")

    async def main() -> None:
        engine = stage.engine()
        await engine.start()
        stage.gates.hold("run m")
        running = [asyncio.ensure_future(ask(engine, name)) for _ in range(6)]
        await until(lambda: stage.gates.arrived["run m"] == 6)
        stopping = asyncio.ensure_future(engine.stop())
        await until(lambda: not engine.ready())
        assert engine.live()
        with pytest.raises(UnavailableError, match="shutting down"):
            await ask(engine, name)
        stage.gates.release("run m")
        assert await asyncio.gather(*running) == [("1", 2 if name == "m" else 4)] * 6
        await stopping
        assert not engine.live()

    asyncio.run(main())


def test_a_stop_does_not_wait_longer_than_its_grace(stage: Stage) -> None:
    stage.write("m")

    async def main() -> None:
        engine = stage.engine()
        await engine.start()
        stage.gates.hold("run m")
        running = asyncio.ensure_future(ask(engine, "m"))
        await until(lambda: stage.gates.arrived["run m"] == 1)
        await asyncio.wait_for(engine.stop(grace=0.05), 30)
        assert not engine.live()
        running.cancel()

    asyncio.run(main())


# ------------------------------------------------------------------------------------- side by side


def test_models_are_loaded_side_by_side(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.write(name)
        stage.gates.hold(f"load {name}")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            loading = [asyncio.ensure_future(engine.admin.load(name)) for name in ("a", "b")]
            await until(lambda: stage.gates.arrived["load a"] == stage.gates.arrived["load b"] == 1)
            for name in ("a", "b"):
                stage.gates.release(f"load {name}")
            await asyncio.gather(*loading)
            assert [ready(engine, name)[0] for name in ("a", "b")] == [True, True]

    asyncio.run(main())


def test_loads_of_one_model_follow_each_other(stage: Stage) -> None:
    stage.write("m", 1, "times 1")
    stage.gates.hold("load m")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            first = asyncio.ensure_future(engine.admin.load("m"))
            await until(lambda: stage.gates.arrived["load m"] == 1)
            stage.write("m", 1, "times 2")
            second = asyncio.ensure_future(engine.admin.load("m"))
            await asyncio.sleep(0.02)
            assert stage.gates.arrived["load m"] == 1
            stage.gates.release("load m")
            await asyncio.gather(first, second)
            assert await ask(engine, "m") == ("1", 2)

    asyncio.run(main())


def test_an_unload_waits_for_the_load(stage: Stage) -> None:
    stage.write("m")
    stage.gates.hold("load m")

    async def main() -> None:
        async with stage.engine(control="explicit") as engine:
            loading = asyncio.ensure_future(engine.admin.load("m"))
            await until(lambda: stage.gates.arrived["load m"] == 1)
            unloading = asyncio.ensure_future(engine.admin.unload("m"))
            await asyncio.sleep(0.02)
            assert not unloading.done()
            stage.gates.release("load m")
            results = await asyncio.gather(loading, unloading, return_exceptions=True)
            assert all(result is None or isinstance(result, InfuseError) for result in results)
            assert ready(engine, "m") == [False]
            await engine.admin.load("m")
            assert await ask(engine, "m") == ("1", 2)

    asyncio.run(main())


def test_many_loads_and_unloads_at_once_end_well(stage: Stage) -> None:
    stage.write("m")
    stage.write("steady", text="times 3")

    async def main() -> None:
        async with stage.engine(control="explicit", models=["steady"]) as engine:

            async def worry() -> list[InfuseError]:
                refused = []
                for _ in range(8):
                    for act in (engine.admin.load, engine.admin.unload):
                        try:
                            await act("m")
                        except InfuseError as error:
                            refused.append(error)
                    assert await ask(engine, "steady") == ("1", 3)
                return refused

            await asyncio.wait_for(asyncio.gather(*(worry() for _ in range(16))), 120)
            assert engine.ready()
            await engine.admin.load("m")
            assert await ask(engine, "m") == ("1", 2)
            await engine.admin.unload("m")
            assert ready(engine, "m") == [False]

    asyncio.run(main())
