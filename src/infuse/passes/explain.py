"""What rules do, and why they fire or not."""

from __future__ import annotations

from typing import Any

from infuse.errors import OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.options import LEVELS
from infuse.passes.fold import Folder
from infuse.passes.order import PASSES
from infuse.passes.registry import registered
from infuse.passes.rules import ALL_RULES
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import FOLD, Selection, find_rule
from infuse.rewrite import Explanation, Pass, Rule, explain
from infuse.rewrite.record import unwrapped


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


def named_rule(name: str) -> Rule:
    """A rule by its name, registered ones among them. OptionError for a pass, and where there is
    none.
    """
    if name in _passes():
        raise OptionError(
            f"{name} is a pass, which matches no pattern", hint="infuse optimize tells what it did"
        )
    return find_rule(name, [each for each in registered() if isinstance(each, Rule)])


def describe(rule: Rule) -> dict[str, Any]:
    """What a rule does and when it runs, as plain data."""
    return {
        "rule": rule.name,
        "equation": _first_paragraph(rule),
        "level": rule.level,
        "opt_in": rule.opt_in,
    }


def all_rules() -> dict[str, list[dict[str, Any]]]:
    """All rules from the lowest level on, and all passes, as plain data."""
    theirs = [each for each in registered() if isinstance(each, Rule)]
    rules = sorted((*ALL_RULES, *theirs), key=lambda rule: LEVELS.index(rule.level))
    passes = [{"pass": name, "what": _first_paragraph(each)} for name, each in _passes().items()]
    return {"rules": list(map(describe, rules)), "passes": passes}


def _passes() -> dict[str, Pass | Folder]:
    """What `optimize` reports and switches like a rule, but is none."""
    theirs = [each for each in registered() if isinstance(each, Pass)]
    return {FOLD: Folder(), **{each.name: each for each in (*PASSES, *theirs)}}


def _first_paragraph(thing: object) -> str:
    return unwrapped(type(thing).__doc__).partition("\n\n")[0]
