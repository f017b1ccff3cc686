"""The fastest precision within a bound: `precision="auto"`."""

from infuse.build.autotune.precision.report import PrecisionReport
from infuse.build.autotune.precision.search import Built, search_precision

__all__ = [
    "Built",
    "PrecisionReport",
    "search_precision",
]
