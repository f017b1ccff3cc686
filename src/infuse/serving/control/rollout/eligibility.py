"""Which versions of a model may serve by themselves, and which of them does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from infuse.errors import UnavailableError
from infuse.serving.control.rollout.routing import Routing
from infuse.serving.control.rollout.snapshot import Refusal, Snapshot

_MOST_REMEMBERED: Final = 1000


class Eligibility:
    """What rollouts and operators have decided about versions.

    `settled`: the version that serves although a later one may be loaded. `waiting`: the version
    whose turn comes when the running rollout ends. `held`: versions that are loaded for what an
    operator is about to do, and do not serve by themselves. `refused`: those that were rolled back.
    `seen`: fingerprints of the files of versions that have arrived.
    """

    def __init__(self, routing: Routing) -> None:
        self._routing = routing
        self.settled: int | None = None
        self.waiting: int | None = None
        self.held: Counter[int] = Counter()
        self.refused: dict[int, Refusal] = {}
        self.seen: dict[int, str] = {}

    def restore(self, state: Snapshot) -> None:
        """Go on from a snapshot."""
        self.settled, self.waiting = state.settled, state.waiting
        self.refused, self.seen = state.refused, state.seen

    def settle(self, version: int | None) -> None:
        """Let a version serve although a later one may be loaded; None: the latest serves."""
        self.settled = version

    def wait(self, version: int | None) -> None:
        """Let a version have its turn when the running rollout ends; None: no version waits."""
        self.waiting = version

    def accept(self, version: int) -> None:
        """A version that was rolled back may serve again."""
        self.refused.pop(version, None)

    def refuse(self, version: int, reason: str) -> None:
        """A version was rolled back, and does not serve again by itself."""
        self.refused[version] = Refusal(reason, self.seen.get(version, ""))
        if self.settled == version:
            self.settled = None

    def hold(self, numbers: Collection[int]) -> None:
        """Pin versions, which do not serve by themselves, until as many calls of `let_go`."""
        self.held.update(numbers)

    def let_go(self, numbers: Collection[int]) -> None:
        """End a `hold`."""
        self.held.subtract(numbers)
        self.held = +self.held

    def serving(self, loaded: Collection[int], rolling_out: int | None) -> int:
        """The version that serves of those that are loaded, where no split and no rollout says
        otherwise. `rolling_out`: the version of the running rollout.
        """
        if self.settled is not None and self.settled in loaded:
            return self.settled
        beside = {
            rolling_out,
            self.waiting,
            *self.held,
        }
        accepted = [number for number in loaded if number not in self.refused]
        first = [number for number in accepted if number not in beside] or accepted
        if first:
            return max(first)
        refused = ", ".join(map(str, sorted(number for number in loaded if number in self.refused)))
        what = (
            f"only versions that were rolled back are loaded: {refused}"
            if refused
            else "no version is loaded"
        )
        hint = "a rollout to one of them accepts it again" if refused else None
        raise UnavailableError(what, where=self._routing.where, hint=hint)

    def weights(self, without: int) -> list[tuple[int, float]]:
        """(version, weight) of the split: loaded ones that were not rolled back, and without one
        (0: none).
        """
        beside = self.refused.keys() | {without}
        return [entry for entry in self._routing.weights() if entry[0] not in beside]

    def remember(self, number: int, fingerprint: str) -> None:
        """Keep the fingerprint, and no more than so many: first those of versions go that the
        repository has not.
        """
        self.seen[number] = fingerprint
        if len(self.seen) > _MOST_REMEMBERED:
            numbers = self._routing.versions()
            gone = min(self.seen, key=lambda other: (other == number, other in numbers, other))
            del self.seen[gone]
            self.refused.pop(gone, None)
