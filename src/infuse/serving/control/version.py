"""What a server needs of a version that it serves, whatever runs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from infuse.runtime.session import Array
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository import LocalVersion
from infuse.serving.control.telemetry.views import VersionView
from infuse.serving.messages import InferRequest, InferResponse, TensorMetadata
from infuse.serving.workers.replicas import Replica


class Version(VersionView, Protocol):
    """A version in memory: `versions.ServedVersion` runs a model in replicas,
    `ensembles.PipelineVersion` calls other models.
    """

    config: ModelConfig
    reason: str
    notes: list[str]
    retained_files: tuple[LocalVersion, ...]
    """The files that it holds in the cache while it is served."""

    @property
    def serving(self) -> bool: ...

    @property
    def holds_out(self) -> bool: ...

    @property
    def batched(self) -> bool: ...

    @property
    def batching_obstacle(self) -> str:
        """Why its requests are not put together; "" where they may be."""
        ...

    @property
    def most_rows(self) -> int: ...

    @property
    def times(self) -> Mapping[int, float]:
        """Measured seconds by rows of a batch."""
        ...

    @property
    def instances(self) -> Sequence[Replica]:
        """Its replicas in workers; none where it runs in this process."""
        ...

    @property
    def parts(self) -> Collection[str]:
        """The models that it calls."""
        ...

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for so many bytes of a request to come; None: there is none."""
        ...

    async def infer(self, request: InferRequest) -> tuple[InferResponse, int]:
        """The answer, and the rows of the batch that it was computed in."""
        ...

    async def unload(self, why: str = ...) -> None: ...

    def abort(self, why: str) -> None: ...

    def described(self, inputs: bool) -> Sequence[TensorMetadata]:
        """Its inputs or outputs as the protocol describes tensors."""
        ...
