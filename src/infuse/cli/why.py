"""`infuse why`: where a rule fires, where it does not, and what stopped it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.options import AsJson
from infuse.options import Rules
from infuse.passes.explain import all_rules, describe, named_rule, why as explained


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
        every = all_rules()
        terminal.answer(every, as_json, lambda: _print_all(every))
        return
    if model is None or rule is None:
        raise typer.BadParameter("give a model and a rule, or --list")
    facts = _examine(model, rule)
    terminal.answer(facts, as_json, lambda: _print(facts))


def _examine(model: str, name: str) -> dict[str, Any]:
    """What is said of the rule, and how often it fires in the whole optimization, as plain data."""
    rule = named_rule(name)
    graph = infuse.load(model)
    rules = Rules(rule.level, enable=[name] if rule.opt_in else [])
    with terminal.progress(name) as progress:
        matches = explained(graph, name)
        whole = infuse.optimize(graph, rules, progress=progress)
    fired = whole.report.fired[name]
    return {**describe(rule), "matches": [asdict(match) for match in matches], "fired": fired}


def _print(facts: dict[str, Any]) -> None:
    terminal.say(f"{facts['rule']} ({facts['level']}): {facts['equation']}")
    rows = [
        (m["kind"] or "–", m["node"] or "–", "yes" if m["fires"] else "no", _reason(m))
        for m in facts["matches"]
    ]
    terminal.say_table("after all other rules", ("operator", "node", "fires", "reason"), rows)
    times = terminal.counted(facts["fired"], "time")
    terminal.say(f"when all rules of level {facts['level']} run, it fires {times}")


def _reason(match: dict[str, Any]) -> str:
    is_open = match["covered"] and not match["fires"]
    so_far = f" (matched so far: {' ← '.join(match['covered'])})" if is_open else ""
    return f"{match['reason']}{so_far}"


def _print_all(facts: dict[str, Any]) -> None:
    rows = [
        (r["rule"], f"{r['level']}{' (opt-in)' if r['opt_in'] else ''}", r["equation"])
        for r in facts["rules"]
    ]
    terminal.say_table("rules", ("rule", "level", "what it does"), rows)
    passes = [tuple(each.values()) for each in facts["passes"]]
    terminal.say_table("passes", ("pass", "what it does"), passes)
