"""What the engine takes and gives: requests and responses without any transport."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypedDict

from infuse.runtime.session import Array

Parameter = str | int | float | bool
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A value of JSON, as a parser gives it: its type is checked where it is read."""
JsonObject: TypeAlias = "Mapping[str, JSON]"
"""Values of JSON by name."""


class TensorMetadata(TypedDict):
    """An input or output as the protocol describes it; -1 in `shape` for what is not fixed."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(TypedDict):
    """A model as the protocol describes it."""

    name: str
    versions: list[str]
    platform: str
    inputs: Sequence[TensorMetadata]
    outputs: Sequence[TensorMetadata]


class ServerMetadata(TypedDict):
    """A server as the protocol describes it."""

    name: str
    version: str
    extensions: list[str]


@dataclass(slots=True)
class Tensor:
    """A tensor of a request or a response. Elements of BYTES are `bytes` in an array of objects.

    `labels`: names of the classes that an output has scores of, in their order; b"": it has none.
    """

    name: str
    datatype: str
    data: Array
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    labels: Sequence[bytes] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape


@dataclass(slots=True)
class RequestedOutput:
    """An output that a request asks for."""

    name: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(slots=True)
class Timeline:
    """When a request reached which stage, in nanoseconds of `time.perf_counter_ns`; 0: it did not
    (yet).

    received → (decoded) queued → dispatched (taken out of the queue into a batch) → compute_start →
    compute_end → finished (outputs are there) → sent (serialized).
    """

    received: int = field(default_factory=time.perf_counter_ns)
    queued: int = 0
    dispatched: int = 0
    compute_start: int = 0
    compute_end: int = 0
    finished: int = 0
    sent: int = 0


@dataclass(slots=True)
class InferRequest:
    """One request for inference.

    `version` is a version number, a label (`stable`) or empty: then the model's traffic split
    decides. `priority`: 1 is the highest, 0 the model's default. `deadline` is a time of
    `time.monotonic`, after which nobody waits for the answer. `sticky` is what sticky splits hash
    (a header's value, or the id). `trace` is the caller's W3C traceparent.
    """

    model: str
    version: str = ""
    id: str = ""
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[RequestedOutput] = field(default_factory=list)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    priority: int = 0
    deadline: float | None = None
    sticky: str = ""
    trace: str = ""
    protocol: str = "engine"
    timeline: Timeline = field(default_factory=Timeline)


@dataclass(slots=True)
class InferResponse:
    """The answer to a request; `version` is the number of the version that gave it."""

    model: str
    version: str
    id: str
    outputs: list[Tensor]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """A finished request, as observers see it: metrics, traces, logs, objectives, rollouts.

    `response` or `error` is there; `shadow`: nobody waited for it. `rows` and `batch` count rows of
    the request and of the batch that it ran in; `replica` names the worker that ran it, where that
    is known.
    """

    request: InferRequest
    version: int
    response: InferResponse | None
    error: BaseException | None
    rows: int = 1
    batch: int = 1
    shadow: bool = False
    replica: str = ""

    @property
    def seconds(self) -> float:
        """From its arrival to its outputs."""
        return (self.request.timeline.finished - self.request.timeline.received) / 1e9


def rows_of(request: InferRequest, batched: bool) -> int:
    """Rows of a request: the size of its first dimension where the model is batched, else 1."""
    shape = request.inputs[0].shape if request.inputs else ()
    return shape[0] if batched and shape else 1
