"""A model's traffic with a clock, chance and versions that a test holds in its hand."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.errors import (
    ModelFailureError,
)
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.control.rollout import Event, Traffic
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Tensor

SHADOWED = Canary(steps=(0.1, 1.0), step_seconds=10, min_requests=20, shadow=0.5)

CANARY = Canary(steps=(0.1, 0.5, 1.0), step_seconds=10, min_requests=20)
FAILURE = ModelFailureError("its worker died")


@dataclass
class Stage:
    """Versions, a clock, and the traffic over them."""

    config: ModelConfig = field(default_factory=ModelConfig)
    loaded: set[int] = field(default_factory=lambda: {1})
    known: set[int] = field(default_factory=lambda: {1, 2, 3, 4})
    now: float = 1000.0
    seed: int = 7

    def __post_init__(self) -> None:
        self.traffic = self.again()
        for number in sorted(self.loaded):
            self.traffic.version_arrived(number, f"files {number}", initial=True)

    def again(self) -> Traffic:
        """The traffic of a server that has just been started."""
        draw = random.Random(self.seed).random
        return Traffic(
            "digits",
            self.config,
            lambda: self.loaded,
            lambda: self.known,
            clock=lambda: self.now,
            random=draw,
            wall=lambda: 5e9 + self.now,
        )

    def arrive(self, number: int, fingerprint: str = "") -> None:
        self.known.add(number)
        self.loaded.add(number)
        self.traffic.version_arrived(number, fingerprint or f"files {number}")

    def send(
        self,
        count: int,
        seconds: float = 0.01,
        errors: dict[int, Exception] | None = None,
        **latencies: float,
    ) -> list[int]:
        """Requests that their versions answer in `seconds` (or `v2=` for version 2), or fail with
        `errors`.
        """
        chosen = []
        for asked, version in self.begin(count):
            chosen.append(version)
            self.finish(
                asked, version, latencies.get(f"v{version}", seconds), (errors or {}).get(version)
            )
        return chosen

    def begin(self, count: int) -> Iterator[tuple[InferRequest, int]]:
        """Requests that begin now, and their versions."""
        for _ in range(count):
            asked = InferRequest("digits")
            version = self.traffic.selection.choose(asked)
            self.traffic.begin(asked, version)
            yield asked, version

    def finish(
        self, asked: InferRequest, version: int, seconds: float, error: Exception | None = None
    ) -> None:
        asked.timeline.finished = asked.timeline.received + round(seconds * 1e9)
        answer = response(version, [1.0]) if error is None else None
        self.traffic.observe(Outcome(asked, version, answer, error))

    def tick(self, seconds: float = 0.0) -> list[Event]:
        self.now += seconds
        return self.traffic.tick()

    def kinds(self, seconds: float = 0.0) -> list[str]:
        return [event.kind for event in self.tick(seconds)]

    @property
    def rollout(self) -> dict[str, Any]:
        found: dict[str, Any] = self.traffic.describe()["rollout"]
        return found


def response(
    version: int, data: Sequence[Any] | np.ndarray[Any, Any], datatype: str = "FP32"
) -> InferResponse:
    """An answer with one output."""
    kinds: dict[str, Any] = {"FP32": np.float32, "INT64": np.int64, "BYTES": object}
    array = data if isinstance(data, np.ndarray) else np.array(data, dtype=kinds[datatype])
    return InferResponse("digits", str(version), "", [Tensor("y", datatype, array)])


def running(loaded: set[int] | None = None, **fields: Any) -> Stage:
    """A stage on which version 2 has just come beside version 1 and is being rolled out."""
    stage = Stage(ModelConfig(canary=fields.pop("canary", CANARY), **fields), loaded or {1})
    stage.tick()
    stage.arrive(2)
    return stage
