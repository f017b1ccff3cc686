"""An engine over a repository that goes wrong, and requests that do: what serves goes on, and says what is amiss."""

import asyncio
import errno
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import (
    ConfigurationError,
    DeadlineError,
    ModelFailureError,
    NotFoundError,
    OverloadError,
    RuntimeFailure,
    UnavailableError,
)
from infuse.serving.catalog import Catalog
from infuse.serving.config import Canary
from infuse.serving.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.serving import models
from tests.serving.models import ask, config, request, rows, write

pytestmark = pytest.mark.row("S2")


async def states(engine: Engine) -> dict[str, str]:
    return {f"{e['name']}/{e['version']}": e["state"] for e in await engine.index()}


async def loaded(engine: Engine, name: str, *versions: int) -> None:
    """Wait until these versions of a model are loaded, and no others."""
    await models.until(
        lambda: name in engine.models and sorted(engine.models[name].versions) == sorted(versions),
        f"{name} has the versions {versions}",
    )


def served(folder: Path, work: Callable[[Engine], Any], **fields: Any) -> None:
    """Do something with an engine."""

    async def run() -> None:
        async with Engine(config(folder, **fields)) as engine:
            await work(engine)

    asyncio.run(run())


# ------------------------------------------------------------------------------------------------- the repository


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
        changes = [(e["kind"], e["version"]) for e in engine.events if e["kind"] in ("loaded", "unloaded")]
        assert changes == [("loaded", 1), ("unloaded", 1), ("loaded", 2)]

    served(tmp_path, work)


def test_files_that_are_replaced_in_place_are_loaded_anew(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    folder = write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2
        (folder / "new").write_bytes(models.adder(7))
        (folder / "new").replace(folder / "model.onnx")
        await models.until(lambda: engine.models["add"].versions[1].statistics is not None, "it is there")
        limit = asyncio.get_running_loop().time() + 60
        while await ask(engine, "add", 1) != 8:
            assert asyncio.get_running_loop().time() < limit
            await asyncio.sleep(0.01)
        (folder / "new").write_bytes(b"no model")
        (folder / "new").replace(folder / "model.onnx")
        await models.until(lambda: engine.models["add"].failures, "the change has failed")
        assert await ask(engine, "add", 1) == 8
        (entry,) = await engine.index()
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


def test_a_full_disk_fails_that_load_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_repository_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def work(engine: Engine) -> None:
        repository.rename(tmp_path / "away")
        await models.until(lambda: engine.problem, "it is noticed")
        assert not engine.ready()
        assert await ask(engine, "add", 1) == 2
        (tmp_path / "away").rename(repository)
        await models.until(engine.ready, "it is back")

    served(tmp_path, work)


def test_a_slow_load_holds_up_no_other_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# ------------------------------------------------------------------------------------------------- what is remembered

ALL = "version_policy: {all: true}\n"


@pytest.mark.row("S3")
def test_labels_splits_and_rollouts_survive_a_restart(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write(tmp_path / "models", "add", models.adder(version), version, ALL)
    state = tmp_path / "state.json"

    async def first(engine: Engine) -> None:
        traffic = engine.traffic("add")
        traffic.set_label("stable", 1)
        traffic.set_label("canary", 2)
        traffic.set_shadow({"2": 0.5})
        traffic.rollback("it was better before")
        traffic.start_rollout(3, Canary(steps=(0.25, 1.0), step_seconds=3600))
        assert await ask(engine, "add", 1, "stable") == 2

    async def second(engine: Engine) -> None:
        told = engine.traffic("add").describe()
        assert told["labels"] == {"stable": 1, "canary": 2}
        assert told["shadow"] == {"2": 0.5}
        assert (told["rollout"]["to"], told["rollout"]["state"], told["rollout"]["share"]) == (3, "running", 0.25)
        assert await ask(engine, "add", 1, "stable") == 2
        assert await ask(engine, "add", 1, "canary") == 3
        engine.traffic("add").rollback("enough")

    async def third(engine: Engine) -> None:
        assert {await ask(engine, "add", 1) for _ in range(20)} == {3}

    for work in (first, second, third):
        served(tmp_path, work, state=state)


@pytest.mark.row("S3")
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 99, "models": {}}', b"\xff\xfe"])
def test_a_state_that_is_broken_is_set_aside(content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    state = tmp_path / "state.json"
    state.write_bytes(content)

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 1) == 2

    served(tmp_path, work, state=state)
    assert (tmp_path / "state.json.broken").read_bytes() == content
    assert json.loads(state.read_text())["format"] == 1
    assert "set aside" in caplog.text


@pytest.mark.row("S3")
def test_a_state_that_cannot_be_written_costs_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    (tmp_path / "file").write_text("in the way")
    caplog.set_level(logging.ERROR)

    async def run() -> None:
        engine = Engine(config(tmp_path, state=tmp_path / "file" / "state.json"))
        with pytest.raises(ConfigurationError, match="state"):
            await engine.start()
        await engine.stop(0)

    asyncio.run(run())


# ------------------------------------------------------------------------------------------------- rollouts


CANARY = """
canary: {steps: [0.5, 1.0], step_seconds: 0.2, min_requests: 10, shadow: 0.5}
"""


def faulty(kind: str) -> bytes:
    """A second version that is not like the first."""
    from benchmarks import serving_faults

    return serving_faults.model(kind, 2)  # type: ignore[arg-type]


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("kind", "state"),
    [("good", "promoted"), ("failing", "rolled_back"), ("drifting", "rolled_back"), ("slow", "rolled_back")],
)
def test_a_canary_goes_on_or_back_by_itself(kind: str, state: str, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1), config=CANARY)

    async def work(engine: Engine) -> None:
        done = asyncio.Event()
        wrong: list[Any] = []
        failed: list[float] = []

        async def client(number: int) -> None:
            value = 1000.0 + 2 * number
            while not done.is_set():
                value += 2
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
            return engine.traffic("add").describe()["rollout"]

        await models.until(lambda: rollout() and rollout()["state"] not in ("running", "paused"), "it has ended")
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


@pytest.mark.row("S3")
def test_shadows_are_compared_and_nobody_waits_for_them(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    for version in (1, 2):
        write(repository, "add", models.adder(version), version, ALL + 'split: {"1": 1}\nshadow: {"2": 1.0}\n')

    async def work(engine: Engine) -> None:
        seen = []
        engine.observers.append(lambda outcome: seen.append((outcome.shadow, outcome.version)))
        for turn in range(20):
            assert await ask(engine, "add", float(turn)) == turn + 1
        await models.until(lambda: len(seen) == 40, "all copies have run")
        assert seen.count((False, 1)) == seen.count((True, 2)) == 20
        window = engine.traffic("add").describe()["windows"]["2"]
        assert (window["compared"], window["drifted"]) == (20, 20 - sum(0.05 * (t + 1) >= 1 for t in range(20)))

    served(tmp_path, work)


# ------------------------------------------------------------------------------------------------- requests


def loop(turns: int, **fields: Any) -> InferRequest:
    inputs = [Tensor("turns", "INT64", np.array(turns, np.int64)), Tensor("x", "FP64", np.zeros(1))]
    return InferRequest("loop", inputs=inputs, **fields)


TURNS = 3000  # some tenth of a second


@pytest.mark.row("S4")
def test_queued_work_is_dropped_when_its_time_is_over_or_nobody_waits(tmp_path: Path) -> None:
    write(tmp_path / "models", "loop", models.looping())

    async def work(engine: Engine) -> None:
        (version,) = engine.versions()
        running = asyncio.ensure_future(engine.infer(loop(TURNS)))
        await models.until(lambda: version.running == 1, "one runs")
        now = asyncio.get_running_loop().time()
        late = [asyncio.ensure_future(engine.infer(loop(TURNS, deadline=now + 0.01))) for _ in range(5)]
        left = [asyncio.ensure_future(engine.infer(loop(TURNS))) for _ in range(5)]
        kept = asyncio.ensure_future(engine.infer(loop(5)))
        await asyncio.sleep(0)
        for task in left:
            task.cancel()
        found = await asyncio.gather(*late, *left, return_exceptions=True)
        assert all(isinstance(each, DeadlineError | OverloadError) for each in found[:5]), found
        assert all(isinstance(each, asyncio.CancelledError) for each in found[5:])
        await running
        assert models.first(await kept) == 5
        assert version.statistics.as_triton()["execution_count"] == 2  # no other one has run
        assert engine.inflight == 0

    served(tmp_path, work)


@pytest.mark.row("S4")
def test_urgent_requests_go_first_and_the_queue_is_bounded(tmp_path: Path) -> None:
    settings = "batching: {priority_levels: 3, max_queue: 6}\n"
    write(tmp_path / "models", "loop", models.looping(), config=settings)

    async def work(engine: Engine) -> None:
        order: list[int] = []
        (version,) = engine.versions()

        async def one(priority: int, number: int) -> None:
            await engine.infer(loop(100, priority=priority))
            order.append(number)

        first = asyncio.ensure_future(engine.infer(loop(TURNS)))
        await models.until(lambda: version.running == 1, "one runs")
        work = [asyncio.ensure_future(one(p, n)) for n, p in enumerate((3, 0, 1, 2, 1, 3))]
        await asyncio.sleep(0)
        with pytest.raises(OverloadError) as refused:
            await engine.infer(loop(1))
        assert refused.value.retry_after > 0
        await asyncio.gather(first, *work)
        assert order == [2, 4, 1, 3, 0, 5]

    served(tmp_path, work)


@pytest.mark.row("S4")
@pytest.mark.parametrize("pad", [False, True])
def test_ragged_requests_are_grouped_or_padded(pad: bool, tmp_path: Path) -> None:
    settings = "batching: {max_size: 64, pad: {x: -1.0}}\n" if pad else "batching: {max_size: 64}\n"
    write(tmp_path / "models", "add", models.adder(1, ("rows", "length")), config=settings)

    async def work(engine: Engine) -> None:
        batches: list[int] = []
        engine.observers.append(lambda outcome: batches.append(outcome.batch))
        arrays = [np.full((1 + n % 2, 3 + n % 3), n, np.float32) for n in range(30)]
        found = await asyncio.gather(*(engine.infer(request("add", array)) for array in arrays))
        for array, response in zip(arrays, found):
            np.testing.assert_array_equal(response.outputs[0].data, array + 1)
        assert max(batches) > 15 if pad else max(batches) <= 15

    served(tmp_path, work)


@pytest.mark.row("S7")
def test_numbers_that_are_not_finite_are_an_error_if_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "models", "free", models.adder(1))
    write(tmp_path / "models", "finite", models.adder(1), config="finite: true\n")

    async def work(engine: Engine) -> None:
        for value in (np.nan, np.inf, -np.inf):
            np.testing.assert_equal(await ask(engine, "free", rows(value)), value)
            with pytest.raises(ModelFailureError, match="not finite"):
                await ask(engine, "finite", rows(value))
        assert await ask(engine, "finite", 1) == 2

    served(tmp_path, work)


PIPELINE = """
pipeline:
  inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]
  outputs: [{name: y, datatype: FP32, shape: [-1, 4]}]
  steps:
    - {model: add, inputs: {x: x}, outputs: {y: between}}
    - {model: add, inputs: {x: between}, outputs: {y: y}}
"""


@pytest.mark.row("S7")
def test_a_pipeline_whose_part_is_unloaded_says_so_and_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    place = tmp_path / "models" / "twice" / "1"
    place.mkdir(parents=True)
    (place / "_SUCCESS").touch()
    (place.parent / "config.yaml").write_text(PIPELINE)

    async def work(engine: Engine) -> None:
        assert await ask(engine, "twice", 1) == 3
        await engine.unload("add")
        with pytest.raises(UnavailableError, match="add"):
            await ask(engine, "twice", 1)
        await engine.load("add")
        assert await ask(engine, "twice", 1) == 3

    served(tmp_path, work, control="explicit", models=("add", "twice"))
