"""What a server remembers of its models' traffic, in one file that it alone writes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from infuse.errors import InfuseError
from infuse.serving.config import ServerConfig
from infuse.serving.control.catalog import Catalog
from infuse.serving.control.repository import identity_of
from infuse.serving.control.rollout import StateFile
from infuse.serving.messages import JsonObject

_log = logging.getLogger("infuse.serving")


class SavedTraffic:
    """The traffic of a catalog's models on disk, from `open` to `close`."""

    def __init__(self, config: ServerConfig, catalog: Catalog) -> None:
        self._catalog = catalog
        self._file = _state_of(config)
        self._saved: dict[str, JsonObject] = {}

    def open(self) -> Mapping[str, JsonObject]:
        """Claim the file for this process; what it remembers."""
        self._file.claim.hold()
        return self._file.load()

    def save(self) -> None:
        """Write down what the traffic of all models must not forget, if anything of it has
        changed.
        """
        state = self._catalog.snapshots()
        if state == self._saved or not self._file.claim.held:
            return
        try:
            self._file.save(state)
            self._saved = state
        except InfuseError as error:
            _log.error("the state cannot be saved: %s", error)

    def close(self) -> None:
        """Write what has changed, and let others have the file."""
        self.save()
        self._file.claim.release()


def _state_of(config: ServerConfig) -> StateFile:
    """Where the state is: each repository has a file of its own, if none is named."""
    repository = identity_of(config.repository, config.store_options)
    if config.state is not None:
        return StateFile(config.state.expanduser().absolute(), repository)
    return StateFile.of(repository, config.cache_folder / "state")
