"""All that watches an engine together, on an engine that has versions, traffic and workers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infuse.errors import ConfigurationError, ModelFailureError
from infuse.serving.config import Telemetry
from infuse.serving.control.model_config import ModelConfig, Objective
from infuse.serving.control.rollout import Traffic
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.telemetry.monitor import Monitor
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.messages import InferRequest, Outcome, Timeline
from tests.serving.telemetry_tools import FakeEngine, FakeVersion

pytestmark = pytest.mark.row("S6")


@dataclass
class _Model:
    config: ModelConfig

    def __post_init__(self) -> None:
        self.traffic = Traffic("net", self.config, lambda: [1, 2], lambda: [1, 2])


class _Engine(FakeEngine):
    def __init__(self, *objectives: Objective) -> None:
        super().__init__(
            [FakeVersion("net", number, VersionStatistics("net", number)) for number in (1, 2)],
            cores=2,
        )
        config = ModelConfig(
            objectives=objectives,
            labels={"stable": 1},
            split={"1": 3, "2": 1},
            shadow={"2": 0.5, "stable": 0.1},
        )
        self.models = {"net": _Model(config)}
        self.observers: list[Callable[[Outcome], None]] = []

    def placement(self) -> dict[str, Any]:
        return {"workers": [{"name": "worker-1", "resident_bytes": 4096}]}

    def fail(self, times: int) -> None:
        """Observe requests that failed."""
        for _ in range(times):
            line = Timeline(1000, finished=2000)
            outcome = Outcome(
                InferRequest("net", timeline=line), 1, None, ModelFailureError("it crashed")
            )
            for observe in self.observers:
                observe(outcome)


def _samples(monitor: Monitor) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(monitor.metrics.render()[1].decode())
        for sample in family.samples
    }


def test_metrics_of_all_parts() -> None:
    engine = _Engine(Objective(name="good"))
    monitor = Monitor(engine, Telemetry(), Journal())
    engine.fail(12)
    samples = _samples(monitor)
    assert samples["infuse_traffic_share", "net", "1"] == 0.75
    assert samples["infuse_shadow_share", "net", "2"] == 0.5
    assert samples["infuse_shadow_share", "net", "1"] == 0.1
    assert samples["infuse_worker_memory_bytes", "worker-1"] == 4096
    assert samples["infuse_slo_burning", "net", "good"] == 1
    assert samples["infuse_events_total", "objective_burning", "net"] == 1
    assert samples["infuse_metrics_failed",] == 0
    assert [entry["advice"] for entry in monitor.explain()] == [
        "It had fewer than 10 requests."
    ] * 2
    monitor.close()
    assert engine.observers == []


def test_events_are_entries_of_the_console() -> None:
    engine, journal = _Engine(Objective(name="good")), Journal(wall=lambda: 5.0)
    monitor = Monitor(engine, Telemetry(), journal)
    engine.fail(12)
    monitor.close()
    (event,) = journal.recent()
    assert event.as_entry() == {
        "kind": "objective_burning", "model": "net", "version": 0, "reason": "", "share": 0.0,
        "at": 5.0
    }  # fmt: skip


def test_objectives_follow_the_models() -> None:
    engine = _Engine()
    monitor = Monitor(engine, Telemetry(), Journal())
    assert monitor.objectives.as_list() == []
    engine.models["net"] = _Model(ModelConfig(objectives=(Objective(name="new"),)))
    monitor.tick()
    assert [entry["objective"] for entry in monitor.objectives.as_list()] == ["new"]
    engine.models.clear()
    monitor.tick()
    assert monitor.objectives.as_list() == []
    monitor.close()


def test_objectives_that_are_wrong_keep_nobody_from_serving() -> None:
    engine, journal = _Engine(Objective(name="good"), Objective(name="good", target=0.5)), Journal()
    monitor = Monitor(engine, Telemetry(), journal)
    monitor.tick()
    assert [event.kind for event in journal.recent()] == ["objectives_refused"]
    monitor.close()


def test_traces_and_access_log_when_asked(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = _Engine()
    monitor = Monitor(engine, Telemetry(traces="console", access_log=True), Journal())
    with caplog.at_level(logging.INFO, "infuse"):
        engine.fail(1)
    assert ("infuse_trace_dropped_total",) in _samples(monitor)
    monitor.close()
    assert "access model=net version=1 protocol=engine status=500" in caplog.text
    assert json.loads(capsys.readouterr().out)["name"] == "infer net"


def test_an_endpoint_that_is_none() -> None:
    engine = _Engine()
    with pytest.raises(ConfigurationError):
        Monitor(engine, Telemetry(traces="nonsense"), Journal())
    assert engine.observers == []
