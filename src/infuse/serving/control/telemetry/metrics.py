"""The page of metrics: read from the engine when somebody asks, at no cost to requests.

Labels hold names of served models only, never what a caller wrote: nobody can fill the page from
outside.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from infuse.runtime.interface import PREBUILT
from infuse.serving.control.telemetry.families import READINGS, STATES, TRITON, VERSION, Family
from infuse.serving.control.telemetry.histograms import SIZES, shown
from infuse.serving.control.telemetry.statistics import FAILURES, BatchCounts, Counts
from infuse.serving.control.telemetry.views import EngineView, Reading, VersionView
from infuse.serving.workers.host import Host

Source: TypeAlias = Callable[[], Iterable[Reading]]
_log: Final = logging.getLogger(__name__)
_MICRO: Final = 1000
_OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0"


class Metrics(Collector):
    """The metrics of one engine.

    `sources` give readings of parts that the engine's versions do not show (rollouts, objectives,
    the repository …). One that fails is logged and counted, and the rest of the page is served.
    """

    def __init__(self, engine: EngineView, sources: Iterable[Source] = ()) -> None:
        self._engine = engine
        self._sources: list[Source] = [partial(host_readings, Host()), *sources]
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def add(self, source: Source) -> None:
        """Ask one more source from now on."""
        self._sources.append(source)

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """The content type and the page, in the format that an Accept header prefers (text or
        OpenMetrics).
        """
        encode, kind = choose_encoder(
            _OPENMETRICS if "application/openmetrics-text" in accept else ""
        )
        page = encode(self._registry)
        if not kind.startswith("application/openmetrics-text"):
            # Text knows counters of any name: Triton's are the only ones without a type.
            page = page.replace(b" untyped\n", b" counter\n")
        return kind, page

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry must not ask an engine that has not started."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        metrics = {name: _metric(name, family) for name, family in {**TRITON, **VERSION}.items()}
        for version in self._engine.versions():
            total = version.statistics.total()
            labels = {"model": version.name, "version": str(version.number)}
            _add_triton(metrics, labels, version, total)
            _add_histograms(metrics, labels, version, total)
            _add_state(metrics, labels, version, total)
        yield from metrics.values()
        yield from self._read_sources()

    def _read_sources(self) -> Iterator[Metric]:
        metrics = {name: _metric(name, family) for name, family in READINGS.items()}
        failed = 0
        for source in (self._engine_readings, *self._sources):
            try:
                readings = list(source())
            except Exception:
                _log.exception("a source of metrics failed")
                failed += 1
                continue
            for name, value, labels in readings:
                family = READINGS[name]
                _add(
                    metrics[name], family.kind, dict(zip(family.labels, labels, strict=True)), value
                )
        _add(metrics["infuse_metrics_failed"], "gauge", {}, failed)
        yield from (metric for metric in metrics.values() if metric.samples)

    def _engine_readings(self) -> Iterator[Reading]:
        yield Reading("infuse_live", float(self._engine.live()))
        yield Reading("infuse_ready", float(self._engine.ready()))


def _metric(name: str, family: Family) -> Metric:
    return Metric(name, family.help, family.kind)


def _add(metric: Metric, kind: str, labels: dict[str, str], value: float) -> None:
    metric.add_sample(f"{metric.name}_total" if kind == "counter" else metric.name, labels, value)


def _add_triton(
    metrics: Mapping[str, Metric], labels: dict[str, str], version: VersionView, total: Counts
) -> None:
    statistics = version.statistics
    values = {
        "request_success": total.successes,
        "count": total.rows,
        "exec_count": total.executions,
        "pending_request_count": version.pending(),
        "request_duration_us": total.success_ns // _MICRO,
        "queue_duration_us": total.queue_ns // _MICRO,
        "compute_input_duration_us": statistics.compute_input_ns // _MICRO,
        "compute_infer_duration_us": statistics.compute_infer_ns // _MICRO,
        "compute_output_duration_us": statistics.compute_output_ns // _MICRO,
    }
    for name, value in values.items():
        metric = metrics[f"nv_inference_{name}"]
        metric.add_sample(metric.name, labels, value)
    failure = metrics["nv_inference_request_failure"]
    for reason, count in zip(FAILURES, total.failures, strict=True):
        failure.add_sample(failure.name, {**labels, "reason": reason}, count)


def _add_histograms(
    metrics: Mapping[str, Metric], labels: dict[str, str], version: VersionView, total: Counts
) -> None:
    times = {
        "infuse_request_seconds": (total.requests, total.success_ns),
        "infuse_queue_seconds": (total.queues, total.queue_ns),
        "infuse_compute_seconds": (total.computes, total.compute_ns),
    }
    for name, (counts, nanoseconds) in times.items():
        _add_histogram(metrics[name], labels, shown(counts), nanoseconds / 1e9)
    _add_histogram(
        metrics["infuse_batch_rows"], labels, _batch_sizes(version.statistics.batches), total.rows
    )


def _batch_sizes(batches: Mapping[int, BatchCounts]) -> Iterator[tuple[str, int]]:
    counts = [(size, batch.executions) for size, batch in batches.items()]
    for bound in (*SIZES, math.inf):
        label = "+Inf" if bound == math.inf else f"{bound}.0"
        yield label, sum(count for size, count in counts if size <= bound)


def _add_histogram(
    metric: Metric, labels: dict[str, str], buckets: Iterable[tuple[str, int]], total: float
) -> None:
    count = 0
    for bound, count in buckets:
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
    metric.add_sample(f"{metric.name}_count", labels, count)
    metric.add_sample(f"{metric.name}_sum", labels, total)


def _add_state(
    metrics: Mapping[str, Metric], labels: dict[str, str], version: VersionView, total: Counts
) -> None:
    values: dict[str, float] = {
        "infuse_received_bytes": total.bytes_in,
        "infuse_sent_bytes": total.bytes_out,
        "infuse_shadow_requests": total.shadows,
        "infuse_busy_seconds": total.busy_ns / 1e9,
        "infuse_queue_rows": version.rows_waiting,
        "infuse_worker_restarts": version.restarts,
        "infuse_weights_bytes": version.weights_bytes,
        "infuse_loaded_timestamp_seconds": version.loaded_at,
        "infuse_load_seconds": version.load_seconds,
        "infuse_build_seconds": version.build_seconds,
        "infuse_prebuilt": float(version.tier == PREBUILT),
    }
    for name, value in values.items():
        _add(metrics[name], VERSION[name].kind, labels, value)
    by_label: tuple[tuple[str, str, Mapping[str, int]], ...] = (
        ("infuse_batches_fired", "reason", dict(version.statistics.fired)),
        ("infuse_replicas", "state", version.replicas),
        ("infuse_version_state", "state", {state: int(state == version.state) for state in STATES}),
    )
    for name, label, counts in by_label:
        for which, count in counts.items():
            _add(metrics[name], VERSION[name].kind, {**labels, label: which}, count)


def host_readings(host: Host) -> Iterator[Reading]:
    """The machine's metrics."""
    utilization, memory = host.utilization(), host.memory()
    if utilization is not None:
        yield Reading("nv_cpu_utilization", utilization)
    if memory is not None:
        yield Reading("nv_cpu_memory_used_bytes", memory[0])
        yield Reading("nv_cpu_memory_total_bytes", memory[1])
