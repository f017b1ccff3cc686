"""The page of metrics, read by Prometheus' own parsers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from infuse.errors import ModelFailureError, NotFoundError
from infuse.serving.control.telemetry.families import READINGS, TRITON, VERSION
from infuse.serving.control.telemetry.metrics import Metrics, host_readings
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.control.telemetry.views import Reading
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Tensor, Timeline
from infuse.serving.workers.host import Host
from tests.serving.telemetry_tools import FakeEngine, FakeVersion

pytestmark = pytest.mark.row("S6")
_OPEN = "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"


class _Engine(FakeEngine):
    def __init__(self, *names: str) -> None:
        super().__init__([_version(name) for name in names], cores=4, serving=False)


def _version(name: str) -> FakeVersion:
    return FakeVersion(
        name,
        2,
        VersionStatistics(name, 2),
        replicas={"idle": 1, "busy": 2},
        rows_waiting=7,
        restarts=2,
        weights_bytes=1 << 20,
        loaded_at=1_700_000_000.0,
        load_seconds=1.5,
        build_seconds=0.5,
        waiting=3,
    )


def _observe(
    statistics: VersionStatistics, milliseconds: int, error: Exception | None = None
) -> None:
    line = Timeline(
        1000, 1000, 501_000, 601_000, 1000 + milliseconds * 900_000, 1000 + milliseconds * 1_000_000
    )
    tensor = Tensor("x", "FP32", np.zeros((2, 4), np.float32))
    request = InferRequest("net", inputs=[tensor], timeline=line)
    response = None if error else InferResponse("net", "2", "", [tensor])
    statistics.observe(Outcome(request, 2, response, error))


def _samples(page: Iterator[Metric]) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and values of labels. The parser gives counters an end that Triton's do not have on
    the page.
    """
    return {
        (
            sample.name.removesuffix("_total") if sample.name.startswith("nv_") else sample.name,
            tuple(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in page
        for sample in family.samples
    }


def _text(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return _samples(text_string_to_metric_families(metrics.render()[1].decode()))


def _engine() -> _Engine:
    engine = _Engine("net")
    statistics = engine.served[0].statistics
    for milliseconds in (1, 3, 30):
        _observe(statistics, milliseconds)
    _observe(statistics, 5, ModelFailureError("it crashed"))
    _observe(statistics, 5, NotFoundError("no such output"))
    statistics.observe_batch(4, 2, 1_000_000, 20_000_000, 3_000_000, "idle")
    statistics.observe_batch(6, 1, 1_000_000, 20_000_000, 3_000_000, "full")
    return engine


def test_tritons_names() -> None:
    metrics = Metrics(_engine())
    kind, page = metrics.render()
    assert kind.startswith("text/plain")
    assert (
        b"# TYPE nv_inference_request_success counter\n"
        b'nv_inference_request_success{model="net",version="2"} 3.0\n' in page
    )
    samples, labels = _text(metrics), ("net", "2")
    assert samples["nv_inference_request_success", labels] == 3
    assert samples["nv_inference_request_failure", ("net", "BACKEND", "2")] == 1
    assert samples["nv_inference_request_failure", ("net", "OTHER", "2")] == 1
    assert samples["nv_inference_request_failure", ("net", "REJECTED", "2")] == 0
    assert (samples["nv_inference_count", labels], samples["nv_inference_exec_count", labels]) == (
        10,
        2,
    )
    assert samples["nv_inference_pending_request_count", labels] == 3
    assert samples["nv_inference_request_duration_us", labels] == 34_000
    assert samples["nv_inference_queue_duration_us", labels] == 5 * 500
    assert samples["nv_inference_compute_infer_duration_us", labels] == 60_000
    assert 0 < samples["nv_cpu_memory_used_bytes", ()] < samples["nv_cpu_memory_total_bytes", ()]


def test_own_names() -> None:
    samples, labels = _text(Metrics(_engine())), ("net", "2")
    assert samples["infuse_request_seconds_bucket", ("0.001", "net", "2")] == 1
    assert samples["infuse_request_seconds_bucket", ("0.005", "net", "2")] == 2
    assert samples["infuse_request_seconds_bucket", ("+Inf", "net", "2")] == 3
    assert samples["infuse_request_seconds_sum", labels] == pytest.approx(0.034)
    assert samples["infuse_batch_rows_bucket", ("4.0", "net", "2")] == 1
    assert (
        samples["infuse_batch_rows_count", labels],
        samples["infuse_batch_rows_sum", labels],
    ) == (2, 10)
    assert samples["infuse_batches_fired_total", ("net", "full", "2")] == 1
    assert samples["infuse_received_bytes_total", labels] == 5 * 32
    assert samples["infuse_replicas", ("net", "busy", "2")] == 2
    assert samples["infuse_version_state", ("net", "READY", "2")] == 1
    assert samples["infuse_version_state", ("net", "LOADING", "2")] == 0
    assert samples["infuse_worker_restarts_total", labels] == 2
    assert (samples["infuse_live", ()], samples["infuse_ready", ()]) == (1, 0)


@pytest.mark.parametrize("accept", ["", _OPEN])
def test_every_family_is_there_with_its_type(accept: str) -> None:
    def all_of_them() -> Iterator[Reading]:
        for name, family in READINGS.items():
            if not name.startswith(("nv_", "infuse_live", "infuse_ready", "infuse_metrics")):
                yield Reading(name, 1.0, tuple("x" for _ in family.labels))

    kind, page = Metrics(_engine(), [all_of_them]).render(accept)
    assert kind.startswith("application/openmetrics-text" if accept else "text/plain")
    parse = openmetrics.text_string_to_metric_families if accept else text_string_to_metric_families
    types = {family.name: family.type for family in parse(page.decode())}
    for name, family in {**VERSION, **READINGS, **TRITON}.items():
        if name == "nv_cpu_utilization":  # two looks may be closer than a tick
            continue
        assert types[name] == (
            "counter" if family.kind == "unknown" and not accept else family.kind
        )


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text; version=abc", "text/plain; version=x", "*/*", ";;,=,"]
)
def test_any_accept_header_is_answered(accept: str) -> None:
    assert b"infuse_live" in Metrics(_Engine()).render(accept)[1]


def test_names_of_models_are_escaped() -> None:
    name = 'a"b\\c\nd} 1'
    samples = _text(Metrics(_Engine(name)))
    assert samples["nv_inference_count", (name, "2")] == 0


def test_engines_do_not_collide() -> None:
    first, second = Metrics(_Engine("one")), Metrics(_Engine("two"))
    assert ("nv_inference_count", ("one", "2")) in _text(first)
    assert ("nv_inference_count", ("one", "2")) not in _text(second)


def test_a_source_that_fails_is_counted_and_the_page_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Iterator[Reading]:
        yield Reading("infuse_repository_hits", 1.0)
        raise OSError("gone")

    metrics = Metrics(_engine(), [broken])
    metrics.add(lambda: [Reading("infuse_repository_misses", 5.0)])
    samples = _text(metrics)
    assert samples["infuse_metrics_failed", ()] == 1
    assert samples["infuse_repository_misses_total", ()] == 5
    assert ("infuse_repository_hits_total", ()) not in samples
    assert "a source of metrics failed" in caplog.text


def test_the_page_shows_no_model_twice_and_none_that_went() -> None:
    engine = _engine()
    metrics = Metrics(engine)
    page = metrics.render(_OPEN)[1]
    assert page.count(b"# TYPE infuse_request_seconds histogram") == 1
    engine.served.clear()
    assert b'model="net"' not in metrics.render()[1]


def test_host(tmp_path: Path) -> None:
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    proc.mkdir()
    cgroup.mkdir()
    assert list(host_readings(Host(proc, cgroup))) == []
    (proc / "stat").write_text("cpu  10 0 10 70 10 0 0 0 99 0\ncpu0 1 1 1 1\n")
    (proc / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\n")
    host = Host(proc, cgroup)
    assert host.utilization() is None
    (proc / "stat").write_text("cpu  40 0 10 130 20 0 0 0 99 0\n")
    assert host.utilization() == pytest.approx(0.3)
    assert host.memory() == (600 << 10, 1000 << 10)
    (cgroup / "memory.max").write_text("max\n")
    (cgroup / "memory.current").write_text("2048\n")
    assert host.memory() == (600 << 10, 1000 << 10)
    (cgroup / "memory.max").write_text("4096\n")
    assert host.memory() == (2048, 4096)
