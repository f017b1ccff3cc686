"""The rollout of a model that runs, or was the last one: its beginning, its states, its end."""

from __future__ import annotations

from collections.abc import Callable, Collection

from infuse.errors import OptionError
from infuse.serving.control.model_config import Canary
from infuse.serving.control.rollout.eligibility import Eligibility
from infuse.serving.control.rollout.events import EventLog
from infuse.serving.control.rollout.routing import Routing
from infuse.serving.control.rollout.snapshot import Record, State
from infuse.serving.control.rollout.trial import Trial
from infuse.serving.control.rollout.windows import Tally


class Trials:
    """One trial after another. `last` is the latest, and `active` the same while it runs or is
    paused. `recent` gives the counts of the last minute of some versions.
    """

    def __init__(
        self,
        routing: Routing,
        eligibility: Eligibility,
        recent: Callable[[Collection[int]], Tally],
        events: EventLog,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._routing, self._eligibility = routing, eligibility
        self._recent, self._events = recent, events
        self._clock, self._wall = clock, wall
        self.last: Trial | None = None
        self.active: Trial | None = None

    @property
    def share(self) -> float:
        """The part of the traffic that the last rollout's version has by it."""
        if self.active is not None:
            return self.active.share
        return 1.0 if self.last is not None and self.last.record.state == "promoted" else 0.0

    def begin(self, version: int, origin: tuple[int, ...], canary: Canary, reason: str) -> None:
        """Move traffic of the versions `origin` to another one from now on."""
        now = self._wall()
        split = dict(self._routing.current.split)
        record = Record(
            version=version, origin=origin, canary=canary, split=split, started=now, since=now
        )
        self._eligibility.accept(version)
        if self._eligibility.waiting == version:
            self._eligibility.wait(None)
        if not split:
            self._eligibility.settle(max(origin))
        self.last = self.active = Trial(record, self._recent(origin), self._clock)
        self._events.tell("rollout_started", version, reason, self.share)

    def end(self, record: Record, state: State, reason: str) -> None:
        """A rollout has come to its end, or what came of it is taken back."""
        record.state, record.reason, record.since = state, reason, self._wall()
        self.active = None

    def switch(self, before: State, after: State, kind: str) -> None:
        """Let the active one get from a state into another; OptionError where it is in no such."""
        record = self.demand(before).record
        record.state, record.since = after, self._wall()
        self._events.tell(kind, record.version, "", self.share)

    def demand(self, *states: State) -> Trial:
        """The active one, in one of these states; OptionError where there is none."""
        if self.active is None or self.active.record.state not in states:
            raise OptionError(f"no rollout is {' or '.join(states)}", where=self._routing.where)
        return self.active

    def promoted(self, serving: int) -> Record | None:
        """The record of the last rollout if the version that serves does so by it."""
        record = self.last.record if self.last is not None else None
        return (
            record
            if record is not None and record.state == "promoted" and record.version == serving
            else None
        )

    def restore(self, record: Record | None) -> None:
        """Go on with a rollout, or remember the last one."""
        self.last = None if record is None else Trial(record, Tally(), self._clock)
        self.active = self.last if record is not None and record.active else None
