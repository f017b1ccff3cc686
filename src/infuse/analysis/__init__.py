"""What graphs cost, and what an optimization changed."""

from infuse.analysis.comparison import Comparison, compare
from infuse.analysis.cost import Cost, Totals, cost_of, node_cost, totals
from infuse.analysis.page import render, write_report
from infuse.analysis.sheets import render_sheet, write_sheet

__all__ = [
    "Comparison",
    "Cost",
    "Totals",
    "compare",
    "cost_of",
    "node_cost",
    "render",
    "render_sheet",
    "totals",
    "write_report",
    "write_sheet",
]
