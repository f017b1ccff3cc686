"""Which version answers a request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from infuse.errors import UnavailableError
from infuse.serving.control.rollout.chance import pick, pick_for, point
from infuse.serving.control.rollout.rollouts import Rollouts
from infuse.serving.control.rollout.routing import Routing
from infuse.serving.messages import InferRequest


class Selection:
    """Draws versions for requests, by labels, split and shadows (`routing`) and by the running
    rollout. `random` gives numbers in [0, 1).
    """

    def __init__(self, routing: Routing, rollouts: Rollouts, random: Callable[[], float]) -> None:
        self._routing, self._rollouts, self._random = routing, rollouts, random

    def resolve(self, version: str) -> int:
        """The number of a version or label, which is loaded; empty: the version that serves.

        NotFoundError for what is not there, UnavailableError for what is not loaded.
        """
        return (
            self._routing.resolve(version)
            if version
            else self._rollouts.serving(self._routing.loaded())
        )

    def choose(self, request: InferRequest) -> int:
        """The version that answers a request; NotFoundError, UnavailableError.

        While one side of a rollout is not loaded, the other one has all requests.
        """
        if request.version:
            return self._routing.resolve(request.version)
        loaded, key, active = self._routing.loaded(), request.sticky, self._rollouts.active
        new = active.record.version if active is not None else 0
        weights = self._old_side(loaded, new)
        if active is not None and new in loaded:
            drawn = point(key, f"{self._routing.model}\0rollout\0{new}") if key else self._random()
            if drawn < active.share or not weights:
                return new
        if len(weights) == 1:
            return weights[0][0]
        if key:
            return pick_for(key, f"{self._routing.model}\0split", weights)
        return pick(self._random(), weights)

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
            and active.record.version in self._routing.loaded()
        ):
            new = active.record.version
            shares[new] = max(shares.get(new, 0.0), active.record.canary.shadow)
        return [
            version
            for version, share in shares.items()
            if version != chosen and self._random() < share
        ]

    def shares(self) -> dict[str, float]:
        """The parts of the traffic by version; none where nothing can answer."""
        active, loaded = self._rollouts.active, self._routing.loaded()
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

    def _old_side(self, loaded: Collection[int], new: int) -> list[tuple[int, float]]:
        """(version, weight) of those that serve beside the rollout's new version (0: there is no
        rollout).

        UnavailableError where there are none and the new one is not loaded either.
        """
        if not self._routing.current.split:
            return [(self._rollouts.serving(loaded), 1.0)]
        weights = self._rollouts.eligibility.weights(without=new)
        if not weights and new not in loaded:
            names = ", ".join(self._routing.current.split)
            raise UnavailableError(
                f"no version of the split is loaded: {names}", where=self._routing.where
            )
        return weights
