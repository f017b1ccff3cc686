"""What metrics and explanations read of an engine: no more than this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from infuse.serving.control.telemetry.statistics import VersionStatistics


class Reading(NamedTuple):
    """A value of a metric that `families.py` names, with the values of its labels in the order
    given there.
    """

    name: str
    value: float
    labels: tuple[str, ...] = ()


class VersionView(Protocol):
    """A served version.

    `replicas`: how many there are by state (`idle`, `busy`, `starting`, `lost`). `threads`: cores
    that one of them uses. `rows_waiting` have not been taken into a batch. `restarts` of its
    workers. `loaded_at` in seconds since 1970, 0: not yet. `build_seconds` is the part of
    `load_seconds` that compiling took. `tier`: what runs it, "prebuilt" kernels or "compiled" code;
    "": neither.
    """

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def statistics(self) -> VersionStatistics: ...
    @property
    def replicas(self) -> Mapping[str, int]: ...
    @property
    def threads(self) -> int: ...
    @property
    def rows_waiting(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def weights_bytes(self) -> int: ...
    @property
    def loaded_at(self) -> float: ...
    @property
    def load_seconds(self) -> float: ...
    @property
    def build_seconds(self) -> float: ...
    @property
    def tier(self) -> str: ...

    def pending(self) -> int:
        """Requests that were accepted and wait for a batch."""
        ...


class EngineView(Protocol):
    """An engine. `cores` are those that models may use."""

    @property
    def cores(self) -> int: ...

    def live(self) -> bool: ...
    def ready(self) -> bool: ...
    def versions(self) -> Iterable[VersionView]: ...
