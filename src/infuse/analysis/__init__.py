"""What graphs cost, and what an optimization changed."""

from infuse.analysis import quantized, signal, vision  # noqa: F401  (each registers its counts)
from infuse.analysis.arithmetic import Arithmetic, Call, counts
from infuse.analysis.comparison import Comparison, compare
from infuse.analysis.cost import Cost, Totals, cost_of, node_cost, totals
from infuse.analysis.page import render, write_report

__all__ = [
    "Arithmetic",
    "Call",
    "Comparison",
    "Cost",
    "Totals",
    "compare",
    "cost_of",
    "counts",
    "node_cost",
    "render",
    "totals",
    "write_report",
]
