"""`infuse why`: where a rule fires, where it does not, and what stopped it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.options import AsJson
from infuse.errors import OptionError
from infuse.options import LEVELS, Rules
from infuse.passes.explain import why as explained
from infuse.passes.fold import Folder
from infuse.passes.order import PASSES
from infuse.passes.registry import registered
from infuse.passes.rules import ALL_RULES
from infuse.passes.selection import FOLD, find_rule
from infuse.rewrite import Pass, Rule
from infuse.rewrite.record import unwrapped


def why(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="An .onnx or .infuse file.", show_default=False),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE", help="A rule's name; --list shows them.", show_default=False
        ),
    ] = None,
    as_list: Annotated[
        bool, typer.Option("--list", help="List all rules and what they do.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say why a rule fires on a model, or how close it comes and what stops it.

    The model is looked at as it is after all other rules up to the rule's level.
    """
    if as_list:
        if model is not None:
            raise typer.BadParameter("--list shows all rules: leave the model out")
        _list(as_json)
        return
    if model is None or rule is None:
        raise typer.BadParameter("give a model and a rule, or --list")
    facts = examine(model, rule)
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)


def examine(model: str, name: str) -> dict[str, Any]:
    """What is said of the rule, and how often it fires in the whole optimization, as plain data."""
    if name in _passes():
        raise OptionError(
            f"{name} is a pass, which matches no pattern", hint="infuse optimize tells what it did"
        )
    rule = find_rule(name, [t for t in registered() if isinstance(t, Rule)])
    graph = infuse.load(model)
    rules = Rules(rule.level, enable=[name] if rule.opt_in else [])
    with terminal.progress(name) as progress:
        matches = explained(graph, name)
        whole = infuse.optimize(graph, rules, progress=progress)
    fired = whole.report.fired[name]
    return {**_describe(rule), "matches": [asdict(match) for match in matches], "fired": fired}


def _describe(rule: Rule) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "equation": _first_paragraph(rule),
        "level": rule.level,
        "opt_in": rule.opt_in,
    }


def _first_paragraph(thing: object) -> str:
    return unwrapped(type(thing).__doc__).partition("\n\n")[0]


def _passes() -> dict[str, Pass | Folder]:
    """What `optimize` reports and switches like a rule, but is none."""
    theirs = [t for t in registered() if isinstance(t, Pass)]
    return {FOLD: Folder(), **{each.name: each for each in (*PASSES, *theirs)}}


def _print(facts: dict[str, Any]) -> None:
    terminal.say(f"{facts['rule']} ({facts['level']}): {facts['equation']}")
    rows = [
        (
            match["kind"] or "–",
            match["node"] or "–",
            "yes" if match["fires"] else "no",
            _reason(match),
        )
        for match in facts["matches"]
    ]
    terminal.say_table("after all other rules", ("operator", "node", "fires", "reason"), rows)
    times = facts["fired"]
    terminal.say(
        f"when all rules of level {facts['level']} run, it fires {times} "
        f"time{'' if times == 1 else 's'}"
    )


def _reason(match: dict[str, Any]) -> str:
    so_far = (
        f" (matched so far: {' ← '.join(match['covered'])})"
        if match["covered"] and not match["fires"]
        else ""
    )
    return f"{match['reason']}{so_far}"


def _list(as_json: bool) -> None:
    theirs = [t for t in registered() if isinstance(t, Rule)]
    rules = sorted(
        map(_describe, (*ALL_RULES, *theirs)), key=lambda rule: LEVELS.index(rule["level"])
    )
    passes = [{"pass": name, "what": _first_paragraph(each)} for name, each in _passes().items()]
    if as_json:
        terminal.say_json({"rules": rules, "passes": passes})
        return
    rows = [
        (
            r["rule"],
            f"{r['level']}{' (opt-in)' if r['opt_in'] else ''}",
            r["equation"],
        )
        for r in rules
    ]
    terminal.say_table("rules", ("rule", "level", "what it does"), rows)
    terminal.say_table("passes", ("pass", "what it does"), [tuple(p.values()) for p in passes])
