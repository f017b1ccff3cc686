"""The model server without any transport: a repository, its models and their workers behind one
object.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence

from infuse.errors import InfuseError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving.config import ServerConfig
from infuse.serving.control import descriptions, placements
from infuse.serving.control.administration import Administration
from infuse.serving.control.catalog import Catalog
from infuse.serving.control.models import ServedModel
from infuse.serving.control.placements import PlacementDescription
from infuse.serving.control.saved_traffic import SavedTraffic
from infuse.serving.control.tasks import Tasks
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.upkeep import Upkeep
from infuse.serving.control.version import Version
from infuse.serving.engine.loading import VersionLoader
from infuse.serving.engine.shadows import Shadows
from infuse.serving.messages import (
    InferRequest,
    InferResponse,
    JsonObject,
    ModelMetadata,
    Outcome,
    ServerMetadata,
    rows_of,
)
from infuse.serving.tuning import WAIT_SECONDS
from infuse.serving.workers.pool import WorkerPool

Observer = Callable[[Outcome], None]

_log = logging.getLogger("infuse.serving")


class Engine:
    """Serves a model repository inside this process: `infer` answers, `admin` changes what serves.
    All coroutines belong to the loop that `start` ran on.

    ```python
    async with Engine(ServerConfig(repository="models")) as engine:
        response = await engine.infer(InferRequest("resnet50", inputs=[Tensor("x", "FP32", array)]))
    ```
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.cache = config.cache_folder
        self.journal = Journal()
        self.objectives: Callable[[], Sequence[JsonObject]] = (
            tuple  # how they fare, as a monitor says
        )
        self.pool = WorkerPool(config.workers, self.journal)
        loader = VersionLoader(self.pool, self.cache, self.infer, config.limits.request_bytes)
        self.catalog = Catalog(config, self.cores, self.journal, loader.load)
        self.repository = self.catalog.repository
        self.models = self.catalog.models
        self.observers: list[Observer] = []
        self.started_at = 0.0
        self._saved = SavedTraffic(config, self.catalog)
        self.admin = Administration(self.catalog, self._saved)
        self._tasks = Tasks()
        self._upkeep = Upkeep(config, self.catalog, self._saved, self.journal, self._tasks)
        self._shadows = Shadows(self._tasks, self._observe)
        self._inflight = 0
        self._phase = "new"

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Look at the repository and load what is to be loaded; models that fail do not keep the
        others.
        """
        self.started_at = time.time()
        self._phase = "starting"
        restored = self._saved.open()
        await self.catalog.start(restored)
        self._saved.save()
        self._phase = "serving"
        self._upkeep.start()
        self._tasks.spawn(self.pool.watch())

    async def stop(self, grace: float | None = None) -> None:
        """Take no new requests, finish those that were accepted within `grace` seconds, and end all
        workers.
        """
        if self._phase == "stopped":
            return
        self.drain()
        limit = time.monotonic() + (self.config.exit_seconds if grace is None else grace)
        while self._inflight and time.monotonic() < limit:
            await asyncio.sleep(WAIT_SECONDS)
        await self._tasks.cancel()
        self._saved.close()
        await self.catalog.close(max(0.1, limit - time.monotonic()))
        await self.pool.close()
        self.repository.close()
        self._phase = "stopped"

    def drain(self) -> None:
        """Refuse new requests from now on; `ready` is false, and what was accepted is finished."""
        if self._phase not in ("draining", "stopped"):
            self.journal.emit("draining", requests=self._inflight)
            self._phase = "draining"

    async def __aenter__(self) -> Engine:
        try:
            await self.start()
        except BaseException:
            await self.stop(0)
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # -- health and descriptions -------------------------------------------------------------------

    def live(self) -> bool:
        """Whether the server works at all; it does while it drains."""
        return self._phase != "stopped"

    def ready(self) -> bool:
        """Whether requests are taken. After the start, what served must still serve, or be about to
        again; with `strict_readiness`, all models that are wanted must serve, and the repository
        must be there.
        """
        if self._phase != "serving":
            return False
        models = [model for model in self.models.values() if model.requested]
        if self.config.strict_readiness:
            return not self.problem and all(model.ready for model in models)
        return all(model.holds_out for model in models if model.served)

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a model (a version or label of it) answers; NotFoundError when there is no such
        model.
        """
        model = self.catalog.model(name)
        if self._phase not in ("serving", "starting"):
            return False
        try:
            return bool(model.version(version).serving)
        except UnavailableError:
            return False

    @property
    def problem(self) -> str:
        """Why the repository cannot be read now; "" when it can."""
        return self.catalog.problem

    @property
    def cores(self) -> int:
        """Cores that models may use."""
        return len(self.pool.cores)

    def server_metadata(self) -> ServerMetadata:
        """Name, version and extensions of the server."""
        return descriptions.server()

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        """A model's versions, platform, inputs and outputs."""
        return self.catalog.metadata(name, version)

    def model_config(self, name: str, version: str = "") -> JsonObject:
        """A model's configuration as Triton's ModelConfig in JSON."""
        return descriptions.configuration(self.catalog.model(name).version(version))

    def versions(self) -> Iterable[Version]:
        """All versions that are loaded."""
        return self.catalog.versions()

    @property
    def events(self) -> list[JsonObject]:
        """What happened lately, the newest last."""
        return [event.as_entry() for event in self.journal.recent()]

    @property
    def inflight(self) -> int:
        """Requests that were accepted and are not answered."""
        return self._inflight

    def placement(self) -> PlacementDescription:
        """Cores, memory, workers, what runs in them and what would be moved."""
        return placements.describe(self.pool, self.catalog.versions())

    # -- requests ----------------------------------------------------------------------------------

    def sticky_header(self, name: str) -> str:
        """The header that sticky splits of this model hash, in small letters; "" if there is
        none.
        """
        model = self.models.get(name)
        return model.config.sticky.header.lower() if model is not None else ""

    def receive_buffer(self, model: str, version: str, size: int) -> Array | None:
        """Memory for so many bytes of a request that arrives: tensors that lie there are not copied
        on their way to the model. None: there is none, or the request would be refused. It is given
        back when nobody refers to it.
        """
        served = self.models.get(model)
        try:
            return served.version(version).receive_buffer(size) if served is not None else None
        except InfuseError:
            return None

    async def infer(self, request: InferRequest) -> InferResponse:
        """Answer a request; its timeline and all observers tell how it went. Raises InfuseError
        leaves.
        """
        if request.protocol != "pipeline":
            self._require_serving(request.model)
        model = self.catalog.model(request.model)
        if model.config.sticky.id and request.id:
            request.sticky = request.id
        version = model.choose(request)
        longest = self.config.limits.request_seconds
        if request.deadline is not None and longest:
            request.deadline = min(request.deadline, time.monotonic() + longest)
        self._inflight += 1
        self.pool.waiting.request_begins()
        response: InferResponse | None = None
        error: BaseException | None = None
        batch = 1
        model.traffic.begin(request, version.number)
        try:
            response, batch = await version.infer(request)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._inflight -= 1
            self.pool.waiting.request_ends()
            request.timeline.finished = time.perf_counter_ns()
            outcome = Outcome(
                request, version.number, response, error, rows_of(request, version.batched), batch
            )
            self._observe(model, version, outcome)
        for number in model.traffic.selection.shadows(request, version.number):
            self._shadows.send(model, number, request, response)
        return response

    def _require_serving(self, name: str) -> None:
        """UnavailableError where requests of a model are not taken. While others are still being
        loaded for the first time, those of loaded models are.
        """
        if self._phase == "serving":
            return
        model = self.models.get(name)
        if self._phase == "starting" and model is not None and model.versions:
            return
        ends = self._phase in ("draining", "stopped")
        what = "the server is shutting down" if ends else "the server is starting"
        raise UnavailableError(what, hint="ask another server, or try again")

    # -- what goes on beside -----------------------------------------------------------------------

    def _observe(self, model: ServedModel, version: Version, outcome: Outcome) -> None:
        version.statistics.observe(outcome)
        model.traffic.observe(outcome)
        for observe in self.observers:
            try:
                observe(outcome)
            except Exception:  # an observer must never cost a caller the answer
                _log.exception("an observer of requests failed")
