"""Where the time of a model goes: its steps, timed, beside their work and the roof of the
machine; what its layers cost; and two models side by side.
"""

from infuse.profiling.agreement import Agreement
from infuse.profiling.comparison import ModelComparison, ModelFigures, compare_sides
from infuse.profiling.inner import LayerAgreement
from infuse.profiling.inputs import complete_feeds
from infuse.profiling.inspection import Inspection, LayerCost, inspect_graph
from infuse.profiling.measure import ProfiledModel, profile_graph
from infuse.profiling.profile import Profile, Row, Run
from infuse.profiling.roof import Roof, measure_roof, runnable_target
from infuse.profiling.sides import Side
from infuse.profiling.trace import trace_events

__all__ = [
    "Agreement",
    "Inspection",
    "LayerAgreement",
    "LayerCost",
    "ModelComparison",
    "ModelFigures",
    "Roof",
    "Profile",
    "ProfiledModel",
    "Row",
    "Run",
    "Side",
    "compare_sides",
    "complete_feeds",
    "inspect_graph",
    "measure_roof",
    "profile_graph",
    "runnable_target",
    "trace_events",
]
