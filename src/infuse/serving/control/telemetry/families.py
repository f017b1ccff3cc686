"""Every metric by name: what it counts and which labels it has. `docs/metrics.md` lists the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

STATES: Final = ("UNKNOWN", "READY", "UNAVAILABLE", "LOADING", "UNLOADING")


class Family(NamedTuple):
    """A metric. Counters of Triton's names are `unknown` to OpenMetrics, which wants `_total` at
    the end of a counter's name.
    """

    kind: Literal["counter", "gauge", "histogram", "unknown"]
    help: str
    labels: tuple[str, ...] = ()


_VERSION: Final = ("model", "version")

TRITON: Final[Mapping[str, Family]] = {
    "nv_inference_request_success": Family("unknown", "Requests that were answered", _VERSION),
    "nv_inference_request_failure": Family(
        "unknown", "Requests that failed, by reason", (*_VERSION, "reason")
    ),
    "nv_inference_count": Family("unknown", "Rows that were inferred", _VERSION),
    "nv_inference_exec_count": Family(
        "unknown", "Executions of the model; rows by executions is the mean batch", _VERSION
    ),
    "nv_inference_pending_request_count": Family(
        "gauge", "Requests that wait for a batch", _VERSION
    ),
    "nv_inference_request_duration_us": Family(
        "unknown", "Time of answered requests, summed", _VERSION
    ),
    "nv_inference_queue_duration_us": Family(
        "unknown", "Time that requests waited for a batch, summed", _VERSION
    ),
    "nv_inference_compute_input_duration_us": Family(
        "unknown", "Time of passing inputs in, summed over requests", _VERSION
    ),
    "nv_inference_compute_infer_duration_us": Family(
        "unknown", "Time of running the model, summed over requests", _VERSION
    ),
    "nv_inference_compute_output_duration_us": Family(
        "unknown", "Time of passing outputs out, summed over requests", _VERSION
    ),
}

VERSION: Final[Mapping[str, Family]] = {
    "infuse_request_seconds": Family(
        "histogram", "Time from a request's arrival to its outputs", _VERSION
    ),
    "infuse_queue_seconds": Family("histogram", "Time that a request waited for a batch", _VERSION),
    "infuse_compute_seconds": Family("histogram", "Time that a request's batch computed", _VERSION),
    "infuse_batch_rows": Family("histogram", "Rows of a batch", _VERSION),
    "infuse_batches_fired": Family(
        "counter", "Batches by why they started when they did", (*_VERSION, "reason")
    ),
    "infuse_received_bytes": Family("counter", "Bytes of the inputs' elements", _VERSION),
    "infuse_sent_bytes": Family("counter", "Bytes of the outputs' elements", _VERSION),
    "infuse_shadow_requests": Family("counter", "Requests that nobody waited for", _VERSION),
    "infuse_busy_seconds": Family("counter", "Time that replicas computed, all together", _VERSION),
    "infuse_queue_rows": Family("gauge", "Rows that wait for a batch", _VERSION),
    "infuse_replicas": Family("gauge", "Replicas by state", (*_VERSION, "state")),
    "infuse_worker_restarts": Family("counter", "Workers that were replaced", _VERSION),
    "infuse_version_state": Family(
        "gauge", "1 for the state that a version is in", (*_VERSION, "state")
    ),
    "infuse_weights_bytes": Family("gauge", "Size of a version's weights", _VERSION),
    "infuse_loaded_timestamp_seconds": Family(
        "gauge", "When a version became ready, since 1970", _VERSION
    ),
    "infuse_load_seconds": Family(
        "gauge", "How long loading a version took, with compiling it", _VERSION
    ),
    "infuse_build_seconds": Family(
        "gauge", "How long compiling a version took; 0: it was in the cache", _VERSION
    ),
    "infuse_prebuilt": Family(
        "gauge", "1 while prebuilt kernels run a version, 0 for compiled code", _VERSION
    ),
}

READINGS: Final[Mapping[str, Family]] = {
    "nv_cpu_utilization": Family(
        "gauge", "Part of the machine's processor time in use since the last look, 0 to 1"
    ),
    "nv_cpu_memory_total_bytes": Family("gauge", "Memory that this machine or container has"),
    "nv_cpu_memory_used_bytes": Family("gauge", "Memory of this machine or container in use"),
    "infuse_live": Family("gauge", "1 while the server runs"),
    "infuse_ready": Family("gauge", "1 while the server takes requests and its models are ready"),
    "infuse_traffic_share": Family(
        "gauge", "Part of a model's traffic that a version gets", _VERSION
    ),
    "infuse_shadow_share": Family(
        "gauge", "Part of a model's traffic that a version gets besides", _VERSION
    ),
    "infuse_shadow_compared": Family(
        "gauge", "Answers compared with another version's, in the last minute", _VERSION
    ),
    "infuse_shadow_differences": Family("gauge", "Those of them that differed", _VERSION),
    "infuse_events": Family(
        "counter", "Events: loads, rollouts, lost workers, alerts …", ("event", "model")
    ),
    "infuse_log_dropped": Family(
        "counter", "Lines of the log that were dropped because nobody read them"
    ),
    "infuse_trace_dropped": Family(
        "counter", "Requests whose traces were dropped because the endpoint is too slow"
    ),
    "infuse_repository_hits": Family("counter", "Files that were in the cache of the repository"),
    "infuse_repository_misses": Family("counter", "Files that were fetched from the repository"),
    "infuse_repository_bytes": Family("counter", "Bytes that were fetched from the repository"),
    "infuse_repository_cache_bytes": Family("gauge", "Size of the repository's cache"),
    "infuse_worker_memory_bytes": Family("gauge", "Memory of a worker process", ("worker",)),
    "infuse_certificate_expiry_timestamp_seconds": Family(
        "gauge", "When the certificate that a listener shows expires, since 1970", ("listener",)
    ),
    "infuse_certificate_current": Family(
        "gauge",
        "1 while a listener serves what its files hold; 0: they cannot be used",
        ("listener",),
    ),
    "infuse_slo_target": Family(
        "gauge", "Part of the requests that must be good", ("model", "objective")
    ),
    "infuse_slo_burn_rate": Family(
        "gauge", "How many times too fast the budget is used", ("model", "objective", "window")
    ),
    "infuse_slo_budget_left": Family(
        "gauge", "Part of the window's budget that is left", ("model", "objective")
    ),
    "infuse_slo_burning": Family("gauge", "1 while the alert burns", ("model", "objective")),
    "infuse_metrics_failed": Family("gauge", "Sources of metrics that failed at this look", ()),
}
