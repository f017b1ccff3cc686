"""Fields of configurations that change one thing each, which no other test looks at."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import (
    ConfigurationError,
    InfuseError,
    ModelFailureError,
    OptionError,
    RequestError,
)
from infuse.runtime.shapes import TensorSpec
from infuse.serving.config import ServerConfig, Workers
from infuse.serving.control.model_config import Batching, Canary, ModelConfig
from infuse.serving.control.reading import parse
from infuse.serving.control.repository import Repository
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.engine.declared import Declared
from infuse.serving.workers import process
from infuse.serving.workers.need import Need
from infuse.serving.workers.polling import BusyPoller
from infuse.serving.workers.pool import WorkerPool
from tests.serving.lifecycle_stage import Stage, stage, until
from tests.serving.rest_apps import admin_app
from tests.serving.rest_tools import ask
from tests.serving.rollout_tools import response, running
from tests.serving.test_pipelines_audio import decode, integers

__all__ = ["stage"]


def test_cache_bytes_is_the_limit_of_the_cache(tmp_path: Path) -> None:
    config = ServerConfig(repository=str(tmp_path), cache=tmp_path / "cache", cache_bytes=123)
    assert Repository(config).cache.limit == 123


@pytest.mark.parametrize(("parallel_loads", "begun"), [(1, 1), (2, 2), (3, 3)])
def test_so_many_versions_are_loaded_at_once(stage: Stage, parallel_loads: int, begun: int) -> None:
    for name in "abc":
        stage.write(name)
        stage.gates.hold(f"load {name}")

    async def main() -> None:
        engine = stage.engine(parallel_loads=parallel_loads)
        starting = asyncio.create_task(engine.start())
        await until(lambda: stage.gates.arrived.total() == begun)
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.gates.arrived.total() == begun
        for name in "abc":
            stage.gates.release(f"load {name}")
        await starting
        assert stage.gates.arrived == Counter({f"load {name}": 1 for name in "abc"})
        await engine.stop()

    asyncio.run(main())


def test_a_worker_that_takes_longer_than_start_seconds_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "silent_worker.py").write_text("import time; time.sleep(600)")
    monkeypatch.setattr(process, "_MODULE", "silent_worker")
    monkeypatch.setattr(process, "child_environment", lambda: {"PYTHONPATH": str(tmp_path)})

    async def main() -> None:
        pool = WorkerPool(Workers(cores=1, start_seconds=0.2), Journal())
        try:
            await pool.open(Need("m/1", tmp_path, 1), pool.wide)
        finally:
            await pool.close()

    with pytest.raises(InfuseError, match=r"has not loaded the model within 0\.2 s"):
        asyncio.run(main())


@pytest.mark.parametrize("milliseconds", [0, 1.0])
def test_without_awake_ms_the_server_sleeps_between_messages(milliseconds: float) -> None:
    pool = WorkerPool(Workers(awake_ms=milliseconds), Journal())
    assert isinstance(pool.waiting, BusyPoller) == bool(milliseconds)
    assert pool.waiting.seconds == milliseconds / 1000


def test_a_model_that_must_be_batched_has_a_free_first_dimension() -> None:
    config = ModelConfig(batching=Batching(required=True))
    free = TensorSpec("x", np.dtype(np.float32), ("n", 4))
    fixed = TensorSpec("y", np.dtype(np.float32), (1, 4))
    Declared(config, [free], [free])
    with pytest.raises(ConfigurationError, match=r"the first dimension of .*y.* is not free"):
        Declared(config, [free], [fixed])


def rolled_back(canary: Canary, errors: int = 0, **latencies: float) -> bool:
    """Whether a rollout goes back where every twentieth request to the new version is answered as
    `errors` and latencies (`slow`, `all`) say.
    """
    stage = running(canary=canary)
    stage.tick()
    kinds: list[str] = []
    for _ in range(12):
        for number in range(40):
            rare = number % 20 == 0
            seconds = latencies.get("all", 0.01)
            failing = {2: ModelFailureError("no")} if rare and errors else None
            stage.send(10, errors=failing, v2=latencies.get("slow", seconds) if rare else seconds)
        kinds += stage.kinds(1.0)
    return "rolled_back" in kinds


def canary(**fields: Any) -> Canary:
    return Canary(steps=(0.5, 1.0), step_seconds=1000, min_requests=20, **fields)


@pytest.mark.parametrize(("rate", "back"), [(0.01, True), (0.2, False)])
def test_a_rollout_goes_back_above_its_error_rate(rate: float, back: bool) -> None:
    assert rolled_back(canary(max_error_rate=rate), errors=1) == back


@pytest.mark.parametrize(("ratio", "back"), [(2.0, True), (6.0, False)])
def test_a_rollout_goes_back_above_its_latency_ratio(ratio: float, back: bool) -> None:
    assert rolled_back(canary(max_latency_ratio=ratio), all=0.04) == back


@pytest.mark.parametrize(("quantile", "back"), [(0.98, True), (0.5, False)])
def test_latencies_are_compared_at_the_quantile(quantile: float, back: bool) -> None:
    assert rolled_back(canary(latency_quantile=quantile), slow=0.1) == back


@pytest.mark.parametrize(("rate", "back"), [(0.1, True), (0.6, False)])
def test_a_rollout_goes_back_above_its_rate_of_drift(rate: float, back: bool) -> None:
    stage = running(canary=canary(shadow=1.0, max_drift_rate=rate))
    stage.tick()
    for number in range(200):
        stage.traffic.compare(2, response(1, [1.0]), response(2, [1.0 + number % 2]))
    assert ("rolled_back" in stage.kinds(0.1)) == back


def test_sounds_of_more_channels_than_max_channels_are_refused() -> None:
    stereo = integers(np.zeros((10, 2)), 16)
    assert decode(stereo, max_channels=2)["lengths"].tolist() == [10]
    with pytest.raises(RequestError, match="it has 2 channels; 1 to 1 are allowed"):
        decode(stereo, max_channels=1)


@pytest.mark.parametrize("text", ["split: {1: 80, 2: 20}", 'split: {"1": 80, "2": 20}'])
def test_versions_may_be_written_as_numbers(text: str) -> None:
    assert parse(ModelConfig, text, "config.yaml").split == {"1": 80, "2": 20}
    server = f"{{repository: x, model_defaults: {{{text}}}}}"
    assert parse(ServerConfig, server, "server.yaml").model_defaults["split"] == {"1": 80, "2": 20}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('split: {1: 80, "1": 20}', "'1' is there twice"),
        ("split: {1: 1.0e+308, 2: 1.0e+308}", "<= 1000000000"),
        (f"canary: {{steps: {[n / 12_000 for n in range(1, 12_001)]}}}", "length <= 100"),
    ],
)
def test_numbers_beyond_their_limits_are_told_of(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse(ModelConfig, text, "config.yaml")


def test_weights_and_reasons_that_are_set_by_hand_have_limits() -> None:
    stage_ = running(loaded={1, 2})
    with pytest.raises(OptionError, match="between 0 and 1e"):
        stage_.traffic.set_split({"1": 1e308, "2": 1e308})
    for path, body in (
        ("split", {"weights": {"1": 1e308}}),
        ("rollback", {"reason": "a" * 100_000}),
        ("rollout", {"version": 2, "canary": {"steps": [n / 999 for n in range(1, 1000)]}}),
    ):
        content = json.dumps(body).encode()
        answer = ask(admin_app(), "POST", f"/v2/models/echo/{path}", content)
        assert answer.status == 400, answer.error
