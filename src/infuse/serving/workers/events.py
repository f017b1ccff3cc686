"""What workers tell of themselves."""

from __future__ import annotations

from typing import Protocol


class EventLog(Protocol):
    """Takes note of what happened to a worker or a replica (`control.telemetry`'s journal)."""

    def emit(self, kind: str, **fields: str | int | float | bool | None) -> object: ...
