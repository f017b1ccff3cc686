"""Which version of a model answers a request, and how that changes over time."""

from __future__ import annotations

import logging
import random as chance
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from infuse.errors import DeadlineError, InputError, OptionError, OverloadError, UnavailableError
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.control.rollout.description import TrafficDescription, describe
from infuse.serving.control.rollout.drift import difference
from infuse.serving.control.rollout.events import Event, EventLog
from infuse.serving.control.rollout.rollouts import Rollouts
from infuse.serving.control.rollout.routing import Routing, Versions
from infuse.serving.control.rollout.selection import Selection
from infuse.serving.control.rollout.signatures import Described, Signatures
from infuse.serving.control.rollout.snapshot import Routes, Snapshot
from infuse.serving.control.rollout.trial import check_canary
from infuse.serving.control.rollout.windows import Windows
from infuse.serving.messages import InferRequest, InferResponse, JsonObject, Outcome

_LOG: Final = logging.getLogger("infuse.serving.rollout")


class Traffic:
    """The labels, split, shadows and rollouts of one model; it outlives its versions.

    `routing` has labels, split and shadows; `selection` says which version answers a request;
    `rollouts` are promoted, rolled back, paused and resumed.

    `loaded` gives the versions that can answer now, `version` one of them, `known` those that the
    repository has. All methods are called on one event loop; `clock` gives seconds that only grow,
    `wall` seconds of the epoch, `random` numbers in [0, 1).

    A request without a version goes to the rollout's new version by the rollout's share, else by
    the split, else to the version that serves: the one that a promotion or a rollback settled on,
    or the latest. A sticky request does so by a hash of its key, so that a raised share moves only
    the keys that it must. A version that was rolled back serves again when its files have changed
    or an operator asks for it.
    """

    def __init__(
        self,
        model: str,
        config: ModelConfig,
        loaded: Versions,
        existing: Versions,
        *,
        version: Callable[[int], Described | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = chance.random,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self._config = config
        self._loaded, self._known = loaded, existing
        self._events = EventLog(model, wall)
        self._windows = Windows(loaded, clock)
        self.routing = Routing(model, config, loaded, existing, self._events)
        self._signatures = Signatures(version)
        self.rollouts = Rollouts(
            self.routing, self._windows.recent, self._events, clock, wall, self._signatures
        )
        self.selection = Selection(self.routing, self.rollouts, random)

    def pinned(self) -> frozenset[int]:
        """The versions that must be loaded and stay so, as far as the repository has them: what
        labels, split, shadows and the running rollout need, and what a rollback or a promotion
        settled on.
        """
        versions = set(self.routing.named())
        versions.update(
            number
            for number in (self.rollouts.eligibility.settled, self.rollouts.eligibility.waiting)
            if number is not None
        )
        versions.update(self.rollouts.eligibility.held)
        if self.rollouts.active is not None:
            record = self.rollouts.active.record
            versions.update((record.version, *record.origin))
        return frozenset(versions).intersection(self._known())

    # ------------------------------------------------------------------------------------ operators

    def configure(self, config: ModelConfig) -> None:
        """Take a changed configuration; ConfigurationError leaves all as it was.

        What was set by hand stays, unless that part (a label, the split, the shadows) has changed.
        A changed version policy ends what a rollback or promotion has settled on. A running rollout
        goes on as it began.
        """
        self.routing.configure(config)
        if config.version_policy != self._config.version_policy and self.rollouts.active is None:
            self.rollouts.eligibility.settle(None)
        self._config = config

    def set_split(self, weights: Mapping[str, float]) -> None:
        """Weights by version or label, all loaded; none: no split.

        A version that was rolled back and has a weight here is accepted again.
        """
        self.routing.set_split(weights)
        numbers = dict(self.routing.weights())
        for number, weight in numbers.items():
            self.rollouts.eligibility.accept(number)
            self._events.tell("split_set", number, "", weight / sum(numbers.values()))
        if not weights:
            self._events.tell("split_set", 0, "no split")

    def start_rollout(self, version: int, canary: Canary | None = None) -> None:
        """Move the traffic to a loaded version in steps, by `canary` or the model's configuration.

        OptionError while another one runs, or if the version serves alone already;
        UnavailableError, NotFoundError.
        """
        self.rollouts.start(version, canary or self._config.canary or Canary())

    def needed(self, version: int | None = None) -> tuple[int, ...]:
        """What must be loaded before `start_rollout` of a version, or before `rollback` (None), can
        do its work.

        While a rollout runs, nothing: what it needs is pinned.
        """
        if self.rollouts.active is not None:
            return ()
        versions = self.rollouts.previous() if version is None else (version,)
        return tuple(
            number
            for number in versions
            if number in self._known() and number not in self._loaded()
        )

    # --------------------------------------------------------------------------------- what happens

    def version_arrived(self, number: int, fingerprint: str = "", initial: bool = False) -> None:
        """A version can answer: to be called in the very step of the loop in which `loaded` begins
        to name it.

        With `canary` configured, a new one that is later than the serving one gets a rollout, or
        waits for the end of the one that runs. Files with the `fingerprint` that was seen before
        are nothing new, and neither is what is loaded when the server starts (`initial`).
        """
        self.rollouts.arrived(number, fingerprint, initial, self._config.canary)

    def begin(self, request: InferRequest, version: int) -> None:
        """A request goes to the version that `choose` gave; `observe` is to follow, whatever
        becomes of it.

        In constant time. A rollout is judged by what is under way, too.
        """
        if self.rollouts.active is not None and not request.version:
            self.rollouts.active.began(request, version)

    def observe(self, outcome: Outcome) -> None:
        """Count a finished request for its version; in constant time.

        An error of the caller (a status below 500), or of one that left, counts as nothing; an
        overload is counted by itself. A request that a rollout's new version refuses, and that the
        old one's signature takes, speaks against the new one. Requests that name their version are
        no part of a rollout's evidence, for they are not drawn by chance.
        """
        if outcome.shadow:
            return
        tally = self._windows.now(outcome.version)
        if self.rollouts.last is not None:
            self.rollouts.last.ended(outcome, tally is not None, self._unduly_refused(outcome))
        if tally is not None:
            tally.count(outcome.error, outcome.seconds)

    def _unduly_refused(self, outcome: Outcome) -> bool:
        """Whether the new version of the running rollout refused what the old one takes."""
        active, error = self.rollouts.active, outcome.error
        return (
            error is not None
            and active is not None
            and outcome.version == active.record.version
            and isinstance(error, InputError)
            and self._signatures.takes(active.record.origin, outcome.request)
        )

    def compare(
        self, version: int, expected: InferResponse, actual: InferResponse | Exception
    ) -> None:
        """Count the answer of a shadow beside the one that was given.

        An error counts as a difference, except when it says nothing of the version: overload,
        deadline, not there.
        """
        tally = self._windows.now(version)
        if tally is None or isinstance(actual, (OverloadError, DeadlineError, UnavailableError)):
            return
        active = self.rollouts.active
        if active is not None and active.record.version != version:
            active = None
        canary = active.record.canary if active is not None else self._config.canary or Canary()
        drifted = (
            isinstance(actual, Exception)
            or difference(expected, actual, canary.max_drift) is not None
        )
        tally.compared += 1
        tally.drifted += drifted
        if active is not None:
            active.compared(drifted)

    def tick(self) -> list[Event]:
        """Let time pass for the rollout; what has happened since the last call."""
        events = self.rollouts.tick(self._config.canary)
        self._windows.forget_unloaded()
        return events

    # ------------------------------------------------------------------------------ description

    def describe(self) -> TrafficDescription:
        """All of it, for the console and the admin routes."""
        return describe(
            self.model,
            self.routing,
            self.rollouts,
            self.selection,
            self._windows,
            self.pinned(),
        )

    def snapshot(self) -> JsonObject:
        """What must survive a restart, as JSON."""
        last, eligibility = self.rollouts.last, self.rollouts.eligibility
        return Snapshot(
            configured=self.routing.configured,
            current=self.routing.current,
            settled=eligibility.settled,
            waiting=eligibility.waiting,
            refused=eligibility.refused,
            seen=eligibility.seen,
            rollout=last.record if last is not None else None,
        ).as_json()

    def restore(self, plain: JsonObject) -> None:
        """Go on from a snapshot; a running rollout at its step. One that is not understood is left
        with a warning.
        """
        try:
            state = Snapshot.of_json(plain)
            if state.rollout is not None:
                check_canary(state.rollout.canary)
        except (msgspec.ValidationError, OptionError) as error:
            _LOG.warning(
                "the saved traffic of model %s is not understood and left: %s", self.model, error
            )
            return
        self.routing.take(state.configured, state.current, Routes.of(self._config))
        self.rollouts.eligibility.restore(state)
        self.rollouts.restore(state.rollout)
