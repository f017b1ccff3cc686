"""An engine over a repository that goes wrong: what serves goes on, and says what is amiss."""

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from infuse.errors import InfuseError, NotFoundError
from infuse.serving.control.catalog import Catalog
from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.engine_stage import loaded, served
from tests.serving.models import ask, config, request, write

pytestmark = pytest.mark.row("S2")


def test_versions_are_swapped_without_a_gap(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        seen: list[tuple[str, float]] = []
        done = asyncio.Event()

        async def client() -> None:
            while not done.is_set():
                response = await engine.infer(request("add", 10.0))
                seen.append((response.version, models.first(response)))
                await asyncio.sleep(0.001)  # loads go on beside requests, not behind all of them

        clients = [asyncio.ensure_future(client()) for _ in range(4)]
        for version in (2, 3):
            write(repository, "add", models.adder(version), version)
            await loaded(engine, "add", version)
        count = len(seen)
        await models.until(lambda: len(seen) > count + 20, "the last one answers")
        done.set()
        await asyncio.gather(*clients)
        assert {version for version, _ in seen} == {"1", "2", "3"}
        assert all(value == 10 + int(version) for version, value in seen)

    served(tmp_path, work)


def test_unload_first_ends_the_old_version_before_the_new_one_is_loaded(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1), config="load_order: unload_first\n")

    async def work(engine: Engine) -> None:
        write(repository, "add", models.adder(2), 2)
        await loaded(engine, "add", 2)
        assert await ask(engine, "add", 1) == 3
        changes = [
            (e["kind"], e["version"]) for e in engine.events if e["kind"] in ("loaded", "unloaded")
        ]
        assert changes == [("loaded", 1), ("unloaded", 1), ("loaded", 2)]

    served(tmp_path, work)


def test_files_that_are_replaced_in_place_are_loaded_anew(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    folder = write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2
        (folder / "new").write_bytes(models.adder(7))
        (folder / "new").replace(folder / "model.onnx")
        await models.until(
            lambda: engine.models["add"].versions[1].statistics is not None, "it is there"
        )
        limit = asyncio.get_running_loop().time() + 60
        while await ask(engine, "add", 1) != 8:
            assert asyncio.get_running_loop().time() < limit
            await asyncio.sleep(0.01)
        (folder / "new").write_bytes(b"no model")
        (folder / "new").replace(folder / "model.onnx")
        await models.until(lambda: engine.models["add"].failures, "the change has failed")
        assert await ask(engine, "add", 1) == 8
        (entry,) = await engine.admin.index()
        assert entry["state"] == "READY"
        assert "a change of it failed" in entry["reason"]

    served(tmp_path, work)


def test_a_model_and_a_version_that_are_removed(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))
    write(repository, "add", models.adder(2), 2)
    write(repository, "other", models.adder(5))

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 3
        models.remove(repository, "add", 2)
        await loaded(engine, "add", 1)
        assert await ask(engine, "add", 1) == 2
        models.remove(repository, "add")
        await models.until(lambda: "add" not in engine.models, "it is gone")
        with pytest.raises(NotFoundError):
            await ask(engine, "add", 1)
        assert await ask(engine, "other", 1) == 6

    served(tmp_path, work)


def test_a_full_disk_fails_that_load_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))
    full = threading.Event()

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2
        full.set()
        write(repository, "add", models.adder(2), 2)
        await models.until(lambda: engine.models["add"].failures, "the load has failed")
        assert "No space left" in engine.models["add"].failures[2].reason
        assert await ask(engine, "add", 1) == 2
        full.clear()
        await loaded(engine, "add", 2)
        assert await ask(engine, "add", 1) == 3

    _fill_disk(monkeypatch, full)
    served(tmp_path, work)


def test_a_model_with_an_unknown_operator_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))
    node = helper.make_node("Strange", ["x"], ["y"], name="odd", domain="my.own")
    graph = helper.make_graph([node], "graph", [models.tensor("x")], [models.tensor("y")])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("my.own", 1)]
    write(
        repository,
        "odd",
        helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString(),
    )

    async def work(engine: Engine) -> None:
        await models.until(lambda: engine.models["odd"].failures, "it is refused")
        entries = {entry["name"]: entry for entry in await engine.admin.index()}
        assert entries["add"]["state"] == "READY"
        assert entries["odd"]["state"] == "UNAVAILABLE"
        assert "my.own::Strange" in entries["odd"]["reason"]
        assert not engine.model_ready("odd")
        with pytest.raises(InfuseError, match="Strange"):
            await ask(engine, "odd", 1)
        assert await ask(engine, "add", 1) == 2
        (event,) = [event for event in engine.events if event["kind"] == "load_failed"]
        assert "my.own::Strange" in str(event)

    served(tmp_path, work)
    assert any(
        "Strange" in record.getMessage() for record in caplog.records if record.levelname == "ERROR"
    )


def test_a_damaged_file_is_told_by_its_name_in_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "bad", b"no model at all")

    async def work(engine: Engine) -> None:
        await models.until(lambda: engine.models["bad"].failures, "it is refused")
        reason = engine.models["bad"].failures[1].reason
        assert "model 'bad', version 1: model.onnx: " in reason
        assert str(tmp_path) not in reason

    served(tmp_path, work)


def test_threads_that_the_machine_has_not_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "models", "add", models.adder(1), config="threads: 4000\n")

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2

    served(tmp_path, work)
    assert any("threads is 4000, and there are" in record.getMessage() for record in caplog.records)


def _fill_disk(monkeypatch: pytest.MonkeyPatch, full: threading.Event) -> None:
    """While `full` is set, folders of copies cannot be made."""
    real = Path.mkdir

    def mkdir(path: Path, *arguments: Any, **named: Any) -> None:
        if full.is_set() and "cache" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir)


def test_a_fault_of_our_own_fails_that_load_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))
    write(repository, "bad", models.adder(2))
    real = Catalog._load_version

    async def load(engine: Catalog, model: Any, number: int) -> Any:
        if model.name == "bad":
            raise ZeroDivisionError("no fault of the model")
        return await real(engine, model, number)

    monkeypatch.setattr(Catalog, "_load_version", load)

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2
        assert "internal error (ZeroDivisionError" in engine.models["bad"].failures[1].reason
        write(repository, "add", models.adder(3), 2)
        await loaded(engine, "add", 2)

    served(tmp_path, work)
    assert "cannot be loaded" in caplog.text


def test_looks_at_the_repository_go_on_after_any_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        real = engine.repository.scan
        faults = iter([ValueError("a fault"), OSError(errno.EIO, "broken")])

        async def scan() -> Any:
            for fault in faults:
                raise fault
            return await real()

        monkeypatch.setattr(engine.repository, "scan", scan)
        write(repository, "add", models.adder(2), 2)
        await loaded(engine, "add", 2)
        assert await ask(engine, "add", 1) == 3

    served(tmp_path, work)
    assert caplog.text.count("a look at the repository failed") == 2


@pytest.mark.parametrize("strict", [True, False])
def test_a_repository_that_goes_away_stops_nothing(strict: bool, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        repository.rename(tmp_path / "away")
        await models.until(lambda: engine.problem, "it is noticed")
        assert engine.ready() is not strict
        assert await ask(engine, "add", 1) == 2
        (tmp_path / "away").rename(repository)
        await models.until(lambda: not engine.problem and engine.ready(), "it is back")

    served(tmp_path, work, strict_readiness=strict)


def test_a_slow_load_holds_up_no_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))
    write(repository, "slow", models.adder(1))
    go = asyncio.Event()
    real = Catalog._load_version

    async def load(engine: Catalog, model: Any, number: int) -> Any:
        if (model.name, number) == ("slow", 2):
            await go.wait()
        return await real(engine, model, number)

    monkeypatch.setattr(Catalog, "_load_version", load)

    async def work(engine: Engine) -> None:
        write(repository, "slow", models.adder(2), 2)
        await models.until(lambda: engine.models["slow"].loading, "it loads")
        write(repository, "add", models.adder(2), 2)
        await loaded(engine, "add", 2)
        assert await ask(engine, "slow", 1) == 2
        go.set()
        await loaded(engine, "slow", 2)

    served(tmp_path, work)


def test_two_engines_share_a_cache(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))

    async def check() -> None:
        first = Engine(config(tmp_path, state=tmp_path / "first.json"))
        second = Engine(config(tmp_path, state=tmp_path / "second.json"))
        async with first:
            async with second:
                assert await asyncio.gather(ask(first, "add", 1), ask(second, "add", 2)) == [2, 3]
                write(tmp_path / "models", "add", models.adder(2), 2)
                await asyncio.gather(loaded(first, "add", 2), loaded(second, "add", 2))
            assert await ask(first, "add", 1) == 3

    asyncio.run(check())
