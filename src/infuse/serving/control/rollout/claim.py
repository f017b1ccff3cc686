"""Which process owns a state: one at a time, until it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.messages import JSON

_MOST: Final = 4096  # bytes that are read of what another process has written about itself


class Claim:
    """A lock on `path`, which says in the file who holds it; the system gives it free when the
    process ends.

    `hold` raises ConfigurationError when another server, of this process or another, holds it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self._handle = -1

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._handle >= 0

    def hold(self) -> None:
        """Take the lock; nothing to do if it is held already."""
        if self.held:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(_myself()).encode(), 0)
        except BlockingIOError:
            owner = _owner(os.pread(handle, _MOST, 0))
            os.close(handle)
            raise ConfigurationError(
                f"another server holds the {self.what}: {owner}",
                where=str(self.path),
                hint="end that server first, or give this one a file of its own with `state`",
            ) from None
        except OSError as error:
            os.close(handle)
            raise self._unusable(error) from error
        self._handle = handle

    def release(self) -> None:
        """Give the lock up. The file stays: removing it could take it from under somebody who waits
        for it.
        """
        if self.held:
            os.close(self._handle)
            self._handle = -1

    def _unusable(self, error: OSError) -> ConfigurationError:
        what = f"the {self.what} cannot be locked: {error.strerror}"
        return ConfigurationError(what, where=str(self.path), hint="`state` names its file")


def _myself() -> dict[str, JSON]:
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _owner(content: bytes) -> str:
    try:
        plain = json.loads(content)
        return f"process {int(plain['process'])} on {plain['host']!r}, since {plain['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it is just starting"
