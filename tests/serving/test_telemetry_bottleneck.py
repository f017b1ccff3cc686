"""Which stage takes the time, and what would help: each advice from the numbers that carry it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from infuse.serving.control.telemetry.bottleneck import explain
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Tensor, Timeline
from tests.serving.telemetry_tools import FakeEngine, FakeVersion

pytestmark = pytest.mark.row("S6")
_MS = 1_000_000
_START = 10_000_000_000_000
_STAGES = ("decode", "queue", "batch", "compute", "collect", "encode")


@dataclass
class _Engine(FakeEngine):
    now: int = _START

    def serve(
        self, replicas: int = 1, threads: int = 1, requests: int = 100, width: int = 4, **ms: float
    ) -> FakeVersion:
        """A version with a second of requests whose stages took so many milliseconds."""
        statistics = VersionStatistics("net", 1, lambda: self.now, lambda: 0.0)
        version = FakeVersion("net", 1, statistics, replicas={"idle": replicas}, threads=threads)
        self.served.append(version)
        self.now += 1_000_000_000
        stages = [int(ms.get(stage, 0.01) * _MS) for stage in _STAGES]
        for _ in range(requests):
            times = [self.now - sum(stages)]
            for stage in stages:
                times.append(times[-1] + stage)
            tensor = Tensor("x", "FP32", np.zeros((1, width), np.float32))
            request = InferRequest("net", inputs=[tensor], timeline=Timeline(*times))
            version.statistics.observe(
                Outcome(request, 1, InferResponse("net", "1", "", [tensor]), None)
            )
        return version


def _busy(version: FakeVersion, seconds: float, rows: int = 1, runs: int = 10) -> None:
    for _ in range(runs):
        version.statistics.observe_batch(rows, rows, 0, int(seconds * 1e9 / runs), 0, "idle")


def _only(engine: _Engine) -> dict[str, Any]:
    (entry,) = explain(engine)
    return entry


@pytest.mark.parametrize("stage", _STAGES)
def test_the_stage_that_takes_most_is_named(stage: str) -> None:
    engine = _Engine()
    engine.serve(**{stage: 5.0})
    entry = _only(engine)
    assert entry["bottleneck"] == stage
    assert entry["stages"][stage]["ms"] == pytest.approx(5)
    assert sum(part["share"] for part in entry["stages"].values()) == pytest.approx(1, abs=1e-3)
    assert entry["stages"][stage]["share"] > 0.98
    assert entry["recent"] is True


def test_few_requests_are_no_evidence() -> None:
    engine = _Engine()
    engine.serve(requests=9, queue=5)
    entry = _only(engine)
    assert (entry["bottleneck"], entry["stages"], entry["requests"]) == ("", {}, 9)
    assert "fewer than 10" in entry["advice"]


def test_what_was_long_ago_is_said_to_be() -> None:
    engine = _Engine()
    engine.serve(queue=5)
    engine.now += 60_000_000_000
    entry = _only(engine)
    assert (entry["bottleneck"], entry["recent"]) == ("queue", False)
    assert "few requests of late" in entry["advice"]


def test_busy_replicas_and_free_cores_want_replicas() -> None:
    engine = _Engine(cores=8)
    _busy(engine.serve(replicas=2, threads=2, queue=20), 1.9)
    assert "set replicas to 4 (now 2)" in _only(engine)["advice"]


def test_busy_replicas_and_busy_cores_want_machines() -> None:
    engine = _Engine(cores=2)
    _busy(engine.serve(replicas=2, threads=1, queue=20), 1.9)
    entry = _only(engine)
    assert entry["cores_busy"] == pytest.approx(0.95)
    assert "another machine" in entry["advice"]


def test_cores_that_another_version_uses_are_not_free() -> None:
    engine = _Engine(cores=4)
    _busy(engine.serve(replicas=1, threads=1, queue=20), 0.95)
    assert "set replicas" in _only(engine)["advice"]
    other = engine.serve(replicas=3, threads=1, queue=20)
    _busy(other, 2.9)
    _busy(engine.served[0], 0.95)
    assert "another machine" in explain(engine)[0]["advice"]


def test_replicas_too_wide_for_the_free_cores() -> None:
    engine = _Engine(cores=4)
    _busy(engine.serve(replicas=1, threads=3, queue=20), 0.9)
    assert "fewer threads" in _only(engine)["advice"]


def test_idle_replicas_and_a_queue_are_bursts() -> None:
    engine = _Engine()
    _busy(engine.serve(queue=20), 0.2)
    assert "bursts" in _only(engine)["advice"]


def test_single_rows_where_batches_pay() -> None:
    engine = _Engine()
    version = engine.serve(compute=9)
    _busy(version, 0.6, rows=1, runs=60)
    assert "what there is to pay" in _only(engine)["advice"]
    _busy(version, 0.032, rows=8, runs=1)
    assert _only(engine)["mean_batch"] < 1.5
    assert "in batches of 8 a row took 40%" in _only(engine)["advice"]
    _busy(version, 0.032, rows=64, runs=1)
    assert _only(engine)["mean_batch"] > 1.5
    assert "send more requests" not in _only(engine)["advice"]


def test_compute_with_idle_replicas_wants_threads() -> None:
    engine = _Engine()
    _busy(engine.serve(compute=9), 0.1)
    assert "more threads than 1" in _only(engine)["advice"]


def test_compute_with_busy_replicas_wants_replicas() -> None:
    engine = _Engine(cores=2)
    _busy(engine.serve(compute=9), 1.0, rows=4)
    assert "set replicas to 2 (now 1)" in _only(engine)["advice"]


def test_compute_where_nothing_is_left() -> None:
    engine = _Engine(cores=1)
    _busy(engine.serve(compute=9), 1.0, rows=4)
    assert "in batches of 4.0 rows" in _only(engine)["advice"]


def test_handing_over_names_the_size_and_waiting_workers_are_a_queue() -> None:
    engine = _Engine()
    version = engine.serve(batch=3, width=150_528)
    assert "588 KiB" in _only(engine)["advice"]
    _busy(version, 1.0)
    assert "Requests wait for replicas that are busy 100%" in _only(engine)["advice"]


@pytest.mark.parametrize(
    ("stage", "word"),
    [
        ("decode", "binary data"),
        ("batch", "inprocess"),
        ("collect", "outputs that are needed"),
        ("encode", "binary"),
    ],
)
def test_data_on_its_way_is_worth_a_word_where_it_is_much(stage: str, word: str) -> None:
    small, large = _Engine(), _Engine()
    small.serve(**{stage: 60.0})
    large.serve(width=150_528, **{stage: 60.0})
    assert word in _only(large)["advice"]
    assert "588 KiB" in _only(large)["advice"]
    assert "16 bytes" in _only(small)["advice"]
    assert "faster than the server around it" in _only(small)["advice"]


def test_a_version_without_replicas_is_explained() -> None:
    engine = _Engine()
    engine.serve(replicas=0, threads=0, compute=5)
    assert _only(engine)["replicas_busy"] == 0
