"""What is shown of a model's traffic, as JSON has it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict

from infuse.serving.control.rollout.rollouts import Rollouts
from infuse.serving.control.rollout.routing import Routing
from infuse.serving.control.rollout.selection import Selection
from infuse.serving.control.rollout.trial import SidesDescription, TrialDescription, describe_record
from infuse.serving.control.rollout.windows import TallyDescription, Windows


class RolloutDescription(TrialDescription):
    """The last rollout: `share` of the traffic that its version has by it, and the `windows` of
    both sides.
    """

    share: float
    windows: SidesDescription


class TrafficDescription(TypedDict):
    """The traffic of a model. `shares`: the parts of it by version. `settled`: the version that a
    rollback or promotion settled on. `pinned`: those that stay loaded whatever the version policy
    says.
    """

    model: str
    loaded: list[int]
    labels: dict[str, int]
    split: dict[str, float]
    shadow: dict[str, float]
    shares: dict[str, float]
    settled: int | None
    pinned: list[int]
    waiting: int | None
    refused: dict[str, str]
    rollout: RolloutDescription | None
    windows: dict[str, TallyDescription]


def describe(
    model: str,
    routing: Routing,
    rollouts: Rollouts,
    selection: Selection,
    windows: Windows,
    pinned: Collection[int],
) -> TrafficDescription:
    """All of a model's traffic."""
    last, current, eligibility = rollouts.last, routing.current, rollouts.eligibility
    rollout: RolloutDescription | None = None
    if last is not None:
        rollout = {
            **describe_record(last.record),
            "share": rollouts.share,
            "windows": last.windows(),
        }
    return {
        "model": model,
        "loaded": sorted(routing.loaded()),
        "labels": dict(current.labels),
        "split": dict(current.split),
        "shadow": dict(current.shadow),
        "shares": selection.shares(),
        "settled": eligibility.settled,
        "pinned": sorted(pinned),
        "waiting": eligibility.waiting,
        "refused": {str(number): refusal.reason for number, refusal in eligibility.refused.items()},
        "rollout": rollout,
        "windows": windows.describe(),
    }
