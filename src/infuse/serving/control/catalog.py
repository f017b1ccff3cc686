"""The models of a server: found in the repository, and loaded as they should be."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from infuse.errors import NotFoundError, RepositoryError
from infuse.serving.config import ServerConfig
from infuse.serving.control import descriptions
from infuse.serving.control.bounds import check_bounds
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.models import ServedModel
from infuse.serving.control.repository import LocalVersion, ModelFiles, Repository
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.version import Version
from infuse.serving.messages import JsonObject, ModelMetadata
from infuse.serving.tuning import END_SECONDS, RETRY_SECONDS

_MOST_REMEMBERED: Final = (
    10_000  # models that the repository does not show, and whose traffic is remembered
)

Loader = Callable[
    [ServedModel, int, Sequence[LocalVersion], Mapping[str, ServedModel]], Awaitable[Version]
]


class Catalog:
    """All models by name. `load` makes a version of its files (and of all models, which it may
    call), for a machine with so many `cores`.

    `problem`: why the repository cannot be read now, or "".
    """

    def __init__(
        self,
        config: ServerConfig,
        cores: int,
        journal: Journal,
        load: Loader,
    ) -> None:
        self.config = config
        self.repository = Repository(config)
        self.models: dict[str, ServedModel] = {}
        self.problem = ""
        self._cores = cores
        self._journal = journal
        self._load = load
        self._restored: dict[str, JsonObject] = {}
        self._parts: frozenset[tuple[str, int]] = frozenset()  # loaded when pipelines were tried
        self._loads = asyncio.Semaphore(config.parallel_loads)

    async def start(self, restored: Mapping[str, JsonObject]) -> None:
        """Find all models, and load what is to be loaded; models that fail do not keep the others.

        `restored` is what was remembered of their traffic.
        """
        self._restored = dict(restored)
        files = await self._first_scan()
        for files_ in files.values():
            self.take(files_)
        chosen = set(self.config.models)
        if unknown := sorted(chosen - files.keys()):
            raise NotFoundError(
                f"the repository has no model {unknown[0]!r}", where=self.config.repository
            )
        for model in self.models.values():
            model.requested = self.config.control != "explicit" or model.name in chosen
        for name in chosen:
            self._want_parts(name)
        await self.reconcile()

    async def close(self, seconds: float) -> None:
        """Unload everything; after so many seconds, what is accepted and not answered is given
        up.
        """
        for model in self.models.values():
            model.requested = False
        ends = [model.reconcile(self.repository.stable) for model in self.models.values()]
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*ends), seconds)
        for model in self.models.values():
            for version in (*model.versions.values(), *model.leaving.values()):
                version.abort("the server has ended")

    def snapshots(self) -> dict[str, JsonObject]:
        """What must be remembered of the traffic of all models, also of those that the repository
        does not show now.
        """
        mine = {
            name: model.traffic.snapshot()
            for name, model in self.models.items()
            if name not in self._restored
        }
        return {**self._restored, **mine}

    def model(self, name: str) -> ServedModel:
        """The model of a name; NotFoundError."""
        model = self.models.get(name)
        if model is None:
            raise NotFoundError(
                f"there is no model {name[:100]!r}", hint="the repository index lists what there is"
            )
        return model

    def versions(self) -> Iterator[Version]:
        """All versions that are loaded."""
        for _, model in sorted(self.models.items()):
            for _, version in sorted(model.versions.items()):
                yield version

    def metadata(self, name: str, version: str = "") -> ModelMetadata:
        """A model's versions, platform, inputs and outputs."""
        model = self.model(name)
        return descriptions.metadata(model, model.version(version))

    async def look(self) -> None:
        """Take what has changed in the repository. Call `reconcile` then."""
        try:
            scanned = await self.repository.scan()
        except RepositoryError as error:
            if self.problem != str(error):
                self.problem = str(error)
                self._journal.emit("repository_unreachable", reason=str(error))
            return
        if self.problem:
            self._retry_soon()
        self.problem = ""
        for files in scanned.values():
            self.take(files)
        for name, model in list(self.models.items()):
            if name in scanned or model.override is not None:
                continue
            model.requested = False
            model.files = replace(model.files, versions={})
            if not model.versions and not model.lock.locked():
                self._remember(model)
                del self.models[name]

    async def reconcile(self, busy: bool = True) -> None:
        """Bring all models to where they should be: pipelines last, for they need others.

        Without `busy`, models that are at work on a change already are left out.
        """
        models = [model for model in self.models.values() if busy or not model.lock.locked()]
        plain = [
            model.reconcile(self.repository.stable)
            for model in models
            if model.config.pipeline is None
        ]
        await asyncio.gather(*plain)
        for _ in range(len(models)):
            open_before = [
                m
                for m in models
                if m.config.pipeline is not None and m.requested and not m.versions
            ]
            for model in models:
                if model.config.pipeline is not None:
                    if self._parts != (loaded := self._loaded_versions()):
                        self._parts = loaded
                        self._retry_soon(pipelines=True)
                    await model.reconcile(self.repository.stable)
            if len([m for m in open_before if not m.versions]) in (0, len(open_before)):
                return

    def take(self, files: ModelFiles, by_hand: bool = False) -> ServedModel:
        """Make a model known, or tell it what changed. What was loaded by hand is not changed by
        the repository.
        """
        model = self.models.get(files.name)
        if model is None:
            model = self.models[files.name] = ServedModel(
                files, self._load_version, self._ended, self._journal
            )
            model.requested = self.config.control == "poll"
        elif by_hand or model.override is None:
            model.update(files)
        if not model.problem and (remembered := self._restored.pop(files.name, None)) is not None:
            model.traffic.restore(remembered)
        if by_hand:
            model.override = files
        return model

    def _remember(self, model: ServedModel) -> None:
        """Keep what was set of a model that the repository no longer shows: it may come back."""
        if model.name not in self._restored:
            self._restored[model.name] = model.traffic.snapshot()
        while len(self._restored) > _MOST_REMEMBERED:
            del self._restored[next(iter(self._restored))]

    def _want_parts(self, name: str) -> None:
        """The models that a pipeline calls are wanted as it is."""
        for part in called_by(self.models[name].config) if name in self.models else ():
            if part in self.models and not self.models[part].requested:
                self.models[part].requested = True
                self._want_parts(part)

    async def _first_scan(self) -> Mapping[str, ModelFiles]:
        """What the repository holds; what was just written gets a moment to be whole."""
        limit = time.monotonic() + END_SECONDS
        while True:
            files = await self.repository.scan()
            open_ones = [
                m for m in files.values() for n in m.versions if not self.repository.stable(m, n)
            ]
            if not open_ones or time.monotonic() > limit:
                return files
            await asyncio.sleep(RETRY_SECONDS)

    async def _load_version(self, model: ServedModel, number: int) -> Version:
        check_bounds(model.config, self._cores, self.config.workers.max_replicas)
        async with self._loads:
            retained = [await self.repository.fetch(model.files, number)]
            try:
                if model.config.pipeline is not None or model.config.warmup.inputs:
                    retained.append(await self.repository.fetch_files(model.files))
                version = await self._load(model, number, retained, self.models)
            except BaseException:
                self._release(retained)
                raise
            version.retained_files = tuple(retained)
            return version

    def _ended(self, version: Version) -> None:
        """A version has ended: the cache may drop its files, and there is room for another."""
        self._release(version.retained_files)
        self._retry_soon()

    def _retry_soon(self, pipelines: bool = False) -> None:
        """What models, or pipelines alone, failed for may have passed."""
        for model in self.models.values():
            if model.config.pipeline is not None or not pipelines:
                model.failures.retry_soon()

    def _loaded_versions(self) -> frozenset[tuple[str, int]]:
        return frozenset((version.name, version.number) for version in self.versions())

    def _release(self, retained: Iterable[LocalVersion]) -> None:
        for local in retained:
            self.repository.release(local)


def called_by(config: ModelConfig) -> set[str]:
    """The models that a pipeline calls."""
    return (
        {step.model for step in config.pipeline.steps if step.model} if config.pipeline else set()
    )
