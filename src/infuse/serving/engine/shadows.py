"""Shadows: copies of requests that other versions answer too, for comparison."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Final

from infuse.errors import InfuseError
from infuse.serving.control.models import ServedModel
from infuse.serving.control.tasks import Tasks
from infuse.serving.control.version import Version
from infuse.serving.messages import InferRequest, InferResponse, Outcome, Timeline, rows_of

_MOST_SHADOWS: Final = 64  # copies of requests that run at once; more are left out

Observe = Callable[[ServedModel, Version, Outcome], None]


class Shadows:
    """Runs copies of requests beside them, as `tasks`; `observe` is told how each went."""

    def __init__(self, tasks: Tasks, observe: Observe) -> None:
        self._tasks = tasks
        self._observe = observe
        self._running = 0

    def send(
        self, model: ServedModel, number: int, request: InferRequest, answer: InferResponse
    ) -> None:
        """Send a copy of a request to another version, and compare what it says."""
        version = model.versions.get(number)
        if version is None or self._running >= _MOST_SHADOWS:
            return
        twin = copy.copy(request)
        twin.timeline = Timeline()
        twin.deadline = None
        twin.priority = 1 << 30
        self._running += 1
        self._tasks.spawn(self._run(model, version, twin, answer))

    async def _run(
        self, model: ServedModel, version: Version, request: InferRequest, answer: InferResponse
    ) -> None:
        response: InferResponse | None = None
        error: Exception | None = None
        batch = 1
        try:
            response, batch = await version.infer(request)
        except InfuseError as caught:
            error = caught
        finally:
            self._running -= 1
        request.timeline.finished = time.perf_counter_ns()
        rows = rows_of(request, version.batched)
        self._observe(
            model,
            version,
            Outcome(request, version.number, response, error, rows, batch, shadow=True),
        )
        outcome = response if response is not None else error
        assert outcome is not None
        model.traffic.compare(version.number, answer, outcome)
