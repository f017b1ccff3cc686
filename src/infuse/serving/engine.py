"""The model server without any transport: a repository, its models and their workers behind one
object.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from infuse.errors import InfuseError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving import descriptions, placements
from infuse.serving.callers import ANYBODY, Caller
from infuse.serving.catalog import Catalog
from infuse.serving.config import ServerConfig
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Timeline
from infuse.serving.model_config import Canary
from infuse.serving.models import ServedModel
from infuse.serving.repository import identity_of
from infuse.serving.rollout import StateFile, Traffic
from infuse.serving.telemetry.bottleneck import explain
from infuse.serving.telemetry.journal import Journal
from infuse.serving.telemetry.views import Reading
from infuse.serving.version import Version
from infuse.serving.workers.polling import InterArrivalMean
from infuse.serving.workers.pool import WorkerPool

_TICK: Final = 0.1  # seconds between looks at rollouts
_MOST_SHADOWS: Final = 64  # copies of requests that run at once; more are left out

Observer = Callable[[Outcome], None]

_log = logging.getLogger("infuse.serving")


class Engine:
    """Serves a model repository inside this process. All coroutines belong to the loop that `start`
    ran on.

    ```python
    async with Engine(ServerConfig(repository="models")) as engine:
        response = await engine.infer(InferRequest("resnet50", inputs=[Tensor("x", "FP32", array)]))
    ```
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.cache = config.cache_folder
        self.journal = Journal()
        self.objectives: Callable[[], Sequence[Mapping[str, Any]]] = (
            tuple  # how they fare, as a monitor says
        )
        self.pool = WorkerPool(config.workers, self.journal)
        self.catalog = Catalog(config, self.cache, self.pool, self.journal, self.infer)
        self.repository = self.catalog.repository
        self.models = self.catalog.models
        self.observers: list[Observer] = []
        self.started_at = 0.0
        self._state = _state_of(config)
        self._saved: dict[str, Mapping[str, Any]] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._shadows = 0
        self._inflight = 0
        self._gaps = InterArrivalMean(config.workers.awake_ms / 1000)
        self._last = 0.0
        self._phase = "new"

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Look at the repository and load what is to be loaded; models that fail do not keep the
        others.
        """
        self.started_at = time.time()
        self._phase = "starting"
        self._state.claim.hold()
        self.pool.stay_awake(asyncio.get_running_loop())
        await self.catalog.start(self._state.load())
        self._save()
        self._phase = "serving"
        self._spawn(self._tick())
        self._spawn(self.pool.watch())
        if self.config.control == "poll":
            self._spawn(self._poll())

    async def stop(self, grace: float | None = None) -> None:
        """Take no new requests, finish those that were accepted within `grace` seconds, and end all
        workers.
        """
        if self._phase == "stopped":
            return
        self.drain()
        limit = time.monotonic() + (self.config.exit_seconds if grace is None else grace)
        while self._inflight and time.monotonic() < limit:
            await asyncio.sleep(0.005)
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._save()
        self._state.claim.release()
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

    def server_metadata(self) -> dict[str, Any]:
        """Name, version and extensions of the server."""
        return descriptions.server()

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """A model's versions, platform, inputs and outputs."""
        return self.catalog.metadata(name, version)

    def model_config(self, name: str, version: str = "") -> dict[str, Any]:
        """A model's configuration as Triton's ModelConfig in JSON."""
        return descriptions.configuration(self.catalog.model(name).version(version))

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Counts and durations of versions as Triton's model_stats."""
        if not name:
            versions = list(self.versions())
        elif version:
            versions = [self.catalog.model(name).version(version)]
        else:
            model = self.catalog.model(name)
            model.version()
            versions = list(model.versions.values())
        return {"model_stats": [entry.statistics.as_triton() for entry in versions]}

    def versions(self) -> Iterator[Version]:
        """All versions that are loaded."""
        for _, model in sorted(self.models.items()):
            for _, version in sorted(model.versions.items()):
                yield version

    @property
    def events(self) -> list[dict[str, Any]]:
        """What happened lately, the newest last."""
        return [event.as_entry() for event in self.journal.recent()]

    @property
    def inflight(self) -> int:
        """Requests that were accepted and are not answered."""
        return self._inflight

    def readings(self) -> Iterator[Reading]:
        """Metrics of the repository's cache."""
        contents = self.repository.cache.contents
        yield Reading("infuse_repository_hits", contents.hits)
        yield Reading("infuse_repository_misses", contents.misses)
        yield Reading("infuse_repository_bytes", contents.fetched_bytes)
        yield Reading("infuse_repository_cache_bytes", contents.stored_bytes)

    def bottleneck(self) -> list[dict[str, Any]]:
        """Which stage takes the time of each version's requests, and what would help."""
        return explain(self)

    def placement(self) -> dict[str, Any]:
        """Cores, memory, workers, what runs in them and what would be moved."""
        return placements.describe(self.pool, self.versions())

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
            at = served.version(version) if served is not None else None
            receive_buffer = getattr(at, "receive_buffer", None)
        except InfuseError:
            return None
        return receive_buffer(size) if receive_buffer is not None else None

    async def infer(self, request: InferRequest) -> InferResponse:
        """Answer a request; its timeline and all observers tell how it went. Raises InfuseError
        leaves.
        """
        if self._phase != "serving" and request.protocol != "pipeline":
            what = (
                "the server is shutting down"
                if self._phase in ("draining", "stopped")
                else "the server is starting"
            )
            raise UnavailableError(what, hint="ask another server, or try again")
        model = self.catalog.model(request.model)
        if model.config.sticky.id and request.id:
            request.sticky = request.id
        version = model.choose(request)
        longest = self.config.limits.request_seconds
        if request.deadline is not None and longest:
            request.deadline = min(request.deadline, time.monotonic() + longest)
        poller = self.pool.poller
        self._inflight += 1
        if poller is not None:
            poller.requests = self._inflight
            self._gaps.add(time.perf_counter() - self._last)
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
            if poller is not None:
                poller.requests = self._inflight
                self._last = time.perf_counter()
                if self._gaps.short:
                    poller.keep(2 * self._gaps.mean)
            request.timeline.finished = time.perf_counter_ns()
            outcome = Outcome(
                request, version.number, response, error, _rows(request, version), batch
            )
            self._observe(model, version, outcome)
        for number in model.traffic.shadows(request, version.number):
            self._shadow(model, number, request, response)
        return response

    def traffic(self, name: str) -> Traffic:
        """Labels, split, shadows and rollout of a model; NotFoundError when there is none of this
        name.
        """
        return self.catalog.model(name).traffic

    async def start_rollout(self, name: str, version: int, canary: Canary | None = None) -> None:
        """Move a model's traffic to a version in steps; it is loaded first, if the policy let it
        go.
        """
        await self.catalog.start_rollout(name, version, canary)
        self._save()

    async def rollback(self, name: str, reason: str) -> None:
        """Take a model's traffic back; the version before is loaded first, and stays, if the policy
        let it go.
        """
        await self.catalog.rollback(name, reason)
        self._save()

    # -- the repository ----------------------------------------------------------------------------

    async def index(self, ready: bool = False) -> list[dict[str, Any]]:
        """Name, version, state and reason of all models' versions; with `ready`, of those that
        serve.
        """
        return self.catalog.index(ready)

    async def load(
        self,
        name: str,
        config: str = "",
        files: Mapping[str, bytes] | None = None,
        caller: Caller = ANYBODY,
    ) -> None:
        """Load a model, or load it again after a change (`Catalog.load`). Raises what went
        wrong.
        """
        await self.catalog.load(name, config, files, caller)
        self._save()

    async def unload(self, name: str, dependents: bool = False, caller: Caller = ANYBODY) -> None:
        """Unload a model once its requests are answered; with `dependents`, the models that only it
        calls, too.
        """
        await self.catalog.unload(name, dependents, caller)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self.config.poll_seconds)
            try:
                await self.catalog.look()
            except Exception:  # whatever it is, the next look may go well
                _log.exception("a look at the repository failed")
            else:
                self._spawn(self._reconcile(busy=False))

    async def _reconcile(self, busy: bool = True) -> None:
        await self.catalog.reconcile(busy)
        self._save()

    # -- what goes on beside -----------------------------------------------------------------------

    def _observe(self, model: ServedModel, version: Version, outcome: Outcome) -> None:
        version.statistics.observe(outcome)
        model.traffic.observe(outcome)
        for observe in self.observers:
            try:
                observe(outcome)
            except Exception:  # an observer must never cost a caller the answer
                _log.exception("an observer of requests failed")

    def _shadow(
        self, model: ServedModel, number: int, request: InferRequest, answer: InferResponse
    ) -> None:
        """Send a copy of a request to another version, and compare what it says."""
        version = model.versions.get(number)
        if version is None or self._shadows >= _MOST_SHADOWS:
            return
        twin = copy.copy(request)
        twin.timeline = Timeline()
        twin.deadline = None
        twin.priority = 1 << 30
        self._shadows += 1
        self._spawn(self._run_shadow(model, version, twin, answer))

    async def _run_shadow(
        self, model: ServedModel, version: Version, request: InferRequest, answer: InferResponse
    ) -> None:
        response: InferResponse | None = None
        error: Exception | None = None
        batch = 1
        try:
            response, batch = await version.infer(request)
        except InfuseError as caught:
            error = caught
        finally:
            self._shadows -= 1
        request.timeline.finished = time.perf_counter_ns()
        rows = _rows(request, version)
        self._observe(
            model,
            version,
            Outcome(request, version.number, response, error, rows, batch, shadow=True),
        )
        outcome = response if response is not None else error
        assert outcome is not None
        model.traffic.compare(version.number, answer, outcome)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            events = [event for model in self.models.values() for event in model.traffic.tick()]
            for event in events:
                fields = {
                    k: v for k, v in msgspec.to_builtins(event).items() if k not in ("kind", "at")
                }
                self.journal.emit(event.kind, **fields)
            if events:
                self._save()
                self._spawn(self._reconcile())  # rollouts are judged while versions load

    def _save(self) -> None:
        """Write down what the traffic of all models must not forget, if anything of it has
        changed.
        """
        state = self.catalog.snapshots()
        if state == self._saved or not self._state.claim.held:
            return
        try:
            self._state.save(state)
            self._saved = state
        except InfuseError as error:
            _log.error("the state cannot be saved: %s", error)

    def _spawn(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the engine failed", exc_info=task.exception())


def _state_of(config: ServerConfig) -> StateFile:
    """Where the state is: each repository has a file of its own, if none is named."""
    repository = identity_of(config.repository, config.store_options)
    if config.state is not None:
        return StateFile(config.state.expanduser().absolute(), repository)
    return StateFile.of(repository, config.cache_folder / "state")


def _rows(request: InferRequest, version: Version) -> int:
    shape = request.inputs[0].shape if request.inputs else ()
    return shape[0] if version.batched and shape else 1
