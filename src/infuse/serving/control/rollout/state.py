"""The state file: what operators and rollouts have set, over a restart."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.control.rollout.claim import Claim
from infuse.serving.messages import JSON, JsonObject

_FORMAT: Final = 1
_LOG: Final = logging.getLogger("infuse.serving.rollout")


class StateFile:
    """The snapshots of a repository's models in one JSON file, which is always whole: it is
    replaced as a whole.

    `repository` is what tells the repository apart from all others; a file of another one is
    refused. A server that writes it holds its `claim`, so that no other does.
    """

    def __init__(self, path: Path, repository: str = "") -> None:
        self.path = path
        self.repository = repository
        self.claim = Claim(path.with_name(f"{path.name}.lock"), "state of the repository")

    @classmethod
    def of(cls, repository: str, folder: Path) -> StateFile:
        """That of a repository in the folder where all are."""
        name = sha256(repository.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return cls(folder / f"{name}.json", repository)

    def load(self) -> dict[str, dict[str, JSON]]:
        """Snapshots by model; none if there is no file.

        A file that is broken, or of a later release, is set aside under another name with a
        warning. One that may not be read is a ConfigurationError, since it could not be replaced
        either, and so is that of another repository.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(
                f"the state cannot be read: {error.strerror}", where=str(self.path)
            ) from error
        try:
            owner, models = _parsed(content)
        except (ValueError, RecursionError) as error:
            self._set_aside(str(error))
            return {}
        if owner and self.repository and owner != self.repository:
            raise ConfigurationError(
                f"the state is that of the repository {owner}",
                where=str(self.path),
                hint=(
                    "name another file with `state`, or remove this one if the repository has moved"
                ),
            )
        return models

    def save(self, models: Mapping[str, JsonObject]) -> None:
        """Replace the file; it is on the disk when this returns. ConfigurationError leaves the old
        one.
        """
        content = json.dumps(
            {"format": _FORMAT, "repository": self.repository, "models": models},
            indent=1,
            allow_nan=False,
        ).encode()
        temporary: str | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(self.path)
            temporary = None
            _sync_folder(self.path.parent)
        except OSError as error:
            raise ConfigurationError(
                f"the state cannot be written: {error.strerror}",
                where=str(self.path),
                hint="`state` names its file",
            ) from error
        finally:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)

    def _set_aside(self, reason: str) -> None:
        number, aside = 0, self.path.with_name(f"{self.path.name}.broken")
        while aside.exists():
            number += 1
            aside = self.path.with_name(f"{self.path.name}.broken-{number}")
        try:
            self.path.replace(aside)
        except OSError as error:
            raise ConfigurationError(
                f"the state is broken ({reason}) and cannot be set aside: {error.strerror}",
                where=str(self.path),
            ) from error
        _LOG.warning("state file %s is set aside as %s: %s", self.path, aside.name, reason)


def _parsed(content: bytes) -> tuple[str, dict[str, dict[str, JSON]]]:
    """The repository that a file is for, and its snapshots."""
    plain = json.loads(content)
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        raise ValueError(f"it is not of format {_FORMAT}")
    models = plain.get("models")
    if not isinstance(models, dict) or not all(
        isinstance(value, dict) for value in models.values()
    ):
        raise ValueError("it has no models")
    return str(plain.get("repository", "")), models


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
