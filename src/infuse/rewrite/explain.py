"""Why a rule fires or does not."""

from __future__ import annotations

from dataclasses import dataclass

from infuse.ir.graph import Graph, Node
from infuse.rewrite.driver import refusal
from infuse.rewrite.matcher import Trace, matches
from infuse.rewrite.rule import Rule


@dataclass(frozen=True)
class Explanation:
    """What became of a rule at one node. `fires`: it applies; else `reason` says why not.

    `complete` tells that the pattern fits and a condition refused; else `covered` are the nodes
    that agreed until the search stopped at `node`.
    """

    node: str
    kind: str
    fires: bool
    reason: str = ""
    complete: bool = True
    covered: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.kind} node {self.node!r}: " if self.kind else ""
        if self.fires:
            return f"{place}fires"
        so_far = f" (matched so far: {' ← '.join(self.covered)})" if self.covered else ""
        return f"{place}{self.reason}{so_far}"


def explain(rule: Rule, graph: Graph) -> list[Explanation]:
    """Every place where the pattern of `rule` fits, with what its conditions say; the best partial
    match if none.
    """
    explanations: list[Explanation] = []
    best = Trace()
    roots = {(p.domain, p.kind) for p in rule.patterns}
    for inner in graph.all_graphs():
        for node in inner.nodes:
            if (node.op.domain, node.kind) in roots:
                here = _at(rule, node, best)
                if here is not None:
                    explanations.append(here)
    if explanations:
        return explanations
    if best.node is None:
        kinds = " or ".join(sorted({kind for _, kind in roots}))
        return [Explanation("", "", False, f"the graph has no {kinds} node", complete=False)]
    covered = tuple(f"{n.kind}({n.name})" for n in best.covered)
    return [
        Explanation(
            best.node.name, best.node.kind, False, best.reason, complete=False, covered=covered
        )
    ]


def _at(rule: Rule, node: Node, best: Trace) -> Explanation | None:
    """What the rule says at one node: that it fires, or the first refusal; None where no spelling
    fits.
    """
    first: Explanation | None = None
    for pattern in rule.patterns:
        for match in matches(pattern, node, best):
            reason = refusal(rule, match)
            if reason is None:
                return Explanation(node.name, node.kind, True)
            first = first or Explanation(node.name, node.kind, False, reason)
    return first
