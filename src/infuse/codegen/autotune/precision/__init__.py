"""The fastest precision within a bound: `precision="auto"`."""

from infuse.codegen.autotune.precision.report import PrecisionReport
from infuse.codegen.autotune.precision.search import Built, search_precision

__all__ = [
    "Built",
    "PrecisionReport",
    "search_precision",
]
