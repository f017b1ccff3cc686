"""What tests of metrics and explanations need: versions and an engine that are only looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from infuse.serving.control.telemetry.statistics import VersionStatistics


@dataclass
class FakeVersion:
    """A version that serves; `waiting` requests of it wait."""

    name: str
    number: int
    statistics: VersionStatistics
    state: str = "READY"
    replicas: Mapping[str, int] = field(default_factory=lambda: {"idle": 1})
    threads: int = 1
    rows_waiting: int = 0
    restarts: int = 0
    weights_bytes: int = 0
    loaded_at: float = 1.0
    load_seconds: float = 1.0
    build_seconds: float = 1.0
    tier: str = "compiled"
    waiting: int = 0

    def pending(self) -> int:
        return self.waiting


@dataclass
class FakeEngine:
    """An engine with these versions, which takes requests or not."""

    served: list[FakeVersion] = field(default_factory=list)
    cores: int = 8
    serving: bool = True

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.serving

    def versions(self) -> list[FakeVersion]:
        return self.served
