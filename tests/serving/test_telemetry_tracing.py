"""Traces: spans of a request and their parents, at a collector that speaks OTLP; a collector that
is down.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures

import grpc
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from infuse.errors import ConfigurationError, OverloadError
from infuse.serving.config import Telemetry
from infuse.serving.control.telemetry.tracing import Traces, observer
from infuse.serving.messages import InferRequest, Outcome, Tensor, Timeline

pytestmark = pytest.mark.row("S6")
_TRACE, _PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
_STAGES = ["decode", "queue", "batch", "execute", "serialize"]


def _outcome(
    trace: str = "", error: Exception | None = None, sent: int = 8000, protocol: str = "http"
) -> Outcome:
    line = (
        Timeline(1000, 2000, 3000, 4000, 6000, 7000, sent)
        if error is None
        else Timeline(1000, finished=2500)
    )
    tensor = Tensor("x", "FP32", np.zeros((2, 4), np.float32))
    request = InferRequest(
        "net", id="r\n1", inputs=[tensor], trace=trace, protocol=protocol, timeline=line
    )
    return Outcome(request, 3, None, error, rows=2, batch=8, replica="net/3#1")


def _traced(outcomes: Sequence[Outcome], share: float = 1.0) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    traces = observer(Telemetry(traces="console", trace_share=share), exporter)
    assert traces is not None
    for outcome in outcomes:
        traces(outcome)
    traces.close()
    assert traces.dropped == 0
    return exporter.get_finished_spans()


class _Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.spans: list[trace_pb2.Span] = []
        self.resources: list[str] = []

    def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        for group in request.resource_spans:
            self.resources += [
                one.value.string_value
                for one in group.resource.attributes
                if one.key == "service.name"
            ]
            self.spans += [span for scope in group.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[tuple[_Collector, str]]:
    servicer = _Collector()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


def test_a_collector_gets_a_server_span_with_its_stages(collector: tuple[_Collector, str]) -> None:
    servicer, endpoint = collector
    traces = observer(Telemetry(traces=endpoint))
    assert traces is not None
    traces(_outcome(f"00-{_TRACE}-{_PARENT}-01"))
    traces.close()
    assert traces.dropped == 0
    assert set(servicer.resources) == {"infuse"}
    spans = {span.name: span for span in servicer.spans}
    root = spans.pop("infer net")
    assert sorted(spans) == sorted(_STAGES)
    assert {span.trace_id.hex() for span in servicer.spans} == {_TRACE}
    assert root.parent_span_id.hex() == _PARENT
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    assert root.kind == trace_pb2.Span.SPAN_KIND_SERVER
    assert root.end_time_unix_nano - root.start_time_unix_nano == 7000
    execute = spans["execute"]
    assert execute.start_time_unix_nano - root.start_time_unix_nano == 3000
    assert execute.end_time_unix_nano - execute.start_time_unix_nano == 2000
    assert root.start_time_unix_nano > 10**18


def test_attributes() -> None:
    spans = {span.name: span for span in _traced([_outcome()])}
    root = spans["infer net"]
    assert root.parent is None
    assert dict(root.attributes or {}) == {
        "infuse.model": "net",
        "infuse.version": 3,
        "infuse.protocol": "http",
        "infuse.rows": 2,
        "infuse.batch_rows": 8,
        "infuse.request_id": "r\\n1",
        "infuse.replica": "net/3#1",
    }


def test_a_failed_request_has_its_error_and_only_the_stages_that_it_reached() -> None:
    (span,) = _traced([_outcome(error=OverloadError("the queue is full"))])
    assert not span.status.is_ok
    assert "the queue is full" in (span.status.description or "")
    assert (span.attributes or {})["error.type"] == "INF-706"
    assert (span.end_time or 0) - (span.start_time or 0) == 1500


def test_a_model_that_is_unknown_names_no_span() -> None:
    outcome = _outcome(error=OverloadError("full"))
    outcome.version = 0
    assert [span.name for span in _traced([outcome])] == ["infer"]


@pytest.mark.parametrize(
    ("trace", "share", "traced"),
    [
        (f"00-{_TRACE}-{_PARENT}-01", 0.0, True),
        (f"00-{_TRACE}-{_PARENT}-00", 1.0, False),
        ("", 1.0, True),
        ("", 0.0, False),
        (f"00-{'0' * 32}-{_PARENT}-01", 0.0, False),
        (f"ff-{_TRACE}-{_PARENT}-01", 0.0, False),
        ("nonsense\n", 0.0, False),
        ("nonsense\n", 1.0, True),
    ],
)
def test_sampling_follows_the_caller(trace: str, share: float, traced: bool) -> None:
    spans = _traced([_outcome(trace)], share)
    assert bool(spans) == traced
    if traced and _TRACE not in trace:
        assert all(span.name in _STAGES or span.parent is None for span in spans)


def test_a_share_of_the_requests_is_traced() -> None:
    exporter, chances = InMemorySpanExporter(), iter([0.1, 0.5, 0.24, 0.25])
    traces = Traces(exporter, 0.25, chance=lambda: next(chances))
    for _ in range(4):
        traces(_outcome())
    traces.close()
    assert sum(span.name == "infer net" for span in exporter.get_finished_spans()) == 2


def test_no_traces_no_work() -> None:
    before = threading.active_count()
    assert observer(Telemetry()) is None
    assert threading.active_count() == before


@pytest.mark.parametrize("endpoint", ["localhost:4317", "ftp://x", "http://", "file:///etc/passwd"])
def test_an_endpoint_that_is_none(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="not an OTLP endpoint"):
        observer(Telemetry(traces=endpoint))


class _Exporter(SpanExporter):
    """Holds what it gets until it is let go."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.go, self.reached, self.arrived = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self.failure = failure
        self.roots = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.reached.set()
        self.go.wait(30)
        if self.failure is not None:
            raise self.failure
        self.roots += sum(span.name.startswith("infer") for span in spans)
        self.arrived.set()
        return SpanExportResult.SUCCESS


def test_a_slow_endpoint_costs_traces_and_no_more() -> None:
    exporter = _Exporter()
    traces = Traces(exporter)
    traces(_outcome())
    assert exporter.reached.wait(10)
    for _ in range(4096 + 7):
        traces(_outcome())
    assert traces.dropped == 7
    assert [(reading.name, reading.value) for reading in traces.readings()] == [
        ("infuse_trace_dropped", 7)
    ]
    exporter.go.set()
    traces.close(30)
    assert exporter.roots == 1 + 4096


def test_an_endpoint_that_is_down_is_survived() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        traces = observer(Telemetry(traces=f"http://127.0.0.1:{taken.getsockname()[1]}"))
        assert traces is not None
        traces(_outcome())
        traces.close(0.5)
    assert traces.dropped == 1


def test_an_exporter_that_raises_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    exporter = _Exporter(OSError("broken"))
    exporter.go.set()
    traces = Traces(exporter)
    traces(_outcome())
    traces.close()
    assert traces.dropped == 1
    assert "traces could not be exported" in caplog.text


def test_a_trace_waits_until_its_answer_is_serialized() -> None:
    exporter = _Exporter()
    exporter.go.set()
    now = [7000]
    traces = Traces(exporter, clock=lambda: now[0])
    unsent, sent = _outcome(sent=0), _outcome(protocol="engine")
    traces(unsent)
    traces(sent)
    assert not exporter.arrived.wait(0.5)
    unsent.request.timeline.sent = 9000
    assert exporter.arrived.wait(10)
    assert exporter.roots == 2
    exporter.arrived.clear()
    traces(_outcome(sent=0))
    now[0] += 2_000_000_000  # its caller went away
    assert exporter.arrived.wait(10)
    traces.close()
    assert exporter.roots == 3
