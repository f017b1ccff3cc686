"""Service level objectives: how much of the budget for bad requests is used, and how fast.

A request is good when it was answered, within the objective's latency if there is one. Errors that
are the caller's own (a 4xx, a call that is not supported, one that was given up) and shadow
requests do not count. An alert burns when the budget is used `burn_rate` times too fast over the
window and also over its last twelfth, so that it neither rings for a blink nor rings on after the
end; it ends when the last twelfth is slow enough again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import Objective
from infuse.serving.control.statuses import http_status
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.telemetry.statistics import FEWEST, failure_of
from infuse.serving.control.telemetry.views import Reading
from infuse.serving.messages import JSON, Outcome

_SLOTS: Final = 120  # of a window
_SHORT: Final = _SLOTS // 12


class _Window:
    """Good and bad requests of the last slots, in a ring, with running sums."""

    __slots__ = ("_bad", "_slots", "_total", "bad", "total")

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._total = [0] * slots
        self._bad = [0] * slots
        self.total = self.bad = 0

    def clear(self, slot: int) -> None:
        """Forget what was counted a whole turn ago."""
        index = slot % self._slots
        self.total -= self._total[index]
        self.bad -= self._bad[index]
        self._total[index] = self._bad[index] = 0

    def count(self, slot: int, bad: bool) -> None:
        """Count a request."""
        index = slot % self._slots
        self._total[index] += 1
        self._bad[index] += bad
        self.total += 1
        self.bad += bad


class Tracker:
    """How one objective of one model fares. `clock` gives seconds that never go back."""

    def __init__(
        self, model: str, objective: Objective, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.model = model
        self.objective = objective
        self.burning = False
        self._clock = clock
        self._long = _Window(_SLOTS)
        self._short = _Window(_SHORT)
        self._width = objective.window_seconds / _SLOTS
        self._slot = int(clock() / self._width)
        self._latency = float("inf") if objective.latency_ms is None else objective.latency_ms / 1e3

    def count(self, seconds: float, answered: bool) -> bool:
        """Count a request that took so long; whether it was bad."""
        self._advance()
        bad = not answered or seconds > self._latency
        self._long.count(self._slot, bad)
        self._short.count(self._slot, bad)
        return bad

    def burn_rates(self) -> tuple[float, float]:
        """How many times too fast the budget is used: over the window's last twelfth, over all of
        it.
        """
        self._advance()
        return self._rate(self._short), self._rate(self._long)

    def budget_left(self) -> float:
        """The part of the window's budget that is left, 0 to 1."""
        self._advance()
        return max(0.0, 1.0 - self._rate(self._long))

    def check(self) -> bool:
        """Whether the alert began or ended just now; `burning` says which."""
        short, long = self.burn_rates()
        limit = self.objective.burn_rate
        before = self.burning
        if before:
            self.burning = short >= limit
        else:
            self.burning = short >= limit and long >= limit and self._long.total >= FEWEST
        return self.burning != before

    def as_dict(self) -> dict[str, JSON]:
        """What a console shows."""
        short, long = self.burn_rates()
        return {
            "model": self.model,
            "objective": self.objective.name,
            "target": self.objective.target,
            "latency_ms": self.objective.latency_ms,
            "window_seconds": self.objective.window_seconds,
            "requests": self._long.total,
            "bad": self._long.bad,
            "burn_rate_short": _finite(short),
            "burn_rate_long": _finite(long),
            "budget_left": self.budget_left(),
            "state": "burning" if self.burning else "ok",
        }

    def _rate(self, window: _Window) -> float:
        if not window.bad:
            return 0.0
        allowed = (1.0 - self.objective.target) * window.total
        return window.bad / allowed if allowed > 0 else float("inf")

    def _advance(self) -> None:
        slot = int(self._clock() / self._width)
        for window, slots in ((self._long, _SLOTS), (self._short, _SHORT)):
            for passed in range(max(self._slot + 1, slot - slots + 1), slot + 1):
                window.clear(passed)
        self._slot = max(self._slot, slot)


class Objectives:
    """The objectives of all models of an engine: observe every outcome, and `check` about every
    second.
    """

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._clock = clock
        self._trackers: dict[str, list[Tracker]] = {}

    def set(self, model: str, objectives: Iterable[Objective]) -> None:
        """Give a model these objectives; those that it had with the same settings go on counting.

        ConfigurationError where two have one name.
        """
        objectives = tuple(objectives)
        if len({one.name for one in objectives}) < len(objectives):
            raise ConfigurationError(
                "two objectives have the same name", where=f"objectives of {model}"
            )
        before = {tracker.objective: tracker for tracker in self._trackers.pop(model, ())}
        trackers = [before.get(one) or Tracker(model, one, self._clock) for one in objectives]
        if trackers:
            self._trackers[model] = trackers

    def remove(self, model: str) -> None:
        """Forget a model."""
        self._trackers.pop(model, None)

    def observe(self, outcome: Outcome) -> None:
        """Count a request for the objectives of its model."""
        trackers = self._trackers.get(outcome.request.model)
        if trackers is None or outcome.shadow:
            return
        error = outcome.error
        if error is not None and not _counts(error):
            return
        for tracker in trackers:
            if tracker.count(outcome.seconds, error is None):
                self._say(tracker)

    def check(self) -> None:
        """See what time alone changed: alerts end when no bad requests come any more."""
        for trackers in self._trackers.values():
            for tracker in trackers:
                self._say(tracker)

    def as_list(self) -> list[dict[str, JSON]]:
        """All objectives, for the console."""
        self.check()
        return [tracker.as_dict() for trackers in self._trackers.values() for tracker in trackers]

    def readings(self) -> Iterator[Reading]:
        """All objectives, as metrics."""
        self.check()
        for trackers in self._trackers.values():
            for tracker in trackers:
                labels = (tracker.model, tracker.objective.name)
                short, long = tracker.burn_rates()
                yield Reading("infuse_slo_target", tracker.objective.target, labels)
                yield Reading("infuse_slo_burn_rate", short, (*labels, "short"))
                yield Reading("infuse_slo_burn_rate", long, (*labels, "long"))
                yield Reading("infuse_slo_budget_left", tracker.budget_left(), labels)
                yield Reading("infuse_slo_burning", tracker.burning, labels)

    def _say(self, tracker: Tracker) -> None:
        if not tracker.check():
            return
        short, long = tracker.burn_rates()
        self._journal.emit(
            "objective_burning" if tracker.burning else "objective_met",
            model=tracker.model,
            objective=tracker.objective.name,
            burn_rate_short=short,
            burn_rate_long=long,
            budget_left=tracker.budget_left(),
        )


def _counts(error: BaseException) -> bool:
    status = http_status(error)
    return status >= 500 and status != 501 and failure_of(error) != "CANCELED"


def _finite(rate: float) -> float | None:
    """A rate for JSON: none where there is no budget at all."""
    return rate if rate != float("inf") else None
