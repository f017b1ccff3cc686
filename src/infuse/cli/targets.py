"""`infuse targets`: what models are compiled for, and what this machine lacks for it."""

from __future__ import annotations

from typing import Any

from infuse.build.toolchain import Toolchain
from infuse.cli import terminal
from infuse.cli.options import AsJson
from infuse.errors import ToolchainError
from infuse.targets import Target
from infuse.targets.platforms import ALIASES, PLATFORMS


def targets(as_json: AsJson = False) -> None:
    """List the systems and processors that models are compiled for.

    With the compiler that this machine has for each, and how code for it is tested.
    """
    rows = [_facts(name) for name in PLATFORMS]
    facts = {"targets": rows, "aliases": dict(ALIASES)}
    terminal.answer(facts, as_json, lambda: _print(rows))


def _facts(name: str) -> dict[str, Any]:
    row, target = PLATFORMS[name], Target.resolve(name)
    try:
        compiler, missing = Toolchain.find(target).version, ""
    except ToolchainError as error:
        compiler, missing = "", f"{error.what}; {error.hint}"
    return {
        "name": name,
        "library": row.system.library,
        "further": list(row.further),
        "runs_here": target.is_runnable,
        "compiler": compiler,
        "missing": missing,
        "tested": row.tested,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    lines = [
        (
            r["name"],
            ", ".join(f"+{name}" for name in r["further"]) or "–",
            "here" if r["runs_here"] else r["compiler"].split(" (")[0] or "no compiler",
            r["tested"],
        )
        for r in rows
    ]
    columns = ("target", "may be added", "compiler", "tested")
    terminal.say_table("", columns, lines)
    for missing in dict.fromkeys(r["missing"] for r in rows if r["missing"]):
        terminal.say(missing)
    terminal.say("behind linux-…: -musl, or -glibc2.17 and newer; c: plain C for any machine")
    terminal.say(f"other names: {', '.join(f'{a} = {n}' for a, n in ALIASES.items())}")
