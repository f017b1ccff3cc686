"""What another package adds to Infuse: a rule, and a pass that counts."""

from infuse import ops
from infuse.ir.graph import Graph
from infuse.rewrite import Pass, Report, Rule, require


class SinhFromExp(Rule):
    """sinh(x) → ½·(eˣ − e⁻ˣ)"""

    level = "basic"
    rounding = "eˣ and e⁻ˣ are rounded"

    def match(self, x):
        return ops.sinh(x)

    def when(self, x):
        require(x.dtype.is_float, f"it needs a float input, found {x.dtype}")

    def build(self, x):
        return 0.5 * (ops.exp(x) - ops.exp(-x))


class CountNodes(Pass):
    """Notes in the report how many nodes there are."""

    level = "extended"

    def run(self, graph: Graph, report: Report) -> None:
        report.notes.append(f"{len(graph)} nodes were counted")


RULES = [SinhFromExp, CountNodes]
