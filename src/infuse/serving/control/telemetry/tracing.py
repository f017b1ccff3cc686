"""Traces of requests with OpenTelemetry, made after the fact from the times that a request carries
anyway.

A request costs the engine an entry in a bounded queue, and nothing when it is not sampled. A thread
makes the spans once the answer was serialized, and exports them; an endpoint that is slow or gone
costs traces, which are counted, and never a request.
"""

from __future__ import annotations

import logging
import random
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from infuse.errors import ConfigurationError, InfuseError
from infuse.serving.config import Telemetry
from infuse.serving.control.statuses import public_text
from infuse.serving.control.telemetry.journal import clean
from infuse.serving.control.telemetry.views import Reading
from infuse.serving.messages import Outcome, Timeline
from infuse.serving.tuning import END_SECONDS, LOOK_SECONDS

_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?"
)
_MOST_WAITING: Final = 4096
_BATCH: Final = 256  # requests of an export
_EXPORT_SECONDS: Final = 5
_MOST_WORD: Final = 128
_log: Final = logging.getLogger(__name__)
_PARENTS: Final = TraceContextTextMapPropagator()
_STAGES: Final = (
    ("decode", "received", "queued"),
    ("queue", "queued", "dispatched"),
    ("batch", "dispatched", "compute_start"),
    ("execute", "compute_start", "compute_end"),
    ("serialize", "finished", "sent"),
)


def observer(config: Telemetry, exporter: SpanExporter | None = None) -> Traces | None:
    """An observer of outcomes that makes traces; None when the configuration wants none.

    `config.traces` is an OTLP gRPC endpoint (`http://host:4317`, `https://…`) or `console`. With
    `exporter`, spans go there. Close it at the end. ConfigurationError for an endpoint that is
    none.
    """
    if not config.traces:
        return None
    return Traces(exporter or _exporter(config.traces), config.trace_share)


@dataclass(slots=True)
class _Trace:
    """What a trace says of a request: no tensors, which must not live on here."""

    timeline: Timeline
    parent: str
    name: str
    attributes: dict[str, str | int | bool]
    error: str
    awaits_sent: bool
    ended: int


class Traces:
    """Makes a trace of each sampled request: a server span, with a child for each stage that the
    request reached.

    A caller's traceparent decides whether its request is traced; without one, `share` of the
    requests are.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        share: float = 1.0,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.dropped = 0
        self._exporter = exporter
        self._share = share
        self._chance = chance
        self._clock = clock
        self._offset = time.time_ns() - time.perf_counter_ns()
        self._waiting: deque[_Trace] = deque()
        self._made = _Collected()
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": "infuse"}),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attribute_length=2000),
        )
        provider.add_span_processor(self._made)
        self._tracer: Tracer = provider.get_tracer("infuse.serving")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="infuse-traces", daemon=True)
        self._thread.start()

    def __call__(self, outcome: Outcome) -> None:
        """Trace a request, if it is to be traced."""
        request = outcome.request
        parent = _TRACEPARENT.fullmatch(request.trace) if request.trace else None
        if not (int(parent[1], 16) & 1 if parent else self._chance() < self._share):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(_trace_of(outcome, request.trace if parent else "", self._clock()))

    def readings(self) -> Iterator[Reading]:
        """The traces' own metrics."""
        yield Reading("infuse_trace_dropped", self.dropped)

    def close(self, seconds: float = END_SECONDS) -> None:
        """Export what waits, and end; what an endpoint does not take in time is dropped."""
        self._closing.set()
        self._thread.join(seconds)
        self._exporter.shutdown()
        self._thread.join(seconds)

    def _work(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            while self._export() == _BATCH:
                continue
        while self._waiting:
            self._export()

    def _export(self) -> int:
        """Make and export the spans of requests whose answers are serialized, or will not be any
        more; their number.
        """
        count = 0
        now, closing = self._clock(), self._closing.is_set()
        while self._waiting and count < _BATCH:
            first = self._waiting[0]
            if (
                first.awaits_sent
                and not first.timeline.sent
                and not closing
                and now - first.ended < END_SECONDS * 1e9
            ):
                break
            self._make(self._waiting.popleft())
            count += 1
            time.sleep(0)  # the engine's loop goes first
        if count and not self._sent(self._made.take()):
            self.dropped += count
        return count

    def _sent(self, spans: list[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception:
            _log.exception("traces could not be exported")
            return False

    def _make(self, trace: _Trace) -> None:
        line, shift = trace.timeline, self._offset
        context = _PARENTS.extract({"traceparent": trace.parent}) if trace.parent else Context()
        span = self._tracer.start_span(
            trace.name, context, SpanKind.SERVER, trace.attributes, start_time=line.received + shift
        )
        within = set_span_in_context(span, context)
        for name, begin, end in _STAGES:
            began, ended = getattr(line, begin), getattr(line, end)
            if began and ended:
                child = self._tracer.start_span(name, within, start_time=began + shift)
                child.end(max(began, ended) + shift)
        if trace.error:
            span.set_status(Status(StatusCode.ERROR, trace.error))
        span.end(max(line.sent or trace.ended, line.received) + shift)


class _Collected(SpanProcessor):
    """Keeps ended spans until they are taken. One thread makes and takes them."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans


def _exporter(endpoint: str) -> SpanExporter:
    if endpoint == "console":
        return ConsoleSpanExporter(out=sys.stdout)
    if not re.fullmatch(r"https?://[^/\s]+/?", endpoint):
        raise ConfigurationError(
            f"{endpoint!r} is not an OTLP endpoint",
            where="telemetry.traces",
            hint="write http://host:4317, or console",
        )
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(
        endpoint, insecure=endpoint.startswith("http://"), timeout=_EXPORT_SECONDS
    )


def _trace_of(outcome: Outcome, parent: str, now: int) -> _Trace:
    request, error = outcome.request, outcome.error
    model = clean(request.model, _MOST_WORD)
    attributes: dict[str, str | int | bool] = {
        "infuse.model": model,
        "infuse.version": outcome.version,
        "infuse.protocol": request.protocol,
        "infuse.rows": outcome.rows,
        "infuse.batch_rows": outcome.batch,
    }
    if request.id:
        attributes["infuse.request_id"] = clean(request.id, _MOST_WORD)
    if outcome.replica:
        attributes["infuse.replica"] = outcome.replica
    if outcome.shadow:
        attributes["infuse.shadow"] = True
    if error is not None:
        attributes["error.type"] = (
            error.code if isinstance(error, InfuseError) else type(error).__name__
        )
    return _Trace(
        request.timeline,
        parent,
        f"infer {model}" if outcome.version else "infer",
        attributes,
        "" if error is None else clean(public_text(error)),
        request.protocol != "engine" and not outcome.shadow and error is None,
        request.timeline.finished or now,
    )
