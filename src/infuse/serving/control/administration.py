"""What changes a server or looks at it as a whole: loading, unloading, rollouts, statistics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

from infuse.errors import NotFoundError, RepositoryError, UnavailableError
from infuse.serving.control.callers import ANYBODY, Caller
from infuse.serving.control.catalog import Catalog, called_by
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.control.models import ServedModel
from infuse.serving.control.repository import ModelFiles
from infuse.serving.control.rollout import Traffic
from infuse.serving.control.saved_traffic import SavedTraffic
from infuse.serving.control.telemetry.views import Reading
from infuse.serving.messages import JSON


class Administration:
    """Administers a catalog; what must not be forgotten of that is `saved` at once."""

    def __init__(self, catalog: Catalog, saved: SavedTraffic) -> None:
        self._catalog = catalog
        self._saved = saved

    async def index(self, ready: bool = False) -> list[dict[str, str]]:
        """Name, version, state and reason of all models' versions; with `ready`, of those that
        serve.
        """
        entries = []
        for name, model in sorted(self._catalog.models.items()):
            states = list(model.states())
            if not states:
                states = [(0, "UNAVAILABLE" if model.problem else "UNKNOWN", model.problem)]
            for number, state, reason in states:
                if not ready or state == "READY":
                    entries.append(
                        {
                            "name": name,
                            "version": str(number) if number else "",
                            "state": state,
                            "reason": reason,
                        }
                    )
        return entries

    async def load(
        self,
        name: str,
        config: str = "",
        files: Mapping[str, bytes] | None = None,
        caller: Caller = ANYBODY,
    ) -> None:
        """Load a model, or load it again after a change; what was loaded serves until that has
        worked.

        `config` is a ModelConfig as JSON or YAML in place of the repository's, `files` are its
        files by path (`1/model.onnx`); without both, the repository's count again. The models of a
        pipeline are loaded before it, unless they are. Raises what went wrong; AccessError, before
        anything has changed, where the `caller` may not touch a model that would be loaded too, or
        that a pipeline from `config` or `files` calls.
        """
        if files:
            files_ = await self._catalog.repository.fetch_uploaded(name, files, config)
        else:
            try:
                files_ = (await self._catalog.repository.scan({name: config} if config else None))[
                    name
                ]
            except KeyError:
                raise NotFoundError(
                    f"the repository has no model {name!r}", where=self._catalog.config.repository
                ) from None
        if files_.problem:
            raise RepositoryError(files_.problem, where=f"model {name!r}")
        parts = sorted(called_by(files_.config))
        for part in parts if config or files else ():
            caller.require(part, f"the pipeline {name!r}, as this request defines it, calls that")
        for part in self._loaded_with(files_.config):
            caller.require(part, f"it would be loaded with the pipeline {name!r}")
        if not config and not files and name in self._catalog.models:
            self._catalog.models[name].override = None
        model = self._catalog.take(files_, by_hand=bool(config or files))
        model.requested = True
        for part in parts:
            if part in self._catalog.models and not self._catalog.models[part].requested:
                await self.load(part, caller=caller)
        before = dict(model.failures)
        await model.reconcile(lambda *_: True, force=True)
        failed = [
            failure
            for number, failure in model.failures.items()
            if before.get(number) is not failure
        ]
        if failed:
            kind = UnavailableError if failed[0].transient else RepositoryError
            raise kind(f"it cannot be loaded: {failed[0].reason}", where=f"model {name!r}")
        if not model.versions:
            raise RepositoryError("it has no version that can be loaded", where=f"model {name!r}")
        await self._catalog.reconcile()
        self._saved.save()

    async def unload(self, name: str, dependents: bool = False, caller: Caller = ANYBODY) -> None:
        """Unload a model once its requests are answered; with `dependents`, the models that only it
        calls, too.

        AccessError, before anything has changed, where the `caller` may not touch one of these.
        """
        leaving = [self._catalog.model(name)]
        for part in self._only_called_by(name) if dependents else ():
            caller.require(part, f"it would be unloaded with the pipeline {name!r}")
            leaving.append(self._catalog.model(part))
        for model in leaving:
            model.requested = False
            await model.reconcile(self._catalog.repository.stable)

    async def start_rollout(self, name: str, version: int, canary: Canary | None = None) -> None:
        """Move a model's traffic to a version in steps (`Traffic.start_rollout`), which is loaded
        first.
        """
        model = self._catalog.model(name)
        async with _holding(model, model.traffic.needed(version), self._catalog.repository.stable):
            model.traffic.start_rollout(version, canary)
        self._saved.save()

    async def rollback(self, name: str, reason: str) -> None:
        """Take a model's traffic back (`Traffic.rollback`); the version before is loaded again if
        the policy let it go, and stays.
        """
        model = self._catalog.model(name)
        async with _holding(model, model.traffic.needed(), self._catalog.repository.stable):
            model.traffic.rollouts.rollback(reason)
        self._saved.save()

    def _loaded_with(self, config: ModelConfig) -> Sequence[str]:
        """The models that are not loaded and that loading one with this configuration would load,
        in order.
        """
        configs, parts = [config], set[str]()
        for one in configs:
            for part in called_by(one) - parts:
                if part in self._catalog.models and not self._catalog.models[part].requested:
                    parts.add(part)
                    configs.append(self._catalog.models[part].config)
        return sorted(parts)

    def _only_called_by(self, name: str) -> Sequence[str]:
        """The models that the loaded versions of a model call, or these call in turn, and that no
        other model calls.
        """
        called = {
            other: {part for version in model.versions.values() for part in version.parts}
            for other, model in self._catalog.models.items()
        }
        leaving = [name]
        for one in leaving:
            for part in sorted(called.get(one, set()) & self._catalog.models.keys() - set(leaving)):
                if {other for other, parts in called.items() if part in parts} <= set(leaving):
                    leaving.append(part)
        return leaving[1:]

    def traffic(self, name: str) -> Traffic:
        """Labels, split, shadows and rollout of a model; NotFoundError when there is none of this
        name.
        """
        return self._catalog.model(name).traffic

    def statistics(self, name: str = "", version: str = "") -> dict[str, JSON]:
        """Counts and durations of versions as Triton's model_stats."""
        if not name:
            versions = list(self._catalog.versions())
        elif version:
            versions = [self._catalog.model(name).version(version)]
        else:
            model = self._catalog.model(name)
            model.version()
            versions = list(model.versions.values())
        return {"model_stats": [entry.statistics.as_triton() for entry in versions]}

    def readings(self) -> Iterator[Reading]:
        """Metrics of the repository's cache."""
        contents = self._catalog.repository.cache.contents
        yield Reading("infuse_repository_hits", contents.hits)
        yield Reading("infuse_repository_misses", contents.misses)
        yield Reading("infuse_repository_bytes", contents.fetched_bytes)
        yield Reading("infuse_repository_cache_bytes", contents.stored_bytes)


@asynccontextmanager
async def _holding(
    model: ServedModel, numbers: Collection[int], stable: Callable[[ModelFiles, int], bool]
) -> AsyncIterator[None]:
    """Have versions loaded, whatever the policy says, for as long as the context lasts;
    UnavailableError if they cannot be. They do not serve by themselves.
    """
    model.traffic.rollouts.eligibility.hold(numbers)
    try:
        if numbers:
            model.failures.forget(numbers)
            await model.reconcile(stable)
        for number in numbers:
            if number not in model.loaded():
                reason = (
                    model.failures[number].reason if number in model.failures else model.problem
                )
                raise UnavailableError(
                    f"version {number} is needed, and cannot be loaded: "
                    f"{reason or 'its files are not whole'}",
                    where=f"model {model.name!r}",
                    hint="`infuse rollout MODEL VERSION` moves the traffic to another version",
                )
        yield
    finally:
        model.traffic.rollouts.eligibility.let_go(numbers)
