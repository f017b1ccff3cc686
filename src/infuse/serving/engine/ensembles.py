"""A pipeline as a version of a model: it is served like one, and runs in the server on other
models.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from infuse.errors import ConfigurationError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository import Labels, LocalVersion
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.engine.pipelines import PipelineRunner
from infuse.serving.engine.pipelines.plan import Metadata
from infuse.serving.messages import InferRequest, InferResponse, TensorMetadata
from infuse.serving.tuning import WAIT_SECONDS
from infuse.serving.workers.replicas import Replica

Call = Callable[[InferRequest], Awaitable[InferResponse]]

_NO_LABELS: Final = Labels()


class PipelineVersion:
    """A pipeline that serves. It needs no worker: `running` counts its requests, and it takes all
    there are.
    """

    def __init__(
        self,
        name: str,
        number: int,
        config: ModelConfig,
        call: Call,
        models: Metadata,
        folders: Sequence[Path],
        labels: Labels = _NO_LABELS,
    ) -> None:
        if config.pipeline is None:
            raise ConfigurationError("it has no pipeline", where=f"model {name!r}")
        labels.check([tensor.name for tensor in config.pipeline.outputs])
        self.name = name
        self.number = number
        self.config = config
        self.state = "READY"
        self.reason = ""
        self.notes: list[str] = []
        self.labels = labels
        self.retained_files: tuple[LocalVersion, ...] = ()
        self.statistics = VersionStatistics(name, number)
        self.loaded_at = time.time()
        self.load_seconds = self.build_seconds = 0.0
        self.tier = ""
        self.running = 0
        self.runner = PipelineRunner(name, config.pipeline, call, models, folders=folders)
        self.replicas: Mapping[str, int] = {}
        self.instances: Sequence[Replica] = ()
        self.threads = self.rows_waiting = self.restarts = self.weights_bytes = 0
        self.most_rows = 1
        self.batching_obstacle = ""
        self.times: dict[int, float] = {}
        self.batched = False

    @property
    def serving(self) -> bool:
        """Whether requests are taken."""
        return self.state == "READY"

    @property
    def holds_out(self) -> bool:
        """Whether requests are taken."""
        return self.serving

    @property
    def parts(self) -> frozenset[str]:
        """The models that its steps call."""
        return self.runner.models

    def receive_buffer(self, size: int) -> Array | None:
        """None: its inputs go to other models."""
        return None

    async def infer(self, request: InferRequest) -> tuple[InferResponse, int]:
        """The outputs of the pipeline; as many rows in a batch as one. Labels that it has not are
        its models'.
        """
        if self.state == "UNAVAILABLE":
            raise UnavailableError(
                "it does not serve now", where=f"model {self.name!r}", hint=self.reason or None
            )
        self.running += 1
        now = time.perf_counter_ns()
        timeline = request.timeline
        timeline.queued = timeline.dispatched = timeline.compute_start = now
        try:
            outputs = await self.runner.run(request)
        finally:
            self.running -= 1
            timeline.compute_end = time.perf_counter_ns()
        self.labels.put(outputs)
        self.statistics.observe_batch(
            1, 1, 0, timeline.compute_end - timeline.compute_start, 0, "alone"
        )
        return InferResponse(self.name, str(self.number), request.id, outputs), 1

    async def unload(self, why: str = "it was unloaded") -> None:
        """Finish what runs, then end it."""
        self.state = "UNLOADING"
        while self.running:
            await asyncio.sleep(WAIT_SECONDS)
        self.runner.close()
        self.state, self.reason = "UNAVAILABLE", why

    def abort(self, why: str) -> None:
        """Take nothing more; what runs ends as its parts do."""
        self.state, self.reason = "UNAVAILABLE", why

    def described(self, inputs: bool) -> list[TensorMetadata]:
        """Its inputs or outputs as the protocol describes them."""
        pipeline = self.config.pipeline
        assert pipeline is not None
        tensors = pipeline.inputs if inputs else pipeline.outputs
        return [{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in tensors]

    def pending(self) -> int:
        """Nothing waits here; its steps wait with their models."""
        return 0
