"""`infuse cache`: what the cache folder holds, and how it is emptied."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Annotated, Any

import typer

from infuse.build.cache import Cache
from infuse.build.contents import CLEARED, clear, models_of, parts_of
from infuse.cli import terminal
from infuse.cli.options import AsJson


class Action(str, Enum):
    """What is done with the cache."""

    SIZE = "size"
    LIST = "list"
    CLEAR = "clear"


def cache(
    action: Annotated[
        Action,
        typer.Argument(
            metavar="[size|list|clear]",
            help="Show its size, list the compiled models, or remove what is in it.",
        ),
    ] = Action.SIZE,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Clear this part alone (repeatable): {', '.join(CLEARED)}.",
            show_default=False,
        ),
    ] = None,
    older: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Clear what was not used for so many days.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how large the cache folder is, list the models in it, or clear it.

    It is $INFUSE_CACHE, else the user's cache folder; $INFUSE_CACHE_SIZE limits its models.
    """
    if action is not Action.CLEAR and (part or older is not None):
        raise typer.BadParameter("--part and --older say what is cleared: infuse cache clear")
    kept = Cache()
    if action is Action.CLEAR:
        freed = clear(kept.root, part or (), older or 0)
        facts: dict[str, Any] = {"folder": str(kept.root), "freed_bytes": freed}
        told = f"{kept.root}: {terminal.bytes_text(freed)} freed"
        terminal.answer(facts, as_json, lambda: terminal.say(told))
    elif action is Action.LIST:
        models = [asdict(each) for each in models_of(kept.root)]
        facts = {"folder": str(kept.root), "models": models}
        terminal.answer(facts, as_json, lambda: _print_models(models))
    else:
        parts = [asdict(each) for each in parts_of(kept.root)]
        total = sum(each["bytes"] for each in parts)
        facts = {"folder": str(kept.root), "bytes": total, "limit_bytes": kept.limit}
        facts["parts"] = parts
        terminal.answer(facts, as_json, lambda: _print_size(facts))


def _print_size(facts: dict[str, Any]) -> None:
    rows = [
        (p["name"], p["about"], p["entries"], terminal.bytes_text(p["bytes"]))
        for p in facts["parts"]
    ]
    if rows:
        terminal.say_table("", ("part", "holds", "#entries", "#size"), rows)
    total, limit = (terminal.bytes_text(facts[name]) for name in ("bytes", "limit_bytes"))
    terminal.say(f"{facts['folder']}: {total}; its models may take {limit}")


def _print_models(models: list[dict[str, Any]]) -> None:
    rows = [
        (
            m["name"] or "–",
            m["target"] or "–",
            m["precision"] or "–",
            terminal.bytes_text(m["bytes"]),
            f"{m['days']:.1f}",
            m["key"][:12],
        )
        for m in models
    ]
    columns = ("model", "target", "precision", "#size", "#days unused", "key")
    terminal.say_table(terminal.counted(len(rows), "compiled model"), columns, rows)
