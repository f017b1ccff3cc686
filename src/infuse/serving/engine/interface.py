"""What a transport may ask of an engine: answers to requests, how it fares, and to change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from infuse.runtime.session import Array
from infuse.serving.config import ServerConfig
from infuse.serving.control.administration import Administration
from infuse.serving.control.models import ServedModel
from infuse.serving.control.placements import PlacementDescription
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.version import Version
from infuse.serving.messages import (
    InferRequest,
    InferResponse,
    JsonObject,
    ModelMetadata,
    ServerMetadata,
)
from infuse.serving.workers.pool import WorkerPool


class Readiness(Protocol):
    """Who knows whether a server and its models answer."""

    def live(self) -> bool:
        """Whether the server works at all."""
        ...

    def ready(self) -> bool:
        """Whether requests are taken."""
        ...

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a model, or a version or label of it, answers; NotFoundError where there is none
        of the name.
        """
        ...


class Inference(Readiness, Protocol):
    """Who answers requests for inference, and describes what they may be."""

    def server_metadata(self) -> ServerMetadata:
        """Name, version and extensions of the server."""
        ...

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        """A model's versions, platform, inputs and outputs; NotFoundError, UnavailableError."""
        ...

    def model_config(self, name: str, version: str = "") -> JsonObject:
        """A model's configuration as Triton's ModelConfig; NotFoundError, UnavailableError."""
        ...

    def sticky_header(self, name: str) -> str:
        """The header that sticky splits of a model hash, in small letters; "": there is none."""
        ...

    def receive_buffer(self, model: str, version: str, size: int) -> Array | None:
        """Memory for `size` bytes of a request that arrives; None: there is none of its own for
        it.
        """
        ...

    async def infer(self, request: InferRequest) -> InferResponse:
        """The answer to a request; raises leaves of InfuseError."""
        ...


class ServingEngine(Inference, Protocol):
    """An engine with all that administers and watches it. `cores`: those that models may use;
    `started_at` in seconds since 1970; `problem`: why the repository cannot be read, "" when it
    can; `objectives`: how they fare.
    """

    config: ServerConfig
    admin: Administration
    journal: Journal
    models: dict[str, ServedModel]
    objectives: Callable[[], Sequence[JsonObject]]
    pool: WorkerPool
    started_at: float

    @property
    def cores(self) -> int: ...

    @property
    def problem(self) -> str: ...

    def versions(self) -> Iterable[Version]:
        """All versions that are loaded."""
        ...

    def placement(self) -> PlacementDescription:
        """Cores, memory, workers, and what runs in them."""
        ...
