"""What happens to a model's traffic, for logs, metrics and the console."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Event:
    """Something that an operator or a rollout did.

    `kind`: rollout_started, step, promoted, rolled_back, paused, resumed, waiting, label_set,
    label_removed, split_set, shadow_set. `share`: the version's part of the traffic from now on;
    `at`: seconds of the epoch.
    """

    kind: str
    model: str
    version: int
    reason: str
    share: float
    at: float
