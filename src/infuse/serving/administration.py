"""What changes a server or looks at it as a whole: loading, unloading, rollouts, statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infuse.serving.callers import ANYBODY, Caller
from infuse.serving.catalog import Catalog
from infuse.serving.model_config import Canary
from infuse.serving.rollout import Traffic
from infuse.serving.saved_traffic import SavedTraffic
from infuse.serving.telemetry.views import Reading


class Administration:
    """Administers a catalog; what must not be forgotten of that is `saved` at once."""

    def __init__(self, catalog: Catalog, saved: SavedTraffic) -> None:
        self._catalog = catalog
        self._saved = saved

    async def index(self, ready: bool = False) -> list[dict[str, Any]]:
        """Name, version, state and reason of all models' versions; with `ready`, of those that
        serve.
        """
        return self._catalog.index(ready)

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
        await self._catalog.load(name, config, files, caller)
        self._saved.save()

    async def unload(self, name: str, dependents: bool = False, caller: Caller = ANYBODY) -> None:
        """Unload a model once its requests are answered; with `dependents`, the models that only it
        calls, too.
        """
        await self._catalog.unload(name, dependents, caller)

    def traffic(self, name: str) -> Traffic:
        """Labels, split, shadows and rollout of a model; NotFoundError when there is none of this
        name.
        """
        return self._catalog.model(name).traffic

    async def start_rollout(self, name: str, version: int, canary: Canary | None = None) -> None:
        """Move a model's traffic to a version in steps; it is loaded first, if the policy let it
        go.
        """
        await self._catalog.start_rollout(name, version, canary)
        self._saved.save()

    async def rollback(self, name: str, reason: str) -> None:
        """Take a model's traffic back; the version before is loaded first, and stays, if the policy
        let it go.
        """
        await self._catalog.rollback(name, reason)
        self._saved.save()

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
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
