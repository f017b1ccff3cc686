"""Versions that prebuilt kernels run until they are compiled: under load, and in trouble."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import infuse
from infuse.build.prebuilt import make_prebuilt
from infuse.runtime.interface import COMPILED, PREBUILT
from infuse.runtime.program import FOLDER_VARIABLE
from infuse.serving.engine import upgrade
from infuse.serving.engine.engine import Engine
from infuse.targets import Target
from tests.caches import new_cache
from tests.native.test_background import compiler
from tests.native.test_prebuilt import functions_of
from tests.serving import models
from tests.serving.engine_stage import loaded, served
from tests.serving.models import ask, write

pytestmark = [pytest.mark.row("X1"), pytest.mark.row("S2")]
CALLERS = 64


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of prebuilt kernels for the models of this file."""
    folder = tmp_path_factory.mktemp("kernels")
    graph = infuse.optimize(infuse.load(models.adder(1.0)))
    make_prebuilt(functions_of([graph]), Target.resolve(), folder / f"{uuid4().hex}.so")
    return str(folder)


@pytest.fixture(autouse=True)
def prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """These kernels, and a cache that holds no model."""
    monkeypatch.setenv(FOLDER_VARIABLE, library)
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "models-cache"))


def tier(engine: Engine, number: int = 1) -> str:
    return engine.models["add"].versions[number].tier


async def until_compiled(engine: Engine) -> None:
    await models.until(lambda: tier(engine) == COMPILED, "compiled code answers")


def test_it_changes_under_load_without_a_wrong_or_a_lost_answer(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))

    async def work(engine: Engine) -> None:
        assert tier(engine) == PREBUILT
        answers: list[tuple[float, float]] = []
        stop = False

        async def caller(first: float) -> None:
            value = first
            while not stop:
                answers.append((value, await ask(engine, "add", value)))
                value += CALLERS

        callers = [asyncio.create_task(caller(float(number))) for number in range(CALLERS)]
        await until_compiled(engine)
        before = len(answers)
        await models.until(lambda: len(answers) > before + 10 * CALLERS, "more answers")
        stop = True
        await asyncio.gather(*callers)
        assert all(answer == value + 1 for value, answer in answers)
        assert before > CALLERS

    served(tmp_path, work)


def test_a_restart_begins_with_compiled_code(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    tiers: list[str] = []

    async def work(engine: Engine) -> None:
        tiers.append(tier(engine))
        await ask(engine, "add", 1)
        await until_compiled(engine)

    for _ in range(2):
        served(tmp_path, work)
    assert tiers == [PREBUILT, COMPILED]


def test_a_version_that_takes_over_is_compiled_first(tmp_path: Path) -> None:
    policy = "version_policy: {all: true}\n"
    write(tmp_path / "models", "add", models.adder(1), 1, policy)

    async def work(engine: Engine) -> None:
        write(tmp_path / "models", "add", models.adder(2), 2)
        await loaded(engine, "add", 1, 2)
        assert tier(engine, 2) == COMPILED
        assert await ask(engine, "add", 1, "2") == 3

    served(tmp_path, work)


@pytest.mark.parametrize(("when", "expected"), [("never", PREBUILT), ("wait", COMPILED)])
def test_an_option_pins_what_runs(when: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1), 1, f"compile: {when}\n")

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2
        await asyncio.sleep(0.5)
        assert tier(engine) == expected

    served(tmp_path, work)


def in_trouble(tmp_path: Path, what: str, before: Callable[[], Any] = lambda: None) -> None:
    """Serve a version that stays with prebuilt kernels, and says why."""
    write(tmp_path / "models", "add", models.adder(1))

    async def work(engine: Engine) -> None:
        version = engine.models["add"].versions[1]
        assert await ask(engine, "add", 1) == 2
        await models.until(lambda: bool(version.notes), "it says why it stays")
        assert what in version.notes[-1]
        assert version.notes[-1].startswith("prebuilt kernels stay: ")
        assert tier(engine) == PREBUILT
        assert await ask(engine, "add", 5) == 6

    served(tmp_path, work)


def test_prebuilt_kernels_stay_where_the_compiler_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("CXX", compiler(tmp_path / "bin", "echo no licence >&2; exit 3"))
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "empty"))
    in_trouble(tmp_path, "no licence")


def test_prebuilt_kernels_stay_where_compiled_code_answers_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "difference", lambda *_: "differs by 7")
    in_trouble(tmp_path, "compiled code gives another answer: the output y differs by 7")


def test_unloading_ends_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    path = compiler(tmp_path / "bin", "exec sleep 600")
    monkeypatch.setenv("CXX", path)
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "empty"))
    write(tmp_path / "models", "add", models.adder(1))

    def compilers() -> list[str]:
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                variables, command = ((each / name).read_bytes() for name in ("environ", "cmdline"))
            except OSError:
                continue
            if path.encode() in variables and b"infuse.serving.workers.build" in command:
                found.append(each.name)
        return [each for each in found if int(each) != os.getpid()]

    async def work(engine: Engine) -> None:
        await models.until(lambda: bool(compilers()), "the compiler runs")

    served(tmp_path, work)
    assert not compilers()
