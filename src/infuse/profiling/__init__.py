"""Where the time of a model goes: its steps, timed, beside their work and the roof of the
machine.
"""

from infuse.profiling.inputs import complete_feeds
from infuse.profiling.measure import profile_graph
from infuse.profiling.profile import GROUPINGS, Profile, Row, Run
from infuse.profiling.roof import Roof, measure_roof
from infuse.profiling.trace import trace_events

__all__ = [
    "GROUPINGS",
    "Roof",
    "Profile",
    "Row",
    "Run",
    "complete_feeds",
    "measure_roof",
    "profile_graph",
    "trace_events",
]
