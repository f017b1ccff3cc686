"""Which version of a model answers a request, and how that changes over time."""

from __future__ import annotations

import logging
import random as chance
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from infuse.errors import DeadlineError, OptionError, OverloadError, UnavailableError
from infuse.serving.messages import InferRequest, InferResponse, Outcome
from infuse.serving.model_config import Canary, ModelConfig
from infuse.serving.plain import JsonObject
from infuse.serving.rollout.chance import pick, pick_for, point
from infuse.serving.rollout.drift import difference
from infuse.serving.rollout.events import Event
from infuse.serving.rollout.rollouts import Rollouts
from infuse.serving.rollout.routing import Routing, Versions
from infuse.serving.rollout.snapshot import Routes, Snapshot
from infuse.serving.rollout.trial import check_canary, told
from infuse.serving.rollout.windows import Tally, Window

_LOG: Final = logging.getLogger("infuse.serving.rollout")


class Traffic:
    """The labels, split, shadows and rollouts of one model; it outlives its versions.

    `loaded` gives the versions that can answer now, `known` those that the repository has. All
    methods are called on one event loop; `clock` gives seconds that only grow, `wall` seconds of
    the epoch, `random` numbers in [0, 1).

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
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = chance.random,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self._config = config
        self._loaded, self._known = loaded, existing
        self._clock, self._random = clock, random
        self._routing = Routing(model, config, loaded, existing)
        self._rollouts = Rollouts(self._routing, self._recent, clock, wall)
        self._windows: dict[int, Window] = {}

    # ------------------------------------------------------------------------------------- choosing

    def resolve(self, version: str) -> int:
        """The number of a version or label, which is loaded; empty: the version that serves.

        NotFoundError for what is not there, UnavailableError for what is not loaded.
        """
        return self._routing.resolve(version) if version else self._rollouts.serving(self._loaded())

    def choose(self, request: InferRequest) -> int:
        """The version that answers a request; NotFoundError, UnavailableError.

        While one side of a rollout is not loaded, the other one has all requests.
        """
        if request.version:
            return self._routing.resolve(request.version)
        loaded, key, active = self._loaded(), request.sticky, self._rollouts.active
        new = active.record.version if active is not None else 0
        weights = self._old_side(loaded, new)
        if active is not None and new in loaded:
            drawn = point(key, f"{self.model}\0rollout\0{new}") if key else self._random()
            if drawn < active.share or not weights:
                return new
        if len(weights) == 1:
            return weights[0][0]
        return (
            pick_for(key, f"{self.model}\0split", weights) if key else pick(self._random(), weights)
        )

    def shadows(self, request: InferRequest, chosen: int) -> Sequence[int]:
        """The other versions that get a copy of a request, by chance; none for a request that names
        its version.

        Those of the split's shadows, and a rollout's new version for requests that the old side
        answers.
        """
        if request.version:
            return ()
        shares = dict(self._routing.shadows()) if self._routing.current.shadow else {}
        active = self._rollouts.active
        if (
            active is not None
            and active.record.canary.shadow
            and active.record.version in self._loaded()
        ):
            new = active.record.version
            shares[new] = max(shares.get(new, 0.0), active.record.canary.shadow)
        return [
            version
            for version, share in shares.items()
            if version != chosen and self._random() < share
        ]

    def pinned(self) -> frozenset[int]:
        """The versions that must be loaded and stay so, as far as the repository has them: what
        labels, split, shadows and the running rollout need, and what a rollback or a promotion
        settled on.
        """
        versions = set(self._routing.named())
        versions.update(
            number
            for number in (self._rollouts.settled, self._rollouts.waiting)
            if number is not None
        )
        versions.update(self._rollouts.held)
        if self._rollouts.active is not None:
            record = self._rollouts.active.record
            versions.update((record.version, *record.origin))
        return frozenset(versions).intersection(self._known())

    # ------------------------------------------------------------------------------------ operators

    def configure(self, config: ModelConfig) -> None:
        """Take a changed configuration; ConfigurationError leaves all as it was.

        What was set by hand stays, unless that part (a label, the split, the shadows) has changed.
        A changed version policy ends what a rollback or promotion has settled on. A running rollout
        goes on as it began.
        """
        self._routing.configure(config)
        if config.version_policy != self._config.version_policy and self._rollouts.active is None:
            self._rollouts.settled = None
        self._config = config

    def set_label(self, label: str, version: int) -> None:
        """Let a label stand for a loaded version; UnavailableError, NotFoundError, OptionError
        leave it.
        """
        self._routing.set_label(label, version)
        self._rollouts.tell("label_set", version, f"label {label!r}")

    def remove_label(self, label: str) -> None:
        """Forget a label; OptionError while the split or the shadows use it."""
        version = self._routing.current.labels.get(label, 0)
        self._routing.remove_label(label)
        self._rollouts.tell("label_removed", version, f"label {label!r}")

    def set_split(self, weights: Mapping[str, float]) -> None:
        """Weights by version or label, all loaded; none: no split.

        A version that was rolled back and has a weight here is accepted again.
        """
        self._routing.set_split(weights)
        numbers = dict(self._routing.weights())
        for number, weight in numbers.items():
            self._rollouts.refused.pop(number, None)
            self._rollouts.tell("split_set", number, "", weight / sum(numbers.values()))
        if not weights:
            self._rollouts.tell("split_set", 0, "no split")

    def set_shadow(self, shares: Mapping[str, float]) -> None:
        """The parts of the traffic, from 0 to 1, that loaded versions or labels get copies of;
        none: no shadows.
        """
        self._routing.set_shadow(shares)
        for number, share in self._routing.shadows():
            self._rollouts.tell("shadow_set", number, "", share)
        if not shares:
            self._rollouts.tell("shadow_set", 0, "no shadows")

    def start_rollout(self, version: int, canary: Canary | None = None) -> None:
        """Move the traffic to a loaded version in steps, by `canary` or the model's configuration.

        OptionError while another one runs, or if the version serves alone already;
        UnavailableError, NotFoundError.
        """
        self._rollouts.start(version, canary or self._config.canary or Canary())

    def promote(self) -> None:
        """Give the rollout's version, which must be loaded, all traffic now. The split ends; labels
        stay.
        """
        self._rollouts.promote("asked for")

    def rollback(self, reason: str) -> None:
        """Take the traffic back from the rollout's version; it is not chosen again by itself.

        Without a running rollout: from the version that serves to `previous`, which must be loaded
        (UnavailableError).
        """
        self._rollouts.rollback(reason)

    def previous(self) -> tuple[int, ...]:
        """The versions that `rollback` goes back to; none if there are none, nothing serves or a
        split is in force.
        """
        return self._rollouts.previous()

    def needed(self, version: int | None = None) -> tuple[int, ...]:
        """What must be loaded before `start_rollout` of a version, or before `rollback` (None), can
        do its work.

        While a rollout runs, nothing: what it needs is pinned.
        """
        if self._rollouts.active is not None:
            return ()
        versions = self.previous() if version is None else (version,)
        return tuple(
            number
            for number in versions
            if number in self._known() and number not in self._loaded()
        )

    def hold(self, numbers: Collection[int]) -> None:
        """Pin versions, which do not serve by themselves, until as many calls of `let_go`."""
        self._rollouts.held.update(numbers)

    def let_go(self, numbers: Collection[int]) -> None:
        """End a `hold`."""
        self._rollouts.held.subtract(numbers)
        self._rollouts.held = +self._rollouts.held

    def pause(self) -> None:
        """Hold the running rollout at its share. Evidence against its version still rolls it
        back.
        """
        self._rollouts.pause()

    def resume(self) -> None:
        """Let a paused rollout go on where it was."""
        self._rollouts.resume()

    # --------------------------------------------------------------------------------- what happens

    def version_arrived(self, number: int, fingerprint: str = "", initial: bool = False) -> None:
        """A version can answer: to be called in the very step of the loop in which `loaded` begins
        to name it.

        With `canary` configured, a new one that is later than the serving one gets a rollout, or
        waits for the end of the one that runs. Files with the `fingerprint` that was seen before
        are nothing new, and neither is what is loaded when the server starts (`initial`).
        """
        self._rollouts.arrived(number, fingerprint, initial, self._config.canary)

    def failed(self, version: int, reason: str) -> None:
        """A version could not be loaded, or its workers die again and again: if it is being rolled
        out, that ends.
        """
        self._rollouts.failed(version, reason)

    def begin(self, request: InferRequest, version: int) -> None:
        """A request goes to the version that `choose` gave; `observe` is to follow, whatever
        becomes of it.

        In constant time. A rollout is judged by what is under way, too.
        """
        if self._rollouts.active is not None and not request.version:
            self._rollouts.active.began(request, version)

    def observe(self, outcome: Outcome) -> None:
        """Count a finished request for its version; in constant time.

        An error of the caller (a status below 500), or of one that left, counts as nothing; an
        overload is counted by itself. Requests that name their version are no part of a rollout's
        evidence, for they are not drawn by chance.
        """
        if outcome.shadow:
            return
        window = self._window(outcome.version)
        if self._rollouts.last is not None:
            self._rollouts.last.ended(outcome, loaded=window is not None)
        if window is not None:
            window.at(self._clock()).count(outcome.error, outcome.seconds)

    def compare(
        self, version: int, expected: InferResponse, actual: InferResponse | Exception
    ) -> None:
        """Count the answer of a shadow beside the one that was given.

        An error counts as a difference, except when it says nothing of the version: overload,
        deadline, not there.
        """
        window = self._window(version)
        if window is None or isinstance(actual, (OverloadError, DeadlineError, UnavailableError)):
            return
        active = self._rollouts.active
        if active is not None and active.record.version != version:
            active = None
        canary = active.record.canary if active is not None else self._config.canary or Canary()
        drifted = (
            isinstance(actual, Exception)
            or difference(expected, actual, canary.max_drift) is not None
        )
        tally = window.at(self._clock())
        tally.compared += 1
        tally.drifted += drifted
        if active is not None:
            active.compared(drifted)

    def tick(self) -> list[Event]:
        """Let time pass for the rollout; what has happened since the last call."""
        events = self._rollouts.tick(self._config.canary)
        for number in self._windows.keys() - set(self._loaded()):
            del self._windows[number]
        return events

    # -------------------------------------------------------------------------------- told and kept

    def describe(self) -> dict[str, Any]:
        """All of it, as JSON for the console and the admin routes.

        `shares`: the parts of the traffic by version. `settled`: the version that a rollback or
        promotion settled on. `pinned`: those that stay loaded whatever the version policy says.
        """
        now, last, current = self._clock(), self._rollouts.last, self._routing.current
        rollout = None
        if last is not None:
            rollout = {
                **told(last.record),
                "share": self._rollouts.share,
                "windows": last.windows(),
            }
        return {
            "model": self.model,
            "loaded": sorted(self._loaded()),
            "labels": dict(current.labels),
            "split": dict(current.split),
            "shadow": dict(current.shadow),
            "shares": self._shares(),
            "settled": self._rollouts.settled,
            "pinned": sorted(self.pinned()),
            "waiting": self._rollouts.waiting,
            "refused": {
                str(number): refusal.reason for number, refusal in self._rollouts.refused.items()
            },
            "rollout": rollout,
            "windows": {
                str(number): window.total(now).plain()
                for number, window in sorted(self._windows.items())
            },
        }

    def snapshot(self) -> dict[str, Any]:
        """What must survive a restart, as JSON."""
        rollouts = self._rollouts
        state = Snapshot(
            configured=self._routing.configured,
            current=self._routing.current,
            settled=rollouts.settled,
            waiting=rollouts.waiting,
            refused=rollouts.refused,
            seen=rollouts.seen,
            rollout=rollouts.last.record if rollouts.last is not None else None,
        )
        plain: dict[str, Any] = msgspec.to_builtins(state, str_keys=True)
        return plain

    def restore(self, plain: JsonObject) -> None:
        """Go on from a snapshot; a running rollout at its step. One that is not understood is left
        with a warning.
        """
        try:
            state = msgspec.convert(plain, Snapshot, strict=False)
            if state.rollout is not None:
                check_canary(state.rollout.canary)
                state.rollout.step = min(
                    max(state.rollout.step, 0), len(state.rollout.canary.steps) - 1
                )
        except (msgspec.ValidationError, OptionError) as error:
            _LOG.warning(
                "the saved traffic of model %s is not understood and left: %s", self.model, error
            )
            return
        self._routing.take(state.configured, state.current, Routes.of(self._config))
        self._rollouts.settled, self._rollouts.waiting = state.settled, state.waiting
        self._rollouts.refused, self._rollouts.seen = state.refused, state.seen
        self._rollouts.restore(state.rollout)

    # --------------------------------------------------------------------------------------- inside

    def _old_side(self, loaded: Collection[int], new: int) -> list[tuple[int, float]]:
        """(version, weight) of those that serve beside the rollout's new version (0: there is no
        rollout).

        UnavailableError where there are none and the new one is not loaded either.
        """
        if not self._routing.current.split:
            return [(self._rollouts.serving(loaded), 1.0)]
        weights = self._rollouts.weights(without=new)
        if not weights and new not in loaded:
            names = ", ".join(self._routing.current.split)
            raise UnavailableError(
                f"no version of the split is loaded: {names}", where=self._routing.where
            )
        return weights

    def _shares(self) -> dict[str, float]:
        active, loaded = self._rollouts.active, self._loaded()
        new = active.record.version if active is not None else 0
        try:
            weights = dict(self._old_side(loaded, new))
        except UnavailableError:
            return {}
        total = sum(weights.values())
        rising = active.share if active is not None and new in loaded else 0.0
        rising = rising if weights else 1.0
        shares = {
            str(number): weight / total * (1 - rising) for number, weight in sorted(weights.items())
        }
        return {**shares, str(new): shares.get(str(new), 0.0) + rising} if rising else shares

    def _window(self, version: int) -> Window | None:
        """The window of a version; none for one that is not loaded."""
        window = self._windows.get(version)
        if window is None and version in self._loaded():
            window = self._windows[version] = Window()
        return window

    def _recent(self, versions: Collection[int]) -> Tally:
        """The last minute of some versions."""
        now, total = self._clock(), Tally()
        for version in versions:
            if version in self._windows:
                total.add(self._windows[version].total(now))
        return total
