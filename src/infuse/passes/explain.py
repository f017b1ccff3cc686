"""Why rules fire or not."""

from __future__ import annotations

from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.passes.rules import ALL_RULES
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection, find_rule
from infuse.rewrite import Explanation, Rule, explain


def why(graph: Graph, name: str, options: Selection | None = None) -> list[Explanation]:
    """Why the rule `name` fires or not, on a copy of `graph` after all other rules up to its level
    have run.
    """
    options = options or Selection()
    rule = find_rule(name, [t for t in options.extensions if isinstance(t, Rule)])
    copy = clone(graph)
    others = Selection(
        rule.level,
        {*options.disable, name},
        frozenset(),
        options.enable,
        options.extra,
        runtime=rule.runtime or options.runtime,
    )
    optimize_in_place(copy, others)
    return explain(rule, copy)


def near_misses(graph: Graph, options: Selection) -> list[dict[str, str]]:
    """Where in an optimized graph the pattern of a rule fits and a condition refuses: rule, node,
    reason.
    """
    rules = [
        t
        for t in (*options.extensions, *ALL_RULES)
        if isinstance(t, Rule) and options.selects(t, options.level)
    ]
    return [
        {"rule": rule.name, "node": f"{miss.kind}({miss.node})", "reason": miss.reason}
        for rule in rules
        for miss in explain(rule, graph)
        if miss.complete and not miss.fires
    ]
