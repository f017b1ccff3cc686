"""What graphs cost, and what an optimization changed."""

from infuse.analysis.comparison import Comparison, compare
from infuse.analysis.cost import Cost, Totals, cost_of, node_cost, totals
from infuse.analysis.page import render, write_report
from infuse.analysis.sheets import render_sheet, write_sheet
from infuse.analysis.statistics import Statistics, statistics_of
from infuse.analysis.view import render_view, view_data, write_view, write_view_data

__all__ = [
    "Comparison",
    "Cost",
    "Statistics",
    "Totals",
    "compare",
    "cost_of",
    "node_cost",
    "render",
    "render_sheet",
    "render_view",
    "statistics_of",
    "totals",
    "view_data",
    "write_report",
    "write_sheet",
    "write_view",
    "write_view_data",
]
