"""What keeps the models of a server as they should be while it runs: looks at the repository, and
rollouts that go on.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from infuse.serving.config import ServerConfig
from infuse.serving.control.catalog import Catalog
from infuse.serving.control.saved_traffic import SavedTraffic
from infuse.serving.control.tasks import Tasks
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.tuning import LOOK_SECONDS

_log = logging.getLogger("infuse.serving")


class Upkeep:
    """Changes models because time passes, in `tasks`; what must not be forgotten is `saved`."""

    def __init__(
        self,
        config: ServerConfig,
        catalog: Catalog,
        saved: SavedTraffic,
        journal: Journal,
        tasks: Tasks,
    ) -> None:
        self._config, self._catalog, self._saved = config, catalog, saved
        self._journal, self._tasks = journal, tasks

    def start(self) -> None:
        """Begin; it ends with its tasks."""
        self._tasks.spawn(self._tick())
        if self._config.control == "poll":
            self._tasks.spawn(self._poll())

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._config.poll_seconds)
            try:
                await self._catalog.look()
            except Exception:  # whatever it is, the next look may go well
                _log.exception("a look at the repository failed")
            else:
                self._tasks.spawn(self._reconcile(busy=False))

    async def _reconcile(self, busy: bool = True) -> None:
        await self._catalog.reconcile(busy)
        self._saved.save()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            events = [
                event for model in self._catalog.models.values() for event in model.traffic.tick()
            ]
            for event in events:
                fields = {
                    k: v for k, v in msgspec.to_builtins(event).items() if k not in ("kind", "at")
                }
                self._journal.emit(event.kind, **fields)
            if events:
                self._saved.save()
                self._tasks.spawn(self._reconcile())  # rollouts are judged while versions load
