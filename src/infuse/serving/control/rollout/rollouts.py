"""The rollouts of one model, one after another, and the version that they settle on."""

from __future__ import annotations

from collections.abc import Callable, Collection

from infuse.errors import OptionError, UnavailableError
from infuse.serving.control.model_config import Canary
from infuse.serving.control.rollout.eligibility import Eligibility
from infuse.serving.control.rollout.events import Event, EventLog
from infuse.serving.control.rollout.routing import Routing
from infuse.serving.control.rollout.signatures import Signatures
from infuse.serving.control.rollout.snapshot import Record
from infuse.serving.control.rollout.trial import Trial, check_canary
from infuse.serving.control.rollout.trials import Trials
from infuse.serving.control.rollout.windows import Tally


class Rollouts:
    """Begins, drives and ends rollouts. `eligibility` remembers what they came to; `recent` gives
    the counts of the last minute of some versions; `signatures` what versions take and give.
    """

    def __init__(
        self,
        routing: Routing,
        recent: Callable[[Collection[int]], Tally],
        events: EventLog,
        clock: Callable[[], float],
        wall: Callable[[], float],
        signatures: Signatures,
    ) -> None:
        self._routing, self._events, self._clock = routing, events, clock
        self._signatures = signatures
        self.eligibility = Eligibility(routing)
        self._trials = Trials(routing, self.eligibility, recent, events, clock, wall)
        self._ticked = clock()

    @property
    def last(self) -> Trial | None:
        """The latest rollout."""
        return self._trials.last

    @property
    def active(self) -> Trial | None:
        """The latest rollout while it runs or is paused."""
        return self._trials.active

    @property
    def share(self) -> float:
        """The part of the traffic that the last rollout's version has by it."""
        return self._trials.share

    def serving(self, loaded: Collection[int]) -> int:
        """The version that serves of those that are loaded, where no split and no rollout says
        otherwise; UnavailableError.
        """
        active = self.active.record.version if self.active is not None else None
        return self.eligibility.serving(loaded, active)

    # ------------------------------------------------------------------------------------ operators

    def start(self, version: int, canary: Canary) -> None:
        """Begin a rollout, or say why not."""
        if self.active is not None:
            raise OptionError(
                f"a rollout to version {self.active.record.version} is under way",
                where=self._routing.where,
                hint="promote it or roll it back first",
            )
        check_canary(canary)
        self._routing.require_loaded(version)
        origin = self._origin(version)
        if not origin:
            raise OptionError(
                f"version {version} serves already, and no other", where=self._routing.where
            )
        if reason := self._unlike(version, origin, canary):
            raise OptionError(
                f"version {version} cannot take its callers: {reason}",
                where=self._routing.where,
                hint="canary.new_signature: true starts it all the same",
            )
        self._trials.begin(version, origin, canary, "asked for")

    def promote(self, reason: str = "asked for") -> None:
        """Give the version all traffic; UnavailableError if it is not loaded."""
        record = self._trials.demand("running", "paused").record
        self._routing.require_loaded(record.version)
        self._trials.end(record, "promoted", reason)
        self._routing.current.split = {}
        later = [
            number for number in self._routing.loaded() if number not in self.eligibility.refused
        ]
        self.eligibility.settle(record.version if record.version != max(later, default=0) else None)
        self._events.tell("promoted", record.version, reason, 1.0)

    def rollback(self, reason: str) -> None:
        """Take the traffic back; without a running rollout, from the version that serves."""
        if self.active is not None:
            record = self.active.record
            self._trials.end(record, "rolled_back", reason)
            self._refuse(record.version, reason)
            return
        previous = self.previous()
        if not previous:
            hint = "change the split" if self._routing.current.split else None
            raise OptionError(
                "there is nothing to roll back to", where=self._routing.where, hint=hint
            )
        for number in previous:
            self._routing.require_loaded(number)
        serving = self.serving(self._routing.loaded())
        promoted = self._trials.promoted(serving)
        if promoted is not None:
            self._routing.current.split = dict(promoted.split)
            self._trials.end(promoted, "rolled_back", reason)
        if not self._routing.current.split:
            self.eligibility.settle(max(previous))
        self._refuse(serving, reason)

    def previous(self) -> tuple[int, ...]:
        """The versions that `rollback` goes back to; none if there are none, nothing serves or a
        split is in force.
        """
        if self.active is not None:
            return self.active.record.origin
        if self._routing.current.split:
            return ()
        try:
            serving = self.serving(self._routing.loaded())
        except UnavailableError:
            return ()
        promoted = self._trials.promoted(serving)
        if promoted is not None:
            return promoted.origin
        before = [
            number
            for number in self._routing.versions()
            if number < serving and number not in self.eligibility.refused
        ]
        return (max(before),) if before else ()

    def pause(self) -> None:
        """Hold the running rollout."""
        self._trials.switch("running", "paused", "paused")

    def resume(self) -> None:
        """Let a paused one go on."""
        self._trials.switch("paused", "running", "resumed")

    # --------------------------------------------------------------------------------- what happens

    def arrived(self, number: int, fingerprint: str, initial: bool, canary: Canary | None) -> None:
        """A version can answer."""
        again = self.eligibility.seen.get(number) == fingerprint
        self.eligibility.remember(number, fingerprint)
        if number in self.eligibility.refused and not again:
            self.eligibility.accept(number)
        record = self.active.record if self.active is not None else None
        if again or number in self.eligibility.refused:
            return
        if record is not None and number == record.version:
            if reason := self._unlike(number, record.origin, record.canary):
                self.rollback(reason)
            else:
                self._trials.begin(number, record.origin, record.canary, "its files have changed")
        elif initial or number in self.eligibility.held:
            return
        elif record is None:
            self._take(number, canary)
        elif number > max(record.version, *record.origin):
            self.eligibility.wait(number)
            self._events.tell(
                "waiting", number, f"a rollout to version {record.version} is under way"
            )

    def failed(self, version: int, reason: str) -> None:
        """A version could not be loaded, or its workers die again and again."""
        if self.active is not None and self.active.record.version == version:
            self.rollback(f"it failed: {reason}")
        elif self.eligibility.waiting == version:
            self.eligibility.wait(None)
            self._refuse(version, f"it failed: {reason}")

    def tick(self, canary: Canary | None) -> list[Event]:
        """Let time pass; what has happened since the last call."""
        now = self._clock()
        passed, self._ticked = now - self._ticked, now
        waiting = self.eligibility.waiting
        if self.active is not None:
            self._drive(self.active, passed)
        elif waiting is not None and waiting in self._routing.loaded():
            number = waiting
            self.eligibility.wait(None)
            self._take(number, canary)
        elif waiting is not None and waiting not in self._routing.versions():
            self.eligibility.wait(None)
        return self._events.drain()

    def restore(self, record: Record | None) -> None:
        """Go on with a rollout, or remember the last one."""
        self._trials.restore(record)
        self._ticked = self._clock()

    def _drive(self, trial: Trial, passed: float) -> None:
        record = trial.record
        if record.version not in self._routing.versions():
            self.rollback("its files are gone")
            return
        goes_on = record.state == "running" and record.version in self._routing.loaded()
        trial.pass_time(passed, held=goes_on)
        reason = trial.verdict()
        if reason is not None:
            self.rollback(reason)
        elif goes_on and not trial.lacks():
            if trial.advance():
                self._events.tell("step", record.version, f"step {record.step + 1}", trial.share)
            else:
                self.promote("all steps have passed")

    def _take(self, number: int, canary: Canary | None) -> None:
        """Let a version that has come serve: by a rollout if there is to be one and another version
        serves.
        """
        beside = self.eligibility.refused.keys() | {number}
        others = [other for other in self._routing.loaded() if other not in beside]
        origin = self._origin(number, others) if others else ()
        before = max((*origin, self.eligibility.settled or 0))
        if number < before:
            return
        if origin and canary is not None:
            if reason := self._unlike(number, origin, canary):
                self._hold(number, origin, reason)
            else:
                self._trials.begin(number, origin, canary, "it has come")
        else:
            self.eligibility.settle(None)

    def _origin(self, version: int, loaded: Collection[int] | None = None) -> tuple[int, ...]:
        """The versions that serve beside this one."""
        if self._routing.current.split:
            return tuple(number for number, _ in self.eligibility.weights(without=version))
        serving = self.serving(self._routing.loaded() if loaded is None else loaded)
        return (serving,) if serving != version else ()

    def _unlike(self, version: int, origin: Collection[int], canary: Canary) -> str:
        """Why a version must not get the callers of others, unless `canary` says that it may."""
        return "" if canary.new_signature else self._signatures.changed(version, origin)

    def _hold(self, version: int, origin: Collection[int], reason: str) -> None:
        """Let a version that has come not serve by itself: those before it go on."""
        if not self._routing.current.split:
            self.eligibility.settle(max(origin))
        self.eligibility.refuse(version, reason)
        self._events.tell("held", version, reason)

    def _refuse(self, version: int, reason: str) -> None:
        self.eligibility.refuse(version, reason)
        self._events.tell("rolled_back", version, reason)
