"""What is remembered of a model's traffic over a restart, as typed data."""

from __future__ import annotations

from typing import Literal

import msgspec

from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.messages import JsonObject

State = Literal["running", "paused", "promoted", "rolled_back"]


class Record(msgspec.Struct, kw_only=True):
    """A rollout: from which versions to which one, how, and how far it is.

    `held`: seconds that its step has been held; `since`: when it got into its state (seconds of the
    epoch); `split`: the weights that were in force when it began.
    """

    version: int
    origin: tuple[int, ...]
    canary: Canary
    split: dict[str, float] = {}
    state: State = "running"
    step: int = 0
    held: float = 0.0
    started: float = 0.0
    since: float = 0.0
    reason: str = ""
    compared: int = 0
    drifted: int = 0

    @property
    def active(self) -> bool:
        return self.state in {"running", "paused"}


class Refusal(msgspec.Struct):
    """Why a version was rolled back, and the fingerprint of the files that it had."""

    reason: str
    fingerprint: str = ""


class Routes(msgspec.Struct, kw_only=True):
    """Labels, split and shadows: as somebody wrote them into the configuration, or as they are in
    force.
    """

    labels: dict[str, int] = {}
    split: dict[str, float] = {}
    shadow: dict[str, float] = {}

    @classmethod
    def of(cls, config: ModelConfig) -> Routes:
        """Those of a configuration."""
        return cls(labels=dict(config.labels), split=dict(config.split), shadow=dict(config.shadow))


class Snapshot(msgspec.Struct, kw_only=True):
    """All of it.

    `settled`: the version that serves although a later one may be loaded; `waiting`: the one whose
    rollout begins when the running one ends; `seen`: fingerprints of the versions that have
    arrived.
    """

    configured: Routes
    current: Routes
    settled: int | None = None
    waiting: int | None = None
    refused: dict[int, Refusal] = {}
    seen: dict[int, str] = {}
    rollout: Record | None = None

    @classmethod
    def of_json(cls, plain: JsonObject) -> Snapshot:
        """The snapshot that JSON is, its rollout at a step that there is; msgspec.ValidationError
        where it is none.
        """
        state = msgspec.convert(plain, cls, strict=False)
        if (record := state.rollout) is not None:
            record.step = min(max(record.step, 0), len(record.canary.steps) - 1)
        return state

    def as_json(self) -> JsonObject:
        """What `of_json` reads."""
        plain: JsonObject = msgspec.to_builtins(self, str_keys=True)
        return plain
