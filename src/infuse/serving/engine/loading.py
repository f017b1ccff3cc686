"""How the engine makes versions for its catalog: compiled models in replicas, and pipelines."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from infuse.errors import InfuseError
from infuse.serving.control import descriptions
from infuse.serving.control.catalog import called_by
from infuse.serving.control.models import ServedModel
from infuse.serving.control.repository import LocalVersion
from infuse.serving.control.version import Version
from infuse.serving.engine.ensembles import PipelineVersion
from infuse.serving.engine.pipelines import check_nesting
from infuse.serving.engine.versions import ServedVersion
from infuse.serving.messages import InferRequest, InferResponse
from infuse.serving.workers.pool import WorkerPool

_log = logging.getLogger("infuse.serving")


class VersionLoader:
    """Makes versions that run in `pool`; `call` answers the requests of pipelines' steps, and
    `cache` is the server's folder on disk. Inputs have at most `request_bytes`.
    """

    def __init__(
        self,
        pool: WorkerPool,
        cache: Path,
        call: Callable[[InferRequest], Awaitable[InferResponse]],
        request_bytes: int,
    ) -> None:
        self._pool = pool
        self._cache = cache
        self._call = call
        self._request_bytes = request_bytes
        self._turn = asyncio.Lock()

    async def load(
        self,
        model: ServedModel,
        number: int,
        files: Sequence[LocalVersion],
        models: Mapping[str, ServedModel],
    ) -> Version:
        """A version that serves; raises what went wrong.

        `files`: the version's, then those beside the model's versions if it needs them; `models`:
        all that a pipeline may call.
        """
        if model.config.pipeline is not None:
            return self._pipeline(model, number, files, models)
        return await self._served(model, number, files)

    def _pipeline(
        self,
        model: ServedModel,
        number: int,
        files: Sequence[LocalVersion],
        models: Mapping[str, ServedModel],
    ) -> PipelineVersion:
        pipelines = {name: part.config.pipeline for name, part in models.items()}
        check_nesting({name: part for name, part in pipelines.items() if part}, model.name)
        metadata = {
            name: descriptions.metadata(models[name], models[name].version())
            for name in sorted(called_by(model.config) & models.keys())
        }
        folders = [local.folder for local in files]
        return PipelineVersion(
            model.name, number, model.config, self._call, metadata, folders, model.files.labels
        )

    async def _served(
        self, model: ServedModel, number: int, files: Sequence[LocalVersion]
    ) -> ServedVersion:
        version = ServedVersion(
            model.name,
            number,
            model.files.config,
            files[0],
            self._pool,
            labels=model.files.labels,
            assets=files[1].folder if len(files) > 1 else None,
            on_failure=lambda reason: model.traffic.rollouts.failed(number, reason),
            request_bytes=self._request_bytes,
            turn=self._turn,
        )
        notes = model.files.notes
        try:
            await version.load(self._cache, waits=_serves(model))
        except InfuseError as error:
            for local in files:
                error.rename(f"{local.folder}{os.sep}", "")
                error.rename(str(local.folder), "its files")
            error.within(version.where)
            raise
        version.notes += notes
        for note in version.notes:
            _log.warning("%s: %s", version.where, note)
        return version


def _serves(model: ServedModel) -> bool:
    """Whether a version serves, whose traffic another one may take."""
    return any(version.serving for version in model.versions.values())
