"""What graphs cost, and what an optimization changed."""

from infuse.analysis.comparison import Comparison, compare
from infuse.analysis.cost import Cost, Totals, cost_of, node_cost, totals
from infuse.analysis.page import render, write_report

__all__ = [
    "Comparison",
    "Cost",
    "Totals",
    "compare",
    "cost_of",
    "node_cost",
    "render",
    "totals",
    "write_report",
]
