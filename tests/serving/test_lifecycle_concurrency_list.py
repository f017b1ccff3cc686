"""Shutdown, and loads and unloads side by side: behaviours that the list `L0_lifecycle` of another
server names; `docs/serving_tests.md` has the names.
"""

from __future__ import annotations

import asyncio

import pytest

from infuse.errors import InfuseError, UnavailableError
from tests.serving.lifecycle_stage import Stage, ask, ready, stage, until

__all__ = ["stage"]
pytestmark = pytest.mark.row("S2")


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
