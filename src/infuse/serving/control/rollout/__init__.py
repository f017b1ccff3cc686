"""Which version answers a request: labels, splits, shadows, rollouts that judge themselves, and
their state on disk.

Nothing here knows transports, threads or workers; clocks and chance are given. `Traffic` is the
door.
"""

from infuse.serving.control.rollout.events import Event
from infuse.serving.control.rollout.state import StateFile
from infuse.serving.control.rollout.traffic import Traffic

__all__ = ["Event", "StateFile", "Traffic"]
