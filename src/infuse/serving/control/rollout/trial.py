"""A rollout while it runs: the counts of both sides, the verdict on them, and its steps."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from typing import Final, TypedDict

from infuse.errors import OptionError
from infuse.serving.control.model_config import Canary
from infuse.serving.control.rollout.evidence import (
    Looks,
    bounds,
    latency_ratio,
    outside,
    rate_excess,
)
from infuse.serving.control.rollout.flight import Flight, FlightDescription
from infuse.serving.control.rollout.snapshot import Record, State
from infuse.serving.control.rollout.windows import Tally, TallyDescription, is_fault
from infuse.serving.messages import InferRequest, Outcome
from infuse.serving.tuning import UPKEEP_SECONDS

_STALL: Final = (
    3.0  # seconds that slowness must last, so that one stall of the machine is not taken for it
)
_LONG_STALL: Final = (
    10.0  # the same where little is known: few requests, or no old side beside them
)


def check_canary(canary: Canary) -> None:
    """OptionError where the steps are none, or do not rise."""
    steps = canary.steps
    if (
        not steps
        or any(later <= former for former, later in itertools.pairwise(steps))
        or steps[-1] <= 0
    ):
        raise OptionError(
            f"the steps of a rollout must be shares that rise to more than 0, found {list(steps)}",
            where="canary.steps",
            hint="for example [0.05, 0.25, 0.5, 1.0]",
        )


class _DriftFigures(TypedDict):
    compared: int
    drifted: int
    drift_rate: float | None


class SideDescription(TallyDescription, FlightDescription):
    """One side of a rollout: what was counted, and what is under way."""


class SidesDescription(TypedDict):
    """Both sides of a rollout, the old one also before the step; `waits_for`: what the step does,
    "" where it waits for nothing.
    """

    new: SideDescription
    old: SideDescription
    old_before: TallyDescription
    waits_for: str


TrialDescription = TypedDict(
    "TrialDescription",
    {
        "state": State,
        "from": list[int],
        "to": int,
        "step": int,
        "steps": list[float],
        "started": float,
        "since": float,
        "reason": str,
        "compared": int,
        "drifted": int,
        "drift_rate": float | None,
    },
)
"""A rollout as JSON has it: times in seconds of the epoch."""


class Trial:
    """Counts one rollout's requests and says when it is to go on or back.

    `new` and `old` count this step. `earlier` is what the old side is judged by while this step has
    too little of it: at first its last minute before the rollout, then the last step that had
    enough. `clock` gives seconds.
    """

    def __init__(self, record: Record, earlier: Tally, clock: Callable[[], float]) -> None:
        self.record = record
        self.earlier = earlier
        self.new, self.old = Tally(), Tally()
        self._clock = clock
        self._new_flight, self._old_flight = Flight(clock()), Flight(clock())
        self._looks, self._drift_looks = Looks(), Looks()
        self._passed = 0.0  # seconds that the trial has lasted, also while it was paused
        self._slow_since: float | None = None  # of this time
        self._next_look = 0.0  # of this time, at what is under way
        self._hanging = 0  # looks in a row that found it too long under way

    @property
    def share(self) -> float:
        """The new version's share of the traffic."""
        return self.record.canary.steps[self.record.step]

    def began(self, request: InferRequest, version: int) -> None:
        """A request goes to a version; `ended` must follow, whatever becomes of it."""
        self._flight(version).begin(id(request), self._clock())

    def ended(self, outcome: Outcome, loaded: bool, unduly_refused: bool = False) -> None:
        """Count a request that has ended by what became of it, if it is evidence and its version is
        still `loaded`. `unduly_refused`: that is its version's fault.
        """
        error = outcome.error
        gone = isinstance(error, asyncio.CancelledError)  # the caller, who had no answer until then
        tried = error is None or gone or is_fault(error) or unduly_refused
        self._flight(outcome.version).end(id(outcome.request), outcome.seconds, tried)
        if loaded and self.record.active and not outcome.request.version:
            side = self.new if outcome.version == self.record.version else self.old
            if unduly_refused:
                side.failed += 1
            else:
                side.count(error, outcome.seconds)

    def pass_time(self, seconds: float, held: bool) -> None:
        """Let time pass; `held`: it counts for the step."""
        self._passed += seconds
        if held:
            self.record.held += seconds

    def compared(self, drifted: bool) -> None:
        """Count a compared answer; they count over all steps, for they do not depend on the
        share.
        """
        self.record.compared += 1
        self.record.drifted += drifted

    def advance(self) -> bool:
        """Go to the next step; False after the last."""
        if self.record.step + 1 >= len(self.record.canary.steps):
            return False
        if self.old.requests >= max(self.record.canary.min_requests, 1):
            self.earlier = self.old
        else:
            self.earlier.add(self.old)
        self.record.step += 1
        self.record.held = 0.0
        self.new, self.old = Tally(), Tally()
        self._new_flight.step(self._clock())
        self._old_flight.step(self._clock())
        self._looks = Looks()
        self._slow_since = None
        return True

    def lacks(self) -> str:
        """What the step waits for; empty when it may end."""
        canary = self.record.canary
        if self.record.held < canary.step_seconds:
            return f"{canary.step_seconds - self.record.held:.0f} s of the step are left"
        if self.share == 0:
            return self._short(self.record.compared, "compared answers") if canary.shadow else ""
        if self._hanging:
            return "requests take too long under way: it is watched whether that lasts"
        return self._short(self.new.served, "requests")

    def verdict(self) -> str | None:
        """Why the new version is worse, by evidence that is more than chance; None while there is
        none.
        """
        fewest = max(self.record.canary.min_requests, 1)
        last = self.record.state == "running" and not self.lacks()
        reason = None
        if self.record.compared >= fewest and self._drift_looks.due(self.record.compared, last):
            reason = self._drift()
        if (
            reason is None
            and self.new.requests >= fewest
            and self._looks.due(self.new.requests, last)
        ):
            reason = self._errors() or self._latency(last)
        if reason is None and (last or self._passed >= self._next_look):
            reason = self._hangs()
        return reason

    def windows(self) -> SidesDescription:
        """The counts of both sides, what is under way, and what the step waits for."""
        record, now = self.record, self._clock()
        return {
            "new": {
                **self.new.describe(),
                **_drift_figures(record),
                **self._new_flight.describe(now),
            },
            "old": {**self.old.describe(), **self._old_flight.describe(now)},
            "old_before": self.earlier.describe(),
            "waits_for": self._waits_for(),
        }

    def _waits_for(self) -> str:
        if not self.record.active:
            return ""
        return "it is paused" if self.record.state == "paused" else self.lacks()

    def _short(self, answers: int, what: str) -> str:
        required = self.record.canary.min_requests
        return f"{answers} of {required} {what}" if answers < required else ""

    def _errors(self) -> str | None:
        """Rejections for overload count only beside the old side's in the same step: both may drown
        together.
        """
        canary, new, old = self.record.canary, self.new, self.old
        enough = max(canary.min_requests, 1)
        if old.requests >= enough:
            bad, base = (
                (new.failed + new.rejected, new.requests),
                (old.failed + old.rejected, old.requests),
            )
        else:
            earlier = self._reference()
            bad, base = (new.failed, new.served), (earlier.failed, earlier.served)
        if bad[1] < enough or rate_excess(*bad, *base, enough) <= canary.max_error_rate:
            return None
        return (
            f"error rate: {bad[0]} of {bad[1]} requests failed, {base[0]} of {base[1]} of the old "
            "version's; "
            f"the limit is {canary.max_error_rate:g} more"
        )

    def _latency(self, last: bool) -> str | None:
        canary, part = self.record.canary, self.record.canary.latency_quantile
        enough = max(canary.min_requests, 1)
        reference = self.old if self.old.answered >= enough else self._reference()
        if min(reference.answered, self.new.answered) < enough:
            return None
        if latency_ratio(self.new, reference, part) <= canary.max_latency_ratio:
            self._slow_since = None
            return None
        # Requests that one stall of the machine holds up are slow together: they are no independent
        # evidence.
        if self._slow_since is None:
            self._slow_since = self._passed
        if not last and self._passed - self._slow_since < min(_STALL, canary.step_seconds / 4):
            return None
        return (
            f"latency: {_middle(self.new, part):.3g} ms at the {part:g} quantile, "
            f"{_middle(reference, part):.3g} ms of "
            f"the old version's; the limit is {canary.max_latency_ratio:g} times as long"
        )

    def _hangs(self) -> str | None:
        """As `_latency`, with what is under way at the age that it has; only while something of it
        is too old.

        A step does not end while this is so. How long it lasts is counted in looks: a stall of the
        server is one look.
        """
        self._next_look = self._passed + UPKEEP_SECONDS
        canary, now = self.record.canary, self._clock()
        # No ratio below 1 is proven by ages: in a stall, those of both sides are equal.
        part, limit = canary.latency_quantile, max(canary.max_latency_ratio, 1.0)
        enough = max(canary.min_requests, 1)
        new, reference = self._new_flight.times(now), self._old_flight.times(now)
        beside = reference.answered >= enough
        if not beside:
            reference.add(self.earlier)
        enough_seen = reference.answered >= enough and outside(new.answered, part)
        oldest = self._new_flight.oldest(now)
        lasts = (
            enough_seen
            and oldest > limit * reference.quantile(part)[1]
            and latency_ratio(new, reference, part) > limit
        )
        self._hanging = self._hanging + 1 if lasts else 0
        patience = _STALL if beside and new.answered >= enough else _LONG_STALL
        if not lasts or (self._hanging - 1) * UPKEEP_SECONDS < patience:
            return None
        count, hanging, usual = (
            self._new_flight.describe(now)["in_flight"],
            _middle(new, part),
            _middle(reference, part),
        )
        return (
            f"latency: {count} requests are under way, one for {oldest:.3g} s; with them, "
            f"{hanging:.3g} ms or more at "
            f"the {part:g} quantile, {usual:.3g} ms of the old version's; the limit is {limit:g} "
            "times as long"
        )

    def _drift(self) -> str | None:
        record = self.record
        low, _ = bounds(record.drifted, record.compared)
        if low <= record.canary.max_drift_rate:
            return None
        return (
            f"drift: {record.drifted} of {record.compared} compared answers differ by more than "
            f"{record.canary.max_drift:g}; the limit is a part of {record.canary.max_drift_rate:g}"
        )

    def _flight(self, version: int) -> Flight:
        return self._new_flight if version == self.record.version else self._old_flight

    def _reference(self) -> Tally:
        total = Tally()
        total.add(self.earlier)
        total.add(self.old)
        return total


def describe_record(record: Record) -> TrialDescription:
    """A rollout that has ended, or goes on."""
    return {
        "state": record.state,
        "from": list(record.origin),
        "to": record.version,
        "step": record.step,
        "steps": list(record.canary.steps),
        "started": record.started,
        "since": record.since,
        "reason": record.reason,
        **_drift_figures(record),
    }


def _drift_figures(record: Record) -> _DriftFigures:
    return {
        "compared": record.compared,
        "drifted": record.drifted,
        "drift_rate": record.drifted / record.compared if record.compared else None,
    }


def _middle(tally: Tally, part: float) -> float:
    low, high = tally.quantile(part)
    return math.sqrt(low * high) * 1e3
